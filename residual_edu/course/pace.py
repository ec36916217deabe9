"""How slow this machine is just now: a fixed piece of a lesson's kind of work, beside the time it takes in quiet."""

import time

QUIET = 0.2  # processor seconds of ``work`` on a quiet machine on which lessons take what docs/instructors.md lists


def pace() -> float:
    """Return how many times as long as in quiet the work takes now; 1 on a machine that is faster."""
    import torch  # noqa: F401 - before the clock starts: a kernel may not have imported it yet

    start = time.process_time()
    work()
    return max(1.0, (time.process_time() - start) / QUIET)


def work() -> None:
    """Train a few residual layers of a lesson's size for a few steps; torch's state of chance is left as it was."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        layers = [torch.nn.Linear(64, 64) for _ in range(24)]
        x = torch.randn(64, 64)
        for _ in range(60):
            y = x
            for layer in layers:
                y = y + torch.nn.functional.layer_norm(layer(y), (64,)).relu()
            y.square().mean().backward()
