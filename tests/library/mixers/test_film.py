import pytest
import torch
from torch import nn

from residual_edu import KernelFiLMGenerator
from tests.library.helpers import decayed


def test_it_is_two_linear_maps_cut_into_layers_and_then_into_gamma_and_beta():
    film = KernelFiLMGenerator(4, 3, 2, film_hidden_dim=5).double()
    for p in film.parameters():
        nn.init.normal_(p)
    condition, state = torch.randn(7, 4, dtype=torch.float64), film.state_dict()
    assert list(state) == ["mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"]
    hidden = condition @ state["mlp.0.weight"].T + state["mlp.0.bias"]
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    films = hidden @ state["mlp.2.weight"].T + state["mlp.2.bias"]
    found = film(condition)
    assert [gamma.shape for gamma, _ in found] == [(7, 3)] * 2
    torch.testing.assert_close(torch.cat([part for pair in found for part in pair], dim=1), films)


def test_or_by_changing_a_little_and_weight_decay():
    film = KernelFiLMGenerator(4, 300, 2, init_type="small_random", init_std=1e-2)
    assert film.mlp[2].weight.std().item() == pytest.approx(1e-2, rel=0.05)
    gamma, beta = film.mlp[2].bias.detach().view(2, 2, 300).unbind(1)
    assert gamma.eq(1).all() and beta.eq(0).all() and decayed(film) == ["mlp.0.weight", "mlp.2.weight"]
    assert decayed(KernelFiLMGenerator(4, 3, 2, no_weight_decay=True)) == []
