"""Every plotting function draws what the line above it asks for, and refuses anything else with a sentence."""

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from residual_edu import InvalidInput
from residual_edu.plotting import residual_block, stream
from residual_edu.plotting.arrays import axes_of
from residual_edu.plotting.style import SERIES
from residual_edu.plotting.takes import takes

from .right_calls import FUNCTIONS, TAKING, axes, flow, needs_line, right_call, variants

pytestmark = pytest.mark.usefixtures("all_as_installed")
NOT_OF_ARRAYS = re.compile(
    r"stream\.(draw_|span|lock_width|number|first_number|check_flow)|\.(brief|look|ticks|text_color)$"
)


def test_every_function_has_a_line():
    """A new function fails here until it has one, with each of its arguments that holds more than a number."""
    assert len(TAKING) > 85
    assert [name for name in FUNCTIONS if name not in TAKING and not NOT_OF_ARRAYS.search(name)] == []
    for name, function in TAKING.items():
        given = inspect.signature(function).parameters
        assert set(function.lines) | set(function.allowed) <= set(given)
        missing = {key for key, one in given.items() if needs_line(one.annotation)} - set(function.lines) - {"flow"}
        assert not missing, f"{name} does not say what these are: {missing}"


@pytest.mark.parametrize("name", TAKING)
def test_what_the_line_asks_for_is_drawn(name):
    call = right_call(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TAKING[name](**call)
        for figure in {each.figure for each in [*call.values(), *call.get("axes", ())] if hasattr(each, "figure")}:
            if hasattr(figure.canvas, "buffer_rgba"):
                figure.canvas.draw()


def outcome(name, call):
    """Return "drawn", "refused", or the raw error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            TAKING[name](**call)
        except InvalidInput as fault:
            return "refused" if re.match(r"[a-z_.]+[\[\w]*", str(fault)) else f"no argument is named: {fault}"
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
    return "drawn"


@pytest.mark.parametrize("name", TAKING)
def test_what_is_wrong_is_refused_with_a_sentence_or_drawn(name):
    """No other error is raised, whatever stands in the place of one argument."""
    counts, call = Counter(), right_call(name)
    for key, right in call.items():
        for wrong in variants(right):
            what = outcome(name, call | {key: wrong})
            counts[what] += 1
            call = call if what == "refused" else right_call(name)
            assert what in ("drawn", "refused"), f"{name}({key}={wrong!r:.60}): {what}"
    assert counts["refused"] > 0


def arrays(value):
    """Every array within a right value, with how to put another one in its place."""
    if isinstance(value, np.ndarray | float):
        yield np.asarray(value), lambda other: other
    elif isinstance(value, Mapping | list | tuple):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, one in pairs:
            for array, back in arrays(one):
                yield array, lambda other, key=key, back=back: replaced(value, key, back(other))


def replaced(value, key, other):
    """Return ``value`` with ``other`` at ``key``."""
    if isinstance(value, Mapping):
        return {**value, key: other}
    return type(value)(other if place == key else one for place, one in enumerate(value))


def spoilt(name, change):
    """Each argument's line, and what comes of each of its arrays changed."""
    call = right_call(name)
    for key, line in TAKING[name].lines.items():
        for array, back in arrays(call[key]):
            what = outcome(name, call | {key: back(change(array))})
            call = call if what == "refused" else right_call(name)
            yield key, line, what


@pytest.mark.parametrize("name", TAKING)
def test_another_axis_is_refused(name):
    for key, line, what in spoilt(name, lambda array: array[None, None]):
        assert what == ("drawn" if "*" in line and "|" not in line else "refused"), (key, line)


@pytest.mark.parametrize("name", TAKING)
def test_a_number_that_cannot_be_drawn_is_refused(name):
    for key, line, what in spoilt(
        name, lambda array: np.where(np.arange(array.size).reshape(array.shape), array, np.nan)
    ):
        assert what == "drawn" if "nan" in line else what == "refused", (key, line)


@pytest.mark.parametrize("name", TAKING)
def test_a_length_that_differs_from_another_is_refused(name):
    """An axis that another argument has too, or that is a number, is not longer in one of them."""
    lines = TAKING[name].lines
    for key, line in lines.items():
        known = [other for each, other in lines.items() if each != key and not other.startswith("in ")]
        others = " ".join(other for other in known if not (":" in line and ":" in other))  # entries are apart
        for place, axis in enumerate(axes_of(line.rpartition(":")[2].split("|")[0])):
            if not axis.optional and not axis.star and re.search(rf"\b{axis.name}\b", others):
                for array, back in arrays(right_call(name)[key]):
                    call = right_call(name) | {key: back(np.repeat(array, 2, min(place, array.ndim - 1)))}
                    assert outcome(name, call) == "refused", (key, axis.name)


def test_the_sentences():
    ax = axes()

    @takes({"curves": ("one", "two")}, x="places", curves="<=2: seeds? places", y="places+1, 0..1", here="in places")
    def plot(x: list, curves: Mapping[str, list], y: list = (), here: int = 0, top: float = 1.0) -> None:
        """Draw nothing."""

    for words, call in {
        r"^x must be an array of numbers, got 'a'$": ("a", {"one": [1]}),
        r"^x must have shape \(places\), got \(1, 1\)$": ([[1]], {"one": [1]}),
        r"^x must have shape \(places\), got \(0,\); an axis is empty$": ([], {"one": [1]}),
        r"^x must hold finite numbers, which alone can be drawn, got nan at \[1\]$": ([1, np.nan], {"one": [1, 2]}),
        r"^curves\['one'\] must have as many places as x has, 2, got shape \(3,\)$": ([1, 2], {"one": [1, 2, 3]}),
        r"^curves must be a dict, got \[1, 2\]$": ([1, 2], [1, 2]),
        r"^curves must have at least 1 entry, got none$": ([1], {}),
        r"^curves must have at most 2 entries, got 3$": ([1], dict.fromkeys("abc", [1])),
        r"^curves has a name that must be one of 'one', 'two', got 'tow'; did you mean 'two'\?$": ([1], {"tow": [1]}),
        r"^y must have as many places as x has, 2 and 1 more, got shape \(2,\)$": ([1, 2], {"one": [1, 2]}, [1, 1]),
        r"^y must be at least 0 and at most 1, got 7$": ([1, 2], {"one": [1, 2]}, [1, 7, 0]),
        r"^here must lie between 0 and 1, the places, got 2$": ([1, 2], {"one": [1, 2]}, [1, 1, 0], 2),
        r"^top must be a number, got True$": ([1], {"one": [1]}, [1, 1], 0, True),
        r"^x must be an array of numbers, got .*detach": (torch.ones(2, requires_grad=True), {"one": [1, 2]}),
    }.items():
        with pytest.raises(InvalidInput, match=words):
            plot(*call)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        plot([1])
    with pytest.raises(InvalidInput, match=r"^ax must be a matplotlib Axes, as plt.subplots\(\) makes it, got"):
        residual_block.plot_text("ab", ax.figure)


def test_no_series_is_left_out_in_silence():
    """Series have as many looks as ``SERIES``; a curve more was not drawn."""
    curves = {str(place): [[1.0, 2.0]] for place in range(len(SERIES) + 1)}
    with pytest.raises(InvalidInput, match=r"^curves must have at most 3 entries, got 5$"):
        residual_block.plot_trainings(curves, axes())


def test_a_flow_has_its_sizes():
    whole = vars(flow())
    with pytest.raises(InvalidInput, match="^flow must have added, .*, which lacks branch_gradient$"):
        stream.plot_stream(type("Other", (), {k: v for k, v in whole.items() if k != "branch_gradient"})(), axes())
    for key, words in (("added", "blocks"), ("activation", "blocks")):
        other = type("Other", (), whole | {key: np.ones((2, 9))})()
        with pytest.raises(InvalidInput, match=f"^flow.* must have as many {words} as flow"):
            stream.plot_stream(other, axes())
    with pytest.raises(InvalidInput, match="^step must be one of the 2 of flow, counted from 0, got 2$"):
        stream.plot_stream(flow(), axes(), step=2)
