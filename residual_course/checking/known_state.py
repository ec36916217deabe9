"""The state in which checks are built and run, whatever the session's; the session's is put back afterwards."""

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict

import numpy as np
import torch

SEED = 20_260_132  # one that no answer sets by chance, so that an answer which seeds torch's generator is noticed


@contextmanager
def known_state() -> Iterator[None]:
    """Run the body on the CPU in float32, with gradients, a fixed seed and no warnings, outside inference mode.

    At the end the session's default device and dtype, gradient mode, deterministic flag, print options, threads,
    random numbers (of torch, NumPy and Python), warnings' filters and working directory are as they were.
    """
    with ExitStack() as stack:
        for part in (device, flags, directory, random_numbers, printing):
            stack.enter_context(contextmanager(part)())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def device() -> Iterator[None]:
    """Make the CPU the default device."""
    before = torch.get_default_device()
    if before.type != "cpu":
        torch.set_default_device(None)
    in_block = torch.get_default_device().type != "cpu"  # of `with torch.device(...)`
    try:
        with torch.device("cpu") if in_block else nullcontext():
            yield
    finally:
        if torch.get_default_device() != before:
            torch.set_default_device(None if before.type == "cpu" else before)


def flags() -> Iterator[None]:
    """Set float32 as the default dtype, and algorithms that need not be deterministic.

    ``torch.use_deterministic_algorithms`` would do that too, and import the compiler first, for two seconds.
    """
    dtype, threads, exact = torch.get_default_dtype(), torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_default_dtype(torch.float32)
    torch.set_deterministic_debug_mode(0)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_deterministic_debug_mode(exact)
        torch.set_num_threads(threads)


def directory() -> Iterator[None]:
    """Come back to the working directory, unless it was deleted."""
    before = None
    with suppress(OSError):
        before = os.getcwd()
    try:
        yield
    finally:
        if before:
            with suppress(OSError):
                os.chdir(before)


def random_numbers() -> Iterator[None]:
    """Seed the three generators that an answer may use, NumPy's old one too."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002
        random.seed(SEED)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def printing() -> Iterator[None]:
    """Print tensors and arrays as a fresh session does."""
    before = asdict(torch._tensor_str.PRINT_OPTS)  # torch has no public way to read them
    torch.set_printoptions(profile="default", sci_mode=None)
    try:
        with np.printoptions():
            yield
    finally:
        torch.set_printoptions(**before)
