"""The picture along the depth draws what plain autograd gives, and says it in words."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from residual_course.plots.along_depth import along_depth


class Net(nn.Module):
    def __init__(self, skip=1.0, depth=3):
        super().__init__()
        self.skip, self.head = skip, nn.Linear(4, 2)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(depth))
        self.after = nn.ModuleList(Add(block, skip) for block in self.blocks)

    def forward(self, x):
        for block in self.after:
            x = block(x)
        return self.head(x)


class Add(nn.Module):
    def __init__(self, f, skip):
        super().__init__()
        self.f, self.skip = f, skip

    def forward(self, x):
        return self.skip * x + self.f(x)


@pytest.fixture
def given():
    torch.manual_seed(0)
    return Net(), torch.randn(5, 4), torch.tensor([0, 1, 0, 1, 1])


def rms(x):
    return x.double().square().mean().sqrt().item()


def by_hand(net, x, labels):
    """The three curves, from autograd alone."""
    stream = [x.clone().requires_grad_()]
    for block in net.after:
        stream.append(block.skip * stream[-1] + block.f(stream[-1]))
    loss = F.cross_entropy(net.head(stream[-1]), labels)
    backward = torch.autograd.grad(loss, stream, retain_graph=True)
    weights = [torch.autograd.grad(loss, [*block.parameters()], retain_graph=True) for block in net.after]
    differences = [rms(x - x.mean(0)) for x in stream]
    return differences, [rms(g) for g in backward], [rms(torch.cat([g.flatten() for g in each])) for each in weights]


def curves(figure):
    return [[np.asarray(line.get_ydata(), float) for line in ax.get_lines()] for ax in figure.axes]


def test_one_model_is_drawn_as_autograd_has_it_and_its_gradients_stay(given):
    net, x, labels = given
    net.head.weight.grad = kept = torch.ones(2, 4)
    figure = along_depth(net, net.after, x, lambda out: F.cross_entropy(out, labels))
    for (drawn,), expected in zip(curves(figure), by_hand(net, x, labels), strict=True):
        np.testing.assert_allclose(drawn, expected, rtol=1e-5)
    assert net.head.weight.grad is kept and net.head.bias.grad is None
    assert not any(block._forward_pre_hooks or block._forward_hooks for block in net.after)


def test_several_models_take_a_batch_with_labels_and_are_named_at_their_ends(given):
    net, x, labels = given
    plain = Net(skip=0.0)
    figure = along_depth({"x + f(x)": (net, net.after), "f(x)": (plain, plain.after)}, (x, labels), F.cross_entropy)
    for drawn, ours, theirs in zip(curves(figure), by_hand(net, x, labels), by_hand(plain, x, labels), strict=True):
        np.testing.assert_allclose(drawn, [ours, theirs], rtol=1e-5)
    for ax in figure.axes:
        names = {text.get_text(): text.xy[1] for text in ax.texts}
        assert names.keys() == {"x + f(x)", "f(x)"} and abs(names["f(x)"] - names["x + f(x)"]) >= 0.169
        assert ax.get_yscale() == "log"
    first, last = (by_hand(net, x, labels)[1][at] for at in (0, -1))
    assert f"The gradient of the stream: x + f(x) from {first:.2g} to {last:.2g}, f(x) from" in figure.get_label()


def test_what_is_zero_is_told_and_another_axis_may_be_taken(given):
    net, x, _ = given
    words = torch.randn(2, 3, 4)
    figure = along_depth(net, net.after, words, lambda out: 0 * out.sum(), over=1)
    (differs,), *zeros = curves(figure)
    assert differs[0] == pytest.approx(rms(words - words.mean(1, keepdim=True)), rel=1e-5)
    assert all(np.isnan(line).all() for (line,) in zeros)
    assert [text.get_text() for ax in figure.axes[1:] for text in ax.texts] == ["is 0"] * 2
