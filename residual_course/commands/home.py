"""A place for what Jupyter, IPython and matplotlib keep, where the person's home folder cannot be written."""

import os
import sys
from pathlib import Path
from tempfile import mkdtemp

# Without a home JupyterLab and every kernel end with a traceback, and matplotlib warns in the lesson's first figure.
KEPT = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "MPLCONFIGDIR": "matplotlib",
}


def replace_home() -> None:
    """Set those variables of ``KEPT`` that are not set, where the home folder is read-only, somebody else's or missing.

    They name folders in this environment's own folder, or in a temporary one where that cannot be written either.
    """
    if os.access(os.path.expanduser("~"), os.W_OK):  # stays "~" for a user without a home
        return
    folder = Path(sys.prefix) / "home" if os.access(sys.prefix, os.W_OK) else Path(mkdtemp(prefix="residual_edu-"))
    for name, part in KEPT.items():
        os.environ.setdefault(name, str(folder / part))
