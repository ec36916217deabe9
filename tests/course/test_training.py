import pytest
import torch
from torch import nn

from residual_course.training import accuracy, minibatches, train
from tests.library.helpers import refused

pytestmark = pytest.mark.usefixtures("all_as_installed")


def take(batches, n):
    return [batch for _, batch in zip(range(n), batches, strict=False)]


def test_an_epoch_holds_every_row_once_and_the_next_another_order():
    x = torch.arange(10)
    batches = take(minibatches(x, 2 * x, size=4), 6)
    assert [len(a) for a, _ in batches] == [4, 4, 2, 4, 4, 2]
    assert all(b.equal(2 * a) for a, b in batches)
    first, second = (torch.cat([a for a, _ in batches[i : i + 3]]) for i in (0, 3))
    assert first.sort().values.equal(x) and second.sort().values.equal(x) and not first.equal(second)


def test_the_order_depends_on_the_seed_alone():
    x = torch.arange(100)
    state = torch.get_rng_state()
    orders = [take(minibatches(x, size=100, seed=seed), 1)[0][0] for seed in (0, 0, 1)]
    assert orders[0].equal(orders[1]) and not orders[0].equal(orders[2])
    assert torch.get_rng_state().equal(state)


def test_gradient_descent_by_hand():
    """f(w) = w^2/2 from w = 1 at rate r_t: each step multiplies w by 1 - r_t."""
    w = nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer = torch.optim.SGD([w], lr=0.5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=1)
    batches = iter([(torch.ones(1).double(),)] * 5)
    losses = train(lambda c: c.sum() * w**2 / 2, batches, optimizer, 4, schedule)
    at = [1, 0.75, 0.375, 0.1875]
    assert losses == pytest.approx([a**2 / 2 for a in at], rel=1e-12) and w.item() == pytest.approx(0.09375)
    assert len(list(batches)) == 1  # none beyond the last step was drawn


@pytest.mark.parametrize("mode", [True, False])
def test_accuracy_is_measured_in_evaluation_without_a_graph_and_leaves_the_mode(mode):
    x = torch.eye(4)
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.9)).train(mode)
    assert accuracy(model, x, torch.tensor([0, 1, 2, 0])) == 0.75
    assert model.training is mode and model[1].training is mode
    nan = torch.full((4, 4), torch.nan)  # of which argmax gives the first place
    assert accuracy(model, nan, torch.zeros(4, dtype=torch.long)) == 0


def trained(batches, steps):
    w = nn.Parameter(torch.ones(()))
    return train(lambda c: w * c.sum(), batches, torch.optim.SGD([w], lr=0.1), steps)


def batches_of(*shapes, size=2):
    return minibatches(*map(torch.zeros, shapes), size=size)


CLASSES = "labels must be whole numbers from 0 to 3"
ROWS = "tensors must all have the same number of rows, at least 1, got "


test_what_is_refused = refused(
    (lambda: batches_of((3,), (4,)), ROWS + "[3, 4]"),
    (lambda: batches_of((0, 2)), ROWS + "[0]"),
    (lambda: trained([], 0), "steps must be a whole number, at least 1, got 0"),
    (lambda: trained([], 1), "batches must be one for each of 1 steps, got 0; minibatches never end"),
    (lambda: trained([(torch.ones(1),)] * 2, 5), "batches must be one for each of 5 steps, got 2; minibatches"),
    (lambda: accuracy(nn.Identity(), torch.eye(4), torch.zeros(4, 1)), "labels must have shape (4,), got (4, 1)"),
    (lambda: accuracy(nn.Identity(), torch.eye(4), torch.zeros(4)), CLASSES),
    (lambda: accuracy(nn.Identity(), torch.eye(4), torch.full((4,), 4)), CLASSES),
    (lambda: accuracy(nn.Identity(), torch.zeros(0, 4), torch.zeros(0).long()), CLASSES),
)
