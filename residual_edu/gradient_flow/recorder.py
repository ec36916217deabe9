r"""A recorder for the stream: how large it is at every block, how large its gradient is, and whose doing that is.

Write :math:`x_l` for the stream that enters block :math:`l` and :math:`g_l` for the gradient of the loss with respect
to it. A residual block adds its branch, so the branch is the difference between its two ends, forward and backward:

.. math:: f(x_l) = x_{l+1} - x_l \qquad \left(\frac{\partial f}{\partial x_l}\right)^{\top} g_{l+1} = g_l - g_{l+1}

The stream alone says all: :math:`g_{l+1}` came along the skip, and the difference through the branch.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.utils.hooks import RemovableHandle

from residual_edu.errors import check_blocks, check_not_compiled, check_size
from residual_edu.gradient_flow.sizes import size, size_between, size_of_gradients
from residual_edu.gradient_flow.step import Place, Run, Step, first_tensor, remove, result, table


class GradientFlowRecorder:
    """Records forward and backward passes: ``with GradientFlowRecorder(model, model.blocks) as flow: ...``.

    A step is one call of ``model`` and the backward pass that follows it; with gradient accumulation each micro-batch
    is a step. Calls that build no graph, and what no gradient comes back to, are not recorded.

    Every result is a float64 tensor on the CPU, which NumPy takes as it is, one row a step. Every number is the root
    mean square over all elements, so that a normalised stream reads 1 whatever the batch and the width. nan says that
    there was nothing to measure: no gradient, an input that the block wrote over, or ends of different shape.

    Args:
        model: the module whose call begins a step.
        blocks: its blocks in the order in which the stream meets them. Each takes the stream as its first tensor and
            returns it as its first. A block that runs several times a step may be listed as often, and has a column
            for each run; listed once, its first run is shown.
        every: one of so many steps is recorded, the first of them; at the others nothing is measured.

    Raises:
        InvalidInput: for no blocks, blocks that are not modules of ``model``, blocks within a compiled module, or an
            ``every`` below 1.
    """

    activation = result("activation", "The stream before each block and after the last, (steps, blocks + 1).")
    added = result("added", "What each block added to the stream, (steps, blocks).", end=-1)
    delta = result("delta", "The gradient with respect to the stream at the same places, (steps, blocks + 1).")
    skip_share = result("delta", "What came back along each skip: the delta behind it, (steps, blocks).", start=1)
    branch_share = result("branch_share", "What each branch added to the delta, (steps, blocks).", end=-1)
    weight_gradient = result("weight_gradient", "The gradient in each block's weights, (steps, blocks).", end=-1)

    def __init__(self, model: nn.Module, blocks: Iterable[nn.Module], every: int = 1) -> None:
        check_size("every", every)
        self.model, self.blocks, self.every = model, check_blocks(model, blocks), every
        self.weights = {block: list(block.parameters()) for block in self.blocks}
        self.hooks: list[RemovableHandle] = []
        self.steps: list[Tensor] = []
        self.step = Step()

    def __enter__(self) -> "GradientFlowRecorder":
        check_not_compiled(self.model, self.blocks)
        self.hooks.append(self.model.register_forward_pre_hook(self.end_step))
        for block in self.weights:
            self.hooks.append(block.register_forward_pre_hook(self.enter, with_kwargs=True))
            self.hooks.append(block.register_forward_hook(self.leave))
        return self

    def __exit__(self, *exception: object) -> None:
        self.end_step()
        remove(self.hooks)

    def end_step(self, *call: object) -> None:
        """Keep the sizes of the step and take its hooks off the stream, unless by a call that builds no graph."""
        if not call or torch.is_grad_enabled():
            remove(self.step.hooks)
            self.steps += [table(self.blocks, self.step.runs)] if self.step.runs else []
            self.step = Step(self.step.number + bool(call))

    def enter(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Mark the place before a block."""
        x = None if self.step.number % self.every else first_tensor(*args, *kwargs.values())
        if x is not None and torch.is_grad_enabled() and not x.is_inference():
            self.step.inside[block] = x, x._version, self.mark(x)

    def leave(self, block: nn.Module, args: object, output: object) -> None:
        """Mark the place behind a block, and measure what the block added."""
        y = first_tensor(output)
        if block in self.step.inside and y is not None and y.requires_grad:
            x, version, place = self.step.inside.pop(block)
            if x._version == version:
                place.sizes["added"] = size_between(y, x)
            place.behind = self.mark(y, (block, place))

    def mark(self, x: Tensor, run: Run | None = None) -> Place:
        """Measure the stream where ``run`` ends, or where none does but a block begins; wait there for the gradient."""
        y, version, place = self.step.latest
        if run is not None or place is None or x is not y or x._version != version:
            place = Place({"activation": size(x)})
            self.step.latest = x, x._version, place
            if x.requires_grad:
                self.step.hooks.append(x.register_hook(partial(self.gradient_arrives, place, run)))
        return place

    def gradient_arrives(self, place: Place, run: Run | None, gradient: Tensor) -> None:
        """Measure the gradient, and what the branch that begins here added to it; note that it came to ``run``."""
        place.sizes["delta"], place.gradient = size(gradient), gradient
        if place.behind is not None:
            place.sizes["branch_share"] = size_between(gradient, place.behind.take_gradient(gradient))
        if run is not None:
            Variable._execution_engine.queue_callback(partial(self.weigh, run))

    def weigh(self, run: Run) -> None:
        """Measure the gradients of a block's weights, whole now that the backward pass is over."""
        block, place = run
        place.sizes["weight_gradient"] = size_of_gradients(self.weights[block])
        self.step.runs.append(run)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.blocks)} blocks, {len(self.steps)} steps)"
