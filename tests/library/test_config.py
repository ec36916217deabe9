import copy
import pickle
import re
from collections import UserDict
from functools import partial

import pytest
from torch import nn

from residual_edu import MLP, InvalidInput, LayerNorm, LayerScale, LazyConfig, build

pytestmark = pytest.mark.usefixtures("all_as_installed")


def two_sizes():
    return 2, 3


class Outer:
    class Inner(nn.Identity):
        """A class within a class has a dotted name too."""

        @staticmethod
        def pair(width: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


class Parent(nn.Module):
    """Builds its own child, as every parent of this library does."""

    def __init__(self, child_cfg, width=2):
        super().__init__()
        self.child, self.width = build(child_cfg), width


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
    assert build(first) is first


def test_a_dotted_name_and_mappings_within_mappings():
    assert len(build({"__target__": f"{__name__}.Outer.Inner.pair", "width": 3})) == 2
    assert isinstance(build({"__target__": f"{__name__}.Outer.Inner"}), nn.Identity)
    inner = {"__target__": "residual_edu.LayerScale", "dim": 4}
    spec = {"__target__": Parent, "child_cfg": {"__target__": Parent, "child_cfg": inner, "width": 3}}
    made = build(spec)
    assert made.child.width == 3 and made.child.child.gamma.shape == (4,)
    assert build(spec).child.child.gamma is not made.child.child.gamma


@pytest.mark.parametrize(
    "write",
    [
        lambda: LazyConfig(LayerNorm)(dimm=4),
        lambda: build({"__target__": LayerNorm, "dimm": 4}),
        lambda: setattr(LazyConfig(MLP)(dim=4), "expansion", 3.0),
    ],
)
def test_a_typo_fails_where_it_is_written(write):
    with pytest.raises(TypeError, match="^got an unexpected keyword argument '(dimm|expansion)'$"):
        write()


def test_a_keyword_is_an_attribute():
    config = LazyConfig(MLP)(dim=4, activation="relu", dropout_cfg=nn.Identity)
    assert isinstance(config, partial) and config.func is MLP and len(config.keywords) == 3
    assert config.dim == 4 and not hasattr(config, "bias")
    config.expansion_factor = 3.0
    for made in (config, copy.deepcopy(config), pickle.loads(pickle.dumps(config)), partial(config, bias=False)):
        assert build(made).layer1.out_features == 12
    changed = copy.deepcopy(config)
    changed.dim = 6
    assert (build(changed).dim, build(config).dim) == (6, 4)


@pytest.mark.parametrize("name", ["os.getcwd", "torch.Tensor", "torch.pi", f"{__name__}.two_sizes"])
def test_a_name_calls_nothing_but_what_is_declared_to_return_a_module(name):
    with pytest.raises(InvalidInput, match=f"^{re.escape(name)} must be declared to return a module$"):
        build({"__target__": name})
    for spec in (lambda: 3, dict, {"__target__": two_sizes}):
        with pytest.raises(InvalidInput, match="must return a module, got "):
            build(spec)
