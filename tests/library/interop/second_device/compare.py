"""Run things on the CPU and on the second device, in a process that has it, and compare what comes of them."""

import copy
import inspect
import os
from collections.abc import Callable
from typing import Any

import torch
from tests.fuzzing.outcome import tensors_in
from tests.fuzzing.table import CASES
from tests.interop import two_processes as networks
from tests.interop.second_device import device
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import residual_edu as library
from residual_course.lesson import find_device
from residual_edu.gradient_flow import GradientFlowRecorder, mixing_matrix
from residual_edu.networks.denoiser import flow_matching_loss, sample

RANDOM = {"dropout", "drop_path"}  # what they draw on the device differs from device to device


def moved(value: Any, where: torch.device) -> Any:
    """Return a copy of ``value`` with its tensors and modules on a device."""
    return pytree.tree_map_only((Tensor, nn.Module), lambda each: copy.deepcopy(each).to(where), value)


def result(name: str, where: torch.device) -> tuple[Any, list[Tensor]]:
    """Call a public name as its case in the fuzzer's table says, on a device; return the result and its gradients."""
    case, target = CASES[name], getattr(library, name)
    call = moved(case.call or {}, where)
    leaves = [x.requires_grad_() for x in tensors_in(call)]
    torch.manual_seed(0)
    thing = target
    if case.made is not None:
        thing = target(**moved(case.made, where))
        thing = thing.to(where).eval() if isinstance(thing, nn.Module) else thing
        leaves += list(thing.parameters()) if isinstance(thing, nn.Module) else []
        thing = (
            getattr(thing, "__call__" if case.method == "forward" else case.method) if case.call is not None else thing
        )
    if case.call is None:
        return thing, []
    if case.made is None and "device" in inspect.signature(target).parameters:
        call["device"] = where
    found = thing(**call)
    traced = [x for x in tensors_in(found) if x.requires_grad]
    total = sum(x.square().sum() for x in traced)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True) if traced and leaves else []
    return found, [x for x in gradients if x is not None]


def compare(name: str) -> None:
    """Hold the result of a public name on the second device to that on the CPU: place, values, gradients."""
    (here, ours), (there, theirs) = result(name, torch.device("cpu")), result(name, DEVICE)
    given = [x for value in (CASES[name].made, CASES[name].call) for x in tensors_in(value or {})]
    if given or ours:
        assert all(x.device.type == DEVICE.type for x in [*tensors_in(there), *theirs]), "a result is on another device"
    if name not in RANDOM:
        same(tensors_in(there), tensors_in(here))
        same(theirs, ours)


def same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Raise unless tensors of the second device equal those of the CPU."""
    torch.testing.assert_close([x.cpu() for x in found], expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def train(name: str) -> None:
    """Train a network on both devices, with a recorder, and compare losses and all that was recorded."""
    runs = []
    for where in (torch.device("cpu"), DEVICE):
        model = networks.built(name).to(where)
        optimizer = torch.optim.AdamW(library.parameter_groups(model, 0.1), 1e-2)
        with GradientFlowRecorder(model, model.blocks) as flow:
            losses = []
            for step in range(2):
                optimizer.zero_grad()
                loss = networks.loss_of(model, *(x.to(where) for x in networks.batch(name, step)))
                loss.backward()
                optimizer.step()
                losses.append(loss.detach().cpu())
        runs.append([*losses, *(getattr(flow, quantity) for quantity in networks.QUANTITIES)])
        copy.deepcopy(model).load_state_dict(model.cpu().state_dict())
    same(runs[1], runs[0])


def generate() -> None:
    """Continue tokens with a cache, which greedy choices make the same on both devices."""
    model = networks.built("language model").eval()
    tokens = networks.batch("language model", 0)[0][:2, :2]
    found = [copy.deepcopy(model).to(where).generate(tokens.to(where), 3, 0.0) for where in ("cpu", DEVICE)]
    assert found[1].device.type == DEVICE.type and found[1].cpu().equal(found[0])


def in_training(name: str) -> None:
    """Run a module in training mode with its gradients, where layers draw."""
    case = CASES[name]
    thing = getattr(library, name)(**moved(case.made, DEVICE)).to(DEVICE)
    found = tensors_in(thing(**moved(case.call, DEVICE)))
    assert all(x.device.type == DEVICE.type for x in found)
    traced = [x.sum() for x in found if x.requires_grad]
    if traced:
        torch.stack(traced).sum().backward()


def dependence() -> None:
    """Measure a mixing matrix, which comes back to the CPU."""
    found, x = [], torch.randn(2, 5, 3)
    for where in (torch.device("cpu"), DEVICE):
        torch.manual_seed(0)
        mixer = nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), nn.Tanh()).to(where)
        found.append(mixing_matrix(mixer, x.to(where)))
    same(found[1:], found[:1])


def draw() -> None:
    """Take the loss of a denoiser, and follow it from noise to images."""
    model = library.Denoiser(2, 2, 4, 1, 3)
    runs = []
    for where in (torch.device("cpu"), DEVICE):
        model, draws = copy.deepcopy(model).to(where), torch.Generator().manual_seed(0)
        images, labels = torch.ones(3, 4, 4, device=where), torch.tensor([0, 1, 2]).to(where)
        loss = flow_matching_loss(model, images, labels, generator=draws)
        runs.append([loss.detach().cpu(), sample(model, images, labels, steps=2).cpu()])
    same(runs[1], runs[0])


REFUSED: dict[str, Callable[[torch.device], object]] = {
    "a sum of tensors of two devices": lambda where: torch.ones(2, device=where) + torch.ones(2),
    "a product": lambda where: torch.ones(2, 2, device=where) @ torch.ones(2, 2),
    "a list": lambda where: torch.cat([torch.ones(2, device=where), torch.ones(2)]),
    "an index of the other device": lambda where: torch.ones(2)[torch.zeros(1, dtype=int, device=where)],
    "weights of the other device": lambda where: nn.Linear(2, 2)(torch.ones(2, 2, device=where)),
    "an embedding of the other device": lambda where: nn.Embedding(2, 2).to(where)(torch.zeros(1, dtype=int)),
    "a generator of the other device": lambda where: torch.randn(2, device=where, generator=torch.Generator()),
    "NumPy": lambda where: torch.ones(2, device=where).numpy(),
}


def refuse(name: str) -> None:
    """Raise unless a call that fails on a GPU fails on the device."""
    try:
        REFUSED[name](DEVICE)
    except (RuntimeError, TypeError):
        return
    raise AssertionError("it was not refused")


def start() -> None:
    """Give this process the device: the GPU that RESIDUAL_EDU_DEVICE names, else one that refuses what a GPU does."""
    global DEVICE
    name = os.environ.get("RESIDUAL_EDU_DEVICE", "cpu")
    DEVICE = device.install() if name == "cpu" else find_device(name)
    torch.backends.cudnn.allow_tf32 = False  # in a convolution it rounds to 10 bits
