"""Shapes in signatures are checked while the tests run, and nowhere else."""

import os
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by every kernel; more threads are slower on lesson-sized work

from jaxtyping import config, install_import_hook

install_import_hook("residual_edu", "beartype.beartype")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def as_installed():
    """Switch the shape checks off: the library as its users meet it."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def compiled():
    """``torch.compile`` into one graph, forgetting what earlier tests compiled, which counts against its limit."""
    torch.compiler.reset()
    return partial(torch.compile, fullgraph=True, backend="eager")
