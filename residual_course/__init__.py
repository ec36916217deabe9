"""What a lesson imports besides the library: its kit, plots, explorers, exercises and data, and the commands."""

import sys

from residual_course.newer import tell

if shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)():
    shell.set_custom_exc((ImportError,), tell)
