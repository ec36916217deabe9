"""The states of an explorer that a page without a kernel shows: for some of its controls, the values to choose from."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from residual_edu.errors import InvalidInput, check_choice

MOST = 60
States = Mapping[str, Sequence[Any]]  # for each control that moves, its values


def check_states(states: States, start: Mapping[str, Any]) -> None:
    """Raise ``InvalidInput`` unless ``states`` names controls, the value of each at the start, and at most ``MOST``."""
    count = 1
    for name, values in states.items():
        check_choice("a name in states", name, start)
        if start[name] not in values:
            raise InvalidInput(f"states[{name!r}] must contain {start[name]!r}, at which the control starts")
        count *= len(values)
    if count > MOST:
        raise InvalidInput(f"states must name at most {MOST} settings, got {count}: leave out values or a control")


def grid(states: States) -> dict[str, dict[str, Any]]:
    """Return the values of the controls in each state, by the state's name."""
    places = product(*(range(len(values)) for values in states.values()))
    return {
        "-".join(map(str, place)): {name: states[name][at] for name, at in zip(states, place, strict=True)}
        for place in places
    }
