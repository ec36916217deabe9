"""Run a notebook's cells in a fresh kernel, and keep of their outputs what is the same on each run."""

import os
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict

from residual_course.commands.notebook import METADATA
from tools.companions import asked_of_kernel, broken

# Timings and the state of widgets differ from run to run, and the kernel's log is no part of a lesson.
OPTIONS = {
    "kernel_name": "python3",
    "record_timing": False,
    "store_widget_state": False,
    "extra_arguments": ["--log-level=ERROR"],
}
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RESIDUAL_EDU_DEVICE": "cpu",
    "RESIDUAL_EDU_STRICT": "1",
    "RESIDUAL_EDU_BUILD": "1",
}
LENIENT = {"RESIDUAL_EDU_STRICT": "", "RESIDUAL_EDU_BUILD": ""}
WIDGET = "application/vnd.jupyter.widget-view+json"
COLOUR, ADDRESS = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"0x[0-9a-fA-F]{6,}")


class CellFailed(Exception):
    """A cell that stopped its lesson: the number among all cells, counted from 1, and the traceback."""


def execute(
    notebook: NotebookNode,
    folder: Path,
    started: Callable[[int], None],
    lenient: bool = False,
    limit: int = 600,
    bands: Callable[[NotebookNode], Sequence[str]] = lambda cell: (),
) -> None:
    """Run every cell of ``notebook`` in ``folder``, on the CPU and one thread; ``started`` receives each cell's number.

    Args:
        lenient: run as a learner does: an error is an output of its cell, and a law that fails is a printed line.
        limit: the seconds that a cell may take.
        bands: returns the expressions that are true once a cell has run.

    Raises:
        CellFailed: for an error, unless ``lenient``; for a band that does not hold, a cell beyond ``limit``, or a
            kernel that dies.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    at = 0

    def on_cell_start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal at
        at = cell_index + 1
        started(at)

    async def on_cell_executed(cell: NotebookNode, cell_index: int, execute_reply: dict[str, Any]) -> None:
        if execute_reply["content"]["status"] == "ok" and (wanted := bands(cell)):
            reply = await client.kc.execute("", silent=True, user_expressions=asked_of_kernel(wanted), reply=True)
            for sentence in broken(wanted, reply["content"]["user_expressions"]):
                raise CellFailed(f"cell {at}: {sentence}")

    hooks = {"on_cell_start": on_cell_start, "on_cell_executed": on_cell_executed}
    client = NotebookClient(notebook, **OPTIONS, timeout=limit, allow_errors=lenient, **hooks)
    try:
        client.execute(cwd=str(folder), env=os.environ | ENVIRONMENT | (LENIENT if lenient else {}))
    except (CellControlSignal, DeadKernelError) as error:
        raise CellFailed(f"cell {at}: {COLOUR.sub('', str(error))}") from None
    clean(notebook)


def clean(notebook: NotebookNode) -> None:
    """Drop what differs from run to run or needs a kernel; a widget leaves its picture or its text behind."""
    notebook.metadata = from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [normalise_output(output) for output in joined(cell.outputs)]


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream, which the kernel cuts where time happens to."""
    whole = []
    for stream, group in groupby(outputs, key=lambda output: output.get("name")):
        first, *rest = group
        if stream:
            first.text += "".join(output.text for output in rest)
            rest = []
        whole += [first, *rest]
    return whole


def normalise_output(output: NotebookNode) -> NotebookNode:
    """Drop an output's widget view, and the addresses and colours of its text."""
    output.get("data", {}).pop(WIDGET, None)
    if "text" in output:
        output.text = plain(output.text)
    for kind in [kind for kind in output.get("data", {}) if kind.startswith("text/")]:
        output.data[kind] = plain(output.data[kind])
    if "traceback" in output:
        output.traceback = [plain(line) for line in output.traceback]
    return output


def plain(text: str) -> str:
    """Return ``text`` without terminal colours, its memory addresses blanked."""
    return ADDRESS.sub("0x...", COLOUR.sub("", text))
