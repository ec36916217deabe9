"""What the norms share: a width, an eps, and statistics in float32 at least."""

import torch
from torch import Tensor, nn

from residual_edu.errors import InvalidInput, check_positive, check_shape

WIDE = (torch.float32, torch.float64)


class Norm(nn.Module):
    """The base of ``LayerNorm`` and ``RMSNorm``: how a gain and a bias start."""

    def __init__(self, dim: int, eps: float, fused: bool) -> None:
        super().__init__()
        check_positive("eps", eps)
        self.dim, self.eps, self.fused = dim, eps, fused

    def reset_parameters(self) -> None:
        """Set the gain to 1 and the bias to 0, where they are learned."""
        for name, parameter in self.named_parameters():
            nn.init.constant_(parameter, float(name == "weight"))

    def extra_repr(self) -> str:
        """Show width, eps and whether torch's kernel is called."""
        return f"{self.dim}, eps={self.eps}, fused={self.fused}"


def widened(x: Tensor) -> Tensor:
    """Return ``x`` in float32 at least; integers would be cut on the way back."""
    if not x.is_floating_point():
        raise InvalidInput(f"x must be floating point, got {x.dtype}")
    return x if x.dtype in WIDE else x.float()


def check_normed(x: Tensor, eps: float, *weights: Tensor | None) -> None:
    """Raise ``InvalidInput`` for an eps below 0, or a weight that would broadcast."""
    if eps < 0:
        raise InvalidInput(f"eps must be at least 0, got {eps}")
    for weight in [each for each in weights if each is not None]:
        check_shape("weight", weight, x.shape[-1])
