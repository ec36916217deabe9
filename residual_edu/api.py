"""Every public name of the library, gathered from its rooms: what ``import residual_edu`` gives."""

from residual_edu.blocks import *  # noqa: F403
from residual_edu.blocks import __all__ as _blocks
from residual_edu.config import LazyConfig, build
from residual_edu.configurable import *  # noqa: F403
from residual_edu.configurable import __all__ as _configurable
from residual_edu.errors import InvalidInput
from residual_edu.mixers import *  # noqa: F403
from residual_edu.mixers import __all__ as _mixers
from residual_edu.networks import *  # noqa: F403
from residual_edu.networks import __all__ as _networks
from residual_edu.parts import *  # noqa: F403
from residual_edu.parts import __all__ as _parts

__all__ = ["InvalidInput", "LazyConfig", "build", *_parts, *_mixers, *_blocks, *_configurable, *_networks]
__all__.sort()
