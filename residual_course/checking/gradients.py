"""Gradients of an answer beside those of a right one: of each input, and of each weight of each part."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from residual_course.checking.properties import close, draw, named, run, tensor
from residual_course.checking.unchanged import unchanged
from residual_course.checking.unmet import Broken

Case = dict[str, Any]  # what an answer is handed, by the names that its learner knows
Call = Callable[..., Any]
CUT = "is there a `.detach()`, a `.data`, an `.item()` or a `no_grad`?"
IN_PLACE = "its backward fails: an operation in place, such as `x += f(x)`, overwrote what a part had saved for it"


class Part(nn.Module):
    """A part to hand to an answer: nonlinear, with a weight, and its backward needs its input as it was.

    Each row z of width d becomes (z^2 / 2 + z) W + b with drawn W and b.
    """

    def __init__(self, width: int, seed: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw(width, width, seed=100 + seed) / width**0.5)
        self.bias = nn.Parameter(draw(width, seed=200 + seed))

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        """Return the image of ``x``; further arguments change nothing."""
        return (x.square() / 2 + x) @ self.weight.to(x.dtype) + self.bias.to(x.dtype)


def filled(module: nn.Module) -> nn.Module:
    """Return ``module`` in float64, each parameter drawn by its name, so that no branch is silent."""
    with torch.no_grad():
        for name, parameter in module.double().named_parameters():
            parameter.copy_(draw(*parameter.shape, seed=crc32(name.encode())))
    return module


def gradients(function: Call, *inputs: Tensor, like: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the gradient of ``(weights * function(*inputs)).sum()`` for each input, with fixed normal weights.

    Raises:
        Unmet: as ``run`` does, or if no gradient reaches an input, which is named.
    """
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    with torch.enable_grad():
        result = run(function, *leaves, like=like)
    found = backward(result, leaves)
    for name, gradient in zip(named(function, leaves), found, strict=True):
        if gradient is None:
            raise Broken(f"no gradient reaches `{name}`; {CUT}")
    return tuple(gradient for gradient in found if gradient is not None)


def backward(output: Tensor, leaves: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradient of a sum of ``output`` with fixed weights for each leaf, None where none arrives."""
    if not output.requires_grad or not leaves:
        return [None] * len(leaves)
    try:
        with torch.enable_grad():
            total = (draw(*output.shape, seed=1, dtype=output.dtype) * output).sum()
        return torch.autograd.grad(total, leaves, allow_unused=True)
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            raise Broken(f"{IN_PLACE}; write `x = x + f(x)`") from None
        raise


def all_learn(module: nn.Module, x: Tensor) -> None:
    """Raise ``Broken`` with the first parameter that no gradient reaches from ``module(x)``."""
    with torch.enable_grad():
        module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not parameter.grad.any():
            raise Broken(f"no gradient reaches `{name}`; {CUT}")


def same_gradients(reference: Any, *cases: Case, call: Call | None = None) -> Callable[[Any], None]:
    """Return a test: output and gradients equal the reference's, and all that is handed over stays as it was.

    Args:
        reference: a right answer.
        cases: each a dict of arguments by name, such as ``{"x": draw(2, 4), "f": Part(4)}``. Tensors of real numbers
            become leaves; modules, and those in lists, tuples and dicts, are copied, and each weight is compared.
            Everything else is handed over as it is.
        call: how an answer is called with a case, by default ``answer(*case.values())``. It returns the output, or the
            output and the module that the answer built, whose parameters are compared by name. Give it where the answer
            is a class: ``lambda cls, x: ((m := filled(cls(4)))(x), m)``.
    """

    def test(answer: Any) -> None:
        for case in cases:
            wanted, found = (dict(graph(f, case, call)) for f in (reference, answer))
            close(found.pop(""), wanted.pop(""))
            for name in wanted:
                arrives(name, found, wanted[name])
            for name, want in wanted.items():
                if found[name] is not None:
                    close(
                        found[name],
                        torch.zeros_like(found[name]) if want is None else want,
                        f"the gradient of `{name}`",
                    )

    return test


def arrives(name: str, found: dict[str, Any], want: Tensor | None) -> None:
    """Raise ``Broken`` if the input or weight ``name`` has no gradient, where the reference's is there and not zero."""
    if name not in found:
        raise Broken(f"`{name}` is no parameter of its module; assign an `nn.Parameter` or a module to it")
    if found[name] is None and want is not None and want.any():
        raise Broken(f"no gradient reaches `{name}`; {CUT}")


def graph(answer: Any, case: Case, call: Call | None) -> Iterator[tuple[str, Any]]:
    """Yield an answer's output, called "", and the gradient of each leaf by its name; None where none arrives."""
    made = leafy(case)
    given = handed(made)
    with unchanged(**given), torch.enable_grad():
        result = call(answer, **given) if call else answer(*given.values())
        output, own = result if isinstance(result, tuple) and isinstance(result[-1], nn.Module) else (result, None)
    output = tensor(output, "it returned")
    leaves = dict(leaves_of(made)) | (dict(own.named_parameters()) if own else {})
    asking = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    found = dict(zip(asking, backward(output, list(asking.values())), strict=True))
    yield "", output.detach()
    yield from ((name, found.get(name)) for name in leaves)


def leafy(value: Any) -> Any:
    """Return a copy of an argument whose tensors of real numbers ask for gradients."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    if isinstance(value, nn.Module):
        return copy.deepcopy(value)
    if isinstance(value, list | tuple):
        return type(value)(map(leafy, value))
    return {key: leafy(one) for key, one in value.items()} if isinstance(value, dict) else value


def handed(value: Any) -> Any:
    """Return an argument as a learner's own code would make it: a tensor is the output of an operation, and no leaf."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, list | tuple):
        return type(value)(map(handed, value))
    return {key: handed(one) for key, one in value.items()} if isinstance(value, dict) else value


def leaves_of(made: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor of real numbers and each parameter with its name."""
    if isinstance(made, Tensor) and made.is_floating_point():
        yield name, made
    elif isinstance(made, nn.Module):
        yield from made.named_parameters(prefix=name)
    elif isinstance(made, list | tuple):
        for i, one in enumerate(made):
            yield from leaves_of(one, f"{name}[{i}]")
    elif isinstance(made, dict):
        for key, one in made.items():
            yield from leaves_of(one, f"{name}[{key!r}]" if name else str(key))
