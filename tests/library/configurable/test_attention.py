"""The attention family's own laws. Values against a transcription: test_every_combination.py."""

import pytest
import torch

from residual_edu import GQA, MHA, MLA, SlidingWindowGQA, repeat_heads
from tests.library.helpers import refused

from . import transcription
from .small import causal, config

KINDS = {"mha": MHA, "gqa": GQA, "sliding_window_gqa": SlidingWindowGQA, "mla": MLA}


def attention(name="gqa", **changes):
    return KINDS[name](config(attention=name, **changes)).double()


def signal(positions=7, batch=2):
    return torch.randn(batch, positions, 16, dtype=torch.float64)


def hears(module, x, mask=None):
    """Which positions' change is heard at which, (positions, positions)."""
    rows = torch.autograd.functional.jacobian(lambda z: module(z, mask)[0].sum((0, 2)), x[:1])
    return rows[:, 0].abs().sum(-1) > 0


@pytest.mark.parametrize(
    ("name", "changes", "numbers"),
    [
        ("sliding_window_gqa", {}, 2 * 2 * 4),
        ("mla", {"rope_dim": 4}, 6 + 4),
        ("mla", {"rope_dim": None, "position": "none"}, 6),
    ],
)
def test_numbers_kept_for_each_token(name, changes, numbers):
    _, cache = attention(name, **changes)(signal(5, batch=3))
    assert sum(kept.numel() for kept in cache) == 3 * 5 * numbers


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mla", {"rope_dim": 0, "position": "rope"}),
        ("mla", {"q_lora_rank": 5, "position": "none"}),
        ("mla", {"q_lora_rank": 5, "rope_dim": 4, "position": "alibi"}),
        *[(name, {"qk_norm": True, "position": "rope"}) for name in ("mha", "gqa", "sliding_window_gqa")],
    ],
)
def test_latent_and_normalised_queries_and_keys(name, changes):
    c = config(attention=name, **changes)
    module, x = KINDS[name](c).double(), signal(5, batch=1)
    for weight in module.parameters():
        torch.nn.init.normal_(weight)
    p = {f"attention.{key}": value for key, value in module.named_parameters()}
    expected = transcription.attention(p, c, x[0], lambda i, j: j <= i)
    torch.testing.assert_close(module(x, causal(5))[0][0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("window", [1, 3, 20])
def test_a_window_is_causal_and_windowed_whatever_mask_is_given(window):
    even = torch.eye(7, dtype=torch.bool) | (torch.arange(7) % 2 == 0)
    apart = torch.arange(7)[:, None] - torch.arange(7)
    expected = (apart >= 0) & (apart < window)
    module = attention("sliding_window_gqa", window_size=window, position="rope")
    assert hears(module, signal()).equal(expected) and hears(module, signal(), even).equal(expected & even)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("position", ["rope", "none"])
def test_what_the_kernel_is_handed_begins_where_16_bytes_begin(name, position):
    """Elsewhere torch's kernel for GPUs ends with "misaligned address", and the process with it."""
    handed, module = [], attention(name, position=position).float()
    module.attend = lambda query, key, value, mask: (
        handed.extend((query, key, value)) or query.transpose(1, 2).flatten(2)
    )
    module(signal().float())
    for each in handed:
        places = [each.storage_offset(), *each.stride()[:-1]]
        assert [place * each.element_size() % 16 for place in places] == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["mha", "gqa", "mla"])
def test_without_a_mask_all_hear_all_and_a_mask_is_obeyed(name):
    module = attention(name, position="rope")
    assert hears(module, signal()).all()
    assert hears(module, signal(), causal(7)).equal(causal(7))


test_what_is_refused = refused(
    (lambda: repeat_heads(torch.zeros(2, 2, 5, 4), 5), "x must have 4 axes, the second one a divisor of heads=5"),
    (lambda: repeat_heads(torch.zeros(2, 2, 4), 2), "x must have 4 axes, the second one a divisor of heads=2"),
    *[
        (lambda name=name: attention(name)(signal(), causal(1)), "mask must end in (queries, keys) = (7, 7)")
        for name in KINDS
    ],
)
