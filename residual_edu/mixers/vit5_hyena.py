r"""Hyena in ViT-5: a sequence of tokens is reshaped to a grid, mixed along both its axes, and flattened again.

.. math:: y = \mathrm{flat}(\mathrm{mixer}(\mathrm{rows}_w(x), c))

The tokens after the patches, registers and padding, are further rows of the grid. Poli et al., 2023,
https://arxiv.org/abs/2302.10866; Wang et al., 2026, https://arxiv.org/abs/2602.08071
"""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_conditionable
from residual_edu.checked import Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import InvalidInput, check_shape
from residual_edu.parts.flop_count import flop_count


class ViT5HyenaAdapter(nn.Module):
    """Apply a mixer of two space axes to a sequence of tokens.

    Args:
        inner_mixer_cfg: what to build (``config.build``) to mix the grid, ``forward(x, *, conditioning)`` on
            (batch, rows, grid_w, channels), such as ``QKVSequenceMixer`` around ``Hyena``.
        grid_w: number of tokens in a row, at least 1: the number of patches across the image.

    Raises:
        InvalidInput: for a width below 1, a mixer that takes no conditioning, or tokens that do not fill their rows.
    """

    @checked
    def __init__(self, inner_mixer_cfg: Spec, grid_w: Size) -> None:
        super().__init__()
        self.grid_w = grid_w
        self.inner_mixer = build(inner_mixer_cfg)
        check_conditionable("inner_mixer", self.inner_mixer)

    def forward(
        self,
        x: Float[Tensor, "batch tokens channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch tokens channels"]:
        """Mix the tokens of ``x``; ``conditioning``, (batch, channels), is passed to the mixer."""
        check_tokens(x, self.grid_w)
        return self.inner_mixer(
            x.unflatten(1, (-1, self.grid_w)), conditioning=conditioning
        ).flatten(1, 2)

    def flop_count(self, num_tokens: int, inference: bool = False) -> int:
        """Return the cost for one sample of ``num_tokens``, padding included: that of the mixer on the grid."""
        check_rows(num_tokens, self.grid_w)
        return flop_count(
            self.inner_mixer, (num_tokens // self.grid_w, self.grid_w), inference
        )


def check_tokens(x: Tensor, grid_w: int) -> None:
    """Raise ``InvalidInput`` unless ``x`` is (batch, tokens, channels) and its tokens fill whole rows."""
    check_shape("x", x, "batch", "tokens", "channels")
    check_rows(x.shape[1], grid_w)


def check_rows(tokens: int, grid_w: int) -> None:
    """Raise ``InvalidInput`` unless ``tokens`` fill whole rows of ``grid_w``."""
    if tokens % grid_w:
        mend = f"pad them with {-tokens % grid_w} more"
        raise InvalidInput(
            f"the number of tokens must be a multiple of grid_w={grid_w}, got {tokens}; {mend}"
        )
