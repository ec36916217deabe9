"""What a block of code prints and displays, held back in its order until somebody asks for it."""

import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import TextIOBase
from itertools import groupby
from types import TracebackType
from typing import Any, Self

from IPython.core.getipython import get_ipython
from IPython.display import display
from IPython.utils.capture import capture_output

Output = dict[str, Any]  # as a notebook stores it
INLINE = "matplotlib_inline.backend_inline"  # shows pyplot's figures where a cell ends


class Held:
    """Catches what its block shows; ``outputs`` has it."""

    def __enter__(self) -> Self:
        self.caught: list[Output] = []
        self.stack = ExitStack()
        self.stack.enter_context(redirect_stdout(Written("stdout", self.caught)))
        self.stack.enter_context(redirect_stderr(Written("stderr", self.caught)))
        if shell := get_ipython():
            self.stack.enter_context(capture_output(stdout=False, stderr=False))
            shell.display_pub.outputs = self.caught  # one list, so that text and pictures keep their order
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if INLINE in sys.modules:
            sys.modules[INLINE].flush_figures()
        self.stack.close()

    @property
    def outputs(self) -> list[Output]:
        """What was caught, in order, neighbouring pieces of one stream joined."""
        whole: list[Output] = []
        for name, group in groupby(self.caught, key=lambda one: one.get("name")):
            if name:
                whole.append({"output_type": "stream", "name": name, "text": "".join(one["text"] for one in group)})
            else:
                whole += [shown(one["data"], one["metadata"]) for one in group]
        return whole


class Written(TextIOBase):
    """A stream that adds what is written to a list."""

    def __init__(self, name: str, caught: list[Output]) -> None:
        self.stream, self.caught = name, caught

    def write(self, text: str) -> int:
        """Add ``text``."""
        self.caught.append({"name": self.stream, "text": text})
        return len(text)


def shown(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> Output:
    """Return a displayed output."""
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def markdown(text: str) -> list[Output]:
    """Return the output that displays Markdown; of an empty text, none."""
    return [shown({"text/markdown": text, "text/plain": text})] if text else []


def replay(outputs: list[Output]) -> None:
    """Show ``outputs`` in the cell that runs."""
    for output in outputs:
        if "name" in output:
            getattr(sys, output["name"]).write(output["text"])
        else:
            display(output["data"], metadata=output["metadata"], raw=True)
