"""Writing 256 tokens with a cache: this library's ``generate`` next to that of Hugging Face, where it is installed.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --rounds 20

Four layers of width 128, four heads, 256 tokens in the vocabulary, greedy, one sequence, float32, one thread. The
second table is what one more token costs behind ever longer prefixes, and how much of it is the attention's own.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.interleave import in_turn, ratio
from residual_edu import fused_attention
from residual_edu.configurable import BlockConfig, ModelCache, ModelConfig, extend
from residual_edu.configurable.cache import Cache
from residual_edu.networks import LanguageModel

LAYERS, WIDTH, HEADS, VOCABULARY, LONGEST = 4, 128, 4, 256, 4096
LIKE = {
    "GPT-2": {"norm": "layer_norm", "ffn": "standard", "position": "sinusoidal"},
    "Llama": {"norm": "rms_norm", "ffn": "gated", "position": "rope", "bias": False},
}


def our_model(**names: Any) -> LanguageModel:
    """Return a model of the common shape; ``names`` make it one like GPT-2 or one like Llama."""
    sizes = {"d_model": WIDTH, "n_heads": HEADS, "d_ff": 4 * WIDTH, "max_seq_len": LONGEST + 1}
    block = BlockConfig(**sizes, **names)
    return LanguageModel(ModelConfig(block=block, vocab_size=VOCABULARY, n_layers=LAYERS)).eval()


def peers(prompt: Tensor, tokens: int) -> dict[str, Callable[[], object]]:
    """Return what writes ``tokens`` with each of Hugging Face's models of the same shape."""
    if not find_spec("transformers"):
        return {}
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    gpt2 = GPT2Config(vocab_size=VOCABULARY, n_positions=LONGEST, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS)
    llama = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=LONGEST,
    )
    found = {"Hugging Face GPT-2": GPT2LMHeadModel(gpt2), "Hugging Face Llama": LlamaForCausalLM(llama)}
    for model in found.values():
        model.generation_config.eos_token_id = None  # so that none stops early
    settings = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, "use_cache": True}
    return {name: partial(model.eval().generate, prompt, **settings) for name, model in found.items()}


@torch.no_grad()
def without_cache(model: LanguageModel, written: Tensor, tokens: int) -> None:
    """Write by computing everything again for each token."""
    for _ in range(tokens):
        logits, _ = model(written)
        written = torch.cat([written, logits[:, -1:].argmax(-1)], dim=1)


@torch.no_grad()
def one_more(model: LanguageModel, token: Tensor, cache: ModelCache) -> None:
    """Compute one token behind ``cache``."""
    model(token, cache)


def attention_alone(prefix: int) -> Callable[[], None]:
    """Return what runs the attention of all layers alone, one query behind ``prefix`` keys, growing them included.

    Each layer has a cache of its own, and all grown ones are kept until the last, as in a model.
    """
    caches, new = torch.randn(LAYERS, 2, 1, HEADS, prefix, WIDTH // HEADS), torch.randn(1, HEADS, 1, WIDTH // HEADS)

    def run() -> None:
        grown: list[Cache] = []
        for kept in caches:
            grown.append(extend((kept[0], kept[1]), new, new))
            fused_attention(new, *grown[-1])

    return run


def writing(rounds: int, tokens: int) -> None:
    """Print the first table."""
    prompt = torch.zeros(1, 1, dtype=torch.long)
    models = {name: our_model(**names) for name, names in LIKE.items()}
    ways = {f"ours, like {name}": partial(model.generate, prompt, tokens, 0.0) for name, model in models.items()}
    alone = {"ours, like GPT-2, no cache": partial(without_cache, models["GPT-2"], prompt, tokens)}
    times = in_turn({**ways, **peers(prompt, tokens), **alone}, rounds)
    print(f"{f'{tokens} tokens':30}{'tokens/s':>10}{'times ours':>12}")
    for name, seconds in times.items():
        base = f"ours, like {'Llama' if 'Llama' in name else 'GPT-2'}"
        print(f"{name:30}{tokens / statistics.median(seconds):10.0f}{ratio(times, name, base):12.2f}", flush=True)


def growing(rounds: int) -> None:
    """Print the second table, of the fastest runs."""
    model, token = our_model(**LIKE["GPT-2"]), torch.zeros(1, 1, dtype=torch.long)
    print(f"\n{'behind a prefix of':30}{'ms a token':>12}{'without attention':>20}")
    for prefix in (16, 64, 256, 1024, LONGEST):
        with torch.no_grad():
            _, cache = model(token.expand(1, prefix - 1))
            _, cache = model(token, cache)  # only now each head's keys lie side by side, as they do from here on
        ways = {"all": partial(one_more, model, token, cache), "attention": attention_alone(prefix)}
        times = in_turn(ways, 3 * rounds, repeats=10)
        whole, own = (1000 * min(times[name]) for name in ways)
        print(f"{prefix:<30}{whole:12.3f}{whole - own:20.3f}", flush=True)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=256)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    writing(arguments.rounds, arguments.tokens)
    growing(arguments.rounds)


if __name__ == "__main__":
    main()
