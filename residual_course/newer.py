"""What is said where a notebook asks for what the installed package does not have: it may be newer than the package."""

import re
import sys
from importlib.metadata import version
from types import TracebackType
from typing import Any


def newer(said: str) -> str:
    """Return a sentence for the message of a failed import from this course, and nothing for another's."""
    if not re.search(r"(named|from) 'residual_", said):
        return ""
    installed = f"residual_edu {version('residual_edu')}, which is installed here"
    return f"{said.partition(' (/')[0]}: unless it is misspelled, this notebook is newer than {installed}"


def tell(shell: Any, kind: type, error: ImportError, trace: TracebackType, tb_offset: int | None = None) -> None:
    """Show a failed import as that sentence and the way on; another's as IPython does."""
    if said := newer(str(error)):
        way = "ask whoever runs this server for the newer one, or install it, and restart the kernel"
        shell._showtraceback(kind, error, [f"{said}; {way}."])
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def listen() -> None:
    """Tell so in the notebook that runs, if one does."""
    if shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)():
        shell.set_custom_exc((ImportError,), tell)
