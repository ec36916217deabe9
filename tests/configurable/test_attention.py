"""The attention family's own laws. Values against a transcription: test_every_combination.py."""

import re

import pytest
import torch

from residual_edu import GQA, MHA, MLA, AttentionBase, InvalidInput, SlidingWindowGQA, repeat_heads

from . import transcription
from .small import POSITIONS, causal, config

KINDS = {"mha": MHA, "gqa": GQA, "sliding_window_gqa": SlidingWindowGQA, "mla": MLA}


def attention(name="gqa", **changes):
    return KINDS[name](config(attention=name, **changes)).double()


def signal(positions=7, batch=2):
    return torch.randn(batch, positions, 16, dtype=torch.float64)


def hears(module, x, mask=None):
    """Which positions' change is heard at which, (positions, positions)."""
    rows = torch.autograd.functional.jacobian(lambda z: module(z, mask)[0].sum((0, 2)), x[:1])
    return rows[:, 0].abs().sum(-1) > 0


@pytest.mark.parametrize("position", POSITIONS)
def test_gqa_whose_groups_have_equal_heads_is_mha(position):
    few, many = attention("gqa", position=position), attention("mha", position=position)
    state = few.state_dict()
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        heads = state[name].unflatten(0, (2, 4))  # two heads of four features
        state[name] = heads[[0, 0, 1, 1]].flatten(0, 1)
    many.load_state_dict(state)
    x = signal()
    torch.testing.assert_close(few(x, causal(7))[0], many(x, causal(7))[0], rtol=1e-12, atol=1e-12)


def test_gqa_with_as_many_key_heads_as_heads_is_mha_and_mha_reads_no_n_kv_heads():
    few, many = attention("gqa", n_kv_heads=4), attention("mha", n_kv_heads=2)
    many.load_state_dict(few.state_dict())
    x = signal()
    assert few(x)[0].equal(many(x)[0])


def test_key_heads_are_repeated_in_a_row():
    x = torch.arange(3.0).view(1, 3, 1, 1)
    assert repeat_heads(x, 6).flatten().tolist() == [0, 0, 1, 1, 2, 2]
    assert repeat_heads(x, 3) is x


@pytest.mark.parametrize(
    ("name", "changes", "numbers"),
    [
        ("mha", {}, 2 * 16),
        ("gqa", {}, 2 * 2 * 4),
        ("gqa", {"n_kv_heads": 1}, 2 * 4),
        ("sliding_window_gqa", {}, 2 * 2 * 4),
        ("mla", {}, 6 + 2),
        ("mla", {"rope_dim": 0}, 6),
        ("mla", {"rope_dim": 4}, 6 + 4),
        ("mla", {"rope_dim": None, "position": "rope"}, 6 + 2),
        ("mla", {"rope_dim": None, "position": "none"}, 6),
    ],
)
def test_numbers_kept_for_each_token(name, changes, numbers):
    _, cache = attention(name, **changes)(signal(5, batch=3))
    assert sum(kept.numel() for kept in cache) == 3 * 5 * numbers


@pytest.mark.parametrize("q_lora_rank", [None, 5])
@pytest.mark.parametrize("rope_dim", [0, 2, 4])
@pytest.mark.parametrize("position", ["rope", "alibi", "none"])
def test_mla_with_and_without_a_latent_of_the_queries(q_lora_rank, rope_dim, position):
    c = config(attention="mla", q_lora_rank=q_lora_rank, rope_dim=rope_dim, position=position)
    module, x = MLA(c).double(), signal(5, batch=1)
    p = {f"attention.{name}": value for name, value in module.named_parameters()}
    expected = transcription.attention(p, c, x[0], lambda i, j: j <= i)
    torch.testing.assert_close(module(x, causal(5))[0][0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["mha", "gqa", "sliding_window_gqa"])
def test_normalised_queries_and_keys(name):
    c = config(attention=name, qk_norm=True, position="rope")
    module, x = KINDS[name](c).double(), signal(5, batch=1)
    for p in module.parameters():
        torch.nn.init.normal_(p)
    p = {f"attention.{name}": value for name, value in module.named_parameters()}
    expected = transcription.attention(p, c, x[0], lambda i, j: True)
    torch.testing.assert_close(module(x)[0][0], expected, rtol=1e-12, atol=1e-12)
    assert module.q_norm.weight.shape == (4,)


@pytest.mark.parametrize("window", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("given", [None, "causal", "even"])
def test_a_window_is_causal_and_windowed_whatever_mask_is_given(window, given):
    even = torch.eye(7, dtype=torch.bool) | (torch.arange(7) % 2 == 0)
    masks = {None: None, "causal": causal(7), "even": even}
    apart = torch.arange(7)[:, None] - torch.arange(7)
    expected = (apart >= 0) & (apart < window)
    expected = expected & even if given == "even" else expected
    module = attention("sliding_window_gqa", window_size=window, position="rope")
    assert hears(module, signal(), masks[given]).equal(expected)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("position", POSITIONS)
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


def test_a_mask_of_each_sample_and_head():
    module, x = attention("gqa"), signal(4)
    mask = torch.rand(2, 4, 4, 4) < 0.5
    mask |= torch.eye(4, dtype=torch.bool)
    whole = module(x, mask)[0]
    for sample in range(2):
        torch.testing.assert_close(module(x[[sample]], mask[[sample]])[0][0], whole[sample])
    other = mask.clone()
    other[0, 0, 3, :] = torch.tensor([False, False, False, True])
    changed = (module(x, other)[0] - whole).abs().sum(-1) > 0
    assert changed.nonzero().tolist() in ([], [[0, 3]])


def test_state_dict_keys_are_the_pages():
    four = ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert list(dict.fromkeys(key.split(".")[0] for key in attention("gqa").state_dict())) == four
    names = list(dict.fromkeys(key.split(".")[0] for key in attention("mla").state_dict()))
    assert names == ["kv_down", "kv_norm", "kv_up", "q_proj", "o_proj"]
    names = list(dict.fromkeys(key.split(".")[0] for key in attention("mla", q_lora_rank=3).state_dict()))
    assert names == ["kv_down", "kv_norm", "kv_up", "q_down", "q_norm", "q_up", "o_proj"]
    assert not list(AttentionBase(config()).parameters())
    assert attention("gqa", bias=False).q_proj.bias is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: repeat_heads(torch.zeros(2, 2, 5, 4), 5), "x must have 4 axes, the second one a divisor of heads=5"),
        (lambda: repeat_heads(torch.zeros(2, 4, 5, 4), 2), "x must have 4 axes, the second one a divisor of heads=2"),
        (lambda: repeat_heads(torch.zeros(2, 2, 4), 2), "x must have 4 axes, the second one a divisor of heads=2"),
        *[
            (lambda name=name: attention(name)(signal(), causal(1)), "mask must end in (queries, keys) = (7, 7)")
            for name in KINDS
        ],
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [(5, 16), (1, 5, 1, 16)])
@pytest.mark.usefixtures("as_installed")
def test_a_signal_of_other_axes_is_refused_by_python(name, shape):
    with pytest.raises(ValueError, match="values to unpack"):
        attention(name)(torch.zeros(shape, dtype=torch.float64))
