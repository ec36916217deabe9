"""What exercises share that ask for a network of images: its outputs, or a sentence on what is no such network."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Unmet

Network = Callable[[Tensor], Tensor]


def outputs(network: Network, x: Tensor) -> Tensor:
    """Return ten outputs for each image, in evaluation, or raise ``Unmet`` for what is no network."""
    if network is None:
        raise Broken("it returned nothing (is a `return` missing?), where a function of images was asked for")
    if not callable(network):
        raise Unmet(f"it returned a {type(network).__name__}, where a function of images was asked for")
    if isinstance(network, nn.Module):
        network.eval()
    with torch.no_grad():
        found = network(x.clone())
    if not isinstance(found, Tensor) or found.shape != (len(x), 10):
        shape = tuple(found.shape) if isinstance(found, Tensor) else f"of type {type(found).__name__}"
        raise Unmet(f"the outputs for {len(x)} images are {shape}, where ({len(x)}, 10) was asked for")
    return found
