r"""A block that is assembled from names.

.. math::
    \text{pre-norm:}  \quad x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \quad
                            x \leftarrow x + \mathrm{ffn}(\mathrm{norm}(x)) \\
    \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + \mathrm{attention}(x)), \quad
                            x \leftarrow \mathrm{norm}(x + \mathrm{ffn}(x))
"""

from torch import Tensor, nn

from residual_edu.configurable.cache import Cache, Mask, Stream, cache_length
from residual_edu.configurable.config import BlockConfig
from residual_edu.configurable.position import PositionBase, check_room
from residual_edu.configurable.registry import (
    attention_registry,
    ffn_registry,
    norm_registry,
    position_registry,
)
from residual_edu.parts import is_bypassed, post_norm_residual, pre_norm_residual
from residual_edu.parts.dropout import Dropout


class ConfigurableBlock(nn.Module):
    """Attention and a feed-forward network, each looked up by its name in the config.

    ``none`` leaves a branch out, and its norm with it.

    Args:
        config: which classes to look up, and the numbers that they read.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = attention_registry.get(config.attention)(config)
        self.ffn = ffn_registry.get(config.ffn)(config)
        self.attn_norm = self._norm_of(self.attention)
        self.ffn_norm = self._norm_of(self.ffn)
        self.resid_dropout = Dropout(config.dropout)
        shared = getattr(self.attention, "position", None)  # a learner's may have none
        own = position_registry.get(config.position)
        self.position: PositionBase = shared or own(config)

    def forward(
        self, x: Stream, mask: Mask | None = None, cache: Cache | None = None
    ) -> tuple[Stream, Cache]:
        """Return ``x`` with both branches added, and the cache, longer by ``x``.

        ``mask`` is True where a query may attend to a key, or is added to the scores:
        (positions, keys), (batch, positions, keys) or (batch, heads, positions, keys).
        The keys are the positions of ``cache``, then those of ``x``.
        """
        check_room(cache_length(cache), x.shape[-2], self.config.max_seq_len)
        residual = pre_norm_residual if self.config.pre_norm else post_norm_residual
        gates = [self.resid_dropout] if self.training else []

        def attention(h: Tensor) -> Tensor:
            nonlocal cache  # a branch returns a tensor alone
            h, cache = self.attention(h, mask=mask, cache=cache)
            return h

        if is_bypassed(self.attention):
            x, cache = self.attention(x, mask, cache)  # the same x
        else:
            x = residual(x, attention, self.attn_norm, gates)
        x = residual(x, self.ffn, self.ffn_norm, gates)
        return x, cache  # type: ignore[return-value]  # either way it is set

    def _norm_of(self, branch: nn.Module) -> nn.Module:
        """Return the norm of a branch, which is left out with it."""
        if is_bypassed(branch):
            return nn.Identity()
        return norm_registry.get(self.config.norm)(self.config)
