"""The networks beside an independent transcription, checkpointed and not, and by other ways of running them."""

from functools import partial

import pytest
import torch
from torch import nn

import residual_edu as library
from residual_edu import ClassificationResNet, InvalidInput, LayerNorm, LazyConfig, ResidualNetwork
from tests.library.helpers import agree, refused

C = 6
NORM = LazyConfig(LayerNorm)(dim=C)


class ConditionMixer(nn.Module):
    """A condition mixer small enough to write down: each position times a map of the mean condition."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(C, C)

    def forward(self, x, condition):
        return x * self.inner(condition.flatten(1, -2).mean(1)).view(len(x), *[1] * (x.ndim - 2), C)


def network(kind=ResidualNetwork, **changes):
    block = LazyConfig(library.ResidualBlock)(
        sequence_mixer_cfg=nn.Identity,
        sequence_mixer_norm_cfg=nn.Identity,
        condition_mixer_cfg=ConditionMixer,
        condition_mixer_norm_cfg=NORM,
        mlp_cfg=LazyConfig(library.SimpleFeedForward)(d_model=C, d_ff=2 * C),
        mlp_norm_cfg=NORM,
        dropout_cfg=nn.Identity,
    )
    settings = {
        "in_channels": 3,
        "out_channels": 4,
        "num_blocks": 2,
        "hidden_dim": C,
        "data_dim": 2,
        "in_proj_cfg": nn.Linear,
        "out_proj_cfg": LazyConfig(nn.Linear)(bias=True),
        "norm_cfg": NORM,
        "block_cfg": block,
        "dropout_in_cfg": nn.Identity,
        "condition_in_proj_cfg": nn.Linear,
    }
    made = kind(**(settings | changes)).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


def inputs(space=(2, 5), batch=3, requires_grad=False):
    x = torch.randn(batch, *space, 3, dtype=torch.float64, requires_grad=requires_grad)
    condition = torch.randn(batch, 7, C, dtype=torch.float64, requires_grad=requires_grad)
    return {"input": x, "condition": condition}


def step_by_step(given, made, pooled):
    """The parts, one after the other; what blocks compute is tested with the blocks."""
    x, condition = made.in_proj(given["input"]), given["condition"]
    condition = condition if made.condition_in_proj is None else made.condition_in_proj(condition)
    for block in made.blocks:
        x = block(x, condition)
    if made.target_size:
        x = x[:, -made.target_size[0] :, :, -made.target_size[2] :]
    return made.out_proj(made.out_norm(x.flatten(1, -2).mean(1) if pooled else x))


@pytest.mark.parametrize("kind", [ResidualNetwork, ClassificationResNet])
@pytest.mark.parametrize(
    ("space", "target", "projected"), [((5,), None, None), ((2, 1, 3), (2, 1, 2), nn.Linear), ((1, 1, 1), 1, nn.Linear)]
)
def test_values_and_gradients_in_float64(space, target, projected, kind):
    made = network(kind, data_dim=len(space), condition_in_proj_cfg=projected, target_size=target)
    given = inputs(space, requires_grad=True)
    ours = made(given)
    assert list(ours) == ["logits"]
    theirs = step_by_step(given, made, kind is ClassificationResNet)
    agree(ours["logits"], theirs, [*given.values(), *made.parameters()], 1e-11)


def test_dropout_falls_on_the_input_in_training_alone_and_weight_decay_spares_the_last_norm():
    drop = library.Dropout(0.5, torch.Generator().manual_seed(3))
    norm = nn.Sequential(nn.Linear(C, C), LayerNorm(C))
    made, given = network(dropout_in_cfg=drop, norm_cfg=lambda: norm), inputs()
    whole = network(norm_cfg=lambda: norm)
    whole.load_state_dict(made.state_dict())
    torch.testing.assert_close(made.eval()(given), whole(given))
    dropped = library.Dropout(0.5, torch.Generator().manual_seed(3))(given["input"])
    torch.testing.assert_close(made.train()(given), whole(given | {"input": dropped}))
    _, spared = library.parameter_groups(made, 0.1)
    assert sum(p.shape == (C, C) for p in spared["params"]) == 1


def test_checkpointing_changes_no_bit_under_dropout_and_keeps_less():
    torch.manual_seed(1)
    made, given = network(), inputs(batch=64)
    for block in made.blocks:
        block.dropout = library.DropPath(0.5)
    seen = {}
    for checkpointing in (False, True):
        made.gradient_checkpointing, kept = checkpointing, []
        torch.manual_seed(2)
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x):
            logits = made(given)["logits"]
        made.zero_grad()
        logits.square().sum().backward()
        seen[checkpointing] = [logits, *(p.grad for p in made.parameters())], sum(kept)
    assert all(a.equal(b) for a, b in zip(seen[True][0], seen[False][0], strict=True))
    assert seen[True][1] < 0.5 * seen[False][1]


MLP = LazyConfig(library.SimpleFeedForward)(d_model=C, d_ff=2)
DEAF = partial(library.ResidualBlock, *[nn.Identity] * 4, MLP, NORM, nn.Identity)


def made(**changes):
    return lambda: network(**({"condition_in_proj_cfg": None} | changes))(inputs())


test_what_is_refused = refused(
    (made(num_blocks=0), "num_blocks must be a whole number, at least 1, got 0"),
    (made(block_cfg=DEAF, condition_in_proj_cfg=nn.Linear), "condition_in_proj_cfg must be None: no block"),
    (made(target_size=0), "target_size must be a whole number, at least 1, got 0"),
    (made(target_size=(2, 2, 2)), "target_size must have 2 lengths, got (2, 2, 2)"),
    (made(out_proj_cfg=nn.Linear(C, 9)), "logits must be floating point of shape (..., 4), got"),
    (made(data_dim=1), "input must be floating point of shape (batch, space, 3), got"),
    (made(target_size=3), "start (1) + length (3) exceeds dimension size"),  # torch's own
    error=(InvalidInput, RuntimeError),
)
