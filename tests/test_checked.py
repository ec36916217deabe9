"""Arguments that are checked by their annotations: which calls are refused, and that nothing else changes."""

import inspect
import pickle
import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import pytest
from torch import nn

from residual_edu import InvalidInput
from residual_edu.checked import (
    Choice,
    Count,
    DataDim,
    Flag,
    NotNegative,
    Positive,
    Rate,
    Size,
    Sizes,
    annotated_checks,
    checked,
)
from residual_edu.old_errors import check_size

pytestmark = pytest.mark.usefixtures("as_installed")  # a user meets the message, not the type checker

ACTIVATIONS = {"relu": nn.ReLU}


class Layer(nn.Module):
    """A layer.

    Args:
        dim: features.
    """

    @checked
    def __init__(
        self,
        dim: Size,
        heads: Size | None = None,
        p: Rate = 0.1,
        placement: Literal["pre", "post"] = "pre",
        grid: Literal["one", None] = None,
        name: Annotated[str, Choice(ACTIVATIONS)] = "relu",
        *,
        bias: Flag = True,
        depth: Annotated[int, partial(check_size, least=2)] = 2,
        later: "Later" = 1,
        free: list[int] | None = None,
    ) -> None:
        super().__init__()
        self.given = dim, heads, p, placement, grid, name, bias, depth, later, free


Later = Size  # an annotation may name what is defined below it


@checked
def each(*tensors: object, size: Size = 3, **more: object) -> int:
    return size


@checked
def numbers(count: Count = 0, eps: Positive = 1.0, scale: NotNegative = 0.0, data_dim: DataDim = 1) -> None:
    pass


@checked
def lengths(each: Sizes, target: Sizes | None = None) -> tuple[object, object]:
    return each, target


@dataclass(frozen=True)
class Config:
    dim: Size = 4
    placement: Literal["pre", "post"] = "pre"
    bias: bool = True

    def __post_init__(self) -> None:
        for name, checks in annotated_checks(type(self)).items():
            for check in checks:
                check(name, getattr(self, name))


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda: Layer(4), (4, None, 0.1, "pre", None, "relu", True, 2, 1, None)),
        (lambda: Layer(4, 2, 0.5), (4, 2, 0.5, "pre", None, "relu", True, 2, 1, None)),
        (lambda: Layer(dim=np.int64(4), heads=None), (4, None, 0.1, "pre", None, "relu", True, 2, 1, None)),
        (
            lambda: Layer(4, grid="one", placement="post", bias=False, free=[0]),
            (4, None, 0.1, "post", "one", "relu", False, 2, 1, [0]),
        ),
    ],
)
def test_what_is_let_through_arrives(call, given):
    assert call().given == given


def test_one_length_or_one_for_each_axis():
    assert lengths(3) == (3, None)
    assert lengths((3, np.int64(1)), target=[2]) == ((3, 1), [2])
    assert lengths([], None) == ([], None)  # how many there must be is for the body to say


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Layer(0), "dim must be at least 1, got 0"),
        (lambda: Layer(dim=0), "dim must be at least 1, got 0"),
        (lambda: Layer(None), "dim must be a whole number, got None"),
        (lambda: Layer(4, 0), "heads must be at least 1, got 0"),
        (lambda: Layer(4, heads=2.0), "heads must be a whole number, got 2.0"),
        (lambda: Layer(4, 2, 1.0), "p must lie in [0, 1), got 1.0; a rate of 1 would drop everything"),
        (
            lambda: Layer(4, placement="pots"),
            "placement must be one of 'pre', 'post', got 'pots'; did you mean 'post'?",
        ),
        (lambda: Layer(4, placement=None), "placement must be one of 'pre', 'post', got None"),
        (lambda: Layer(4, grid="two"), "grid must be one of 'one', None, got 'two'"),
        (lambda: Layer(4, name="gelu"), "name must be one of 'relu', got 'gelu'; did you mean 'relu'?"),
        (lambda: Layer(4, bias="no"), "bias must be True or False, got 'no'"),
        (lambda: Layer(4, depth=1), "depth must be at least 2, got 1"),
        (lambda: Layer(4, later=0), "later must be at least 1, got 0"),
        (lambda: each(0, 0, size=0), "size must be at least 1, got 0"),
        (lambda: numbers(-1), "count must be at least 0, got -1"),
        (lambda: numbers(eps=0.0), "eps must be a finite number above 0, got 0.0"),
        (lambda: numbers(scale=-1), "scale must be a finite number, at least 0, got -1"),
        (lambda: numbers(data_dim=4), "data_dim must be 1, 2 or 3 (text, images, volumes), got 4"),
        (lambda: lengths(0), "each must be at least 1, got 0"),
        (lambda: lengths((2, 1.5)), "each must be a whole number, got 1.5"),
        (lambda: lengths(None), "each must be a whole number, got None"),
        (lambda: lengths("ab"), "each must be a whole number, got 'a'"),
        (lambda: lengths(2, [2, 0]), "target must be at least 1, got 0"),
        (lambda: Config(dim=0), "dim must be at least 1, got 0"),
        (lambda: Config(placement="in"), "placement must be one of 'pre', 'post', got 'in'"),
    ],
)
def test_what_is_refused_before_the_body_runs(call, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        call()


def test_a_choice_from_a_table_sees_what_was_added_to_it(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "gelu", nn.GELU)
    assert Layer(4, name="gelu").given[5] == "gelu"


def test_positional_arguments_beyond_the_named_ones_are_not_taken_for_keywords():
    assert each(0, None, 0) == 3 and each(0, size=2, dim=0) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Layer(), "Layer.__init__() missing 1 required positional argument: 'dim'"),
        (lambda: Layer(4, dim=4), "Layer.__init__() got multiple values for argument 'dim'"),
        (lambda: Layer(4, width=4), "Layer.__init__() got an unexpected keyword argument 'width'"),
        (
            lambda: Layer(4, 2, 0.5, "pre", None, "relu", True),
            "Layer.__init__() takes from 2 to 7 positional arguments",
        ),
    ],
)
def test_a_wrong_call_is_refused_in_pythons_words_with_the_functions_own_name(call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


def test_signature_text_and_name_are_those_of_the_function():
    assert inspect.signature(numbers) == inspect.signature(inspect.unwrap(numbers))
    assert list(inspect.signature(Layer).parameters)[:3] == ["dim", "heads", "p"]
    assert (numbers.__name__, numbers.__module__, Layer.__init__.__qualname__) == (
        "numbers",
        __name__,
        "Layer.__init__",
    )
    assert Layer.__init__.__annotations__["dim"] is Size


def test_only_annotations_with_a_check_are_kept():
    assert annotated_checks(each).keys() == {"size"}
    assert annotated_checks(Config).keys() == {"dim", "placement"}


@pytest.mark.parametrize("hint", [list[Size], Size | str, Size | str | None, Size | Rate, dict[str, Flag]])
def test_a_check_that_would_not_run_is_refused(hint):
    def wrong(x):
        pass

    wrong.__annotations__ = {"x": hint}
    with pytest.raises(TypeError, match="a check would not run; only None may stand beside what is checked$"):
        checked(wrong)(1)


def test_a_subclass_and_its_parent_are_both_checked():
    class Wide(Layer):
        @checked
        def __init__(self, factor: Size) -> None:
            super().__init__(8 * factor, heads=factor - 1)

    assert Wide(2).given[:2] == (16, 1)
    for factor, name in ((0, "factor"), (1, "heads")):
        with pytest.raises(InvalidInput, match=f"^{name} must be at least 1, got 0$"):
            Wide(factor)


def test_a_checked_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(numbers)) is numbers
