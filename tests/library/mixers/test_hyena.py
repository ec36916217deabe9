import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import (
    CausalConv1D,
    CKConv,
    Hyena,
    InvalidInput,
    KernelFiLMGenerator,
    QKVSequenceMixer,
    RMSNorm,
    SIRENKernel,
    parameter_groups,
)

SHORT = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = partial(RMSNorm, 4)


def long_conv(data_dim=1, is_causal=False, film=False):
    film_cfg = partial(KernelFiLMGenerator, 5, 6, 2) if film else None
    kernel = partial(SIRENKernel, 4, data_dim, 6, 3, 6, 5.0, 8, True, film_cfg=film_cfg)
    return partial(CKConv, data_dim, 4, kernel, nn.Identity, "double", "zero", is_causal)


def make(data_dim=1, film=False, is_causal=False, **changes):
    short = partial(SHORT[data_dim], 12, 12, 3, padding="same", groups=12)
    short = partial(CausalConv1D, 12, 12, 3, groups=12) if is_causal else short
    parts = {
        "global_conv_cfg": long_conv(data_dim, is_causal, film),
        "short_conv_cfg": short,
        "gate_nonlinear_cfg": nn.SiLU,
        "pixelhyena_norm_cfg": nn.Identity,
        "qk_norm_cfg": None,
    }
    hyena = Hyena(**(parts | changes))
    for p in hyena.parameters():
        nn.init.normal_(p)
    return hyena.double()


