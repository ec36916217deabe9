import re
from functools import partial
from math import pi, prod, sqrt

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from residual_edu import (
    InvalidInput,
    KernelFiLMGenerator,
    SIRENKernel,
    SIRENKernelND,
    SIRENPositionalEmbedding,
    SIRENPositionalEmbeddingND,
    parameter_groups,
    position_grid,
    reset_parameters,
)

SIZES = {
    "out_dim": 3,
    "data_dim": 1,
    "mlp_hidden_dim": 5,
    "num_layers": 3,
    "embedding_dim": 4,
    "omega_0": 2.0,
    "L_cache": 8,
    "use_bias": True,
}
FILM = partial(KernelFiLMGenerator, 6, 5, 2)


def make(**changes):
    return SIRENKernel(**(SIZES | changes))


def slowly(state, position, films=()):
    """One tap, from the parameters by their names: a sine after a sine, each scaled and shifted, then a linear map."""
    hidden = sorted(key.removesuffix(".weight") for key in state if key.startswith("hidden") and key.endswith("weight"))
    layers = ["positional_embedding.linear", *hidden]
    h = position
    for layer, film in zip(layers, [None] * (len(layers) - len(films)) + list(films), strict=True):
        h = torch.sin(state[f"{layer}.weight"] @ h + state.get(f"{layer}.bias", 0.0))
        h = h if film is None else film[0] * h + film[1]
    return state["out_linear.weight"] @ h + state.get("out_linear.bias", 0.0)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("lengths, reach", [([4], 8), ([8], 8), ([12], 8), ([3, 4], [5, 9]), ([2, 1, 3], [2, 3, 4])])
