"""Arguments that say by their annotation what they must be, so that a constructor's body holds no checks.

    @checked
    def __init__(self, dim: Size, p: Rate = 0.1, bias: Flag = True, placement: Literal["pre", "post"] = "pre"): ...

raises ``InvalidInput`` for ``dim=0`` before the body runs. ``Size | None`` lets None through. What is not checked: a
default, ``*args`` and ``**kwargs``. Of lists only ``Sizes`` is checked; how long one must be is for the body to say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from inspect import signature
from itertools import chain
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from residual_edu.old_errors import (
    check_choice,
    check_data_dim,
    check_flag,
    check_not_negative,
    check_positive,
    check_rate,
    check_size,
)

Check = Callable[[str, Any], None]  # takes an argument's name and value, and raises
P = ParamSpec("P")
R = TypeVar("R")

Size = Annotated[int, check_size]  # at least 1
Whole = Annotated[int, partial(check_size, least=None)]  # below 0 too
Count = Annotated[int, partial(check_size, least=0)]
Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_not_negative]
Rate = Annotated[float, check_rate]  # in [0, 1)
Flag = Annotated[bool, check_flag]
DataDim = Annotated[int, check_data_dim]  # 1, 2 or 3


def check_sizes(name: str, value: int | Sequence[int]) -> None:
    """Raise ``InvalidInput`` unless ``value``, or each number in it, is a whole number of at least 1."""
    for one in value if isinstance(value, Sequence) else [value]:
        check_size(name, one)


Sizes = Annotated[int | Sequence[int], check_sizes]  # one for all axes, or one for each


class Choice:
    """The check of a name from a table: ``activation: Annotated[str, Choice(ACTIVATIONS)]``."""

    def __init__(self, choices: Iterable[Any]) -> None:
        self.choices = choices

    def __call__(self, name: str, value: str | None) -> None:
        """Raise ``InvalidInput`` unless ``value`` is one of the choices."""
        check_choice(name, value, self.choices)


@cache
def annotated_checks(target: Callable[..., object]) -> Mapping[str, list[Check]]:
    """Return the checks that the annotations of ``target``, a function or a dataclass, hold, by name.

    Raises:
        TypeError: for an annotation whose checks would not run, such as ``list[Size]`` or ``Size | str``.
    """
    hints = get_type_hints(target, include_extras=True)
    found = {name: list(checks_of(hint)) for name, hint in hints.items()}
    return {name: checks for name, checks in found.items() if checks}


def checks_of(hint: Any) -> Iterator[Check]:
    """Yield the checks in one annotation; where it allows None, each of them lets None through."""
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        yield Choice(parts)
    elif get_origin(hint) is Annotated:
        yield from filter(callable, hint.__metadata__)
    elif inner := [check for part in parts for check in checks_of(part)]:
        if len(parts) != 2 or type(None) not in parts:
            raise TypeError(f"in {hint} a check would not run; only None may stand beside what is checked")
        yield from (partial(unless_none, check) for check in inner)


def unless_none(check: Check, name: str, value: object) -> None:
    """Run ``check`` unless ``value`` is None."""
    if value is not None:
        check(name, value)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of each call by their annotations before ``function`` runs. Made for constructors."""

    @cache
    def rules() -> tuple[list[str], Mapping[str, list[Check]]]:  # on the first call: hints may name what comes later
        every = signature(function).parameters.values()
        return [one.name for one in every if one.kind is one.POSITIONAL_OR_KEYWORD], annotated_checks(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        names, checks = rules()
        for name, value in chain(zip(names, args, strict=False), kwargs.items()):
            for check in checks.get(name, ()):
                check(name, value)
        return function(*args, **kwargs)  # a wrong call is refused here, in Python's own words

    return call
