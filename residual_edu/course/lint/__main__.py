"""Makes ``python -m residual_edu.course.lint`` the same as ``residual-edu lint``."""

import sys

from residual_edu.course import main

sys.exit(main(["lint", *sys.argv[1:]]))
