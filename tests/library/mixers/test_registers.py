import copy
import re

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import InvalidInput, RegisterCompressConcat, RegisterPooling, parameter_groups

pytestmark = pytest.mark.usefixtures("as_installed")


def test_pooling_starts_as_the_mean():
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(RegisterPooling(4).double()(x), x.mean(1))


def test_values_and_gradients_in_float64():
    made, x = RegisterPooling(4).double(), torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    nn.init.normal_(made.logits)
    weights = torch.exp(made.logits) / torch.exp(made.logits).sum()
    theirs = sum(weights[r] * x[:, r] for r in range(4))
    g = torch.randn(3, 5).double()
    for a, b in zip(*(torch.autograd.grad(y, [x, made.logits], g) for y in (made(x), theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(made(x), theirs, rtol=1e-13, atol=1e-13)


def test_one_large_logit_chooses_its_register():
    made, x = RegisterPooling(3), torch.randn(2, 3, 5)
    made.logits.data = torch.tensor([0.0, 200.0, 0.0])
    assert made(x).equal(x[:, 1])


def test_concatenation_maps_each_register_alike():
    made, x = RegisterCompressConcat(3, 5, 2).double(), torch.randn(4, 3, 5).double()
    expected = torch.cat([x[:, r] @ made.compress.weight.T for r in range(3)], dim=1)
    torch.testing.assert_close(made(x), expected, rtol=1e-13, atol=1e-13)
    assert made.out_dim == 6 and made(x).shape == (4, 6)


def test_the_keys_and_what_is_exempt_from_weight_decay():
    assert list(RegisterPooling(3).state_dict()) == ["logits"]
    assert list(RegisterCompressConcat(3, 5, 2).state_dict()) == ["compress.weight"]
    decayed, exempt = parameter_groups(nn.Sequential(RegisterPooling(3), RegisterCompressConcat(3, 5, 2)), 0.1)
    assert [p.shape for p in decayed["params"]] == [(2, 5)] and [p.shape for p in exempt["params"]] == [(3,)]


def test_the_cost_of_pooling_and_of_concatenation():
    assert RegisterPooling(3).flop_count(5) == 3 * 3 + 2 * 3 * 5
    made = RegisterCompressConcat(3, 5, 2)
    with FlopCounterMode(display=False) as counter:
        made(torch.randn(1, 3, 5))
    assert made.flop_count(5) == counter.get_total_flops() == 3 * 2 * 5 * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_pooling_keeps_the_dtype(dtype):
    assert RegisterPooling(3)(torch.randn(2, 3, 4).to(dtype)).dtype == dtype


@pytest.mark.parametrize("made", [RegisterPooling(3), RegisterCompressConcat(3, 4, 2)], ids=["pooling", "concat"])
def test_compile_and_deepcopy(made, compiled):
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(compiled(made)(x), made(x))
    assert copy.deepcopy(made)(x).equal(made(x))


def pooled(*shape):
    return RegisterPooling(3)(torch.zeros(shape))


def joined(*shape):
    return RegisterCompressConcat(3, 4, 2)(torch.zeros(shape))


SHAPE = "registers must be floating point of shape (batch, 3, channels), got torch.float32"
REFUSED = [
    (lambda: RegisterPooling(0), "num_registers must be a whole number, at least 1, got 0"),
    (lambda: pooled(2, 1, 4), f"{SHAPE} (2, 1, 4)"),
    (lambda: pooled(3, 4), f"{SHAPE} (3, 4)"),
    (lambda: joined(2, 0, 4), f"{SHAPE} (2, 0, 4)"),
    (lambda: joined(2, 2, 3, 4), f"{SHAPE} (2, 2, 3, 4)"),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()
