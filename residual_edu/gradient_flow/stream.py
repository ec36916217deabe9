r"""The stream through one step: its size, that of its gradient, and each branch's part.

Write :math:`x_l` for the stream that enters block l, :math:`f_l` for its branch, and
:math:`g_l = \partial L / \partial x_l` for the gradient of the loss. By the chain rule

.. math::
    x_{l+1} = x_l + f_l(x_l) \quad\Rightarrow\quad
    g_l = \underbrace{g_{l+1}}_{\text{skip}}
        + \underbrace{J_l^\top g_{l+1}}_{\text{branch}}, \qquad
    J_l = \frac{\partial f_l}{\partial x_l}

so that the branch's part, forward and backward, is the difference of the block's ends:

.. math:: f_l(x_l) = x_{l+1} - x_l, \qquad J_l^\top g_{l+1} = g_l - g_{l+1}
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from residual_edu.gradient_flow.sizes import Measured, size, size_between


@dataclass(eq=False)
class Place:
    """A place on the stream, before or after a block."""

    sizes: dict[str, Measured]
    gradient: Tensor | None = None
    began: list["Run"] = field(default_factory=list)  # the runs that begin here


@dataclass(eq=False)
class Run:
    """One run of a block, from one place to another."""

    start: Place
    end: Place
    sizes: dict[str, Measured] = field(default_factory=dict)


class Mark(NamedTuple):
    """A tensor of the stream, how often it had been written to, and its place."""

    x: Tensor
    version: int
    place: Place

    def kept(self) -> Tensor | None:
        """Return the tensor, or None if a block has overwritten it."""
        return self.x if self.x._version == self.version else None


class Stream:
    """The stream of one step, measured at both ends of each block, there and back."""

    def __init__(self) -> None:
        self.latest: Mark | None = None
        self.hooks: list[RemovableHandle] = []

    def mark(self, x: Tensor) -> Mark:
        """Measure the stream, unless a block ended here; await the gradient."""
        if self.latest is None or self.latest.kept() is not x:
            place = Place({"activation": size(x)})
            self.latest = Mark(x, x._version, place)
            if x.requires_grad:
                self.hooks.append(x.register_hook(partial(self.meet, place)))
        return self.latest

    def leave(self, before: Mark, y: Tensor) -> Run:
        """Measure the stream after a block, and what the block added: y - x."""
        run = Run(before.place, self.mark(y).place)
        run.sizes["added"] = size_between(y, before.kept())
        before.place.began.append(run)
        return run

    def meet(self, place: Place, g: Tensor) -> None:
        """Measure the gradient at a place, and its part through each branch there."""
        place.sizes["stream_gradient"], place.gradient = size(g), g
        for run in place.began:
            run.sizes["branch_gradient"] = size_between(g, run.end.gradient)
