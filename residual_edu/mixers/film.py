r"""FiLM for kernels: a condition scales and shifts each hidden layer of the network that generates a kernel.

.. math:: h \leftarrow \gamma(c) \, h + \beta(c), \qquad \gamma = 1, \; \beta = 0 \text{ at the start}

Perez, Strub, de Vries, Dumoulin & Courville, 2018, https://arxiv.org/abs/1709.07871
"""

from functools import partial
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.checked import Flag, Positive, Size, checked
from residual_edu.old_errors import check_shape
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.start import copy_values, fill
from residual_edu.parts.weight_decay import no_weight_decay as exempt


class KernelFiLMGenerator(nn.Module):
    r"""Compute :math:`(\gamma, \beta)` of each layer of a kernel network from a condition, by a small MLP.

    Args:
        cond_dim: number of channels of the condition, at least 1.
        kernel_hidden_dim: number of features of each layer that is modulated, at least 1.
        num_film_layers: number of those layers, at least 1.
        film_hidden_dim: width of the MLP, at least 1.
        no_weight_decay: True: ``parameter_groups`` exempts its matrices from weight decay, as it does all biases.
        init_type: ``"identity"``: the last weights start at 0, so that every kernel starts as the unconditioned one,
            exactly. ``"small_random"``: they start from a normal distribution.
        init_std: the standard deviation of that distribution, above 0.

    Raises:
        InvalidInput: for an argument out of range, or a condition of another shape.
    """

    @checked
    def __init__(
        self,
        cond_dim: Size,
        kernel_hidden_dim: Size,
        num_film_layers: Size,
        film_hidden_dim: Size = 64,
        no_weight_decay: Flag = False,
        init_type: Literal["identity", "small_random"] = "identity",
        init_std: Positive = 1e-4,
    ) -> None:
        super().__init__()
        self.cond_dim, self.kernel_hidden_dim, self.num_film_layers = (
            cond_dim,
            kernel_hidden_dim,
            num_film_layers,
        )
        self.film_hidden_dim = film_hidden_dim
        self.init_std = init_std if init_type == "small_random" else 0.0
        last = nn.Linear(film_hidden_dim, num_film_layers * 2 * kernel_hidden_dim)
        self.start(last)
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            exempt(self.mlp)

    def reset_parameters(self) -> None:
        """Start the last map again at the identity, or close to it."""
        self.start(cast(nn.Linear, self.mlp[2]))

    def start(self, last: nn.Linear) -> None:
        """Fill the last map: weights of ``init_std``, gamma 1 and beta 0."""
        normal = partial(nn.init.normal_, std=self.init_std)
        fill(last, normal, partial(identity_film, layers=self.num_film_layers))

    def forward(
        self, conditioning: Float[Tensor, "batch channels"]
    ) -> list[tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]]:
        r"""Return :math:`(\gamma, \beta)` of each layer, one row for each sample."""
        check_shape(
            "conditioning", conditioning, "batch", self.cond_dim, layer=self.mlp[0]
        )
        films = self.mlp(conditioning).unflatten(
            -1, (self.num_film_layers, 2, self.kernel_hidden_dim)
        )
        return [(layer[:, 0], layer[:, 1]) for layer in films.unbind(1)]

    def flop_count(self, shape: Shape = 1, inference: bool = False) -> int:
        """Return the cost of one condition; it does not depend on the length of the signal."""
        return (
            sum(2 * each.numel() for each in self.mlp.parameters() if each.ndim == 2)
            + self.film_hidden_dim
        )


def identity_film(bias: Float[Tensor, "parameters"], layers: int) -> None:
    """Fill the last bias: gamma 1 and beta 0 in each of ``layers``."""
    width = bias.shape[0] // layers // 2
    copy_values(bias, torch.cat([torch.ones(width), torch.zeros(width)]).repeat(layers))
