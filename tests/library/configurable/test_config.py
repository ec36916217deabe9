import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from residual_edu import BlockConfig, ConfigurableBlock, InvalidInput, ModelConfig, attention_registry
from residual_edu.checked import Size
from residual_edu.configurable.validation import check_together

from .small import SIZES, config

pytestmark = pytest.mark.usefixtures("as_installed")

MODEL = {"block": config(), "vocab_size": 7, "n_layers": 2, "tie_embeddings": True, "block_configs": None}


def faults(message, make):
    with pytest.raises(InvalidInput) as caught:
        make()
    header, *lines = str(caught.value).split("\n  ")
    assert header == message
    return lines


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
    ("changes", "fault"),
    [
        ({"n_heads": 5, "n_kv_heads": None}, "d_model must be divisible by 5 (n_heads), got 16"),
        ({"n_kv_heads": 3}, "n_heads must be divisible by 3 (n_kv_heads), got 4"),
        ({"n_kv_heads": 8}, "n_heads must be divisible by 8 (n_kv_heads), got 4"),
        ({"rope_dim": 6}, "rope_dim must be at most head_dim, got rope_dim=6 and head_dim=4"),
        ({"position": "rope", "rope_dim": 3}, "rope_dim must be even for position 'rope', got 3"),
        ({"position": "rope", "d_model": 12}, "head_dim must be divisible by 2 (position 'rope' rotates pairs of"),
        ({"d_model": 15, "n_heads": 1, "n_kv_heads": 1}, "d_model must be divisible by 2 (position 'sinusoidal' adds"),
        ({"attention": "sliding_window", "window_size": None}, "window_size must be given for attention "),
        ({"attention": "mla", "kv_lora_rank": None}, "kv_lora_rank must be given for attention 'mla', got None"),
        ({"attention": "mhaa"}, "got 'mhaa'; did you mean 'mha'?"),
        ({"ffn": "gate"}, "got 'gate'; did you mean 'gated'?"),
        ({"norm": "rmsnorm"}, "got 'rmsnorm'; did you mean 'rms_norm'?"),
        ({"position": None}, "position must be one of "),
        ({"d_model": 0}, "d_model must be at least 1, got 0"),
        ({"n_heads": 0}, "n_heads must be at least 1, got 0"),
        ({"d_ff": 2.5}, "d_ff must be a whole number, got 2.5"),
        ({"n_kv_heads": "2"}, "n_kv_heads must be a whole number, got '2'"),
        ({"n_kv_heads": 0}, "n_kv_heads must be at least 1, got 0"),
        ({"max_seq_len": -1}, "max_seq_len must be at least 1, got -1"),
        ({"window_size": 0}, "window_size must be at least 1, got 0"),
        ({"kv_lora_rank": 0}, "kv_lora_rank must be at least 1, got 0"),
        ({"q_lora_rank": 0}, "q_lora_rank must be at least 1, got 0"),
        ({"rope_dim": -2}, "rope_dim must be at least 0, got -2"),
        ({"bias": 1}, "bias must be True or False, got 1"),
        ({"pre_norm": "post"}, "pre_norm must be True or False, got 'post'"),
        ({"qk_norm": None}, "qk_norm must be True or False, got None"),
        ({"dropout": 1.0}, "dropout must lie in [0, 1), got 1.0; a rate of 1 would drop everything"),
        ({"norm_eps": 0}, "norm_eps must be a finite number above 0, got 0"),
        ({"rope_theta": -1.0}, "rope_theta must be a finite number above 0, got -1.0"),
        ({"vocab_size": 0}, "vocab_size must be at least 1, got 0"),
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"tie_embeddings": "no"}, "tie_embeddings must be True or False, got 'no'"),
        ({"block": SIZES}, "block must be a BlockConfig, got a dict"),
        ({"block_configs": [config()]}, "len(block_configs) must be 2, one for each layer, got 1"),
        ({"block_configs": [config(), None]}, "block_configs[1] must be a BlockConfig, got None"),
        ({"block_configs": [config(), config(d_model=32)]}, "block_configs[1].d_model must be 16, as block"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, fault):
    of_model = MODEL.keys() & changes.keys()
    lines = faults(
        "ModelConfig has a fault:" if of_model else "BlockConfig has a fault:",
        lambda: ModelConfig(**(MODEL | changes)) if of_model else config(**changes),
    )
    assert len(lines) == 1 and fault in lines[0]


def test_every_fault_at_once():
    bad = {"attention": "mla", "ffn": "swiglu", "d_model": 18, "n_kv_heads": 3, "kv_lora_rank": None, "dropout": 2}
    lines = faults("BlockConfig has 5 faults:", lambda: config(**bad))
    names = ["ffn", "dropout", "kv_lora_rank", "d_model", "n_heads"]
    assert [line.split()[0] for line in lines] == names


@pytest.mark.parametrize("changes", [{"n_heads": 0}, {"d_model": "16"}, {"d_model": None}, {"n_heads": 2.0}])
def test_a_size_that_is_none_does_not_hide_the_other_faults(changes):
    lines = faults("BlockConfig has 2 faults:", lambda: config(**changes, ffn="x"))
    assert sorted(line.split()[0] for line in lines) == sorted(["ffn", *changes])


def test_what_an_attention_needs_is_said_by_its_class():
    class Mine(attention_registry.get("mha")):
        needs = ("window_size",)

    attention_registry.register("mine", Mine)
    config(attention="mine")
    with pytest.raises(InvalidInput, match="window_size must be given for attention 'mine', got None$"):
        config(attention="mine", window_size=None)
    with pytest.raises(InvalidInput, match="^window_size must be given for Mine, got None$"):
        Mine(config(window_size=None))


def test_a_config_of_ones_own_may_have_more_fields():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Wider(BlockConfig):
        extra: Size = 3

    assert ConfigurableBlock(Wider(**SIZES)).config.extra == 3
    assert faults("Wider has 2 faults:", lambda: Wider(**SIZES, dropout=1, extra=0))[1].startswith("extra must be at")


def test_an_error_that_is_no_refusal_is_not_collected():
    with pytest.raises(ZeroDivisionError):
        check_together(config(), lambda config, sound: [lambda: 1 / 0])


def test_each_layer_may_have_a_config_of_its_own():
    two = [config(), config(attention="gqa")]
    made = ModelConfig(config(ffn="gated"), n_layers=2, block_configs=two)
    assert [made.get_block_config(layer) for layer in (0, 1)] == two
    assert ModelConfig(config()).get_block_config(5) == config()
