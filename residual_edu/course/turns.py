"""What takes an hour in all is shared out over commits: each checks a part of it, the next commit another part."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
LATELY = 10  # commits: what they changed has its turn at once
ALL = "all"  # the value of RESIDUAL_EDU_TURN that leaves nothing to other commits


def turn(root: Path) -> int | None:
    """Return whose turn it is: how many commits led to this checkout, 0 without git; None where all is to be done."""
    if os.environ.get("RESIDUAL_EDU_TURN") == ALL:
        return None
    return int(git(root, "rev-list", "--count", "HEAD") or 0)


def share(items: Sequence[Item], parts: int, turn: int | None) -> list[Item]:
    """Return one of ``parts`` shares of ``items``; all of them where ``turn`` is None."""
    return list(items) if turn is None else list(items[turn % parts :: parts])


def due(read: Mapping[Item, set[Path]], parts: int, root: Path) -> set[Item]:
    """Return the items whose turn it is, one of ``parts``, and those that read a file changed in ``LATELY`` commits."""
    said = git(root, "log", f"-{LATELY}", "--relative", "--name-only", "--format=")
    changed = {root / line for line in said.splitlines()}
    return {*share(list(read), parts, turn(root)), *(item for item, files in read.items() if files & changed)}


def git(root: Path, *words: str) -> str:
    """Return what git says in ``root``; nothing where it has nothing to say."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout
