import copy
import pickle
import re
from dataclasses import FrozenInstanceError, dataclass, fields, replace

import pytest

from residual_edu import MLA, BlockConfig, ConfigurableBlock, InvalidInput, ModelConfig, SlidingWindowGQA

from .small import SIZES, config

pytestmark = pytest.mark.usefixtures("as_installed")

MODEL = {"block": config(), "vocab_size": 7, "n_layers": 2}


def test_fields_and_what_they_are_if_nothing_is_said():
    assert {field.name: getattr(BlockConfig(), field.name) for field in fields(BlockConfig)} == {
        "attention": "mha", "ffn": "standard", "norm": "layer_norm", "position": "sinusoidal", "d_model": 512,
        "n_heads": 8, "n_kv_heads": None, "d_ff": 2048, "bias": True, "dropout": 0.0, "norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_seq_len": 2048, "pre_norm": True, "window_size": None, "kv_lora_rank": None,
        "q_lora_rank": None, "rope_dim": None, "qk_norm": False,
    }  # fmt: skip
    made = ModelConfig()
    assert (made.block, made.vocab_size, made.n_layers) == (BlockConfig(), 32000, 6)
    assert made.tie_embeddings is True and made.block_configs is None


def test_a_config_is_frozen_and_compares_copies_and_hashes_by_value():
    with pytest.raises(FrozenInstanceError):
        config().d_model = 3
    assert config() == config() and hash(config()) == hash(config())
    assert copy.deepcopy(config()) == pickle.loads(pickle.dumps(config())) == config()
    assert replace(config(), norm="rms_norm").norm == "rms_norm"


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
        ({"n_kv_heads": 3}, "n_kv_heads must divide n_heads, and n_heads d_model, got 3, 4 and 16"),
        ({"n_kv_heads": 8}, "n_kv_heads must divide n_heads, and n_heads d_model, got 8, 4 and 16"),
        ({"rope_dim": 6}, "rope_dim must be at most head_dim=4, got 6"),
        ({"rope_dim": -2}, "rope_dim must be a whole number, at least 0, got -2"),
        ({"d_model": 0}, "d_model must be a whole number, at least 1, got 0"),
        ({"n_heads": -1}, "n_heads must be a whole number"),
        ({"d_ff": 2.5}, "d_ff must be a whole number"),
        ({"n_kv_heads": 0}, "n_kv_heads must be a whole number"),
        ({"max_seq_len": -1}, "max_seq_len must be a whole number"),
        ({"window_size": 0}, "window_size must be a whole number"),
        ({"kv_lora_rank": 0.5}, "kv_lora_rank must be a whole number"),
        ({"q_lora_rank": 0}, "q_lora_rank must be a whole number"),
        ({"dropout": 1.0}, "dropout must be a number in [0, 1), got 1.0"),
        ({"norm_eps": 0}, "norm_eps must be a finite number above 0, got 0"),
        ({"rope_theta": -1.0}, "rope_theta must be a finite number above 0"),
        ({"vocab_size": 0}, "vocab_size must be a whole number"),
        ({"n_layers": 1.5}, "n_layers must be a whole number"),
        ({"block_configs": [config()]}, "block_configs must hold n_layers=2 configs, got 1"),
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


def test_each_layer_may_have_a_config_of_its_own():
    two = [config(), config(attention="gqa")]
    made = ModelConfig(config(ffn="gated"), n_layers=2, block_configs=two)
    assert [made.get_block_config(layer) for layer in (0, 1)] == two
    assert ModelConfig(config()).get_block_config(5) == config()
