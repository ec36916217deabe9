"""Exercise on state spaces: the kernel with which a convolution does what the loop over a diagonal state does."""

from collections.abc import Callable

import torch
from torch import Tensor

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, close, draw, run, same_gradients

Kernel = Callable[[Tensor, Tensor, Tensor, int], Tensor]  # A, B, C, (states,) each, and the number of taps


def _powers(A: Tensor, taps: int) -> Tensor:
    return A ** torch.arange(taps)[:, None]


def kernel(A: Tensor, B: Tensor, C: Tensor, taps: int) -> Tensor:
    """Return the real part of the sum of C A^m B over the states, (taps,)."""
    return (_powers(A, taps) * C * B).sum(-1).real


def real(f: Kernel, taps: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return ``f`` as a function of A, B and C; a kernel that is not real is refused."""

    def made(A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        found = f(A, B, C, taps)
        if isinstance(found, Tensor) and found.is_complex():
            raise Broken("it returned complex numbers; the loop's output is `.real`, and so is the kernel")
        return found

    return made


def of(f: Kernel, taps: int) -> Callable[..., Tensor]:
    """Return ``f`` as a function of six real tensors, of which the first two make A inside the unit circle."""

    def made(decay: Tensor, turn: Tensor, b: Tensor, b_turned: Tensor, c: Tensor, c_turned: Tensor) -> Tensor:
        A = torch.polar(decay.sigmoid(), 3 * turn)
        return real(f, taps)(A, torch.complex(b, b_turned), torch.complex(c, c_turned))

    return made


def _loop(f: Kernel) -> None:
    for states, taps in ((3, 1), (4, 6), (2, 9), (1, 5)):
        given = [draw(states, seed=10 * states + k) for k in range(6)]
        wanted = of(kernel, taps)(*given)
        close(run(of(f, taps), *given, like=wanted), wanted, f"for {states} states and {taps} taps the kernel")


def _by_hand(f: Kernel) -> None:
    halves, ones = torch.tensor([0.5, -0.5], dtype=torch.complex128), torch.ones(2, dtype=torch.complex128)
    wanted = torch.tensor([2.0, 0, 0.5, 0]).double()
    close(run(real(f, 4), halves, ones, ones, like=wanted), wanted, "the kernel")


def _gradients(f: Kernel) -> None:
    names = "decay", "turn", "b", "b_turned", "c", "c_turned"
    same_gradients(of(kernel, 5), {name: draw(4, seed=k) for k, name in enumerate(names)})(of(f, 5))


SSM_KERNEL = Exercise(
    reference=kernel,
    observe=lambda f: of(f, 5)(*(draw(3, seed=k) for k in range(6))),
    properties=(
        Property("A = ½, −½ with B and C all ones gives 2, 0, ½, 0", _by_hand),
        Property("it is what the loop makes of a 1 and zeros after it", _loop),
        Property("gradients reach A, B and C", _gradients, hints=()),
    ),
    mistakes=(
        Mistake(
            lambda A, B, C, taps: (_powers(A, taps) * A * C * B).sum(-1).real,
            "a kernel that begins with A to the power of 1",
            "What is written at a position is read there before A has multiplied it: begin with A ** 0.",
        ),
        Mistake(
            lambda A, B, C, taps: (_powers(A, taps) * C).sum(-1).real,
            "a kernel without B",
            "An input is multiplied by B when it is written.",
        ),
        Mistake(
            lambda A, B, C, taps: (_powers(A, taps).real * C.real * B.real).sum(-1),
            "the product of the real parts",
            "Multiply first: the product of two imaginary parts is real too.",
        ),
    ),
    hints=(
        "Send 1, 0, 0, 0 through the loop by hand. What is the state after each step, and what is read?",
        "`A ** torch.arange(taps)[:, None]` has a row for each lag and a column for each state.",
    ),
)

EXERCISES = {"ssm_kernel": SSM_KERNEL}
