r"""A language model: tokens in, the scores of the next token out, by a stack of configurable blocks.

.. math:: x = \mathrm{embed}(\mathrm{tokens}), \qquad x \leftarrow \mathrm{block}_l(x), \qquad
    \mathrm{logits} = W\, \mathrm{norm}(x)

W is the embedding itself where they are tied: Press & Wolf, 2016, https://arxiv.org/abs/1608.05859
"""

from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from residual_edu.configurable import ConfigurableBlock, ModelCache, ModelConfig, norm_registry
from residual_edu.errors import check_axes, check_blocks_of_cache, check_config, check_labels, check_room
from residual_edu.networks.generation import generate
from residual_edu.parts.attention import attention_mask
from residual_edu.parts.dropout import Dropout


class LanguageModel(nn.Module):
    """Scores each next token from the tokens before it; ``generate`` writes on.

    Args:
        config: the blocks, and what stands around them.

    Raises:
        InvalidInput: for tokens outside the vocabulary, a cache of another model or batch, or more positions than
            ``max_seq_len``.
    """

    generate = generate

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_config("config", config, ModelConfig)
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.block.d_model)
        nn.init.normal_(self.embed.weight, std=config.block.d_model**-0.5)  # so that a tied head's scores are of size 1
        self.dropout = Dropout(config.block.dropout)
        self.blocks = nn.ModuleList(ConfigurableBlock(config.get_block_config(i)) for i in range(config.n_layers))
        self.final_norm = norm_registry.get(config.block.norm)(config.block)
        self.head = None if config.tie_embeddings else nn.Linear(config.block.d_model, config.vocab_size, bias=False)

    def forward(
        self, tokens: Int[Tensor, "batch positions"], cache: ModelCache | None = None
    ) -> tuple[Float[Tensor, "batch positions vocabulary"], ModelCache]:
        """Return the scores of what follows each of ``tokens``, which follow what ``cache`` holds, and the cache."""
        cache = ModelCache(0, (None,) * len(self.blocks)) if cache is None else cache
        self._check(tokens, cache)
        start, caches = cache
        first = cast(ConfigurableBlock, self.blocks[0])
        x = first.position.embed(self.dropout(self.embed(tokens)), start)
        mask, updated = self._mask(tokens.shape[1], start), []
        for block, kept in zip(self.blocks, caches, strict=True):
            x, kept = block(x, mask, kept)
            updated.append(kept)
        x = self.final_norm(x)
        logits = nn.functional.linear(x, self.embed.weight) if self.head is None else self.head(x)
        return logits, ModelCache(start + tokens.shape[1], tuple(updated))

    def _mask(self, new: int, start: int) -> Tensor | None:
        """Return which positions the ``new`` ones may look at; one alone looks at all that came before."""
        device = self.embed.weight.device
        return None if new == 1 else attention_mask(new, start + new, causal=True, device=device)

    def _check(self, tokens: Tensor, cache: ModelCache) -> None:
        check_axes("tokens", tokens, "batch", "positions")
        check_labels("tokens", tokens, self.config.vocab_size)
        check_config("cache", cache, ModelCache)
        check_blocks_of_cache(len(cache.blocks), len(self.blocks))
        check_room(cache.length, tokens.shape[1], self.config.block.max_seq_len)
