"""Run a lesson's cells with few training steps, on the CPU or on the second device, and tell which of them fail."""

import ast
import builtins
import contextlib
import io
import os
from itertools import islice
from pathlib import Path

import nbformat
from tests.interop.second_device import device

from residual_course import lesson, progress
from residual_course.commands.exercise_cells import tags

NOTEBOOKS = Path(__file__).parents[4] / "notebooks"
STEPS = 5  # of each loop that trains


class FewSteps(ast.NodeTransformer):
    """Ends each loop that calls a method ``step`` after a few rounds."""

    def visit_For(self, loop: ast.For) -> ast.For:
        """Wrap what the loop goes over."""
        self.generic_visit(loop)
        inside = [node for line in loop.body if not isinstance(line, ast.For) for node in ast.walk(line)]
        if any(isinstance(node, ast.Attribute) and node.attr == "step" for node in inside):
            few = ast.Call(ast.Name("few_steps_of", ast.Load()), [loop.iter], [])
            loop.iter = ast.fix_missing_locations(ast.copy_location(few, loop.iter))
        return loop


def failures(name: str, elsewhere: bool) -> dict[int, str]:
    """Return the errors of a lesson's cells, by their number; a law that does not hold is none."""
    from IPython.core.interactiveshell import InteractiveShell

    if elsewhere:
        where = device.install()
        lesson.find_device = lambda _: where
    os.chdir(NOTEBOOKS)
    os.environ.pop("RESIDUAL_EDU_STRICT", None)
    progress.is_strict = lambda: True  # the lessons' own answers are nobody's
    builtins.few_steps_of = lambda values: islice(values, STEPS)  # a class's body would find no global of a notebook
    shell, found = InteractiveShell(), {}
    shell.ast_transformers.append(FewSteps())
    for place, cell in enumerate(nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells, start=1):
        if cell.cell_type == "code" and "raises-exception" not in tags(cell):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                result = shell.run_cell(cell.source)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                found[place] = f"{type(error).__name__}: {error}"
    return found
