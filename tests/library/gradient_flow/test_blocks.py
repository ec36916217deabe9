"""Blocks of every kind."""

from collections import UserDict
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from residual_edu import InvalidInput
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.gradient_flow.sizes import size_of_gradients

from .stacks import QUANTITIES, Block, expected, hooks, loss, record, rms, same, stack


def test_blocks_that_write_over_their_input(x):
    """All but what was added, which is gone, is right."""
    model = stack(in_place=True)
    flow = record(model, x)
    assert flow.added.isnan().all()
    same(flow, expected(model, x), names=[name for name in QUANTITIES if name != "added"])


@dataclass
class Output:
    count: int
    hidden: torch.Tensor


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda y: [torch.arange(3), y], lambda out: out[1]),
        (lambda y: Output(3, y), lambda out: out.hidden),
        (lambda y: UserDict(cache=None, hidden=y), lambda out: out["hidden"]),
    ],
)
def test_blocks_that_return_more_than_the_stream(x, wrap, unwrap):
    model = stack(wrap=wrap, run=lambda block, x: unwrap(block(x)))
    same(record(model, x), expected(model, x))
    hidden = stack(wrap=lambda y: SimpleNamespace(hidden=y), run=lambda block, x: block(x).hidden)
    with pytest.raises(InvalidInput, match="^Block must take and return a tensor of numbers, or a container with one"):
        record(hidden, x)
    assert hooks(hidden) == 0


def test_blocks_called_by_keyword_in_any_order(x):
    """The first that ``forward`` lists is the stream, also where a mask is given first."""
    model = stack(run=lambda block, x: block(mask=torch.ones(7), x=x))
    want = expected(model, x)
    for block in model.blocks:
        block.forward = partial(masked, block)
    same(record(model, x), want)


def masked(block, x, mask):
    return x + block.branch(x)


@pytest.mark.filterwarnings("ignore:Complex modules")  # are new, torch says
def test_a_complex_stream_and_complex_weights(x):
    model, z, stream = stack(depth=2).to(torch.complex128), torch.complex(x, x.flip(0)), []
    model.stem.register_forward_hook(lambda module, args, y: stream.append(y) or y.retain_grad())
    with GradientFlowRecorder(model, model.blocks) as flow:
        model(z).abs().square().sum().backward()
    assert flow.activation[0, 0] == pytest.approx(stream[0].abs().square().mean().sqrt().item(), rel=1e-12)
    assert flow.stream_gradient[0, 0] == pytest.approx(stream[0].grad.abs().square().mean().sqrt().item(), rel=1e-12)
    gradient = torch.cat([weight.grad.flatten() for weight in model.blocks[0].parameters()])
    assert flow.weight_gradient[0, 0] == pytest.approx(gradient.abs().square().mean().sqrt().item(), rel=1e-12)


def test_a_bypassed_block_adds_nothing_and_one_that_is_skipped_in_a_step_has_nan(x):
    model = stack()
    model.blocks[1] = nn.Identity()
    flow = record(model, x)
    assert flow.added[0, 1] == 0 and flow.branch_gradient[0, 1] == 0
    assert flow.stream_gradient[0, 1] == flow.stream_gradient[0, 2] > 0
    assert flow.weight_gradient[0, 1].isnan()
    model = stack(run=lambda block, x: block(x) if block is not model.blocks[1] else x)
    assert record(model, x).stream_gradient[0].isnan().tolist() == [False, True, False, False]


def test_a_block_whose_ends_differ_in_shape_has_sizes_but_no_difference(x):
    model = stack(wrap=lambda y: y[:2])
    flow = record(model, x)
    assert flow.added[0].isnan().tolist() == [True, False, False]
    assert flow.branch_gradient[0].isnan().tolist() == [True, False, False]
    assert flow.activation.isfinite().all() and flow.stream_gradient.isfinite().all()


def test_a_block_listed_once_shows_its_first_run_and_listed_often_each_of_them(x):
    model = stack(depth=1, run=lambda block, x: block(block(block(x))))
    want = expected(SimpleNamespace(stem=model.stem, blocks=[model.blocks[0]] * 3), x)
    block = model.blocks[0]
    with GradientFlowRecorder(model, [block]) as once, GradientFlowRecorder(model, [block] * 3) as thrice:
        loss(model, x).backward()
    names = ["activation", "added", "stream_gradient", "branch_gradient"]
    same(thrice, want, names=names)
    for name in ("added", "branch_gradient"):
        assert torch.equal(getattr(once, name), getattr(thrice, name)[:, :1])
    total = torch.cat([p.grad.flatten() for p in block.parameters()])
    torch.testing.assert_close(thrice.weight_gradient[0], rms(total).expand(3))


def test_what_no_gradient_reaches_is_nan(x):
    model = stack()
    model.stem.requires_grad_(False)
    model.blocks[0].requires_grad_(False)
    flow = record(model, x)
    assert flow.stream_gradient[0].isnan().tolist() == [True, True, False, False]  # block 1's input needs no gradient
    assert flow.activation[0].isnan().tolist() == [True, False, False, False]
    assert flow.branch_gradient[0].isnan().tolist() == [True, True, False]
    assert flow.weight_gradient[0].isnan().tolist() == [True, False, False]


def test_an_input_that_is_a_leaf_keeps_no_hook_from_step_to_step():
    model = nn.Sequential(*(Block() for _ in range(2))).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    with GradientFlowRecorder(model, model) as flow:
        for _ in range(3):
            model(x).sum()  # a graph that nothing is sent back through
            model(x).sum().backward()
            assert len(x._backward_hooks or ()) <= 1
    assert hooks(model, x) == 0
    assert len(flow.stream_gradient) == 3 and flow.stream_gradient.isfinite().all()


def test_a_block_whose_output_no_loss_uses_is_nan(x):
    """Its input has a gradient all the same, that of what comes after it."""
    model = stack()
    aside = model.blocks[1]
    model.run = lambda block, x: x if block is aside and block(x) is not None else block(x)
    flow = record(model, x)
    for name in ("added", "branch_gradient", "weight_gradient"):
        assert getattr(flow, name)[0].isnan().tolist() == [False, True, False]


def test_sparse_gradients_of_weights_count_their_zeros():
    dense, sparse = (nn.Embedding(9, 4, sparse=sparse) for sparse in (False, True))
    for table in (dense, sparse):
        nn.init.ones_(table.weight)
        table(torch.tensor([0, 2, 2])).square().sum().backward()
    sizes = [size_of_gradients(list(table.parameters())) for table in (dense, sparse)]
    assert sizes[0] == sizes[1] and sizes[0][1] == 36
