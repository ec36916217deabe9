"""No hook, graph or gradient is left."""

import copy
import gc
import weakref

import pytest

from residual_edu.gradient_flow import GradientFlowRecorder

from .stacks import expected, hooks, loss, record, same, stack


@pytest.mark.parametrize("where", ["outside", "forward", "backward"])
def test_no_hook_is_left_after_an_exception(x, where):
    model, stop = stack(), KeyboardInterrupt

    def raise_(*_):
        raise stop

    x.requires_grad_()
    handle = {"forward": model.blocks[1].linear.register_forward_hook}.get(where, lambda hook: None)(raise_)
    before = hooks(model, x)
    streams = []
    keep = model.blocks[1].register_forward_hook(lambda block, args, out: streams.append(out))
    flow = GradientFlowRecorder(model, model.blocks)
    with pytest.raises(stop), flow:
        total = loss(model, x)
        if where == "backward":
            streams[0].register_hook(raise_)
            total.backward()
        raise_()
    keep.remove()
    assert hooks(model, x) == before
    if where == "outside":
        assert hooks(model, *streams) == 0
        total.backward()  # of a graph that outlives the recorder
        assert len(flow.stream_gradient) == 0
    if handle:
        handle.remove()
        same(record(model, x), expected(model, x))


def test_an_interrupted_backward_pass_spoils_no_later_step(x):
    model, fail = stack(), [True]

    def once(gradient):
        if fail.pop():
            raise KeyboardInterrupt

    with GradientFlowRecorder(model, model.blocks) as flow:
        hook = model.blocks[1].register_forward_hook(lambda block, args, out: out.register_hook(once) and None)
        with pytest.raises(KeyboardInterrupt):
            loss(model, x).backward()
        hook.remove()
        model.zero_grad()
        loss(model, x).backward()
    same(flow, expected(model, x))


def test_the_graph_is_freed_when_the_loop_goes_on(x):
    model = stack()
    with GradientFlowRecorder(model, model.blocks):
        seen, gradients = [], []
        keep = lambda gradient: gradients.append(weakref.ref(gradient))  # noqa: E731
        watch = model.blocks[1].register_forward_hook(
            lambda block, args, out: seen.append(weakref.ref(out)) or out.register_hook(keep) and None
        )
        gc.disable()
        try:
            for _ in range(3):
                model.zero_grad()
                loss(model, x).backward()
                assert gradients[-1]() is None  # when the backward pass is over
        finally:
            gc.enable()
        watch.remove()
        assert [ref() for ref in seen[:2]] == [None, None]


def test_calls_of_a_deep_copy_are_not_recorded(x):
    """As a moving average of the weights makes one; the copy can be recorded itself, and keeps the hooks of others."""
    model, calls = stack(), []
    model.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    with GradientFlowRecorder(model, model.blocks) as flow:
        loss(model, x).backward()
        copied = copy.deepcopy(copy.deepcopy(model))
        loss(copied, 3 * x).backward()
        copied.zero_grad()
        same(record(copied, x), expected(copied, x))
    assert len(flow.steps) == 1 and calls == [1, 1, 1]
    same(flow, expected(model, x))
    copied.zero_grad()
    same(record(copied, x), expected(copied, x))
