"""The residual block, built from nothing: the finished pieces, ready to import.

A block is a list of branches, and a branch adds to the residual stream::

    pre-norm    x <- x + g * f(norm(x))
    post-norm   x <- norm(x + g * f(x))
"""

from residual_edu.blocks import *  # noqa: F403
from residual_edu.blocks import __all__ as _blocks
from residual_edu.config import LazyConfig, build
from residual_edu.configurable import *  # noqa: F403
from residual_edu.configurable import __all__ as _configurable
from residual_edu.errors import InvalidInput
from residual_edu.gradient_flow import *  # noqa: F403
from residual_edu.gradient_flow import __all__ as _gradient_flow
from residual_edu.mixers import *  # noqa: F403
from residual_edu.mixers import __all__ as _mixers
from residual_edu.networks import *  # noqa: F403
from residual_edu.networks import __all__ as _networks
from residual_edu.parts import *  # noqa: F403
from residual_edu.parts import __all__ as _parts

__all__ = ["InvalidInput", "LazyConfig", "build", *_parts, *_mixers, *_blocks]
__all__ += [*_configurable, *_networks, *_gradient_flow]
__all__.sort()
