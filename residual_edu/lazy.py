"""A description of a call, whose keywords are attributes: read, set, and checked when they are set."""

import functools
from inspect import Parameter, signature
from typing import Any, TypeVar

from residual_edu.calls import check_keywords
from residual_edu.old_errors import InvalidInput

T = TypeVar("T")


class partial(functools.partial[T]):
    """``functools.partial`` of keywords, each of which is an attribute too.

    ``call.name`` is the keyword, or the default where none is given; ``call.name = value`` sets it, and so changes what
    is built.
    """

    def __getattr__(self, name: str) -> Any:  # for what is no attribute
        if not name.startswith("_"):
            if name in self.keywords:
                return self.keywords[name]
            default = getattr(signature(self.func).parameters.get(name), "default", Parameter.empty)
            if default is not Parameter.empty:
                return default
        raise AttributeError(f"{getattr(self.func, '__name__', self.func)} was given no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(functools.partial, name):  # func, args and keywords are the call itself
            raise InvalidInput(f"{name} cannot be set, it is part of the call; write a new LazyConfig")
        check_keywords(self.func, [name])
        self.keywords[name] = value
