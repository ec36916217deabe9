import copy
import pickle

import pytest
import torch
from torch import nn

from residual_edu import LayerNorm, LayerScale, no_weight_decay, parameter_groups, reset_parameters
from residual_edu.networks import Denoiser
from tests.library.helpers import decayed


class Positions(nn.Module):
    """A table, and so no vector."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 4))


def model():
    return nn.ModuleDict(
        {
            "embed": nn.Linear(4, 4),
            "norm": LayerNorm(4),
            "scale": LayerScale(4),
            "positions": no_weight_decay(Positions()),
            "free": Positions(),
        }
    )


def loaded(net):
    with torch.device("meta"):
        new = model()
    new.load_state_dict(net.state_dict(), assign=True)
    return new


def on_meta_and_back(net):
    net = net.to("meta").to_empty(device="cpu")
    for module in net.modules():
        module.reset_parameters = getattr(module, "reset_parameters", lambda: None)
    reset_parameters(net)
    return net


def replaced(net):
    """As FSDP does: a new parameter in each place."""
    for module in list(net.modules()):
        for name, p in list(module.named_parameters(recurse=False)):
            module.register_parameter(name, nn.Parameter(p.detach().clone()))
    return net


WAYS = [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), nn.Module.half]
WAYS += [loaded, on_meta_and_back, replaced, lambda m: loaded(copy.deepcopy(m))]


@pytest.mark.parametrize("copied", WAYS)
def test_matrices_decay_vectors_and_what_is_marked_do_not_in_copies_too(copied):
    net = copied(model())
    groups = parameter_groups(net, 0.1)
    assert decayed(net) == ["embed.weight", "free.table"]
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(2, 0.1), (5, 0.0)]
    assert net.positions.table._no_weight_decay and not hasattr(net.free.table, "_no_weight_decay")
    assert all(way(model()).positions.table._no_weight_decay for way in (loaded, on_meta_and_back))  # before one asks


@pytest.mark.usefixtures("as_installed")
def test_a_mark_of_the_origin_counts_and_a_class_gets_none():
    net = model()
    net.embed.weight._no_weight_decay = True
    assert decayed(net) == ["free.table"]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        no_weight_decay(nn.Linear)  # or every linear map would be exempt
    assert not hasattr(nn.Linear, "_no_weight_decay")


@pytest.mark.parametrize("copied", [lambda m: m, copy.deepcopy, replaced])
def test_one_parameter_by_its_name(copied):
    net = copied(Denoiser(2, 4, 8, 1, 10))
    assert not {"position", "label.weight"} & {*decayed(net)} and "patches.weight" in decayed(net)
    with pytest.raises(AttributeError, match="no attribute `places`"):
        no_weight_decay(Positions(), "places")


def test_every_parameter_stands_in_one_group_once_also_where_a_marked_module_shares_it():
    net = nn.ModuleList([no_weight_decay(nn.Embedding(3, 4)), nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
    net[1].weight, net[3].weight = net[0].weight, net[2].weight
    both = [id(p) for group in parameter_groups(net, 0.1) for p in group["params"]]
    assert sorted(both) == sorted(id(p) for p in net.parameters()) and len(both) == 5
    assert decayed(copy.deepcopy(net)) == ["2.weight"]
