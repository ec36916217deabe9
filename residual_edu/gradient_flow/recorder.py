"""A recorder of gradient flow: what ``Stream`` measures, for each step of training.

It serves any network and any caller: blocks that return tuples, share weights or run
under checkpointing, and networks within DistributedDataParallel or ``fully_shard``.
"""

from collections.abc import Iterable
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from residual_edu.errors import InvalidInput, check_size
from residual_edu.gradient_flow.hooks import Hook, after_backward, remove
from residual_edu.gradient_flow.sizes import size_of_gradients
from residual_edu.gradient_flow.step import first_tensor, result, table
from residual_edu.gradient_flow.stream import Mark, Run, Stream


class GradientFlowRecorder:
    """Records training: ``with GradientFlowRecorder(model, model.blocks) as flow:``.

    A step is one call of ``model`` and the backward pass that follows it. Every result
    is a float64 tensor on the CPU with one row for each step.

    Every number is the root mean square over all elements of a tensor, so that a
    normalised stream gives 1 whatever its batch and width. It is nan where nothing was
    measured: no gradient, an input that was overwritten, two ends of other shapes.
    Weight gradients are read from ``.grad`` when the backward pass ends: the sum so
    far, also after a second pass of a step, though the stream's are the second's. On
    several processes each measures its own samples and its shards of the weights.

    Args:
        model: the module whose call begins a step.
        blocks: modules of ``model``, in the order in which the stream passes them. The
            stream is the first tensor that each takes and the first that it returns. A
            block that runs several times may be listed as often; else its first counts.
        every: number of steps from one that is recorded to the next, at least 1.
    """

    activation = result("activation", "The stream before each block, after the last.")
    added = result("added", "What each block adds to the stream.")
    stream_gradient = result("stream_gradient", "The gradient where ``activation`` is.")
    skip_gradient = result("stream_gradient", "The gradient along each skip.", start=1)
    branch_gradient = result("branch_gradient", "The gradient through each branch.")
    weight_gradient = result("weight_gradient", "The gradient of each block's weights.")

    def __init__(
        self, model: nn.Module, blocks: Iterable[nn.Module], every: int = 1
    ) -> None:
        check_size("every", every)
        self.model, self.blocks, self.every = model, list(blocks), every
        if not self.blocks or not set(self.blocks) <= set(model.modules()):
            raise InvalidInput(f"blocks must be modules of model, got {self.blocks}")
        self.weights = {block: list(block.parameters()) for block in self.blocks}
        self.hooks: list[RemovableHandle] = []
        self.steps: list[Tensor] = []  # (quantities, blocks + 1) each
        self.number = -1  # of the step, from 0
        self.stream = Stream()
        self.inside: dict[nn.Module, Mark] = {}  # blocks that have begun
        self.runs: list[tuple[nn.Module, Run]] = []  # that got gradients, last first

    def __enter__(self) -> "GradientFlowRecorder":
        check_runs_hooks(self.model, self.blocks)
        if self.hooks:
            raise InvalidInput("a recorder must be entered once, got a second `with`")
        self.hooks = [self.model.register_forward_pre_hook(Hook(self.end_step))]
        for block in self.weights:
            enter = block.register_forward_pre_hook(Hook(self.enter), with_kwargs=True)
            self.hooks += [enter, block.register_forward_hook(Hook(self.leave))]
        return self

    def __exit__(self, *exception: object) -> None:
        self.end_step()
        remove(self.hooks)

    def end_step(self, *call: object) -> None:
        """Keep the sizes of a step, when the next one is called or at the end."""
        if not call or torch.is_grad_enabled():
            remove(self.stream.hooks)
            self.steps += [table(self.blocks, self.runs)] if self.runs else []
            self.stream, self.inside, self.runs = Stream(), {}, []
            self.number += bool(call)

    def enter(self, block: nn.Module, args: tuple[Any, ...], kwargs: Any) -> None:
        """Mark the stream before a block."""
        if not torch.is_grad_enabled():
            return
        again = torch._C._current_graph_task_id() >= 0  # in backward, by checkpointing
        if not again and (self.number < 0 or self.runs):
            wanted = "called in each step: its forward, or a block by hand, begins none"
            raise InvalidInput(f"model must be {wanted}")
        if self.number % self.every == 0:
            forward = getattr(block, "_orig_mod", block).forward  # of a compiled one
            order = signature(forward).parameters if kwargs else ()
            named = [kwargs[name] for name in order if name in kwargs]
            x = stream_in(block, *args, *named, *kwargs.values())
            if not x.is_inference():
                self.inside[block] = self.stream.mark(x)

    def leave(self, block: nn.Module, args: object, output: object) -> None:
        """Measure the stream after a block; await the end of the backward pass."""
        if block in self.inside and (y := stream_in(block, output)).requires_grad:
            run = self.stream.leave(self.inside.pop(block), y)
            measure = partial(self.measure_weights, block, run)
            self.stream.hooks.append(y.register_hook(lambda g: after_backward(measure)))

    def measure_weights(self, block: nn.Module, run: Run) -> None:
        """Measure the gradients of a block's weights, which are complete by now."""
        run.sizes["weight_gradient"] = size_of_gradients(self.weights[block])
        run.end.gradient = None  # its memory is freed
        self.runs.append((block, run))


def stream_in(block: nn.Module, *values: Any) -> Tensor:
    """Return the first tensor in ``values``; raise ``InvalidInput`` for none."""
    if (found := first_tensor(*values)) is None:
        wanted = "take and return a tensor of numbers, or a container with one"
        raise InvalidInput(f"{type(block).__name__} must {wanted}")
    return found


def check_runs_hooks(model: nn.Module, blocks: list[nn.Module]) -> None:
    """Raise ``InvalidInput`` if a module around a block is compiled."""
    for outer in model.modules():
        compiled = hasattr(outer, "_orig_mod") or outer._compiled_call_impl is not None
        if compiled and not set(blocks).isdisjoint(list(outer.modules())[1:]):
            mend = "it then runs no hooks; compile its blocks one by one"
            raise InvalidInput(f"model must not be compiled, since {mend}")
