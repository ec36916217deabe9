"""The states of a lesson's explorers, drawn by the kernel that has just run the lesson: ``docs/states/NN/``."""

from collections.abc import Callable, Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from residual_course.commands.checkout import course_of, is_optional
from residual_course.commands.exercise_cells import tags
from tools.execute import execute

DRAW = """\
from pathlib import Path
from residual_course.explorers.draw_states import draw_shown
draw_shown(Out.values(), Path({folder!r}))
"""


def states_of(source: Path) -> Path:
    """Return the folder of a lesson's states, such as ``docs/states/08a``; of what is optional, by its name."""
    name = source.stem if is_optional(source) else source.stem.partition("_")[0]
    return course_of(source) / "docs" / "states" / name


def execute_and_draw(
    notebook: NotebookNode,
    folder: Path,
    states: Path,
    started: Callable[[int], None],
    bands: Callable[[NotebookNode], Sequence[str]],
) -> None:
    """Execute ``notebook`` as ``execute`` does and, where it has explorers, draw their states into ``states``.

    Raises:
        CellFailed: for an error on the way, in the lesson or in a picture, and for a band that does not hold.
    """
    cells = notebook.cells
    if any("explorer" in tags(cell) for cell in cells):
        notebook.cells = [*cells, new_code_cell(DRAW.format(folder=str(states)))]
    execute(notebook, folder, started, bands=bands)
    notebook.cells = cells
