"""Makes ``python -m residual_edu.course`` the same as ``residual-edu``."""

import sys

from residual_edu.course import main

sys.exit(main())
