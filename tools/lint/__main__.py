"""Makes ``python -m tools.lint`` the same as ``residual-edu lint``."""

import sys

from residual_course.commands import main

sys.exit(main(["lint", *sys.argv[1:]]))
