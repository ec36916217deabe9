"""What is said where a notebook asks for what the installed package does not have: it may be newer than the package."""

import re
from importlib.metadata import version
from typing import Any


def newer(said: str) -> str:
    """Return a sentence for the message of a failed import from this course, and nothing for another's."""
    is_ours = re.search(r"(named|from) 'residual_", said)
    end = f"unless it is misspelled, this notebook is newer than the installed residual_edu {version('residual_edu')}"
    return f"{said.partition(' (/')[0]}: {end}" if is_ours else ""


def tell(shell: Any, kind: type, error: Exception, trace: Any, tb_offset: int | None = None) -> None:
    """Show a failed import as that sentence with the way on, in IPython; that of another package as ever."""
    if not (said := newer(str(error))):
        return shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    way = "ask whoever runs this server for the newer one, or install it, and restart the kernel"
    return shell._showtraceback(kind, error, [f"{said}; {way}."])
