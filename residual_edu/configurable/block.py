r"""A block that is assembled from names.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \quad
                            x \leftarrow x + \mathrm{ffn}(\mathrm{norm}(x)) \\
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + \mathrm{attention}(x)), \quad
                            x \leftarrow \mathrm{norm}(x + \mathrm{ffn}(x))
"""

from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn

from residual_edu.configurable.cache import Cache, cache_length, extend
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase
from residual_edu.configurable.registry import attention_registry, ffn_registry, norm_registry, position_registry
from residual_edu.errors import check_config, check_mask_fits, check_room, check_tokens
from residual_edu.parts.dropout import Dropout
from residual_edu.parts.residual import Map, is_bypassed, post_norm_residual, pre_norm_residual


class ConfigurableBlock(nn.Module):
    """Attention and a feed-forward network, each looked up by its name and built from the config.

    ``none`` leaves a branch out, and its norm with it.

    Args:
        config: what to look up, and the numbers that it reads.

    Raises:
        InvalidInput: for an input, a mask or a cache that does not fit, or more than ``max_seq_len`` positions.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        check_config("config", config, BlockConfig)
        self.config = config
        self.attention = attention_registry.get(config.attention)(config)
        self.ffn = ffn_registry.get(config.ffn)(config)
        self.attn_norm = self._norm_beside(self.attention)
        self.ffn_norm = self._norm_beside(self.ffn)
        self.resid_dropout = Dropout(config.dropout)
        shared = getattr(self.attention, "position", None)  # an attention of one's own may have none
        self.position: PositionBase = shared or position_registry.get(config.position)(config)

    def forward(
        self,
        x: Float[Tensor, "batch positions channels"],
        mask: Bool[Tensor, "*#batch positions keys"] | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Tensor, "batch positions channels"], Cache]:
        """Add what both branches make of ``x``, which follows what ``cache`` holds; ``mask`` is True where to look."""
        self._check(x, mask, cache_length(cache))
        residual = pre_norm_residual if self.config.pre_norm else post_norm_residual
        gates = [self.resid_dropout] if self.training else []
        attention, kept = self._attention(x, mask, cache)
        x = residual(x, attention, self.attn_norm, gates)
        x = residual(x, self.ffn, self.ffn_norm, gates)
        return x, kept[0]

    def _attention(self, x: Tensor, mask: Tensor | None, cache: Cache | None) -> tuple[Map, list[Cache]]:
        """Return the attention as a map of one tensor, and the list that its cache comes into."""
        if is_bypassed(self.attention):  # no features to keep, but how many positions there were
            return self.attention, [extend(cache, x[..., :0], x[..., :0])]
        kept: list[Cache] = []
        return partial(self._attend, mask, cache, kept), kept

    def _attend(self, mask: Tensor | None, cache: Cache | None, kept: list[Cache], h: Tensor) -> Tensor:
        h, updated = self.attention(h, mask=mask, cache=cache)
        kept.append(updated)
        return h

    def _norm_beside(self, branch: nn.Module) -> nn.Module:
        return branch if is_bypassed(branch) else norm_registry.get(self.config.norm)(self.config)

    def _check(self, x: Tensor, mask: Tensor | None, kept: int) -> None:
        check_tokens("x", x, channels=self.config.d_model)
        check_room(kept, x.shape[1], self.config.max_seq_len)
        if mask is not None:
            check_mask_fits("mask", mask, x.shape[1], kept + x.shape[1])
