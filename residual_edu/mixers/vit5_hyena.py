r"""Hyena in ViT-5: tokens become a grid, are mixed along both its axes, and flattened.

.. math:: y = \mathrm{flat}(\mathrm{mixer}(\mathrm{rows}_w(x), c))

The tokens after the patches, registers and padding, are further rows of the grid.
Poli et al., 2023, https://arxiv.org/abs/2302.10866
Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_shape
from residual_edu.mixers.vit5_attention import Tokens
from residual_edu.parts.flop_count import flop_count


class ViT5HyenaAdapter(nn.Module):
    """Apply a mixer of two space axes to a sequence of tokens, which fill whole rows.

    Args:
        inner_mixer_cfg: what to build (``config.build``) to mix (batch, rows, grid_w,
            channels), such as ``QKVSequenceMixer`` around ``Hyena``.
        grid_w: number of tokens in a row: the number of patches across the image.
    """

    def __init__(self, inner_mixer_cfg: Spec, grid_w: int) -> None:
        super().__init__()
        self.grid_w = grid_w
        self.inner_mixer = build(inner_mixer_cfg)

    def forward(self, x: Tokens, *, conditioning: Tensor | None = None) -> Tokens:
        """Mix the tokens; ``conditioning``, (batch, channels), goes to the mixer."""
        check_shape("x", x, "batch", "tokens", "channels")
        grid = x.unflatten(1, (-1, self.grid_w))
        return self.inner_mixer(grid, conditioning=conditioning).flatten(1, 2)

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample: the mixer's on a grid of full rows."""
        rows = -(-num_tokens // self.grid_w)  # rounded up
        return flop_count(self.inner_mixer, (rows, self.grid_w), inference)
