"""Rules for the stored outputs of a built notebook."""

import re
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode

from residual_course.commands.answers import APART
from residual_course.commands.exercise_cells import tags
from tools.lint.cells import called, code_cells, tree

BYTES = 1_000_000
WIDGET = "application/vnd.jupyter.widget-view+json"
SPEAKING = {"print", "show", "predict", "check", "reveal", "progress", "summary"}  # calls that always leave an output
PATH = re.compile(r"""(?:^|(?<=[\s"'(=]))(?:/[\w.-]+/[\w.-]+|[A-Za-z]:\\\w)""", re.M)
DEVICE = re.compile(r"\b(?:cuda|mps|cpu)\b")


def stored(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Yield each stored output with the words that name its cell."""
    for place, cell in code_cells(notebook):
        yield from ((place, output) for output in cell.outputs)


def kernel_is_python3(notebook: NotebookNode) -> Iterator[str]:
    """The notebook asks for the kernel that every installation has."""
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"the notebook asks for the kernel {name!r}, not 'python3'"


def executed_in_order(notebook: NotebookNode) -> Iterator[str]:
    """Every code cell ran, from top to bottom, in a fresh kernel; where outputs are stored apart, no count is."""
    for count, (place, cell) in enumerate(code_cells(notebook), 1):
        if not APART & set(tags(cell)) and cell.execution_count != count:
            yield f"{place} has the execution count {cell.execution_count}, where {count} is its turn"


def outputs_are_there(notebook: NotebookNode) -> Iterator[str]:
    """A cell that prints or shows has a stored output."""
    for place, cell in code_cells(notebook):
        values = [getattr(statement, "value", statement) for statement in tree(cell).body]
        if not cell.outputs and any(called(value) in SPEAKING for value in values):
            yield f"{place} prints or shows something, and no output is stored"


def no_errors(notebook: NotebookNode) -> Iterator[str]:
    """No error is stored."""
    for place, output in stored(notebook):
        if output.output_type == "error":
            yield f"{place} stores an error, {output.ename}: {output.evalue}"


def pictures_have_words(notebook: NotebookNode) -> Iterator[str]:
    """Every stored picture carries alternative text."""
    for place, output in stored(notebook):
        for kind in output.get("data", {}):
            if kind.startswith("image/") and not output.metadata.get(kind, {}).get("alt", "").strip():
                yield f"{place} stores a picture without alternative text; use show(figure, alt=...)"


def small_notebook(notebook: NotebookNode) -> Iterator[str]:
    """A lesson, with what is stored apart, has at most 1 MB."""
    size = len(nbformat.writes(notebook).encode())
    if size > BYTES:
        yield f"the notebook has {size / 1e6:.2f} MB with its answers, more than {BYTES / 1e6:g}"


def no_svg(notebook: NotebookNode) -> Iterator[str]:
    """No picture is SVG, whose text differs between machines."""
    for place, output in stored(notebook):
        if "image/svg+xml" in output.get("data", {}):
            yield f"{place} stores an SVG picture; show it as PNG"


def no_widget_views(notebook: NotebookNode) -> Iterator[str]:
    """No widget's view is stored: without its kernel it hides the picture that stands in for it."""
    for place, output in stored(notebook):
        if WIDGET in output.get("data", {}):
            yield f"{place} stores a widget's view, which hides its picture on a page without a kernel"


def no_machine_in_outputs(notebook: NotebookNode) -> Iterator[str]:
    """No output names a path or a device of the machine that built it."""
    for place, output in stored(notebook):
        for found in (pattern.search(words(output)) for pattern in (PATH, DEVICE)):
            if found:
                yield f"{place} names this machine in its output: {found[0]}"


def words(output: NotebookNode) -> str:
    """Return everything that an output says in text."""
    data = output.get("data", {})
    said = [output.get("text", ""), *(data[kind] for kind in data if kind.startswith("text/"))]
    return "\n".join([*said, *output.get("traceback", [])])


RULES = [
    kernel_is_python3,
    executed_in_order,
    outputs_are_there,
    no_errors,
    pictures_have_words,
    small_notebook,
    no_svg,
    no_widget_views,
    no_machine_in_outputs,
]
