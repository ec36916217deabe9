"""What a lesson's notebook asks, and under which heading, read from the file itself.

A kernel does not know the notebook that it runs, and Jupyter, Colab and VS Code each tell it something else. So the
file is found by its number: a notebook's session works in the folder that the notebook lies in.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

# A call, its kind, and the place of its name.
ASKS = {"predict": ("predictions", 0), "check": ("exercises", 1), "attempt": ("exercises", 0)}
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
HEADING = re.compile(r"^(#+) +(.+?) *$", re.M)
EXERCISE = re.compile(r"Exercise( \d+)?\b")
LESSON = re.compile(r"(\d\d[a-z]?)_\w+")  # 08a_attention
PLAIN = re.compile(r"[A-Za-z0-9 ,.:;?!()'/+=-]+")


class Asked(NamedTuple):
    """One prediction or exercise: its kind, its question or name, the section that it stands in, and its heading."""

    kind: str
    name: str
    section: str = ""
    heading: str = ""  # "Exercise 2"; of a prediction, the section


def lessons(folder: Path) -> dict[str, Path]:
    """Return the lessons' notebooks in ``folder`` by number, in order; copies that were put aside are no lessons.

    Of two with one number, the lesson is that with the course's own name, which its stored runs or companion have too.
    """
    own = {path.stem for path in (Path(__file__).parent / "data").glob("[rl]*/*.*")}  # stored runs and companions
    paths = sorted(folder.glob("*.ipynb"), key=lambda path: (path.stem in own, path.name))
    found = {match[1]: path for path in paths if (match := LESSON.fullmatch(path.stem))}
    return dict(sorted(found.items()))


def asked(path: Path) -> list[Asked]:
    """Return what a notebook asks, in order, each once.

    Raises:
        OSError: for a file that cannot be read.
        ValueError: for one that is no notebook.
    """
    return asked_by(cells(path))


def asked_by(cells: Iterable[Mapping[str, Any]]) -> list[Asked]:
    """Return what the cells of a notebook ask, in order, each once."""
    found: dict[tuple[str, str], Asked] = {}
    section = heading = ""
    for cell in cells:
        source = "".join(cell.get("source", ""))
        if cell.get("cell_type") == "markdown":
            for level, text in headings(source):
                exercise = EXERCISE.match(text)
                section, heading = (section, exercise[0]) if exercise else (text if len(level) > 1 else "", text)
        else:
            for kind, name in calls(source):
                found.setdefault((kind, name), Asked(kind, name, section, heading))
    return list(found.values())


def cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook; the errors are those of ``asked``."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    listed = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(listed, list) or not all(isinstance(cell, dict) for cell in listed):
        raise ValueError(f"{path.name} is no notebook")
    return listed


def headings(markdown: str) -> list[tuple[str, str]]:
    """Return the signs and the text of each heading."""
    return HEADING.findall(FENCE.sub("", markdown))


def is_solution(source: str, folder: Path) -> bool:
    """Whether ``source`` is the folded solution of an exercise, unchanged, in one of the lessons in ``folder``."""
    for path in lessons(folder).values():
        with suppress(OSError, ValueError):
            for cell in cells(path):
                tags = cell.get("metadata", {}).get("tags", [])
                if "solution" in tags and "".join(cell.get("source", "")).strip() == source.strip():
                    return True
    return False


def calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each call in a cell that asks; a cell that is not plain Python has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKS:
            kind, place = ASKS[node.func.id]
            if len(node.args) > place and isinstance(name := node.args[place], ast.Constant):
                yield kind, str(name.value)


def predicts(source: str) -> ast.Call | None:
    """Return the call of ``predict`` in a cell that is one ``with predict(...) as guess:`` and nothing else."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    call = body[0].items[0].context_expr if len(body) == 1 and isinstance(body[0], ast.With) else None
    is_one = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "predict"
    return call if isinstance(call, ast.Call) and is_one else None


def link(section: str) -> str:
    """Return a link to a heading of the same notebook; its text alone, where JupyterLab could not follow one.

    JupyterLab and Notebook name a heading by its text with hyphens for spaces. A browser writes any other sign than
    those of ``PLAIN`` in percents, and JupyterLab 4.6 does not find the heading then.
    """
    return f"[{section}](<#{section.replace(' ', '-')}>)" if PLAIN.fullmatch(section) else section
