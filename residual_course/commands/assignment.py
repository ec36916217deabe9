"""``residual-edu assignment``: nbgrader's course folder, from the lessons' and homeworks' sources.

What nbgrader releases from it is what ``residual-edu student`` hands out, cell for cell: each graded cell holds its
solution or its hidden tests between nbgrader's marks, and all other cells are the student version's own.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import nbformat
from nbformat import NotebookNode

from residual_course.commands.checkout import Refusal, chosen, find_root, is_optional, with_homework
from residual_course.commands.exercise_cells import PLACE, tags
from residual_course.commands.notebook import read_notebook
from residual_course.commands.student import student

# Names of files as Canvas, Moodle and plain folders give them: lovelaceada_LATE_123_456_hw_00_01.ipynb, where 123 is
# the student's number, Ada Lovelace_123_assignsubmission_file_/hw_00_01.ipynb, and ada/hw_00_01.ipynb.
COLLECTED = (
    r".*/(?:[^/]*_(?=\d+_assignsubmission)|[^/_]+(?:_LATE)?_(?=\d+_\d+_))?(?P<student_id>[^/]+?)(?:_\d+)?"
    r"(?:_assignsubmission_file_?)?[/_](?P<file_id>hw_\w+?|\d\d[a-c]?_[a-z]\w+?)(?:-\d+)?\.ipynb$"
)
CONFIG = f'''\
"""nbgrader's settings for this course; written once by `residual-edu assignment`, yours to change from then on."""
c = get_config()
c.CourseDirectory.course_id = "residual_edu"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.py"]  # no source beside a copy
c.ClearSolutions.code_stub = {{"python": "# your code here\\nraise NotImplementedError"}}
c.GenerateAssignment.preprocessors = [  # nbgrader's own without ClearOutput: figures of the lesson stay
    f"nbgrader.preprocessors.{{name}}"
    for name in "IncludeHeaderFooter LockCells ClearSolutions CheckCellMetadata ComputeChecksums SaveCells "
    "ClearHiddenTests ClearMarkScheme ComputeChecksums CheckCellMetadata".split()
]
c.OverwriteCells.add_missing_cells = True  # a test that a student deleted is run all the same
c.Execute.timeout = c.Execute.startup_timeout = 120  # seconds for a cell
c.GenerateFeedback.preprocessors = [  # nbgrader's own, and hidden tests stay hidden
    "nbgrader.preprocessors.GetGrades",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.FileNameCollectorPlugin.named_regexp = (
    r"{COLLECTED}"
)
'''


def run(argv: Sequence[str]) -> int:
    """Write the course folder of the lessons named in ``argv``, or of all."""
    parser = argparse.ArgumentParser(prog="residual-edu assignment", description="Write nbgrader's course folder.")
    parser.add_argument("out", type=Path, metavar="OUT", help="the course folder; what it holds already is kept")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02, or hw_00_01; all where none is given")
    parser.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="private sources, instead of ours")
    given = parser.parse_intermixed_args(argv)
    every = sorted(given.folder.glob("hw_*.py")) if given.folder else gradable(find_root())
    if not every:
        raise Refusal(f"There is no hw_*.py in {given.folder}: begin from a copy of one in notebooks/source/homework.")
    try:
        write(given.out, chosen(every, given.lessons))
    except OSError as error:
        raise Refusal(f"{error.filename or given.out} cannot be written: {error.strerror}.") from None
    return 0


def gradable(root: Path) -> list[Path]:
    """Return the sources of what is graded: what learners get, without what nobody has to do."""
    return [source for source in with_homework(root) if not is_optional(source)]


def write(out: Path, sources: Sequence[Path]) -> None:
    """Write nbgrader's settings, unless there are some, and the source notebook of each of ``sources``."""
    out.mkdir(parents=True, exist_ok=True)
    if not (config := out / "nbgrader_config.py").exists():
        config.write_text(dedent(CONFIG), encoding="utf-8")
    for source in sources:
        target = out / "source" / source.stem / f"{source.stem}.ipynb"
        text = nbformat.writes(teacher(source)) + "\n"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
        print(target)


def teacher(source: Path) -> NotebookNode:
    """Return the student version of ``source`` with the solutions and hidden tests that it leaves out, in their marks.

    Raises:
        Refusal: for an exercise that is not whole, or a grade_id that comes twice.
    """
    notebook, full = student(source), dict[str, str]()
    for cell in read_notebook(source).cells:
        if name := cell.metadata.get("nbgrader", {}).get("grade_id"):
            if name in full:
                raise Refusal(f"{source.name}: the grade_id {name!r} comes twice.")
            full[name] = f"{PLACE}\n{cell.source}" if "hidden-test" in tags(cell) else cell.source
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.source = full[cell.metadata["nbgrader"]["grade_id"]]
    return notebook
