import pytest
import torch

from residual_edu import BlockConfig, LanguageModel, ModelConfig
from residual_edu.networks.evaluation_mode import evaluation_mode
from tests.library.helpers import refused


def model(seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_heads": 4, "d_ff": 12, "max_seq_len": 24, "position": "rope"}
    made = LanguageModel(ModelConfig(BlockConfig(**(sizes | changes)), vocab_size=7, n_layers=2))
    for p in made.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return made


def prompt(batch=3):
    return torch.randint(0, 7, (batch, 4), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("attention", "position"), [("mha", "rope"), ("none", "sinusoidal")])
def test_the_same_tokens_as_without_a_cache(attention, position):
    """Up to one more than there are positions; what was written can be trained on."""
    made = model(attention=attention, position=position)
    written = prompt()
    for _ in range(21):
        written = torch.cat([written, made(written)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    found = made.generate(prompt(), 21, temperature=0.0)
    assert found.equal(written)
    made(found[:, :9])[0].sum().backward()
    for cut in ({"top_k": 1}, {"top_p": 1e-6}):
        assert made.generate(prompt(), 21, **cut).equal(written)


def test_a_seed_gives_the_same_text_and_leaves_torchs_own_alone():
    made = model()
    one, again, other = (made.generate(prompt(), 12, seed=seed) for seed in (2, 2, 3))
    assert one.equal(again) and not one.equal(other)
    before = torch.get_rng_state()
    made.generate(prompt(), 4, seed=2)
    assert torch.get_rng_state().equal(before)
    torch.manual_seed(5)
    one = made.generate(prompt(), 12)
    torch.manual_seed(5)
    assert made.generate(prompt(), 12).equal(one)


def test_each_row_ends_with_its_own_stop_token():
    made = model()
    free = made.generate(prompt(8), 16, seed=4)
    stopped = made.generate(prompt(8), 16, seed=4, stop_tokens=[2, 5])
    for row, (before, after) in enumerate(zip(free.tolist(), stopped.tolist(), strict=True)):
        places = [i for i in range(4, len(after)) if after[i] in (2, 5)]
        end = places[0] if places else len(after)
        assert after[: end + 1] == before[: end + 1], row
        assert not places or after[end:] == [after[end]] * (len(after) - end)
    assert len({row[-1] for row in stopped.tolist()} & {2, 5}) == 2
    first = made.generate(prompt(1), 1, temperature=0.0)[0, -1].item()
    assert made.generate(prompt(1), 16, temperature=0.0, stop_tokens=[first]).shape == (1, 5)


@pytest.mark.parametrize("stop", [None, KeyboardInterrupt])
def test_every_module_returns_to_its_own_mode(stop):
    made = model(dropout=0.5)
    made.blocks[0].eval()
    made.blocks[0].ffn.train()
    before = [module.training for module in made.modules()]
    with pytest.raises(stop or AssertionError), evaluation_mode(made):
        assert not any(module.training for module in made.modules())
        raise stop or AssertionError
    assert [module.training for module in made.modules()] == before and len(set(before)) == 2


def test_it_runs_in_evaluation_without_a_graph():
    made, states = model(dropout=0.5), []
    made.blocks[0].register_forward_hook(lambda block, args, out: states.append((block.training, out[0].requires_grad)))
    made.generate(prompt(), 4)
    assert set(states) == {(False, False)} and made.training


def generated(settings):
    return lambda: model().generate(**({"prompt": prompt()} | settings))


REFUSED = [
    ({"max_tokens": 0}, "max_tokens must be a whole number, at least 1, got 0"),
    ({"temperature": -1}, "temperature and top_p must be at least 0 and in (0, 1], got -1 and 1.0"),
    *[({key: value}, "temperature and top_p must be") for key, value in (("top_p", 0), ("top_p", 90))],
    ({"temperature": float("nan")}, "temperature and top_p must be"),
    ({"top_k": -1}, "top_k must be a whole number, at least 0, got -1"),
    ({"repetition_penalty": 0}, "repetition_penalty must be a finite number above 0, got 0"),
    ({"stop_tokens": [1.5]}, "stop_tokens must be a whole number, at least 0, got 1.5"),
    ({"max_tokens": 22}, "positions must be at most 24, got 24 and 1 new ones"),
]
test_what_is_refused = refused(*[(generated(settings), words) for settings, words in REFUSED])
