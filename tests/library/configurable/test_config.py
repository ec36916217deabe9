import re
from dataclasses import dataclass

import pytest

from residual_edu import MLA, BlockConfig, ConfigurableBlock, InvalidInput, ModelConfig, SlidingWindowGQA

from .small import SIZES, config

pytestmark = pytest.mark.usefixtures("all_as_installed")

MODEL = {"block": config(), "vocab_size": 7, "n_layers": 2}


def test_fields_and_what_they_are_if_nothing_is_said():
    assert vars(BlockConfig()) == {
        "attention": "mha", "ffn": "standard", "norm": "layer_norm", "position": "sinusoidal", "d_model": 512,
        "n_heads": 8, "n_kv_heads": None, "d_ff": 2048, "bias": True, "dropout": 0.0, "norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_seq_len": 2048, "pre_norm": True, "window_size": None, "kv_lora_rank": None,
        "q_lora_rank": None, "rope_dim": None, "qk_norm": False,
    }  # fmt: skip
    model = {"block": BlockConfig(), "vocab_size": 32000, "n_layers": 6, "tie_embeddings": True, "block_configs": None}
    assert vars(ModelConfig()) == model and hash(config()) == hash(config())


def test_what_follows_from_it():
    assert config().head_dim == 4 and BlockConfig().head_dim == 64
    assert config().effective_n_kv_heads == 2 and config(n_kv_heads=None).effective_n_kv_heads == 4
    for position, rope_dim, effective in [("rope", None, 2), ("rope", 0, 0), ("none", None, 0), ("none", 4, 4)]:
        assert config(position=position, rope_dim=rope_dim).effective_rope_dim == effective
    assert BlockConfig(position="rope").effective_rope_dim == 32
    assert BlockConfig(position="rope", n_heads=256).effective_rope_dim == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_heads": 5, "n_kv_heads": None}, "n_kv_heads must divide n_heads, and n_heads d_model, got 5, 5 and 16"),
        ({"n_kv_heads": 8}, "n_kv_heads must divide n_heads, and n_heads d_model, got 8, 4 and 16"),
        ({"rope_dim": 6}, "rope_dim must be at most head_dim=4, got 6"),
        ({"rope_dim": -2}, "rope_dim must be a whole number, at least 0, got -2"),
        ({"d_model": 0}, "d_model must be a whole number, at least 1, got 0"),
        *[({name: 0}, f"{name} must be a whole number") for name in SIZES if name not in ("rope_dim", "d_model")],
        ({"q_lora_rank": 0}, "q_lora_rank must be a whole number"),
        ({"dropout": 1.0}, "dropout must be a number in [0, 1), got 1.0"),
        ({"norm_eps": 0}, "norm_eps must be a finite number above 0, got 0"),
        ({"rope_theta": -1.0}, "rope_theta must be a finite number above 0"),
        ({"vocab_size": 0}, "vocab_size must be a whole number"),
        ({"n_layers": 1.5}, "n_layers must be a whole number"),
        ({"block_configs": [config()] * 3}, "block_configs must hold n_layers=2 configs, got 3"),
    ],
)
def test_what_is_refused(changes, words):
    of_model = (MODEL | {"block_configs": None}).keys() & changes.keys()
    with pytest.raises(InvalidInput, match=f"^{re.escape(words)}"):
        ModelConfig(**(MODEL | changes)) if of_model else config(**changes)


@pytest.mark.parametrize(("kind", "name"), [(SlidingWindowGQA, "window_size"), (MLA, "kv_lora_rank")])
def test_what_an_attention_needs_is_said_by_its_class(kind, name):
    assert kind.needs == (name,)
    with pytest.raises(InvalidInput, match=f"^{name} must be a whole number, at least 1, got None$"):
        kind(config(**{name: None}))


def test_a_config_of_ones_own_may_have_more_fields():
    @dataclass(frozen=True)
    class Wider(BlockConfig):
        extra: int = 3

    assert ConfigurableBlock(Wider(**SIZES)).config.extra == 3
    with pytest.raises(InvalidInput, match="^dropout must be"):
        Wider(**SIZES, dropout=1)
