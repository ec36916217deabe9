import copy
import pickle
import re
from collections import UserDict
from functools import partial

import pytest
import torch
from torch import nn

from residual_edu import MLP, InvalidInput, LayerNorm, LayerScale, LazyConfig, build

pytestmark = pytest.mark.usefixtures("as_installed")


NAMED = "__target__ must name a class of modules, or a function annotated to return one"


def two_maps(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


def says_nothing():
    raise AssertionError("called")


def says_too_much() -> "Nope":  # noqa: F821
    raise AssertionError("called")


class Outer:
    class Inner(nn.Identity):
        """A class within a class has a dotted name too."""


class Parent(nn.Module):
    """Builds its own child, as every parent of this library does."""

    def __init__(self, child_cfg, width=2):
        super().__init__()
        self.child, self.width = build(child_cfg), width


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


def test_a_function_that_says_what_it_returns_is_a_target():
    assert len(build({"__target__": f"{__name__}.two_maps", "width": 3})) == 2
    assert isinstance(build({"__target__": f"{__name__}.Outer.Inner"}), nn.Identity)


def test_mappings_within_mappings_are_built_where_a_parent_asks():
    inner = {"__target__": "residual_edu.LayerScale", "dim": 4}
    spec = {"__target__": Parent, "child_cfg": {"__target__": Parent, "child_cfg": inner, "width": 3}}
    made = build(spec)
    assert made.child.width == 3 and made.child.child.gamma.shape == (4,)
    assert LazyConfig(Parent)(child_cfg=inner).keywords["child_cfg"] is inner
    assert build(spec).child.child.gamma is not made.child.child.gamma


def test_a_function_in_a_cell_and_a_lambda_are_targets():
    def cell(width):
        return nn.Linear(width, width)

    assert build(LazyConfig(cell)(width=3)).in_features == 3
    assert build(LazyConfig(lambda width: nn.Linear(width, 1))(width=3)).in_features == 3


def test_values_are_left_as_they_are():
    assert LazyConfig(Local)(width="2-1").keywords == {"width": "2-1"}
    mapping = {"__target__": Local, "width": 3}
    build(mapping)
    assert mapping == {"__target__": Local, "width": 3}


@pytest.mark.parametrize(
    "describe",
    [
        lambda k: LazyConfig(LayerNorm)(**k),
        lambda k: build({"__target__": LayerNorm} | k),
        lambda k: LazyConfig(Parent)(child_cfg={"__target__": "residual_edu.LayerNorm"} | k),
        lambda k: LazyConfig(Parent)(child_cfg={"__target__": Parent, "child_cfg": {"__target__": LayerNorm} | k}),
    ],
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
    with pytest.raises(InvalidInput, match=r"^LayerNorm must be given dim; write LazyConfig\(LayerNorm\)\(dim=...\)$"):
        build(LazyConfig(LayerNorm)(eps=1.0))


def test_a_keyword_is_an_attribute():
    config = LazyConfig(MLP)(dim=4, activation="relu", dropout_cfg=nn.Identity)
    assert (config.dim, config.expansion_factor) == (4, 2.0)
    config.expansion_factor = 3.0
    for made in (config, copy.deepcopy(config), pickle.loads(pickle.dumps(config)), partial(config, bias=False)):
        assert build(made).layer1.out_features == 12
    changed = copy.deepcopy(config)
    changed.dim = 6
    assert (build(changed).dim, build(config).dim) == (6, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: setattr(c, "expansion", 3.0), "MLP got an unexpected keyword argument 'expansion'; it takes dim, "),
        (lambda c: setattr(c, "func", MLP), "func cannot be set, it is part of the call; write a new LazyConfig"),
    ],
)
def test_an_attribute_that_would_not_be_built_is_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{message}"):
        change(LazyConfig(MLP)(dim=4))


def test_an_attribute_that_was_not_given_is_missing():
    with pytest.raises(AttributeError, match="^MLP was given no dim$"):
        LazyConfig(MLP)().dim  # noqa: B018
    assert not hasattr(LazyConfig(MLP)(dim=4), "anything")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LazyConfig(3), "target must be a class or function that returns a module, got 3"),
        (lambda: LazyConfig(dict), "target must be a class or function that returns a module, got <class 'dict'>"),
        (
            lambda: LazyConfig(nn.ReLU()),
            "target must be a class or function that returns a module, got ReLU(), a module",
        ),
        (lambda: LazyConfig("os.system"), f"{NAMED}, got 'os.system'"),
        (lambda: build(3), "a module was to be built, got 3; give a module, a class or function that returns one"),
        (lambda: build(None), "a module was to be built, got None"),
        (lambda: build("torch.nn.ReLU"), "a module was to be built, got 'torch.nn.ReLU'"),
        (lambda: build(lambda: 3), "a module was to be built, got 3"),
        (lambda: build({"dim": 4}), "a mapping that describes a module needs the key '__target__', got ['dim']"),
        (
            lambda: build({"__target__": int}),
            "target must be a class or function that returns a module, got <class 'int'>",
        ),
        (lambda: build({"__target__": 3}), "target must be a class or function that returns a module, got 3"),
        (lambda: build({"__target__": "os.getcwd"}), f"{NAMED}, got 'os.getcwd'"),
        (lambda: build({"__target__": "torch.Tensor"}), f"{NAMED}, got 'torch.Tensor'"),
        (lambda: build({"__target__": "torch.pi"}), f"{NAMED}, got 'torch.pi'"),
        (lambda: build({"__target__": "torch.load"}), f"{NAMED}, got 'torch.load'"),
        (lambda: build({"__target__": f"{__name__}.says_nothing"}), f"{NAMED}, got '{__name__}.says_nothing'"),
        (lambda: build({"__target__": f"{__name__}.says_too_much"}), "cannot be imported: name 'Nope' is not defined"),
        (lambda: build({"__target__": "torch.nn.Nope"}), "__target__ 'torch.nn.Nope' cannot be imported: "),
        (lambda: build({"__target__": "no_such_package.X"}), "__target__ 'no_such_package.X' cannot be imported: "),
        (lambda: build({"__target__": "ReLU"}), "__target__ 'ReLU' cannot be imported: "),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        call()


def test_a_built_network_runs():
    net = nn.Sequential(build(LazyConfig(nn.Linear)(in_features=3, out_features=4)), build(partial(LayerNorm, 4)))
    assert net(torch.randn(2, 3)).shape == (2, 4)
