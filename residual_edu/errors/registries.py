"""Checks of names: what is registered under one, and what a config asks for."""

from collections.abc import Callable, Iterable, Mapping, Sized
from difflib import get_close_matches
from numbers import Integral

from residual_edu.errors.invalid_input import InvalidInput, shown


def check_key_free(registry: str, key: str, entries: Mapping[str, object], value: object) -> None:
    """Raise ``InvalidInput`` unless ``value`` can be registered under ``key`` next to ``entries``.

    A class of a notebook may replace its earlier self, so that its cell can be run again.
    """
    if not isinstance(key, str) or not key.strip():
        raise InvalidInput(f"{registry} must be registered under a name, got {shown(key)}")
    if not callable(value):
        raise InvalidInput(f"{registry} {key!r} must be a class that takes a BlockConfig, got {shown(value)}")
    if key in entries and not _is_rerun(entries[key], value):
        kind = getattr(entries[key], "__qualname__", shown(entries[key]))
        raise InvalidInput(f"{registry} already has key {key!r}, {kind}; choose another name")


def _is_rerun(old: object, new: object) -> bool:
    """Whether ``new`` is another object than ``old`` from the same definition in a notebook."""
    homes = [(getattr(one, "__module__", None), getattr(one, "__qualname__", None)) for one in (old, new)]
    return old is not new and homes[0] == homes[1] and homes[0][0] == "__main__"


def check_known(registry: str, key: str, keys: Iterable[str]) -> None:
    """Raise ``InvalidInput``, with the nearest key and all ``keys``, unless ``key`` is one of them."""
    known = list(keys)
    if key not in known:
        near = get_close_matches(key, known, n=1) if isinstance(key, str) else []
        mend = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{registry} has no key {shown(key)}. Available: [{', '.join(known)}].{mend}")


def check_together(name: str, checks: Iterable[Callable[[], object]]) -> None:
    """Run all ``checks`` and raise one ``InvalidInput`` with what each of them says."""
    faults = []
    for check in checks:
        try:
            check()
        except InvalidInput as fault:
            faults.append(str(fault))
    if faults:
        count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        raise InvalidInput("\n  ".join([f"{name} has {count}:", *faults]))


def check_flag(name: str, value: bool) -> None:
    """Raise ``InvalidInput`` unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {shown(value)}")


def check_needed(name: str, value: object, by: str) -> None:
    """Raise ``InvalidInput`` where ``value``, which ``by`` cannot do without, is ``None``."""
    if value is None:
        raise InvalidInput(f"{name} must be given for {by}, got None")


def are_sizes(*values: object) -> bool:
    """Whether all ``values`` are whole numbers of at least 1."""
    return all(isinstance(value, Integral) and int(value) > 0 for value in values)


def check_divides(name: str, value: int, whole_name: str, whole: int) -> None:
    """Raise ``InvalidInput`` where ``value`` does not divide ``whole``; what is no size is another check's."""
    if are_sizes(value) and whole % value:
        raise InvalidInput(f"{name} must divide {whole_name}, got {name}={value} and {whole_name}={whole}")


def check_even(name: str, value: int, why: str) -> None:
    """Raise ``InvalidInput`` where ``value`` is odd; what is no size is another check's."""
    if isinstance(value, Integral) and value % 2:
        raise InvalidInput(f"{name} must be even for {why}, got {value}")


def check_at_most(name: str, value: int, limit_name: str, limit: int) -> None:
    """Raise ``InvalidInput`` where ``value`` is above ``limit``; what is no size is another check's."""
    if isinstance(value, Integral) and value > limit:
        raise InvalidInput(f"{name} must be at most {limit_name}, got {name}={value} and {limit_name}={limit}")


def check_config(name: str, value: object, kind: type) -> None:
    """Raise ``InvalidInput`` unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} must be a {kind.__name__}, got {shown(value)}")


def check_count(name: str, values: Sized, count_name: str, count: int) -> None:
    """Raise ``InvalidInput`` unless ``values`` are ``count``."""
    if len(values) != count:
        raise InvalidInput(f"{name} must be one for each of {count_name}={count}, got {len(values)}")
