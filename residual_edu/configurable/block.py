r"""A block that is assembled from names.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \quad
                            x \leftarrow x + \mathrm{ffn}(\mathrm{norm}(x)) \\
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + \mathrm{attention}(x)), \quad
                            x \leftarrow \mathrm{norm}(x + \mathrm{ffn}(x))
"""

from functools import partial

from torch import Tensor, nn

from residual_edu.config import build_beside
from residual_edu.configurable import registry
from residual_edu.configurable.cache import Cache, Mask, Stream, cache_length
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase, check_room
from residual_edu.parts import is_bypassed, post_norm_residual, pre_norm_residual
from residual_edu.parts.dropout import Dropout


class ConfigurableBlock(nn.Module):
    """Attention and a feed-forward network, each looked up by its name.

    ``none`` leaves a branch out, and its norm with it.

    Args:
        config: which classes to look up, and the numbers that they read.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = registry.attention_registry.get(config.attention)(config)
        self.ffn = registry.ffn_registry.get(config.ffn)(config)
        norm = partial(registry.norm_registry.get(config.norm), config)
        self.attn_norm = build_beside(self.attention, norm)
        self.ffn_norm = build_beside(self.ffn, norm)
        self.resid_dropout = Dropout(config.dropout)
        shared = getattr(self.attention, "position", None)  # a learner's may have none
        own = registry.position_registry.get(config.position)
        self.position: PositionBase = shared or own(config)

    def forward(
        self, x: Stream, mask: Mask | None = None, cache: Cache | None = None
    ) -> tuple[Stream, Cache]:
        """Return ``x`` with both branches added, and the cache, longer by ``x``.

        ``mask`` is True where a query may attend to a key, or numbers that are added to
        the scores, where 1.0 and 0.0 would hide nothing. It is (positions, keys),
        (batch, positions, keys) or (batch, heads, positions, keys), the keys being the
        positions of ``cache``, then those of ``x``.
        """
        check_room(cache_length(cache), x.shape[-2], self.config.max_seq_len)
        residual = pre_norm_residual if self.config.pre_norm else post_norm_residual
        gates = [self.resid_dropout] if self.training else []
        if is_bypassed(self.attention):
            x, cache = self.attention(x, mask, cache)  # the same x
            return residual(x, self.ffn, self.ffn_norm, gates), cache
        kept: list[Cache] = []
        x = residual(x, self._attend, self.attn_norm, gates, mask, cache, kept)
        return residual(x, self.ffn, self.ffn_norm, gates), kept[0]

    def _attend(
        self, h: Tensor, mask: Mask | None, cache: Cache | None, kept: list[Cache]
    ) -> Tensor:
        """Return attention's output, the branch, alone; ``kept`` receives its cache."""
        h, cache = self.attention(h, mask=mask, cache=cache)
        kept.append(cache)
        return h
