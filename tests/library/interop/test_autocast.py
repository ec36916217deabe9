"""Under autocast to 16 bits a model trains: its output and gradients are those of float32, to 16 bits."""

import pytest
import torch

from .models import NETWORKS
from .tools import gradients, tensors

pytestmark = pytest.mark.usefixtures("all_as_installed")


@pytest.mark.parametrize("name", NETWORKS)
def test_it_gives_the_numbers_of_float32(name):
    model, call = NETWORKS[name].woken(), NETWORKS[name].inputs()
    expected = flat(gradients(model, call))
    with torch.autocast("cpu", torch.bfloat16):
        found = flat(gradients(model, call))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).norm() <= 0.2 * b.norm()


def flat(results):
    """The output, and all gradients as one vector."""
    output, *weights = results
    return tensors(output)[0].float(), torch.cat([each.flatten() for each in weights])
