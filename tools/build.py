"""``residual-edu build``: execute each lesson's source, and write its notebook and its states, the same on each run."""

import argparse
from collections.abc import Sequence
from copy import deepcopy
from difflib import unified_diff
from functools import partial
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from residual_course.commands.answers import answers_of, join, missing, store
from residual_course.commands.checkout import (
    INVESTIGATIONS,
    Refusal,
    companion_of,
    find_root,
    notebook_of,
    with_homework,
)
from residual_course.commands.notebook import never_executed, outline, plan, read_notebook
from residual_course.companion import read
from tools import companions
from tools.execute import CellFailed
from tools.states import execute_and_draw, states_of


def run(argv: Sequence[str]) -> int:
    """Build the lessons named in ``argv``, or with ``--check`` say how they differ from their notebooks."""
    parser = argparse.ArgumentParser(prog="residual-edu build", description="Execute lessons, write their notebooks.")
    parser.add_argument(
        "lessons", nargs="*", metavar="LESSON", help="02, or hw_02_03 for homework; all where none is given"
    )
    parser.add_argument("--check", action="store_true", help="run nothing; show where source and notebook differ")
    parser.add_argument("--text", action="store_true", help="run nothing; write changed text, and keep all outputs")
    arguments = parser.parse_args(argv)
    root = find_root()
    sources = with_homework(root, arguments.lessons)
    if arguments.text:
        for source in sources:
            rebuild_text(source)
    elif not arguments.check:
        return build(sources)
    findings = [line for source in sources for line in differences(source)]
    findings += [] if arguments.lessons else orphans(root)
    print("\n".join(findings or ["Every notebook is what its source builds."]))
    return int(bool(findings))


def build(sources: Sequence[Path]) -> int:
    """Build each of ``sources`` with a line of progress; stop at the first error, which is shown."""
    seconds = TextColumn("cells, {task.elapsed:.1f} s")
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), seconds) as progress:
        for source in sources:
            try:
                build_one(source, progress)
            except CellFailed as failure:
                progress.console.print(f"{source.name}, {failure}", markup=False, highlight=False)
                return 1
    return 0


def build_one(source: Path, progress: Progress) -> None:
    """Execute ``source`` and, if every cell ran, write its notebook, its answers apart, and its explorers' states.

    Raises:
        CellFailed: for an error on the way, and for a band that does not hold.
        Refusal: for a companion that names what the lesson does not have.
    """
    notebook = plan(source)
    refuse(*companions.faults(source, notebook))
    companion = read(companion_of(source))
    task = progress.add_task(source.stem, total=(total := len(notebook.cells)))
    target = notebook_of(source)
    target.parent.mkdir(exist_ok=True)

    def started(at: int) -> None:
        progress.update(task, completed=min(at, total))  # the states are drawn in one cell more

    execute_and_draw(notebook, target.parent, states_of(source), started, partial(companions.bands, companion))
    refuse(*companions.describe(companion, notebook))
    write(notebook, target)
    progress.stop_task(task)


def write(notebook: NotebookNode, target: Path) -> None:
    """Write a notebook, and apart from it what a learner does not see before asking for it."""
    store(notebook, answers_of(target))
    target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")


def rebuild_text(source: Path) -> None:
    """Write the changed text and alternative texts of ``source`` into its notebook, which keeps its outputs.

    Raises:
        Refusal: for a notebook that is missing or has other code, since then its outputs may be others.
    """
    notebook, target = plan(source), notebook_of(source)
    was = read_notebook(target) if target.exists() else deepcopy(notebook)
    join(was, answers_of(target))
    now, before = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, was))
    if not target.exists() or list(map(code, now)) != list(map(code, before)):
        raise Refusal(f"{target.name} is missing or has other code than {source.name}: build it without --text.")
    for cell, old in zip(now, before, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
    refuse(*companions.faults(source, notebook))
    refuse(*companions.describe(read(companion_of(source)), notebook))
    write(notebook, target)


def code(cell: NotebookNode) -> tuple[str, str, NotebookNode]:
    """Return what decides a cell's output and how it is shown."""
    return cell.id, cell.source, cell.metadata


def refuse(*sentences: str) -> None:
    """Refuse what the first of ``sentences`` says, if there is any."""
    for sentence in sentences:
        raise Refusal(sentence)


def differences(source: Path) -> list[str]:
    """Return how the notebook of ``source`` differs from what it would build, as lines; none where it does not."""
    target = notebook_of(source)
    again = f"run: residual-edu build {source.stem}"
    if not target.exists():
        return [f"{target.name} is missing; {again}"]
    stored = read_notebook(target)
    planned = plan(source)
    sides = outline(stored), outline(planned)
    lines = list(unified_diff(*sides, f"notebooks/{target.name}", f"notebooks/source/{source.name}", n=1, lineterm=""))
    if missing(stored, answers_of(target)):
        lines.append(f"notebooks/answers/{target.stem}.json holds the outputs of other cells; {again}")
    lines += companions.faults(source, planned)
    if not lines and other_words(source, stored):
        lines.append(f"{target.name} has other alternative texts than {companion_of(source).name}; {again}")
    if never_executed(stored):
        lines.append(f"{target.name} holds code cells that were never executed; {again}")
    return lines


def other_words(source: Path, stored: NotebookNode) -> bool:
    """Whether pictures of a built notebook have other alternative texts than its companion says."""
    join(stored, answers_of(notebook_of(source)))
    before = deepcopy(stored)
    return any(companions.describe(read(companion_of(source)), stored)) or stored != before


def orphans(root: Path) -> list[str]:
    """Return a sentence for each notebook that has no source, and each companion that has no lesson."""
    sources, folder = {notebook_of(source) for source in with_homework(root)}, root / "notebooks"
    built = {path for place in (".", "homework", INVESTIGATIONS) for path in folder.glob(f"{place}/*.ipynb")}
    extra = sorted((built - sources) | (set(folder.glob("answers/**/*.json")) - set(map(answers_of, sources))))
    found = [f"{notebook.name} has no source; delete it, or write its source" for notebook in extra]
    beside = {*(root / "residual_course" / "data" / "lessons").glob("*.toml")} - set(map(companion_of, sources))
    found += [f"{path.name} is the companion of no lesson" for path in sorted(beside)]
    return found
