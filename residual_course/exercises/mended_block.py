"""Exercise on mending: a block whose network trains, and draws the same blots for every label."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
from residual_course.checking.properties import fits, tensor
from residual_course.checking.unmet import wrong_kind
from residual_course.datasets import digits
from residual_course.training import minibatches, train
from residual_edu import SimpleFeedForward
from residual_edu.networks.denoiser import Denoiser, SelfAttention, flow_matching_loss, sample

Answer = Callable[[int], Any]  # makes a block of a width

ASKED = 0.9  # the share of drawings that must be recognised
WIDTH, RATE, STEPS, FEW, DRAWINGS = 64, 0.01, 150, 12, 100


class Handed(nn.Module):
    """The block as it is handed over."""

    one, last, gate = 0.0, 0.0, 0.0  # before the scale; times the last layers' weights; where the gates start

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.sequence_mixer, self.mlp = SelfAttention(dim), SimpleFeedForward(dim, 2 * dim)
        projection = nn.Linear(dim, 6 * dim)  # makes the six vectors
        self.condition_proj = nn.Sequential(nn.SiLU(), projection)
        for layer in (self.sequence_mixer.qkv, self.sequence_mixer.out, self.mlp.linear1, self.mlp.linear2):
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            for layer in (self.sequence_mixer.out, self.mlp.linear2):
                layer.weight *= self.last
            nn.init.zeros_(projection.weight)
            nn.init.zeros_(projection.bias).view(2, 3, -1)[:, 2] = self.gate

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """Return x after both branches."""
        b1, s1, g1, b2, s2, g2 = self.condition_proj(c)[:, None].chunk(6, dim=-1)
        x = x + g1 * self.sequence_mixer(F.layer_norm(x, x.shape[-1:]) * (self.one + s1) + b1)
        return x + g2 * self.mlp(F.layer_norm(x, x.shape[-1:]) * (self.one + s2) + b2)


def changed(**values: float) -> type[Handed]:
    """Return the block with other values of ``one``, ``last`` and ``gate``."""
    return type("Changed", (Handed,), values)


Mended = changed(one=1.0, last=1.0)


def network(f: Answer, depth: int, seed: int) -> Denoiser:
    """Return an untrained network whose blocks ``f`` makes, or raise for what is no block."""
    torch.manual_seed(seed)
    made, x, condition = Denoiser(4, 2, WIDTH, 1, 10), torch.zeros(3, 4, WIDTH), torch.zeros(3, WIDTH)
    blocks = [f(WIDTH) for _ in range(depth)]
    for block in blocks:
        if not isinstance(block, nn.Module):
            raise wrong_kind("it made", block, "an nn.Module was asked for")
        fits(tensor(block(x, condition), "it returned"), x)
    made.blocks = nn.ModuleList(blocks)
    return made


def taught(f: Answer, depth: int, seed: int, steps: int) -> tuple[Denoiser, list[str]]:
    """Return a trained network, and the names of the blocks' parameters that the training has not changed."""
    made, data = network(f, depth, seed), digits()
    before = {name: p.detach().clone() for name, p in made.blocks.named_parameters()}
    adam = torch.optim.Adam([p for p in made.parameters() if p.requires_grad], RATE)
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
    batches = minibatches(2 * data.train_images - 1, data.train_labels, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        train(lambda x, y: flow_matching_loss(made, x, y, generator=generator), batches, adam, steps, rate)
    return made, [name for name, p in made.blocks.named_parameters() if p.equal(before[name])]


@cache
def reader() -> Any:
    """Return a support vector machine that has seen the digits for training."""
    from sklearn.svm import SVC

    data = digits()
    return SVC().fit((2 * data.train_images - 1).flatten(1).numpy(), data.train_labels.numpy())


@torch.no_grad()
def recognised(made: Denoiser) -> float:
    """Return the share of 100 drawings, with guidance 2, that ``reader`` takes for the digit asked for."""
    noise = torch.randn(DRAWINGS, 8, 8, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(DRAWINGS) % 10
    drawings = sample(made.eval(), noise, labels, steps=10).clamp(-1, 1).nan_to_num(-1)
    return float((reader().predict(drawings.flatten(1).numpy()) == labels.numpy()).mean())


def _is_a_block(f: Answer) -> None:
    network(f, 1, 0)
    x, condition = torch.zeros(3, 4, 32), torch.zeros(3, 32)
    fits(tensor(f(32)(x, condition), "with dim 32 it returned"), x)


def _weights_move(f: Answer) -> None:
    _, still = taught(f, 2, 0, FEW)
    if weights := [name for name in still if name.endswith("weight")]:
        raise Unmet(f"{len(weights)} weight matrices have not changed, `{weights[0]}` among them")


def _draws(f: Answer) -> None:
    for depth, seed in ((2, 0), (4, 1)):
        made, _ = taught(f, depth, seed, STEPS)
        if not (share := recognised(made)) >= ASKED:
            raise Unmet(f"with {depth} blocks and seed {seed}, {share:.0%} of {DRAWINGS} drawings are recognised")


def _observe(f: Answer) -> Any:
    """Return which linear layers of a new block have weights or inputs that are all 0, and what does not change."""
    made, seen = network(f, 2, 0), dict[str, str]()
    layers = {name: layer for name, layer in made.blocks[0].named_modules() if isinstance(layer, nn.Linear)}
    for name, layer in layers.items():
        layer.register_forward_pre_hook(lambda _, given, name=name: seen.update({name: f"{bool(given[0].any())}"}))
    with torch.no_grad():
        made(torch.ones(3, 8, 8), torch.rand(3, generator=torch.Generator().manual_seed(0)), torch.arange(3))
    zeros = [f"{name}: {seen.get(name)}, {bool(layer.weight.any())}" for name, layer in layers.items()]
    return [*zeros, *taught(f, 2, 0, FEW)[1]]


MENDED_BLOCK = Exercise(
    reference=Mended,
    observe=_observe,
    effort=25,  # it trains networks of two and four blocks, slowly where threads wait for each other
    properties=(
        Property("it makes a block: forward(x, c) returns the shape of x", _is_a_block, ()),
        Property(f"in {FEW} steps every weight matrix of both blocks changes", _weights_move),
        Property("90 % of 100 drawings are recognised after 150 steps, with 2 blocks and with 4", _draws, trains=True),
    ),
    mistakes=(
        Mistake(
            Handed, "the block as it was handed over", "What is the input of `sequence_mixer` and `mlp` in a new block?"
        ),
        Mistake(
            changed(one=1.0),
            "branches that receive the norm, and whose output is 0",
            "A new block's gates are 0: what is the output of `sequence_mixer` and `mlp` then?",
        ),
        Mistake(
            changed(last=1.0),
            "last layers that are drawn, in branches whose input is 0",
            "What is the input of `sequence_mixer` and `mlp` in a new block?",
        ),
        Mistake(
            changed(gate=1.0),
            "gates that are open, in front of branches in which only biases can learn",
            "A weight's gradient contains its layer's input. Which layers receive zeros?",
        ),
    ),
    hints=(
        "List the tensors that 12 steps do not change. Then look at a new block: what goes into `sequence_mixer` and "
        "`mlp`, and what comes out?",
        "A gate of 0 has a gradient if the output that it multiplies is not 0. Two things make that output 0 here, "
        "each by itself.",
    ),
)

EXERCISES = {"mended_block": MENDED_BLOCK}
