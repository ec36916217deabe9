r"""A language model: from tokens to the logits of the next token, through a stack of configurable blocks.

.. math:: x = \mathrm{embed}(\mathrm{tokens}), \qquad x \leftarrow \mathrm{block}_l(x), \qquad
    \mathrm{logits} = W\, \mathrm{norm}(x)

Where the two are tied, W is the embedding's matrix itself: Press & Wolf, 2016, https://arxiv.org/abs/1608.05859
"""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from residual_edu.checked import checked
from residual_edu.configurable import (
    ConfigurableBlock,
    ModelCache,
    ModelConfig,
    PositionBase,
    norm_registry,
)
from residual_edu.configurable.cache import cache_length
from residual_edu.configurable.position import check_room
from residual_edu.networks.generation import generate
from residual_edu.networks.labels import check_labels
from residual_edu.old_errors import (
    InvalidInput,
    check_axes,
    check_device,
    check_instance,
    check_size,
)
from residual_edu.parts.attention import attention_mask
from residual_edu.parts.dropout import Dropout


class LanguageModel(nn.Module):
    """Returns the logits of the next token after each token, given the tokens up to it; ``generate`` continues a text.

    Args:
        config: the blocks, the vocabulary, and whether embedding and head are tied.

    Raises:
        InvalidInput: for tokens outside the vocabulary, a cache of another model or batch, or more positions than
            ``max_seq_len``.
    """

    generate = generate

    @checked
    def __init__(
        self, config: Annotated[ModelConfig, partial(check_instance, kind=ModelConfig)]
    ) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.block.d_model)
        self.reset_parameters()
        self.dropout = Dropout(config.block.dropout)
        self.blocks = nn.ModuleList(
            ConfigurableBlock(config.get_block_config(i))
            for i in range(config.n_layers)
        )
        check_embeds_first(self.blocks)
        self.final_norm = norm_registry.get(config.block.norm)(config.block)
        self.head = (
            None
            if config.tie_embeddings
            else nn.Linear(config.block.d_model, config.vocab_size, bias=False)
        )

    def reset_parameters(self) -> None:
        """Draw the embedding so that a tied head's logits are of size 1."""
        nn.init.normal_(self.embed.weight, std=self.config.block.d_model**-0.5)

    def forward(
        self, tokens: Int[Tensor, "batch positions"], cache: ModelCache | None = None
    ) -> tuple[Float[Tensor, "batch positions vocabulary"], ModelCache]:
        """Return the logits after each of ``tokens``, which continue those in ``cache``, and the cache of both."""
        cache = ModelCache(0, (None,) * len(self.blocks)) if cache is None else cache
        self._check_inputs(tokens, cache)
        start, caches = cache
        blocks, embed = cast(list[ConfigurableBlock], list(self.blocks)), self.embed
        x = (
            self.dropout(embed(tokens)) if self.training else embed(tokens)
        )  # (batch, positions, d_model)
        x = blocks[0].position.embed(x, start)
        mask, updated = self._mask(tokens.shape[1], start), []
        for block, kept in zip(blocks, caches, strict=True):
            x, kept = block(x, mask, kept)
            updated.append(kept)
        x = self.final_norm(x)
        logits = (
            nn.functional.linear(x, embed.weight) if self.head is None else self.head(x)
        )
        return logits, ModelCache(start + tokens.shape[1], tuple(updated))

    def _mask(self, new: int, start: int) -> Tensor | None:
        """Return the causal mask of ``new`` positions after ``start``; None for one, which attends to all before it."""
        if new == 1:
            return None
        return attention_mask(
            new, start + new, causal=True, device=self.embed.weight.device
        )

    def _check_inputs(self, tokens: Tensor, cache: ModelCache) -> None:
        check_axes("tokens", tokens, "batch", "positions")
        if tokens.ndim != 2:
            raise InvalidInput(
                f"tokens must have shape (batch, positions), got {tuple(tokens.shape)}"
            )
        check_labels("tokens", tokens, self.config.vocab_size)
        check_device("tokens", tokens, self.embed.weight)
        check_instance("cache", cache, ModelCache)
        check_size("cache.length", cache.length, least=0)
        if len(cache.blocks) != len(self.blocks):
            raise InvalidInput(
                f"cache must hold one for each of {len(self.blocks)} blocks, got {len(cache.blocks)}"
            )
        for place, kept in enumerate(cache.blocks):
            if cache_length(kept) != cache.length:
                raise InvalidInput(
                    f"cache.length must be that of each block's cache, got {cache.length} and {cache_length(kept)} in "
                    f"block {place}; pass the cache as the model returned it"
                )
        check_room(cache.length, tokens.shape[1], self.config.block.max_seq_len)


def check_embeds_first(blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where a later block's position is added to the stream and the first one's is another.

    A model adds positions once, before its first block; the others' would never be.
    """
    kinds = [type(cast(ConfigurableBlock, block).position) for block in blocks]
    for place, kind in enumerate(kinds):
        if kind is not kinds[0] and kind.embed is not PositionBase.embed:
            raise InvalidInput(
                f"block_configs[{place}].position must be that of the first block where it adds to the stream, got "
                f"{kind.__name__} after {kinds[0].__name__}: positions are added once, before the first block"
            )
