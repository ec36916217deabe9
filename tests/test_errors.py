import re
from pathlib import Path

import numpy as np
import pytest
import torch

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")  # a user meets the message, not the type checker

inf, nan = float("inf"), float("nan")


def refuses(message, check, *arguments):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        check(*arguments)


def test_invalid_input_is_caught_as_a_value_error_and_as_an_assertion_error():
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind, match="^dim must be at least 1, got 0$"):
            errors.check_size("dim", 0)


@pytest.mark.parametrize("value", [1, 64, np.int64(3), np.uint8(1)])
def test_a_size_is_a_whole_number(value):
    errors.check_size("dim", value)


@pytest.mark.parametrize(
    "value, message",
    [
        (0, "dim must be at least 1, got 0"),
        (-3, "dim must be at least 1, got -3"),
        (np.int64(0), "dim must be at least 1, got 0"),
        (None, "dim must be a whole number, got None"),
        ("3", "dim must be a whole number, got '3'"),
        (3.0, "dim must be a whole number, got 3.0"),
        (nan, "dim must be a whole number, got nan"),
        (inf, "dim must be a whole number, got inf"),
        (True, "dim must be a whole number, got True"),
        (np.True_, f"dim must be a whole number, got {np.True_!r}"),
        (torch.tensor(3), "dim must be a whole number, got tensor(3)"),
        (torch.zeros(100), "dim must be a whole number, got a Tensor"),
    ],
)
def test_what_is_no_size(value, message):
    refuses(message, errors.check_size, "dim", value)


@pytest.mark.parametrize("value", [1e-5, 1, 1e300, np.float32(0.1), np.int64(2)])
def test_a_positive_number(value):
    errors.check_positive("eps", value)


@pytest.mark.parametrize(
    "value", [0, 0.0, -1e-5, nan, inf, -inf, None, "3", "1e-5", True, [1.0], 1j, np.float64(0), np.int64(-1)]
)
def test_what_is_not_positive(value):
    refuses(f"eps must be a finite number above 0, got {value!r}", errors.check_positive, "eps", value)


def test_a_tensor_is_named_by_its_type():
    refuses(
        "eps must be a finite number above 0, got a Tensor", errors.check_positive, "eps", torch.ones(9, dtype=float)
    )


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 0.999, np.float64(0.1), np.int64(0)])
def test_a_rate_lies_below_one(value):
    errors.check_rate("p", value)


@pytest.mark.parametrize("value", [1, 1.0, 1.5, -0.1, -1, nan, inf, np.int64(1)])
def test_a_rate_out_of_range(value):
    why = "; a rate of 1 would drop everything" if value == 1 else ""
    refuses(f"p must lie in [0, 1), got {value!r}{why}", errors.check_rate, "p", value)


@pytest.mark.parametrize("value", [None, "0.5", False, True, [0.1]])
def test_what_is_no_rate(value):
    refuses(f"p must be a number in [0, 1), got {value!r}", errors.check_rate, "p", value)


def test_a_choice_is_one_of_the_choices():
    errors.check_choice("placement", "pre", ["pre", "post"])
    errors.check_choice("placement", "post", iter(["pre", "post"]))


@pytest.mark.parametrize(
    "value, mend",
    [
        ("Pre", "; did you mean 'pre'?"),
        ("pots", "; did you mean 'post'?"),
        ("sideways", ""),
        ("", ""),
        (None, ""),
        (3, ""),
        (nan, ""),
        (True, ""),
        (["pre"], ""),
    ],
)
def test_another_choice_is_refused_with_the_nearest(value, mend):
    message = f"placement must be one of 'pre', 'post', got {value!r}{mend}"
    refuses(message, errors.check_choice, "placement", value, ["pre", "post"])


def test_a_text_says_something():
    errors.check_text("alt", "Four bars of equal height.")


@pytest.mark.parametrize("value", ["", "  \n", None, 3, nan, True])
def test_what_is_no_text(value):
    refuses(f"alt must be a sentence for the reader, got {value!r}", errors.check_text, "alt", value)


def test_a_number_beside_another():
    errors.check_size("n", 2, 2)
    refuses("n must be at least 2, got 1", errors.check_size, "n", 1, 2)
    errors.check_equal("n", 2, 2, "as m is")
    refuses("n must be 2, as m is, got 3", errors.check_equal, "n", 3, 2, "as m is")
    errors.check_below("test", 9, 10)
    refuses("test must be below 10, got 10", errors.check_below, "test", 10, 10)


@pytest.mark.parametrize("value", [0, 0.0, 1e-5, 3, np.float32(0.1), np.int64(0)])
def test_a_number_that_is_not_negative(value):
    errors.check_not_negative("init_value", value)


@pytest.mark.parametrize("value", [-1, -1e-5, nan, inf, -inf, None, "3", True, [1.0], np.int64(-1)])
def test_what_is_negative_or_no_number(value):
    message = f"init_value must be a finite number, at least 0, got {value!r}"
    refuses(message, errors.check_not_negative, "init_value", value)


def test_what_must_be_given():
    x = torch.zeros(2)
    assert errors.check_given("condition", x) is x
    refuses("condition must be given, got None", errors.check_given, "condition", None)


def test_keywords():
    errors.check_keywords(torch.nn.Linear, ["in_features", "bias"])
    with pytest.raises(
        InvalidInput, match=r"^Linear got an unexpected keyword argument 'widht'; it takes in_features, "
    ):
        errors.check_keywords(torch.nn.Linear, ["widht"])


class Conditioned(torch.nn.Module):
    def forward(self, x, *, conditioning=None):
        return x


def test_a_module_that_takes_a_condition():
    errors.check_conditionable("mixer", Conditioned())
    mend = "wrap it in a module whose forward does; QKVSequenceMixer makes query, key and value"
    message = f"mixer must take (x, conditioning=), Linear.forward takes (input); {mend}"
    refuses(message, errors.check_conditionable, "mixer", torch.nn.Linear(2, 2))


def test_blocks():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert errors.check_blocks(model, model) == list(model)
    assert errors.check_blocks(model, iter(model[:1])) == [model[0]]


@pytest.mark.parametrize(
    "blocks, message",
    [
        (None, "blocks must be a list of modules, got None; put it into [ ]"),
        (3, "blocks must be a list of modules, got 3; put it into [ ]"),
        ([], "blocks must name at least 1 module, got none"),
        (["a"], "blocks[0] must be a module, got 'a'"),
        ([torch.nn.Tanh()], "blocks[0], a Tanh, must be a module of model; keep blocks in an nn.ModuleList"),
    ],
)
def test_what_are_no_blocks(blocks, message):
    refuses(message, errors.check_blocks, torch.nn.Sequential(torch.nn.ReLU()), blocks)


class Compiled(torch.nn.Module):
    """Looks as ``torch.compile`` leaves a module, without its half minute."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module


def test_a_model_that_was_compiled_as_a_whole():
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())
    errors.check_not_compiled(model, list(model))
    errors.check_not_compiled(torch.nn.Sequential(block := Compiled(torch.nn.ReLU())), [block])
    message = "model must not be compiled: it calls no hooks then; compile its blocks one by one, or none"
    refuses(message, errors.check_not_compiled, Compiled(model), list(model))


def test_every_check_is_tested_here():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_errors*.py"))
    for name in vars(errors):
        assert not name.startswith("check_") or f"errors.{name}" in text, name
