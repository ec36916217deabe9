"""A lesson's companion in the hands of its author: held against the source, asserted in the kernel, put into pictures.

What stands in the file, ``residual_course.companion`` says.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nbformat import NotebookNode

from residual_course.commands.checkout import companion_of
from residual_course.companion import Companion, read
from residual_course.contents import predicts

KEYS = {"predictions": {"truth", "why", "after"}, "cells": {"holds", "alt"}}


class Question(NamedTuple):
    """What a cell asks, and what there is to choose from; without choices, for a number."""

    text: str
    choices: tuple[str, ...] = ()


def question(call: ast.Call | None) -> Question | None:
    """Return what a call of ``predict`` asks; nothing where that is not written out."""
    with suppress(ValueError):
        text, *choices = [ast.literal_eval(each) for each in call.args[:2]] if call else []
        return Question(text, tuple(choices[0] or ()) if choices else ())
    return None


def faults(lesson: Path, notebook: NotebookNode) -> Iterator[str]:
    """Yield a sentence for each thing in the companion of ``lesson`` that its cells do not have."""
    path = companion_of(lesson)
    try:
        said = read(path)
    except ValueError as error:
        said = {}
        yield f"{path.name} is no TOML: {error}"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    asked = {one.text: one.choices for cell in cells if (one := question(predicts(cell.source)))}
    titles = [cell.metadata.get("title") for cell in cells]
    for kind, names in said.items():
        yield from [f"{path.name} has a part {kind!r}; it may have predictions and cells"] * (kind not in KEYS)
        for name, entry in names.items() if kind in KEYS else ():
            yield from (
                f"{path.name} says {key!r} of {name!r}, which means nothing" for key in entry.keys() - KEYS[kind]
            )
            if kind == "cells" and titles.count(name) != 1:
                yield f"{path.name} names the cell {name!r}, and {titles.count(name)} cells have this title"
            if kind == "predictions" and name not in asked:
                yield f"{path.name} names the question {name!r}, which no cell asks"
            for choice in entry.get("why", {}).keys() - asked.get(name, entry.get("why", {})):
                yield f"{path.name} gives a reason for {choice!r}, which is no choice of {name!r}"
            yield from (
                f"{path.name}: {band!r} is no expression" for band in entry.get("holds", []) if not is_code(band)
            )
            if "truth" in entry and not is_code(entry["truth"]):
                yield f"{path.name}: {entry['truth']!r} is no expression"


def is_code(text: str) -> bool:
    """Whether ``text`` is an expression of Python."""
    with suppress(SyntaxError):
        return bool(ast.parse(text, mode="eval"))
    return False


def bands(companion: Companion, cell: NotebookNode) -> list[str]:
    """Return what is true after a cell."""
    return companion["cells"].get(cell.metadata.get("title"), {}).get("holds", [])


def asked_of_kernel(expressions: Sequence[str]) -> dict[str, str]:
    """Return the expressions by the names under which a kernel answers them."""
    return {str(at): f"bool({one})" for at, one in enumerate(expressions)}


def broken(expressions: Sequence[str], answers: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each expression that a kernel found untrue, or stumbled over."""
    found = []
    for at, one in enumerate(expressions):
        answer = answers[str(at)]
        if answer["status"] == "error":
            found.append(f"{one} raises {answer['ename']}: {answer['evalue']}")
        elif answer["data"]["text/plain"] != "True":
            found.append(f"it does not hold that {one}")
    return found


def pictures(cell: NotebookNode) -> list[NotebookNode]:
    """Return the pictures that a cell shows."""
    return [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]


def describe(companion: Companion, notebook: NotebookNode) -> Iterator[str]:
    """Give each picture its own words; yield a sentence where there are more words than pictures."""
    for cell in notebook.cells:
        name = cell.metadata.get("title")
        words, shown = companion["cells"].get(name, {}).get("alt", []), pictures(cell)
        if len(words) > len(shown):
            yield f"the cell {name!r} shows {len(shown)} pictures, and its companion describes {len(words)}"
        for output, alt in zip(shown, words, strict=False):
            output.metadata.setdefault("image/png", NotebookNode())["alt"] = alt
