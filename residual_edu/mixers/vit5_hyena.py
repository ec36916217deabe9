r"""A mixer of pictures among tokens: the sequence laid out in rows, mixed along both axes, and read off again.

.. math:: y = \mathrm{flat}(\mathrm{mixer}(\mathrm{rows}_w(x), c))

The tokens beyond the patches, registers and padding, fill rows below the picture.
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_conditionable, check_rows, check_size, check_tokens
from residual_edu.parts.flop_count import flop_count


class ViT5HyenaAdapter(nn.Module):
    """Lay tokens out as a grid for a mixer of two space axes, and back.

    Args:
        inner_mixer_cfg: what to build (``config.build``) to mix the grid, ``forward(x, *, conditioning)`` on
            (batch, rows, grid_w, channels): ``QKVSequenceMixer`` around ``Hyena``, or any other.
        grid_w: how many tokens make a row, at least 1: the number of patches across the image.

    Raises:
        InvalidInput: for a width below 1, a mixer that takes no conditioning, or tokens that do not fill their rows.
    """

    def __init__(self, inner_mixer_cfg: Spec, grid_w: int) -> None:
        super().__init__()
        check_size("grid_w", grid_w)
        self.grid_w = grid_w
        self.inner_mixer = build(inner_mixer_cfg)
        check_conditionable("inner_mixer", self.inner_mixer)

    def forward(
        self, x: Float[Tensor, "batch tokens channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch tokens channels"]:
        """Return what each token hears; ``conditioning``, (batch, channels), goes on to the mixer."""
        check_tokens("x", x)
        check_rows(x.shape[1], self.grid_w)
        return self.inner_mixer(x.unflatten(1, (-1, self.grid_w)), conditioning=conditioning).flatten(1, 2)

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost of the mixer on the grid, for one sample of ``num_tokens``, padding included."""
        check_rows(num_tokens, self.grid_w)
        return flop_count(self.inner_mixer, (num_tokens // self.grid_w, self.grid_w), inference)
