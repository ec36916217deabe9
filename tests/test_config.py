import copy
import pickle
from collections import UserDict
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import InvalidInput, LayerNorm, LayerScale, LazyConfig, build

pytestmark = pytest.mark.usefixtures("as_installed")


class Local(nn.Module):
    """A class of the learner's own, which no dotted name reaches."""

    def __init__(self, width=2):
        super().__init__()
        self.width = width


def test_a_description_is_a_call_that_has_not_happened_yet():
    described = LazyConfig(LayerNorm)(dim=4, eps=0.5)
    assert isinstance(described, partial)
    assert described.func is LayerNorm and described.keywords == {"dim": 4, "eps": 0.5}


@pytest.mark.parametrize(
    "spec",
    [
        LazyConfig(LayerScale)(dim=4),
        LazyConfig("residual_edu.LayerScale")(dim=4),
        partial(LayerScale, 4),
        lambda: LayerScale(4),
        {"__target__": "residual_edu.LayerScale", "dim": 4},
        {"__target__": LayerScale, "dim": 4},
        UserDict({"__target__": "residual_edu.parts.layer_scale.LayerScale", "dim": 4}),
    ],
)
def test_each_way_of_describing_builds_a_new_module_each_time(spec):
    first, second = build(spec), build(spec)
    assert type(first) is type(second) is LayerScale and len(first.gamma) == 4
    assert first.gamma is not second.gamma


def test_a_module_stands_for_itself_and_a_class_for_what_it_makes():
    assert build(made := LayerScale(4)) is made
    assert isinstance(build(nn.Identity), nn.Identity)


def test_classes_of_ones_own_and_changes_afterwards():
    described = LazyConfig(Local)(width=3)
    assert build(described).width == 3 and build(partial(described, width=5)).width == 5
    assert build(copy.deepcopy(described)).width == 3


def test_a_description_can_be_stored():
    assert build(pickle.loads(pickle.dumps(LazyConfig(LayerScale)(dim=4)))).gamma.shape == (4,)


def test_values_are_left_as_they_are():
    assert LazyConfig(Local)(width="2-1").keywords == {"width": "2-1"}
    mapping = {"__target__": Local, "width": 3}
    build(mapping)
    assert mapping == {"__target__": Local, "width": 3}


@pytest.mark.parametrize(
    "describe", [lambda k: LazyConfig(LayerNorm)(**k), lambda k: build({"__target__": LayerNorm} | k)]
)
def test_a_typo_fails_where_it_is_written_and_says_what_there_is(describe):
    message = (
        "^LayerNorm got an unexpected keyword argument 'dimm'; it takes dim, eps, elementwise_affine, bias, fused$"
    )
    with pytest.raises(InvalidInput, match=message):
        describe({"dimm": 4})


def test_positions_are_not_taken():
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        LazyConfig(LayerNorm)(4)


def test_what_is_missing_is_said_by_the_class_itself():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        build(LazyConfig(LayerNorm)(eps=1.0))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (3, "a module was to be built, got 3; give a module, a class or function that returns one, .*"),
        (None, "a module was to be built, got None; .*"),
        ("torch.nn.ReLU", "a module was to be built, got 'torch.nn.ReLU'; .* or a mapping with '__target__'"),
        (lambda: 3, "a module was to be built, got 3; .*"),
        ({"dim": 4}, r"a mapping that stands for a module needs the key '__target__', got \['dim'\]"),
        ({"__target__": "os.getcwd"}, "__target__ must name a class of modules, got 'os.getcwd'"),
        ({"__target__": "torch.Tensor"}, "__target__ must name a class of modules, got 'torch.Tensor'"),
        ({"__target__": "torch.nn.Nope"}, "__target__ 'torch.nn.Nope' cannot be imported: .*"),
        ({"__target__": "no_such_package.X"}, "__target__ 'no_such_package.X' cannot be imported: .*"),
        ({"__target__": "ReLU"}, "__target__ 'ReLU' cannot be imported: .*"),
    ],
)
def test_what_stands_for_no_module(spec, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        build(spec)


def test_a_built_network_runs():
    net = nn.Sequential(build(LazyConfig(nn.Linear)(in_features=3, out_features=4)), build(partial(LayerNorm, 4)))
    assert net(torch.randn(2, 3)).shape == (2, 4)
