"""Runs that take longer than a lesson has: computed once by ``residual-edu build --runs NN``, stored with settings.

A lesson writes its experiment as a function in a cell tagged ``runs`` and calls it for one seed, beside what is stored:

    def runs(seed, steps=1000, within=0.02):
        ...
        return {"LayerNorm": 0.97, "no norm": 0.11}

What stands before that cell is executed, then ``runs(seed)`` for each of ``SEEDS``. Where a lesson reads what is stored
before that cell, the reading cell is left out, and from there on those that show or check something (``SHOWING``). The
other arguments of ``runs`` are the settings; ``within`` says how far a number may be from the stored one when it is
computed again, on another machine.

``code`` is the hash of the cells that computed them. A test computes one seed again for each lesson whose cells have
changed since.
"""

import ast
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from residual_course.commands.checkout import Refusal, course_of
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import plan
from tools.execute import execute

SEEDS = (0, 1, 2)
PATIENCE = 3500  # seconds for a seed; the longest, lesson 08c's, takes more than 900: a busy machine is slow, not wrong
SHOWING = {"predict", "reveal", "figure", "trained", "explorer", "solution"}
SETTINGS = """\
import inspect, json
settings = {p.name: p.default for p in inspect.signature(runs).parameters.values() if p.name not in ("seed", "part")}
print(json.dumps(settings))
"""

# "code": the hash of the cells; "settings": the arguments besides seed; "runs": for each seed, what runs returned
Runs = dict[str, Any]


def runs_of(source: Path) -> Path:
    """Return where the runs of a lesson are stored: in the package, so that it finds them wherever it is opened."""
    return course_of(source) / "residual_course" / "data" / "runs" / f"{source.stem}.json"


def has_runs(source: Path) -> bool:
    """Whether a cell of the lesson computes its stored runs; those of an investigation have a script of their own."""
    return runs_of(source).exists() and any("runs" in tags(cell) for cell in plan(source).cells)


def compute(source: Path, seeds: tuple[int, ...] = SEEDS) -> Runs:
    """Execute the lesson up to its cell tagged ``runs``, and then ``runs`` for each of ``seeds``.

    Raises:
        Refusal: for a lesson without such a cell, or one that does not define ``runs(seed, ...)``.
        CellFailed: for an error on the way.
    """
    cells = up_to_runs(source)
    if not arguments(cells[-1]):
        raise Refusal(f"{source.name}: the cell tagged runs must define a function runs(seed, ...).")
    calls = [f"print(json.dumps(runs({seed})))" for seed in seeds]  # a cell a seed: each cell has a time limit
    notebook = new_notebook(cells=[*cells, *map(new_code_cell, [SETTINGS, *calls])])
    execute(notebook, source.parents[1], lambda at: None, limit=PATIENCE)
    settings, *found = (json.loads(cell.outputs[-1].text) for cell in notebook.cells[len(cells) :])
    return {"code": hash_of(cells), "settings": settings, "runs": dict(zip(map(str, seeds), found, strict=True))}


def arguments(cell: NotebookNode) -> list[str]:
    """Return the names of the arguments of ``runs``; none where the cell does not define it."""
    named = [node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef) and node.name == "runs"]
    return [each.arg for node in named for each in node.args.args]


def up_to_runs(source: Path) -> list[NotebookNode]:
    """Return the code cells up to the one tagged ``runs`` that do not need what is stored; and no exercises."""
    code = [cell for cell in plan(source).cells if cell.cell_type == "code"]
    last = next((at for at, cell in enumerate(code) if "runs" in tags(cell)), None)
    if last is None:
        raise Refusal(f"{source.name} has no cell tagged runs.")
    reading = next((at for at, cell in enumerate(code[:last]) if "stored_runs(" in cell.source), last)
    later = [cell for cell in code[reading + 1 : last] if not SHOWING & set(tags(cell))]
    return [cell for cell in (*code[:reading], *later, code[last]) if "nbgrader" not in cell.metadata]


def hash_of(cells: Sequence[NotebookNode]) -> str:
    """Return the hash of what ``cells`` say."""
    return hashlib.sha256("\n".join(cell.source for cell in cells).encode()).hexdigest()[:16]


def to_compute_again(sources: Sequence[Path]) -> list[Path]:
    """Return those of ``sources`` whose cells are not the ones that computed what is stored."""
    stored = filter(has_runs, sources)
    return [one for one in stored if json.loads(runs_of(one).read_text())["code"] != hash_of(up_to_runs(one))]


def store(source: Path) -> Path:
    """Compute the runs of a lesson, write them, and return the file."""
    computed, path = compute(source), runs_of(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(computed, indent=1) + "\n", encoding="utf-8", newline="\n")
    return path


def difference(stored: Runs, again: Runs) -> list[str]:
    """Return in which numbers runs that were computed again are further from the stored ones than ``within``."""
    within, found = stored["settings"]["within"], []
    if stored["settings"] != again["settings"]:
        found.append(f"settings {again['settings']}, stored with {stored['settings']}")
    for seed, numbers in again["runs"].items():
        before = stored["runs"][seed]
        for name in before:
            now, then = numbers.get(name), before.get(name)
            if now is None or then is None or not abs(now - then) <= within:
                found.append(f"seed {seed}, {name}: {now} and stored {then}")
    return found
