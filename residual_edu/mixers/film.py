r"""FiLM for kernels: a condition scales and shifts each hidden layer of the network that says a kernel.

.. math:: h \leftarrow \gamma(c) \, h + \beta(c), \qquad \gamma = 1, \; \beta = 0 \text{ at the start}

Perez, Strub, de Vries, Dumoulin & Courville, 2018, https://arxiv.org/abs/1709.07871
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.errors import check_choice, check_condition, check_flag, check_positive, check_size
from residual_edu.parts.flop_count import Shape
from residual_edu.parts.weight_decay import no_weight_decay as spare


class KernelFiLMGenerator(nn.Module):
    r"""Say :math:`(\gamma, \beta)` of each layer of a kernel network, from a condition, by a small MLP.

    Args:
        cond_dim: number of channels of the condition, at least 1.
        kernel_hidden_dim: number of features of each layer that is modulated, at least 1.
        num_film_layers: number of those layers, at least 1.
        film_hidden_dim: width of the MLP, at least 1.
        no_weight_decay: whether its matrices are spared by ``parameter_groups``, as its vectors always are.
        init_type: ``"identity"`` starts from zero weights, so that every kernel is the unconditioned one, exactly;
            ``"small_random"`` from normal ones.
        init_std: their standard deviation, above 0.

    Raises:
        InvalidInput: for a size out of range, an unknown ``init_type``, or a condition of another width.
    """

    def __init__(
        self,
        cond_dim: int,
        kernel_hidden_dim: int,
        num_film_layers: int,
        film_hidden_dim: int = 64,
        no_weight_decay: bool = False,
        init_type: str = "identity",
        init_std: float = 1e-4,
    ) -> None:
        super().__init__()
        sizes = {"cond_dim": cond_dim, "kernel_hidden_dim": kernel_hidden_dim, "num_film_layers": num_film_layers}
        for name, size in {**sizes, "film_hidden_dim": film_hidden_dim}.items():
            check_size(name, size)
        check_choice("init_type", init_type, ["identity", "small_random"])
        check_positive("init_std", init_std)
        check_flag("no_weight_decay", no_weight_decay)
        self.cond_dim, self.kernel_hidden_dim, self.num_film_layers = cond_dim, kernel_hidden_dim, num_film_layers
        self.film_hidden_dim = film_hidden_dim
        last = nn.Linear(film_hidden_dim, num_film_layers * 2 * kernel_hidden_dim)
        nn.init.normal_(last.weight, std=init_std if init_type == "small_random" else 0.0)
        with torch.no_grad():
            last.bias.view(num_film_layers, 2, -1).copy_(torch.tensor([[1.0], [0.0]]))  # gamma 1, beta 0
        self.mlp = nn.Sequential(nn.Linear(cond_dim, film_hidden_dim), nn.GELU(), last)
        if no_weight_decay:
            spare(self.mlp)

    def forward(
        self, conditioning: Float[Tensor, "batch channels"]
    ) -> list[tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]]:
        r"""Return :math:`(\gamma, \beta)` of each layer, a row for each sample."""
        check_condition("conditioning", conditioning, self.cond_dim)
        said = self.mlp(conditioning).unflatten(-1, (self.num_film_layers, 2, self.kernel_hidden_dim))
        return [(layer[:, 0], layer[:, 1]) for layer in said.unbind(1)]

    def flop_count(self, shape: Shape = 1, inference: bool = False) -> int:
        """Return the cost of one condition, whatever the length of the signal."""
        return sum(2 * each.numel() for each in self.mlp.parameters() if each.ndim == 2) + self.film_hidden_dim
