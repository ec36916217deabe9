"""Exercise on mending: a network whose loss falls although none of its blocks learns. It has two faults.

An answer may change one tensor in a block with one fault, and two in a block with both: so it has to find out which.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet
from residual_course.datasets import digits
from residual_course.training import minibatches, train

Answer = Callable[[Any], Any]

ASKED = 0.93  # the share of test digits that must be right
WIDTH, RATE, STEPS = 64, 0.003, 60
WEIGHTS = "first.weight", "second.weight"
SEEN = (*WEIGHTS, "gate")


class Block(nn.Module):
    """x + gate · f(norm(x)), with a gate for each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Parameter(torch.zeros(WIDTH))
        nn.init.normal_(self.first.weight, std=(1 / WIDTH) ** 0.5)
        nn.init.zeros_(self.first.bias)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def f(self, x: Tensor) -> Tensor:
        """Return the branch's output before its gate."""
        return self.second(torch.relu(self.first(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        return x + self.gate * self.f(self.norm(x))


def handed_over(depth: int, seed: int) -> nn.Sequential:
    """Return a network of ``depth`` blocks, a norm and a head, as the exercise hands it over."""
    torch.manual_seed(seed)
    blocks = [Block() for _ in range(depth)]
    for block in blocks[1::2]:
        nn.init.constant_(block.first.bias, -10)
    return nn.Sequential(*blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))


@cache
def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images (n, 64) and labels, to train on and to test on."""
    data = digits()
    train_x, test_x = (layer_norm(x.flatten(1), (WIDTH,)) for x in (data.train_images, data.test_images))
    return train_x, data.train_labels, test_x, data.test_labels


def mended(f: Answer, depth: int, seed: int) -> nn.Sequential:
    """Return a network whose blocks ``f`` has changed, or raise ``Unmet`` where they are no longer such blocks."""
    network = handed_over(depth, seed)
    blocks = nn.Sequential(*list(network)[:-2])
    shapes = {name: tuple(p.shape) for name, p in blocks.named_parameters()}
    f(blocks)
    if [id(one) for one in blocks] != [id(one) for one in list(network)[:-2]]:
        raise Broken("the blocks are no longer those that it was given")
    _still_learn(blocks, shapes)
    return network


def _still_learn(blocks: nn.Module, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise ``Broken`` unless the parameters have their names and shapes, are finite, and learn."""
    after = dict(blocks.named_parameters())
    if list(after) != list(shapes):
        raise Broken("the blocks no longer have the parameters that they had")
    for name, parameter in after.items():
        if (shape := tuple(parameter.shape)) != shapes[name]:
            raise Broken(f"`{name}` now has the shape {shape}, not {shapes[name]}")
        if not parameter.requires_grad:
            raise Broken(f"`{name}` does not learn any more")
        if not parameter.isfinite().all():
            raise Broken(f"`{name}` holds numbers that are not finite")


def taught(f: Answer, depth: int, seed: int) -> tuple[float, dict[str, list[int]]]:
    """Return what is right after the training, and for each of ``SEEN`` the blocks in which it has not changed."""
    network = mended(f, depth, seed)
    before = deepcopy(network)
    x, y, test_x, test_y = images()
    adam = torch.optim.Adam(network.parameters(), RATE)
    with torch.enable_grad():
        train(lambda x, y: cross_entropy(network(x), y), minibatches(x, y, seed=seed), adam, STEPS)
    still = {name: unmoved(network, before, name, depth) for name in SEEN}
    with torch.no_grad():
        return (network(test_x).argmax(-1) == test_y).float().mean().item(), still


def unmoved(now: nn.Sequential, before: nn.Sequential, name: str, depth: int) -> list[int]:
    """Return the blocks, counted from 0, whose parameter ``name`` is as it was."""
    names = [f"{block}.{name}" for block in range(depth)]
    return [block for block, one in enumerate(names) if now.get_parameter(one).equal(before.get_parameter(one))]


def changed(f: Answer, depth: int = 8) -> list[list[str]]:
    """Return for each block the names of the parameters that ``f`` has changed."""
    network, found = mended(f, depth, 0), []
    for block, old in zip(list(network)[:-2], list(handed_over(depth, 0))[:-2], strict=True):
        pairs = zip(block.named_parameters(), old.parameters(), strict=True)
        found.append([name for (name, now), was in pairs if not now.equal(was)])
    return found


def _in_place(f: Answer) -> None:
    if not any(changed(f)):
        raise Broken("no parameter of the blocks has changed: does it write into them?")


def faults(block: int) -> int:
    """Return how many faults a block has: each branch is 0 in both factors, and each second one also hides a bias."""
    return 1 + block % 2


def _only_what_is_needed(f: Answer) -> None:
    for block, names in enumerate(changed(f)):
        if len(names) > faults(block):
            listed = ", ".join(f"`{name}`" for name in names)
            raise Unmet(f"in block {block}, counted from 0, it changes {len(names)} tensors ({listed}); fewer will do")


def _weights_move(f: Answer) -> None:
    still = taught(f, 8, 0)[1]
    for name in WEIGHTS:
        if places := still[name]:
            raise Unmet(f"`{name}` has not changed in {len(places)} of 8 blocks (counted from 0: {places})")


def _reads(f: Answer) -> None:
    for depth, seed in ((8, 0), (8, 1), (24, 2)):
        share, still = taught(f, depth, seed)
        for name in WEIGHTS:
            if places := still[name]:
                raise Unmet(f"with {depth} blocks `{name}` has not changed in {len(places)} of them")
        if not share >= ASKED:
            raise Unmet(f"with {depth} blocks and seed {seed} it is {share:.0%}")


def _observe(f: Answer) -> Any:
    """Return what does not change, in words, and how well the digits are read."""
    _in_place(f)
    share, still = taught(f, 8, 0)
    many = [len(names) for names in changed(f)]
    kind = "well" if share >= ASKED else "as the head alone" if share > 0.85 else "badly"
    return [*(f"{name}: {len(places)}" for name, places in still.items()), kind, many]


def written(**values: float | int) -> Answer:
    """Return an answer that fills parameters, such as ``gate`` or ``first_bias``, in every block."""

    def answer(blocks: Any) -> None:
        with torch.no_grad():
            for block in blocks:
                for name, value in values.items():
                    block.get_parameter(name.replace("_", ".")).fill_(value)

    return answer


def last_layers_drawn(blocks: Any) -> None:
    """Draw the last layers, leave the gates at 0, and set the biases of the first layers to 0."""
    for block in blocks:
        nn.init.normal_(block.second.weight, std=0.15)
        nn.init.zeros_(block.first.bias)


def all_drawn(blocks: Any) -> None:
    """Draw both layers anew, without looking."""
    for block in blocks:
        block.first.reset_parameters()
        block.second.reset_parameters()


def one_block(blocks: Any) -> None:
    """Mend the first block alone."""
    written(gate=0.1, first_bias=0)(blocks[:1])


def in_a_copy(blocks: Any) -> None:
    """Change a copy of the blocks."""
    written(gate=0.1, first_bias=0)(deepcopy(blocks))


def frozen(blocks: Any) -> None:
    """Mend the values and let the gates learn no more."""
    written(gate=0.1, first_bias=0)(blocks)
    for block in blocks:
        block.gate.requires_grad_(False)


MENDED_BLOCKS = Exercise(
    reference=written(gate=0.1, first_bias=0),
    also_right=(last_layers_drawn, written(second_bias=0.01, first_bias=0), written(gate=1, first_bias=0)),
    observe=_observe,
    effort=10,  # it trains networks of 24 blocks
    properties=(
        Property("starting values of the blocks change, and the blocks stay", _in_place, ()),
        Property("in 60 steps every weight matrix of 8 blocks changes", _weights_move),
        Property("93 % of the test digits are right, with 8 and 24 blocks and three seeds", _reads),
        Property("in each block as few tensors change as its faults need", _only_what_is_needed),
    ),
    mistakes=(
        Mistake(
            written(gate=0.1),
            "gates that are mended, in front of hidden units that are 0 for every digit",
            "Look at the hidden units, relu(first(norm(x))), of the blocks whose weights do not change.",
        ),
        Mistake(
            written(first_bias=0),
            "hidden units that are mended, in branches that do not learn",
            "Which of the two factors gate and f(x) is 0 at the start?",
        ),
        Mistake(
            all_drawn,
            "layers that are drawn anew",
            "Find the tensors that hold the faults, in the first block and in the second, and change these alone.",
        ),
        Mistake(one_block, "one mended block", "Mend every block of those that you are given."),
        Mistake(in_a_copy, "blocks as they were", "Write into the blocks themselves, with `torch.no_grad()`."),
        Mistake(frozen, "gates that do not learn", "Leave `requires_grad` as it was: values are enough."),
        Mistake(
            written(gate=0.1, first_bias=0, first_weight=0),
            "first layers of 0, whose hidden units are 0 for every digit",
            "Where a hidden unit is 0 for every digit, no weight before or after it has a gradient.",
        ),
    ),
    hints=(
        "Train 10 steps and list the parameters that have not changed. What are they, and what multiplies them?",
        "There are two faults: of two factors both are 0, and in some blocks the ReLU returns 0 for every digit.",
    ),
)

EXERCISES = {"mended_blocks": MENDED_BLOCKS}
