from functools import partial
from math import pi, prod, sqrt

import pytest
import torch
from torch import nn

from residual_edu import KernelFiLMGenerator, SIRENKernel, reset_parameters
from tests.library.helpers import decayed

SIZES = {"out_dim": 3, "data_dim": 1, "mlp_hidden_dim": 5, "num_layers": 3, "embedding_dim": 4, "omega_0": 2.0}
SIZES |= {"L_cache": 8, "use_bias": True}
FILM = partial(KernelFiLMGenerator, 6, 5, 2)


def make(**changes):
    return SIRENKernel(**(SIZES | changes))


def awake(**changes):
    kernel = make(**changes).double()
    for p in kernel.parameters():
        nn.init.normal_(p)
    return kernel


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
@pytest.mark.parametrize("lengths, reach", [([4], 8), ([12], 8), ([3, 4], [5, 9]), ([2, 1, 3], [2, 3, 4])])
def test_each_tap_is_the_network_at_its_position(lengths, reach, use_bias):
    kernel = awake(data_dim=len(lengths), L_cache=reach, use_bias=use_bias)
    taps, grid = kernel(lengths, torch.randn(4, 6))  # without FiLM a condition changes nothing
    counts = [2 * length - 1 for length in lengths]
    assert taps.shape == (1, *counts, 3) and grid.shape == (1, *counts, len(lengths)) and taps.dtype == torch.float64
    reaches = [reach] * len(lengths) if isinstance(reach, int) else reach
    for place in torch.cartesian_prod(*map(torch.arange, counts)).view(-1, len(counts)).tolist():
        position = [(i - length + 1) / (far - 1) for i, length, far in zip(place, lengths, reaches, strict=True)]
        torch.testing.assert_close(grid[(0, *place)], torch.tensor(position).double(), rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(taps[(0, *place)], slowly(kernel.state_dict(), grid[(0, *place)]))


@pytest.mark.parametrize("after", [False, True])
def test_with_film_each_sample_has_its_own_kernel(after):
    film = partial(KernelFiLMGenerator, 6, 5, 3 if after else 2)
    sizes = {"embedding_dim": 5, "film_cfg": film, "film_after_pos_embed": after}
    kernel, condition = awake(**sizes), torch.randn(4, 6, dtype=torch.float64)
    (taps, grid), films = kernel([5], condition), kernel.film_generator(condition)
    for b in range(4):
        for i in range(9):
            mine = [(gamma[b], beta[b]) for gamma, beta in films]
            torch.testing.assert_close(taps[b, i], slowly(kernel.state_dict(), grid[0, i], mine))
    plain, grid = kernel([5], None)
    torch.testing.assert_close(plain[0, 3], slowly(kernel.state_dict(), grid[0, 3]))
    start = make(**sizes)
    assert start([5], condition[:1].float())[0].equal(start([5])[0])  # bit for bit


@pytest.mark.parametrize("data_dim, reach", [(1, 16), (2, [4, 9])])
def test_where_the_weights_start_and_restart(data_dim, reach):
    kernel = make(data_dim=data_dim, L_cache=reach, mlp_hidden_dim=300, embedding_dim=400, out_dim=200, omega_0=7.0)
    volume = prod(reach) if isinstance(reach, list) else reach**data_dim
    bounds = {
        kernel.positional_embedding.linear: 2 * pi * 7 / data_dim,
        kernel.hidden_linears[0]: sqrt(6 / 400),
        kernel.hidden_linears[1]: sqrt(6 / 300),
        kernel.out_linear: sqrt(6 / 300) * sqrt(1 / volume),
    }
    for reset in (False, True):
        if reset:
            nn.init.ones_(kernel.hidden_linears[0].bias)
            reset_parameters(kernel)
        for layer, bound in bounds.items():
            weight = layer.weight.detach()
            assert 0.95 * bound < weight.abs().max() <= bound * (1 + 1e-6)  # uniform: its edge is nearly reached,
            assert weight.std() == pytest.approx(bound / sqrt(3), rel=0.1)  # and this its spread
            assert not layer.bias.any()


def test_keys_and_all_but_the_last_matrix_is_exempt_from_weight_decay():
    kernel = make(film_cfg=FILM)
    own = ["positional_embedding.linear", "hidden_linears.0", "hidden_linears.1", "out_linear"]
    both = [f"{layer}.{kind}" for layer in own for kind in ("weight", "bias")]
    assert list(make().state_dict()) == both == list(kernel.state_dict())[: len(both)]
    assert decayed(kernel) == ["out_linear.weight", "film_generator.mlp.0.weight", "film_generator.mlp.2.weight"]


def test_a_half_precision_kernel_still_tells_neighbours_apart():
    taps, grid = make(L_cache=4096).to(torch.bfloat16)([4096])
    assert taps.dtype == torch.bfloat16 and grid.dtype == torch.float32
    assert len(grid.unique()) == 8191