def signals(*space, batch=2):
    return [torch.randn(batch, *space, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def rms(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def depthwise(conv, x, before):
    """A depthwise convolution as a sum of shifted copies, along 1 to 3 axes."""
    weight = conv.weight[:, 0].movedim(0, -1)
    y = torch.zeros_like(x)
    for place in torch.cartesian_prod(*[torch.arange(3)] * (x.ndim - 2)).view(-1, x.ndim - 2).tolist():
        moved = x
        for axis, tap in enumerate(place, start=1):
            shift = before - tap  # output i reads input i + tap - before
            moved = moved.roll(shift, axis)
            gone = range(shift) if shift > 0 else range(x.shape[axis] + shift, x.shape[axis])
            moved = moved.index_fill(axis, torch.tensor([i for i in gone if 0 <= i < x.shape[axis]]).long(), 0.0)
        y = y + moved * weight[tuple(place)]
    return y + conv.bias


def slowly(hyena, query, key, value, first, second, conditioning=None):
    before = 2 if getattr(hyena.short_conv, "is_causal", False) else 1
    if not isinstance(hyena.short_conv, nn.Identity):
        query, key, value = depthwise(hyena.short_conv, torch.cat([query, key, value], -1), before).split(4, -1)
    query = query if hyena.q_norm is None else rms(query, hyena.q_norm.weight)
    key = key if hyena.k_norm is None else rms(key, hyena.k_norm.weight)
    z = query * first(key)
    z = rms(z, hyena.pixelhyena_norm.weight) if isinstance(hyena.pixelhyena_norm, RMSNorm) else z
    y = hyena.global_conv(z, conditioning=conditioning) * second(value)
    return rms(y, hyena.output_norm.weight) if isinstance(hyena.output_norm, RMSNorm) else y


def same(x):
    return x


def silu(x):
    return x / (1 + torch.exp(-x))


WAYS = [
    ((7,), {}, silu, silu),
    ((7,), {"is_causal": True}, silu, silu),
    ((3, 4), {"data_dim": 2}, silu, silu),
    ((2, 3, 2), {"data_dim": 3}, silu, silu),
    ((7,), {"short_conv_cfg": nn.Identity}, silu, silu),
    ((7,), {"gate_nonlinear_cfg": nn.Identity}, same, same),
    ((7,), {"gate_nonlinear_2_cfg": nn.Sigmoid}, silu, torch.sigmoid),
    ((7,), {"gate_nonlinear_cfg": nn.Identity, "gate_nonlinear_2_cfg": nn.Sigmoid}, same, torch.sigmoid),
    ((7,), {"qk_norm_cfg": NORM}, silu, silu),
    ((7,), {"qk_norm_cfg": NORM, "gate_nonlinear_cfg": nn.Identity}, same, same),
    ((3, 4), {"data_dim": 2, "qk_norm_cfg": NORM, "pixelhyena_norm_cfg": NORM, "output_norm_cfg": NORM}, silu, silu),
]


@pytest.mark.parametrize("space, way, first, second", WAYS)
def test_it_is_the_equation_values_and_gradients(space, way, first, second):
    hyena, given = make(**way), signals(*space)
    expected, found = slowly(hyena, *given, first, second), hyena(*given)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weight, wanted = torch.randn_like(expected), [*given, *hyena.parameters()]
    want = torch.autograd.grad((expected * weight).sum(), wanted)
    torch.testing.assert_close(torch.autograd.grad((found * weight).sum(), wanted), want, rtol=1e-8, atol=1e-8)


def test_a_plain_long_convolution_lies_inside():
    hyena, (query, _, _) = make(short_conv_cfg=nn.Identity, gate_nonlinear_cfg=nn.Identity), signals(7)
    ones = torch.ones_like(query)
    assert hyena(query, ones, ones).equal(hyena.global_conv(query))


def test_causal_by_perturbation_and_by_the_triangle():
    hyena, given = make(is_causal=True), signals(8)
    changed = [x.detach().clone() for x in given]
    for x in changed:
        x[:, 5:] += 1.0
    with torch.no_grad():
        torch.testing.assert_close(hyena(*changed)[:, :5], hyena(*given)[:, :5], rtol=0, atol=1e-10)
        assert ((hyena(*changed) - hyena(*given))[:, 5].abs() > 1e-3).all()
    jacobian = torch.autograd.functional.jacobian(lambda x: hyena(x, x, x).sum((0, 2)), given[0].detach())
    reach = jacobian.norm(dim=(1, 3))
    assert reach.triu(1).max() < 1e-10 and reach.diagonal().min() > 1e-3


def test_how_positions_mix_depends_on_the_signal():
    x, hyena = signals(6)[0].detach(), make()
    for mixer, changes in ((lambda x: hyena(x, x, x), True), (hyena.global_conv, False)):
        one, two = (torch.autograd.functional.jacobian(mixer, each) for each in (x, 2 * x + 1))
        assert bool((one - two).abs().max() > 1e-6) is changes


def test_a_condition_reaches_the_long_convolution():
    hyena, given = make(film=True), signals(7, batch=3)
    condition = torch.randn(3, 5, dtype=torch.float64)
    together = hyena(*given, conditioning=condition)
    torch.testing.assert_close(together, slowly(hyena, *given, silu, silu, condition))
    for b in range(3):
        alone = hyena(*[x[b : b + 1] for x in given], conditioning=condition[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone)
    assert (hyena(*given) - together).abs().amax((1, -1)).min() > 1e-3


def test_within_its_projections():
    mixer, x = QKVSequenceMixer(4, partial(make, film=True)).double(), signals(7)[0]
    query, key, value = (x @ mixer.qkv_proj.weight.T).split(4, -1)
    condition = torch.randn(2, 5, dtype=torch.float64)
    inner = mixer.mixer(query, key, value, conditioning=condition)
    torch.testing.assert_close(mixer(x, conditioning=condition), inner @ mixer.out_proj.weight.T)


@pytest.mark.parametrize("norm", [partial(nn.GroupNorm, 2, 4), partial(nn.InstanceNorm1d, 4, affine=True)])
def test_norms_that_look_for_channels_on_axis_1_find_them(norm):
    hyena, given = make(pixelhyena_norm_cfg=norm, short_conv_cfg=nn.Identity), signals(7)
    normed = hyena.pixelhyena_norm((given[0] * silu(given[1])).movedim(-1, 1)).movedim(1, -1)
    torch.testing.assert_close(hyena(*given), hyena.global_conv(normed) * silu(given[2]))


def test_keys_and_what_is_exempt_from_weight_decay():
    hyena = make(qk_norm_cfg=NORM, pixelhyena_norm_cfg=NORM, output_norm_cfg=NORM, gate_nonlinear_cfg=nn.Identity)
    keys = [key for key in hyena.state_dict() if not key.startswith("global_conv.")]
    norms = ["pixelhyena_norm", "output_norm", "q_norm", "k_norm"]
    assert sorted(keys) == sorted(["short_conv.weight", "short_conv.bias", *[f"{norm}.weight" for norm in norms]])
    decayed = {id(p) for p in parameter_groups(hyena, 0.1)[0]["params"]}
    names = {name for name, p in hyena.named_parameters() if id(p) in decayed}
    assert names == {"short_conv.weight", "global_conv.kernel.out_linear.weight"}


def test_no_part_is_dead():
    hyena = make(qk_norm_cfg=NORM, film=True)
    assert hyena.k_norm is None and hyena.gate_nonlinear_2 is hyena.gate_nonlinear
    hyena(*signals(7), conditioning=torch.randn(2, 5).double()).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in hyena.parameters())


@pytest.mark.parametrize(
    "way, norms, sigmas",
    [
        ({}, 0, 2),
        ({"gate_nonlinear_cfg": nn.Identity}, 0, 0),
        ({"gate_nonlinear_cfg": nn.Identity, "gate_nonlinear_2_cfg": nn.Sigmoid}, 0, 1),
        ({"qk_norm_cfg": NORM, "pixelhyena_norm_cfg": NORM}, 2, 2),
        ({"qk_norm_cfg": NORM, "gate_nonlinear_cfg": nn.Identity, "output_norm_cfg": NORM}, 3, 0),
        ({"short_conv_cfg": nn.Identity}, 0, 2),
        ({"is_causal": True}, 0, 2),
        ({"data_dim": 2}, 0, 2),
    ],
)
def test_its_cost(way, norms, sigmas):
    hyena = make(**way)
    space = [7] * len(hyena.global_conv.paddings)
    positions = 7 ** len(space)
    inner, outer = FlopCounterMode(display=False), FlopCounterMode(display=False)
    given = signals(*space, batch=1)
    with outer:
        hyena(*given)
    with inner:
        hyena.global_conv(given[0])
    products = outer.get_total_flops() - inner.get_total_flops()  # those of the short convolution
    expected = products + (3 * norms + 2 + sigmas) * 4 * positions + hyena.global_conv.flop_count(space)
    assert hyena.flop_count(space) == expected
    saved = hyena.global_conv.flop_count(space) - hyena.global_conv.flop_count(space, inference=True)
    assert hyena.flop_count(space, inference=True) == expected - saved > 0


@pytest.mark.usefixtures("as_installed")
def test_it_compiles(compiled):
    hyena, given = make(film=True, qk_norm_cfg=NORM), signals(7)
    condition = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(compiled(hyena)(*given, conditioning=condition), hyena(*given, conditioning=condition))


def test_a_convolution_of_one_tap_is_causal():
    for short in (partial(nn.Conv1d, 12, 12, 1), nn.Identity):
        make(is_causal=True, short_conv_cfg=short)


class Narrow(nn.Module):
    def forward(self, x, conditioning=None):
        return x[..., :1]


def narrowed(**changes):
    return lambda: make(**changes)(*[torch.zeros(2, 7, 4).double()] * 3)


LATER = "short_conv must be causal, as global_conv is, got"
SHAPE = "must have the shape of x, (2, 7, "
X = torch.zeros(2, 7, 4).double()
REFUSED = [
    (
        lambda: make(short_conv_cfg=partial(nn.Linear, 12, 12)),
        "short_conv must be nn.Conv1d to 3d or Identity, got Linear",
    ),
    (lambda: make(is_causal=True, short_conv_cfg=partial(nn.Conv1d, 12, 12, 3, padding=1)), f"{LATER} Conv1d(12"),
    (lambda: make(is_causal=True, short_conv_cfg=partial(CausalConv1D, 12, 12, 3, is_causal=False)), f"{LATER} Causal"),
    (lambda: make(is_causal=True, output_norm_cfg=partial(nn.GroupNorm, 2, 4)), "output_norm must be causal, as "),
    (narrowed(short_conv_cfg=partial(nn.Conv1d, 12, 12, 3)), f"Conv1d(x) {SHAPE}12), got (2, 5, 12)"),
    (narrowed(short_conv_cfg=partial(nn.Conv1d, 12, 4, 1)), f"Conv1d(x) {SHAPE}12), got (2, 7, 4)"),
    (
        narrowed(short_conv_cfg=partial(nn.Conv2d, 12, 12, 1)),
        "short_conv must have as many axes as the signal, 1, got 2",
    ),
    *[
        (narrowed(gate_nonlinear_cfg=nn.Identity, **{part: Narrow}), f"Narrow(x) {SHAPE}4), got (2, 7, 1)")
        for part in ("gate_nonlinear_2_cfg", "pixelhyena_norm_cfg", "qk_norm_cfg", "output_norm_cfg")
    ],
    (narrowed(gate_nonlinear_cfg=Narrow), f"Narrow(x) {SHAPE}4), got (2, 7, 1)"),
    (narrowed(global_conv_cfg=Narrow), "global_conv(z) must have the shape of z, (2, 7, 4), got (2, 7, 1)"),
    (lambda: make()(X, torch.zeros(2, 7, 5), X[..., :3]), "key must have the shape of query, (2, 7, 4), got (2, 7, 5)"),
    (lambda: make()(X, X, X[:1]), "value must have the shape of query, (2, 7, 4), got (1, 7, 4)"),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()
