"""Answers to the exercises of lesson 10 that no list of mistakes holds."""

import torch
from torch import nn
from torch.nn import functional as F

from residual_course.checking.tries import right, wrong
from residual_course.exercises.cached_attention import attend
from residual_course.exercises.handed_model import MENDED, changed, later, peeking
from residual_edu import BlockConfig, LanguageModel, ModelConfig


@right("losses_by_position", "position by position")
def _(model, rows):
    scores = model(rows[:, :-1])
    return torch.stack([F.cross_entropy(scores[:, at], rows[:, at + 1]) for at in range(rows.shape[1] - 1)])


right("losses_by_position", "flat, then a table again")(
    lambda model, rows: (
        F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
        .view(len(rows), -1)
        .mean(0)
    )
)
wrong("losses_by_position", "classes and positions mixed up by a view")(
    lambda model, rows: F.cross_entropy(
        (s := model(rows[:, :-1])).reshape(len(rows), -1, s.shape[1]), rows[:, 1:], reduction="none"
    ).mean(0)
)
wrong("losses_by_position", "under no_grad")(
    torch.no_grad()(lambda model, rows: F.cross_entropy(model(rows[:, :-1]).mT, rows[:, 1:], reduction="none").mean(0))
)


@right("cached_attention", "positions counted by hand")
def _(attention, x, kept):
    q, k, v = attention.heads_of(x)
    start = 0 if kept is None else kept[0].size(-2)
    if start:
        k, v = torch.cat((kept[0], k), -2), torch.cat((kept[1], v), -2)
    return attention.mix(q, k, v, torch.arange(x.size(1)) + start, torch.arange(start + x.size(1))), [k, v]


@wrong("cached_attention", "kept keys that do not learn")
def _(attention, x, kept):
    return attend(attention, x, None if kept is None else tuple(each.detach() for each in kept))


@wrong("cached_attention", "one new position taken for granted")
def _(attention, x, kept):
    q, k, v = attention.heads_of(x)
    if kept is not None:
        k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
    there = torch.arange(k.shape[2])
    here = there if kept is None else there[-1:]
    return attention.mix(q, k, v, here, there), (k, v)


class ByName(nn.Module):
    """The library's model in the place of the handed one."""

    def __init__(self):
        super().__init__()
        block = BlockConfig(position="rope", d_model=64, n_heads=4, d_ff=256, max_seq_len=512)
        self.model = LanguageModel(ModelConfig(block, 103, 2))

    def step(self, tokens, kept=None):
        return self.model(tokens, kept)

    def forward(self, tokens):
        return self.model(tokens)[0]


right("mended_model", "the library's, by name")(ByName)


@right("mended_model", "a window as well")
def _():
    class Window(changed(**MENDED)):
        def step(self, tokens, kept=None):
            whole = tokens if kept is None else torch.cat([kept, tokens], dim=1)
            return super().step(whole)[0][:, -tokens.shape[1] :], whole[:, -64:] if whole.shape[1] > 64 else whole

    return Window()


@wrong("mended_model", "a step that computes the whole with the leak")
def _():
    class Whole(changed(hides=later)):
        def step(self, tokens, kept=None):
            whole = tokens if kept is None else torch.cat([kept, tokens], dim=1)
            return super().step(whole)[0][:, -tokens.shape[1] :], whole

    return Whole()


wrong("mended_model", "a leak at every thirty-second position")(
    lambda: changed(**MENDED | {"hides": peeking(31, 63)})()
)


@right("mended_model", "a step without a default for what is kept")
def _():
    class Plain(changed(**MENDED)):
        def step(self, tokens, kept):
            return super().step(tokens, kept)

        def forward(self, tokens):
            return self.step(tokens, None)[0]

    return Plain()


@right("mended_model", "no last norm at all")
def _():
    class Bare(changed(**MENDED)):
        def logits(self, x):
            return x @ self.embed.weight.T

    return Bare()