def test_each_tap_is_the_network_at_its_position(lengths, reach, use_bias):
    kernel = make(data_dim=len(lengths), L_cache=reach, use_bias=use_bias).double()
    for p in kernel.parameters():
        nn.init.normal_(p)
    taps, grid = kernel(lengths)
    counts = [2 * length - 1 for length in lengths]
    assert taps.shape == (1, *counts, 3) and grid.shape == (1, *counts, len(lengths)) and taps.dtype == torch.float64
    reaches = [reach] * len(lengths) if isinstance(reach, int) else reach
    for place in torch.cartesian_prod(*map(torch.arange, counts)).view(-1, len(counts)).tolist():
        position = torch.tensor(
            [(i - length + 1) / (far - 1) for i, length, far in zip(place, lengths, reaches, strict=True)]
        ).double()
        torch.testing.assert_close(grid[(0, *place)], position, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(taps[(0, *place)], slowly(kernel.state_dict(), grid[(0, *place)]))


def test_positions_run_from_minus_one_to_one_and_a_longer_kernel_reads_on():
    kernel = make()
    short, own, long = (kernel([length]) for length in (4, 8, 16))
    assert own[1].flatten()[[0, 7, -1]].tolist() == [-1, 0, 1]
    for (taps, grid), room in ((short, 4), (long, -8)):
        larger, smaller = (own, (taps, grid)) if room > 0 else ((taps, grid), own)
        inside = slice(abs(room), -abs(room))
        torch.testing.assert_close(larger[0][:, inside], smaller[0])
        torch.testing.assert_close(larger[1][:, inside], smaller[1])


def test_state_dict_keys():
    own = ["positional_embedding.linear", "hidden_linears.0", "hidden_linears.1", "out_linear"]
    both = [f"{layer}.{kind}" for layer in own for kind in ("weight", "bias")]
    film = [f"film_generator.mlp.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
    assert list(make().state_dict()) == both
    assert list(make(film_cfg=FILM).state_dict()) == both + film
    assert (SIRENKernelND, SIRENPositionalEmbeddingND) == (SIRENKernel, SIRENPositionalEmbedding)


@pytest.mark.parametrize("data_dim, reach", [(1, 16), (2, [4, 9])])
def test_where_the_weights_start(data_dim, reach):
    kernel = make(data_dim=data_dim, L_cache=reach, mlp_hidden_dim=300, embedding_dim=400, out_dim=200, omega_0=7.0)
    volume = prod(reach) if isinstance(reach, list) else reach**data_dim
    bounds = {
        kernel.positional_embedding.linear: 2 * pi * 7 / data_dim,
        kernel.hidden_linears[0]: sqrt(6 / 400),
        kernel.hidden_linears[1]: sqrt(6 / 300),
        kernel.out_linear: sqrt(6 / 300) * sqrt(1 / volume),
    }
    for layer, bound in bounds.items():
        weight = layer.weight.detach()
        assert 0.95 * bound < weight.abs().max() <= bound * (1 + 1e-6)  # uniform: its edge is nearly reached,
        assert weight.std() == pytest.approx(bound / sqrt(3), rel=0.1)  # and this its spread
        assert not layer.bias.any()


def test_the_hidden_frequency_cancels():
    torch.manual_seed(0)
    plain = make()([8])[0]
    torch.manual_seed(0)
    assert make(hidden_omega_0=30.0)([8])[0].equal(plain)


def test_all_but_the_last_matrix_is_exempt_from_weight_decay():
    kernel = make(film_cfg=FILM)
    decayed = {id(p) for p in parameter_groups(kernel, 0.1)[0]["params"]}
    names = {name for name, p in kernel.named_parameters() if id(p) in decayed}
    assert names == {"out_linear.weight", "film_generator.mlp.0.weight", "film_generator.mlp.2.weight"}


@pytest.mark.parametrize("after", [False, True])
class TestFiLM:
    def kernel(self, after):
        film = partial(KernelFiLMGenerator, 6, 5, 3 if after else 2)
        return make(embedding_dim=5, film_cfg=film, film_after_pos_embed=after).double()

    def test_at_the_start_it_is_the_kernel_without_exactly(self, after):
        kernel, condition = self.kernel(after), torch.randn(4, 6, dtype=torch.float64)
        bent, plain = kernel([5], condition)[0], kernel([5])[0]
        assert bent.shape == (4, 9, 3) and plain.shape == (1, 9, 3)
        torch.testing.assert_close(
            bent, plain.expand_as(bent), rtol=1e-14, atol=1e-14
        )  # four samples, another product,
        assert kernel([5], condition[:1])[0].equal(plain)  # and one, the same: bit for bit

    def test_each_sample_has_its_own_kernel(self, after):
        kernel, condition = self.kernel(after), torch.randn(4, 6, dtype=torch.float64)
        for p in kernel.parameters():
            nn.init.normal_(p)
        taps, grid = kernel([5], condition)
        films = kernel.film_generator(condition)
        for b in range(4):
            for i in range(9):
                mine = [(gamma[b], beta[b]) for gamma, beta in films]
                torch.testing.assert_close(taps[b, i], slowly(kernel.state_dict(), grid[0, i], mine))

    def test_no_condition_no_modulation(self, after):
        kernel = self.kernel(after)
        for p in kernel.parameters():
            nn.init.normal_(p)
        taps, grid = kernel([5], None)
        torch.testing.assert_close(taps[0, 3], slowly(kernel.state_dict(), grid[0, 3]))


def test_a_condition_without_film_changes_nothing():
    kernel = make()
    assert kernel([5], torch.randn(4, 6))[0].equal(kernel([5])[0])


@pytest.mark.parametrize("lengths", [[5], [3, 4]])
@pytest.mark.parametrize("film", [False, True])
def test_its_cost(lengths, film):
    kernel = make(data_dim=len(lengths), film_cfg=FILM if film else None)
    with FlopCounterMode(display=False) as counter:
        kernel(lengths, torch.randn(1, 6))
    taps = prod(2 * length - 1 for length in lengths)
    pointwise = taps * (4 + 5 + 5)  # a sine each
    pointwise += taps * 2 * 2 * 5 + 64 if film else 0  # gamma h + beta in two layers, GELU once
    assert kernel.flop_count(lengths) == counter.get_total_flops() + pointwise
    assert kernel.flop_count(lengths, inference=True) == (kernel.flop_count(lengths) if film else 0)


def test_a_half_precision_kernel_still_tells_neighbours_apart():
    kernel = make(L_cache=4096).to(torch.bfloat16)
    taps, grid = kernel([4096])
    assert taps.dtype == torch.bfloat16 and grid.dtype == torch.float32
    assert len(grid.unique()) == 8191


def test_a_reset_draws_each_layer_within_its_bound_again():
    kernel = make(data_dim=2, mlp_hidden_dim=300, embedding_dim=400, out_dim=200)
    bounds = {name: p.abs().max().item() for name, p in kernel.named_parameters()}
    reset_parameters(kernel)
    for name, p in kernel.named_parameters():
        assert p.abs().max().item() == pytest.approx(bounds[name], rel=0.05), name


def grid(lengths, reach):
    return position_grid(lengths, reach, like=torch.zeros(1))


FIRST = partial(SIRENPositionalEmbedding, 1, 3, 8)
REFUSED = [
    (lambda: make(num_layers=0), "num_layers must be a whole number, at least 2, got 0"),
    (lambda: make(hidden_omega_0="a"), "hidden_omega_0 must be a finite number above 0, got 'a'"),
    (lambda: make(omega_0=0.0), "omega_0 must be a finite number above 0, got 0.0"),
    (lambda: FIRST(omega_0=-1.0), "omega_0 must be a finite number above 0, got -1.0"),
    (lambda: make(L_cache=1)([4]), "reach must be a whole number, at least 2, got 1"),
    (lambda: make(L_cache=[8, 2.5], data_dim=2)([4, 4]), "reach must be a whole number, at least 2, got 2.5"),
    (lambda: grid([1.5], [8]), "lengths must be a whole number, at least 1, got 1.5"),
    (lambda: make(film_cfg=partial(KernelFiLMGenerator, 6, 5, 3)), "film_cfg must modulate widths [5, 5], got [5, 5, "),
    (lambda: make(film_cfg=partial(KernelFiLMGenerator, 6, 1, 2)), "film_cfg must modulate widths [5, 5], got [1, 1]"),
    (lambda: make(film_cfg=FILM, film_after_pos_embed=True), "film_cfg must modulate widths [4, 5, 5], got [5, 5]"),
]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("call, words", REFUSED)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        call()
