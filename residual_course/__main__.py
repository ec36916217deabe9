"""Makes ``python -m residual_course`` the same as ``residual-edu``."""

import sys

from residual_course.commands import main

sys.exit(main())
