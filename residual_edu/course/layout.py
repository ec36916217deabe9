"""The layout of a refreshed lesson: imports in order, 88 columns, comments that fit."""

import io
import subprocess
import sys
import textwrap
import tokenize
from pathlib import Path

from residual_edu.course.checkout import Refusal

COLUMNS = 88
ALONE = ["--isolated", f"--line-length={COLUMNS}", "--target-version=py311"]
SORT = ["check", "--select=I", "--fix", "--quiet"]
OURS = "--config=lint.isort.known-first-party=['residual_edu']"
FORMAT = ["format", "--config=format.docstring-code-format=true"]


def laid_out(text: str) -> str:
    """Return a cell's text with sorted imports and lines of at most 88 columns, where Python can be broken at all."""
    return formatted(ruff([*SORT, OURS, *ALONE], raised(text)))


def formatted(text: str) -> str:
    """Return ``text`` as ``ruff format`` has it, at 88 columns."""
    return ruff([*FORMAT, *ALONE], text)


def sorted_imports(text: str, place: Path) -> str:
    """Return the text of a module at ``place`` with its imports in the project's order."""
    return ruff([*SORT, OURS, f"--stdin-filename={place}"], text)


def ruff(words: list[str], text: str) -> str:
    """Return what ruff makes of ``text``.

    Raises:
        Refusal: where it cannot.
    """
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words, "-"], input=text, capture_output=True, encoding="utf-8"
    )
    if done.returncode:
        raise Refusal(f"ruff could not lay this out: {done.stderr.strip()}")
    return done.stdout


def raised(text: str) -> str:
    """Return ``text`` with each comment that makes its line too long in lines of its own above it."""
    lines = text.split("\n")
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        row, column = token.start[0] - 1, token.start[1]
        if token.type == tokenize.COMMENT and len(lines[row]) > COLUMNS:
            code = lines[row][:column].rstrip()
            margin = " " * (len(lines[row]) - len(lines[row].lstrip()))
            words = textwrap.wrap(token.string.lstrip("# "), COLUMNS - len(margin) - len("# "))
            lines[row : row + 1] = [f"{margin}# {line}" for line in words] + ([code] if code else [])
    return "\n".join(lines)
