r"""FiLM for kernels: a condition scales and shifts the layers of a kernel's network.

.. math:: h \leftarrow \gamma(c) \, h + \beta(c)

By default gamma = 1 and beta = 0 at the start, exactly: a condition changes nothing.
Perez et al., 2018, https://arxiv.org/abs/1709.07871
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_choice, check_positive, check_shape
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.start import copy_values
from residual_edu.parts.weight_decay import no_weight_decay as exempt


class KernelFiLMGenerator(nn.Module):
    r"""Compute :math:`(\gamma, \beta)` of each layer from a condition, by a small MLP.

    Args:
        cond_dim: number of channels of the condition.
        kernel_hidden_dim, num_film_layers: width and number of the modulated layers.
        film_hidden_dim: width of the MLP.
        no_weight_decay: whether its matrices, too, are exempt from weight decay.
        init_type: how its last weights start: at 0 (``"identity"``), or from a normal
            distribution (``"small_random"``).
        init_std: the standard deviation of that distribution, above 0.
    """

    def __init__(
        self,
        cond_dim: int,
        kernel_hidden_dim: int,
        num_film_layers: int,
        film_hidden_dim: int = 64,
        no_weight_decay: bool = False,
        init_type: Literal["identity", "small_random"] = "identity",
        init_std: float = 1e-4,
    ) -> None:
        super().__init__()
        check_choice("no_weight_decay", no_weight_decay, [True, False])  # not a rate
        check_choice("init_type", init_type, ["identity", "small_random"])
        check_positive("init_std", init_std)
        self.cond_dim, self.kernel_hidden_dim = cond_dim, kernel_hidden_dim
        self.num_film_layers, self.film_hidden_dim = num_film_layers, film_hidden_dim
        self.init_std = 0.0 if init_type == "identity" else init_std
        last = nn.Linear(film_hidden_dim, num_film_layers * 2 * kernel_hidden_dim)
        self.start_near_identity(last)
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            exempt(self.mlp)

    def start_near_identity(self, last: nn.Linear) -> None:
        """Start the ``last`` map: gamma 1 and beta 0 in each layer, or nearly so."""
        nn.init.normal_(last.weight, std=self.init_std)
        part = torch.arange(last.out_features) // self.kernel_hidden_dim
        copy_values(last.bias, (part % 2 == 0).float())  # gamma, beta, gamma, beta, ...

    def reset_parameters(self) -> None:
        """Start the last map again, after torch's reset of both."""
        self.start_near_identity(self.mlp[2])  # type: ignore[arg-type]

    def forward(
        self, conditioning: Float[Tensor, "batch channels"]
    ) -> list[tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]]:
        r"""Return :math:`(\gamma, \beta)` of each layer, one row for each sample."""
        check_shape("conditioning", conditioning, "batch", self.cond_dim)
        sizes = self.num_film_layers, 2, self.kernel_hidden_dim
        films = self.mlp(conditioning).unflatten(-1, sizes)  # batch, layers, 2, hidden
        return [(gamma, beta) for gamma, beta in films.movedim(0, 2)]

    def flop_count(self, shape: Shape = 1, inference: bool = False) -> int:
        """Return the cost of one condition, the same for a signal of any length."""
        outputs = self.num_film_layers * 2 * self.kernel_hidden_dim
        return self.film_hidden_dim * (2 * (self.cond_dim + outputs) + 1)


def reads_condition(mixer: nn.Module) -> bool | None:
    """Whether ``mixer`` has FiLM; None for parts from elsewhere, which may read one."""
    parts, known = list(mixer.modules()), ("residual_edu.", "torch.")
    if not all(type(part).__module__.startswith(known) for part in parts):
        return None
    return any(isinstance(part, KernelFiLMGenerator) for part in parts)


def check_no_film(name: str, mixer: nn.Module) -> None:
    """Raise ``InvalidInput`` for FiLM that gets no condition: it would not learn."""
    if reads_condition(mixer):
        raise InvalidInput(f"{name} must have no film_cfg, since it gets no condition")
