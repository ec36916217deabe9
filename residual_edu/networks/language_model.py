r"""A language model: tokens, a stack of configurable blocks, logits of the next token.

.. math::
    x = \mathrm{embed}(\mathrm{tokens}), \qquad x \leftarrow \mathrm{block}_l(x), \qquad
    \mathrm{logits} = W\, \mathrm{norm}(x)

Where the two are tied, W is the embedding's matrix itself: Press & Wolf, 2016,
https://arxiv.org/abs/1608.05859
"""

from typing import Any, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from residual_edu.configurable import ConfigurableBlock, ModelCache, ModelConfig
from residual_edu.configurable.cache import cache_length
from residual_edu.configurable.position import PositionBase
from residual_edu.configurable.registry import norm_registry
from residual_edu.errors import InvalidInput
from residual_edu.networks.generation import generate
from residual_edu.networks.padding import check_padding, embed_rows, mask_padding
from residual_edu.parts.attention import attention_mask
from residual_edu.parts.dropout import Dropout


class LanguageModel(nn.Module):
    """Returns logits of the next token after each token; ``generate`` writes on.

    Training reads the first of ``logits, cache = model(tokens)``.

    Args:
        config: the blocks, the vocabulary, and whether embedding and head are tied.
    """

    generate = generate

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.block.d_model)
        self.reset_parameters()
        self.dropout = Dropout(config.block.dropout)
        configs = [config.get_block_config(i) for i in range(config.n_layers)]
        blocks = [ConfigurableBlock(each) for each in configs]
        check_positions([type(block.position) for block in blocks])
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = norm_registry.get(config.block.norm)(config.block)
        self.head: nn.Linear | None = None
        if not config.tie_embeddings:
            self.head = nn.Linear(config.block.d_model, config.vocab_size, bias=False)

    def reset_parameters(self) -> None:
        """Start the embedding narrow, so that a tied head's logits are of size 1."""
        nn.init.normal_(self.embed.weight, std=self.config.block.d_model**-0.5)

    def forward(
        self,
        tokens: Int[Tensor, "batch positions"],
        cache: ModelCache | None = None,
        token_mask: Bool[Tensor, "batch keys"] | None = None,
    ) -> tuple[Float[Tensor, "batch positions vocabulary"], ModelCache]:
        """Return the logits after ``tokens``, which continue ``cache``, and a cache.

        ``token_mask`` is False at padding, on the left of cached and new positions.
        """
        cache = cache or ModelCache(0, (None,) * len(self.blocks))
        start, new = cache.length, tokens.shape[1]
        check_cache(cache, new, self.config.block.max_seq_len)
        x = self.dropout(self.embed(tokens))  # (batch, positions, d_model)
        position = cast(ConfigurableBlock, self.blocks[0]).position
        mask = None  # one new position may attend to all before it
        if token_mask is not None:
            for block in self.blocks:
                check_padding(token_mask, (len(x), start + new), block.attention)
            token_mask = token_mask.to(x.device)
            x, mask = embed_rows(position, x, token_mask), mask_padding(token_mask, new)
        else:
            x = position.embed(x, start)
            if new > 1:
                mask = attention_mask(new, start + new, causal=True, device=x.device)
        kept: list[Any] = []
        for block, before in zip(self.blocks, cache.blocks, strict=True):
            x, after = block(x, mask, before)
            kept.append(after)
        x = self.final_norm(x)
        logits = linear(x, self.embed.weight) if self.head is None else self.head(x)
        return logits, ModelCache(start + new, tuple(kept))


def check_positions(kinds: list[type[PositionBase]]) -> None:
    """Raise ``InvalidInput`` if a later block adds positions: the model adds once."""
    for kind in kinds:
        if kind is not kinds[0] and kind.embed is not PositionBase.embed:
            found = f"got {kinds[0].__name__} first and {kind.__name__} later"
            raise InvalidInput(f"positions must be added by the first block, {found}")


def check_cache(cache: ModelCache, new: int, limit: int) -> None:
    """Raise ``InvalidInput`` unless each block has kept what the model has seen."""
    for kept in cache.blocks:
        if (length := cache_length(kept)) != cache.length:
            raise InvalidInput(f"cache.length must be {length}, got {cache.length}")
    if cache.length + new > limit:
        given = f"{cache.length} and {new} new ones"
        raise InvalidInput(f"positions must be at most {limit}, got {given}")
