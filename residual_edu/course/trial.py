"""``residual-edu trial``: run lessons with other seeds and threads, and say which bands of trainings do not hold.

Another build of torch, another Python or another processor rounds differently: run it in each environment.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from residual_edu.course.answers import answers_of, join
from residual_edu.course.build import differences
from residual_edu.course.checkout import Refusal, find_root, notebook_of, with_homework
from residual_edu.course.comparison import TRAINED, Tolerant, Trained
from residual_edu.course.execute import CellFailed, execute
from residual_edu.course.exercise_cells import tags
from residual_edu.course.notebook import plan
from residual_edu.lesson import NOT_HERE

SHIFTS, THREADS = [0, 1000, 2000], [1, 2]
NOT_COMPARED = "nbval-ignore-output"
# The first cell: every seed that the lesson names becomes a larger one, and the threads that it asks for do not count.
# No answer is kept or read, as in a build.
BEGIN = """
import torch

def begin(shift, threads):
    import residual_edu.progress

    residual_edu.progress.is_strict = lambda: True

    class Shifted(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(seed + shift)

    seed_all = torch.manual_seed
    torch.Generator, torch.manual_seed = Shifted, lambda seed: seed_all(seed + shift)
    torch.set_num_threads(threads)
    torch.set_num_threads = lambda threads: None

begin({shift}, {threads})
del begin
"""


def run(argv: Sequence[str]) -> int:
    """Try the lessons named in ``argv`` with each pair of a shift and a number of threads; return 1 for any finding."""
    parser = argparse.ArgumentParser(prog="residual-edu trial", description="Try lessons with other seeds and threads.")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02, or hw_02_03; all where none is given")
    parser.add_argument(
        "--shifts", nargs="+", type=int, default=SHIFTS, help="what is added to every seed (%(default)s)"
    )
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS, help="how many threads (%(default)s)")
    given = parser.parse_args(argv)
    found = False
    for source, shift, threads in product(with_homework(find_root(), given.lessons), given.shifts, given.threads):
        findings = list(trial(source, shift, threads))
        found |= bool(findings)
        setting = f"{source.stem}, seeds + {shift}, threads {threads}"
        print(*(f"{setting}: {finding}" for finding in findings or ["every band holds"]), sep="\n", flush=True)
    return int(found)


def trial(source: Path, shift: int, threads: int) -> Iterator[str]:
    """Run ``source`` with every seed larger by ``shift``, and yield a sentence for each thing that should not be.

    Raises:
        Refusal: for a lesson whose notebook is missing or is not what its source builds.
    """
    if differences(source):
        raise Refusal(
            f"{notebook_of(source).name} is not what its source builds; run: residual-edu build {source.stem}"
        )
    notebook = plan(source)
    notebook.cells.insert(0, new_code_cell(BEGIN.format(shift=shift, threads=threads)))
    try:
        execute(notebook, notebook_of(source).parent, lambda cell: None, lenient=True)
    except CellFailed as failure:  # a kernel that died, or a cell of more than 600 s: nothing more to compare
        yield str(failure)
        return
    stored = nbformat.read(notebook_of(source), as_version=4)
    join(stored, answers_of(notebook_of(source)))
    for number, (cell, before) in enumerate(zip(notebook.cells[1:], stored.cells, strict=True), 1):
        if cell.cell_type == "code":
            yield from (f"cell {number} {finding}" for finding in judge(cell, None if shift else before))


def judge(cell: NotebookNode, before: NotebookNode | None) -> Iterator[str]:
    """Yield what is wrong with a cell's outputs; ``before`` is the cell as stored, None where its seeds were others.

    With other seeds only what is tagged ``trained`` counts: other cells may say what is true of their numbers alone.
    """
    trained = TRAINED in tags(cell)
    if trained or before is not None:
        yield from (f"stopped: {output.ename}: {output.evalue}" for output in cell.outputs if "ename" in output)
    yield from (line for _, text in texts(cell) for line in text.split("\n") if line.startswith(NOT_HERE))
    if before is not None and NOT_COMPARED not in tags(cell):
        compared = Trained if trained else Tolerant
        if [(kind, compared(text)) for kind, text in texts(before)] != texts(cell):
            yield "prints other words than are stored" if trained else "prints other numbers and is not tagged trained"


def texts(cell: NotebookNode) -> list[tuple[str, str]]:
    """Return a cell's outputs as kinds, in alphabetical order for each, and texts; pictures are not compared."""
    data = [{output["name"]: output["text"]} if "text" in output else output.get("data", {}) for output in cell.outputs]
    return [(kind, each[kind]) for each in data for kind in sorted(each) if not kind.startswith("image/")]
