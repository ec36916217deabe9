r"""A recorder of gradient flow: the size of the stream and of its gradient at each block, and each branch's part.

Write :math:`x_l` for the stream that enters block :math:`l`, :math:`f_l` for its branch, and
:math:`g_l = \partial L / \partial x_l` for the gradient of the loss with respect to the stream. By the chain rule

.. math::
    x_{l+1} = x_l + f_l(x_l) \quad\Rightarrow\quad
    g_l = \Big(I + \frac{\partial f_l}{\partial x_l}\Big)^{\!\top} g_{l+1}
        = \underbrace{g_{l+1}}_{\text{skip}}
        + \underbrace{\Big(\frac{\partial f_l}{\partial x_l}\Big)^{\!\top} g_{l+1}}_{\text{branch}}

so that the branch's part, forward and backward, is the difference between the block's two ends:

.. math::
    f_l(x_l) = x_{l+1} - x_l, \qquad
    \Big(\frac{\partial f_l}{\partial x_l}\Big)^{\!\top} g_{l+1} = g_l - g_{l+1}

Nothing inside a block has to be measured.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from residual_edu.checked import Size, checked
from residual_edu.gradient_flow.blocks import blocks_of, check_not_compiled
from residual_edu.gradient_flow.hooks import Hook, Removable, after_backward, remove
from residual_edu.gradient_flow.sizes import size, size_between, size_of_gradients
from residual_edu.gradient_flow.step import (
    Place,
    Run,
    Step,
    first_tensor,
    result,
    table,
)
from residual_edu.old_errors import InvalidInput


class GradientFlowRecorder:
    """Records forward and backward passes: ``with GradientFlowRecorder(model, model.blocks) as flow: ...``.

    A step is one call of ``model`` and the backward pass that follows it. Calls that build no graph are not recorded,
    nor are calls that no backward pass follows.

    Every result is a float64 tensor on the CPU with one row for each step. Every number is the root mean square over
    all elements of a tensor, so that a normalised stream gives 1 whatever its batch and width. It is nan where nothing
    could be measured: no gradient, an input that the block overwrote, or two ends of different shape.

    Weight gradients are read from ``.grad`` when the backward pass ends: with gradient accumulation, where each
    micro-batch is a step, they are the sum so far. Gradients hold the factor of a gradient scaler.

    On several processes each measures what it has, and waits for no other: the stream of its own samples, whose
    gradient is that of its own loss, and the weight gradients after their mean over processes
    (DistributedDataParallel), or its shards of them (``fully_shard``, called before the recorder is entered).

    Args:
        model: the module whose call begins a step.
        blocks: its blocks in the order in which the stream passes them. The stream is the first tensor that each takes
            and the first that it returns. A block that runs several times in a step may be listed as often, and has a
            column for each run; listed once, it has its first.
        every: number of steps from one that is recorded to the next, at least 1; between them nothing is measured.

    Raises:
        InvalidInput: for no blocks, blocks that are not modules of ``model``, blocks within a compiled module, an
            ``every`` below 1, or a recorder that is entered a second time.
    """

    activation = result(
        "activation",
        "The stream before each block and after the last, (steps, blocks + 1).",
    )
    added = result(
        "added", "What each block added to the stream, (steps, blocks).", end=-1
    )
    stream_gradient = result(
        "stream_gradient",
        "The stream's gradient at the same places, (steps, blocks + 1).",
    )
    skip_gradient = result(
        "stream_gradient",
        "Its part through each skip connection, (steps, blocks).",
        start=1,
    )
    branch_gradient = result(
        "branch_gradient", "Its part through each branch, (steps, blocks).", end=-1
    )
    weight_gradient = result(
        "weight_gradient",
        "The gradient of each block's weights, (steps, blocks).",
        end=-1,
    )

    @checked
    def __init__(
        self, model: nn.Module, blocks: Iterable[nn.Module], every: Size = 1
    ) -> None:
        self.model, self.blocks, self.every = model, blocks_of(model, blocks), every
        self.weights: dict[nn.Module, list[nn.Parameter]] = {}
        self.hooks: list[Removable] = []
        self.steps: list[Tensor] = []
        self.step = Step()

    def __enter__(self) -> "GradientFlowRecorder":
        check_not_compiled(self.model, self.blocks)
        if self.weights:
            raise InvalidInput(
                "a recorder must be entered once, got a second `with`; make another recorder"
            )
        self.weights = {block: list(block.parameters()) for block in self.blocks}
        self.hooks.append(Hook(self.model, self.end_step).before())
        for block in self.weights:
            self.hooks += [
                Hook(block, self.enter).before(with_kwargs=True),
                Hook(block, self.leave).after(),
            ]
        return self

    def __exit__(self, *exception: object) -> None:
        self.end_step()
        remove(self.hooks)

    def end_step(self, *call: object) -> None:
        """Keep the sizes of the step and remove its hooks from the stream; a call that builds no graph ends no step."""
        if not call or torch.is_grad_enabled():
            remove(self.step.hooks)
            self.steps += [table(self.blocks, self.step.runs)] if self.step.runs else []
            self.step = Step(self.step.number + bool(call))

    def enter(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Mark the place before a block."""
        x = (
            None
            if self.step.number % self.every
            else first_tensor(*args, *kwargs.values())
        )
        if x is not None and torch.is_grad_enabled() and not x.is_inference():
            self.step.inside[block] = x, x._version, self.mark(x)

    def leave(self, block: nn.Module, args: object, output: object) -> None:
        """Mark the place after a block, and measure what the block added."""
        y = first_tensor(output)
        if block in self.step.inside and y is not None and y.requires_grad:
            x, version, place = self.step.inside.pop(block)
            if x._version == version:  # otherwise the block has overwritten its input
                place.sizes["added"] = size_between(y, x)
            place.end = self.mark(y, (block, place))

    def mark(self, x: Tensor, run: Run | None = None) -> Place:
        """Return the place of ``x``, where ``run`` ends or, without one, a block begins; it is measured and has a hook.

        A block that begins where another has just ended shares its place.
        """
        y, version, place = self.step.latest
        if run is not None or place is None or x is not y or x._version != version:
            place = Place({"activation": size(x)})
            self.step.latest = x, x._version, place
            if x.requires_grad:
                self.step.hooks.append(
                    x.register_hook(partial(self.measure_gradient, place, run))
                )
        return place

    def measure_gradient(self, place: Place, run: Run | None, gradient: Tensor) -> None:
        """Measure the stream's gradient at ``place``, and the part of it through the branch that begins there."""
        place.sizes["stream_gradient"], place.gradient = size(gradient), gradient
        if place.end is not None:
            place.sizes["branch_gradient"] = size_between(
                gradient, place.end.take_gradient(gradient)
            )
        if (
            run is not None
        ):  # weights receive their gradients later, in an order that autograd chooses
            after_backward(partial(self.measure_weights, run))

    def measure_weights(self, run: Run) -> None:
        """Measure the gradients of a block's weights, which are complete now that the backward pass has ended."""
        block, place = run
        place.sizes["weight_gradient"] = size_of_gradients(self.weights[block])
        self.step.runs.append(run)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.blocks)} blocks, {len(self.steps)} steps)"
        )
