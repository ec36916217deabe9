"""The residual block, built from nothing: the finished pieces of the lessons, ready to import.

A block is a list of branches, and a branch adds to the residual stream::

    pre-norm    x <- x + g * f(norm(x))
    post-norm   x <- norm(x + g * f(x))

The pieces, and torch with them, are imported when the first of their names is asked for (PEP 562): the course's own
commands ask for none, and would otherwise wait for torch each time. So they write ``import residual_edu.progress``;
``from residual_edu import progress`` asks for a name.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from residual_edu.renamed import refuse_old_names

if TYPE_CHECKING:  # room by room: mypy reads no list of names that is put together
    from residual_edu.blocks import *  # noqa: F403
    from residual_edu.config import LazyConfig as LazyConfig
    from residual_edu.config import build as build
    from residual_edu.configurable import *  # noqa: F403
    from residual_edu.errors import InvalidInput as InvalidInput
    from residual_edu.mixers import *  # noqa: F403
    from residual_edu.networks import *  # noqa: F403
    from residual_edu.parts import *  # noqa: F403
else:

    def __getattr__(name):
        """Import all pieces, and return the one called ``name``."""
        api = import_module(f"{__name__}.api")
        globals().update({each: getattr(api, each) for each in ("__all__", *api.__all__) if each not in globals()})
        globals().pop("__getattr__", None)  # from now on what is missing is an error
        refuse_old_names(__name__)
        return getattr(sys.modules[__name__], name)

    def __dir__():
        return sorted({*sys.modules[__name__].__all__, *globals()})
