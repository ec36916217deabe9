"""Checks run in a known state whatever the session's, and leave the session's as it was."""

import os
import random
import subprocess
import sys
from contextlib import ExitStack, suppress

import numpy as np
import pytest
import torch

from residual_course.checking.known_state import known_state


def state():
    return {
        "device": torch.get_default_device(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "threads": torch.get_num_threads(),
        "prints": str(torch._tensor_str.PRINT_OPTS),
        "numpy prints": str(np.get_printoptions()),
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "random": random.getstate(),
        "folder": os.getcwd(),
    }


def disturb(folder):
    torch.set_default_dtype(torch.bfloat16)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_printoptions(precision=9, sci_mode=True)
    np.set_printoptions(precision=2)
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    os.chdir(folder)


def swapped(change, value, before):
    return lambda stack: (change(value), stack.callback(change, before))


SESSIONS = {
    "a fresh one": lambda stack: None,
    "inference mode": lambda stack: stack.enter_context(torch.inference_mode()),
    "no gradients": lambda stack: stack.enter_context(torch.no_grad()),
    "autocast": lambda stack: stack.enter_context(torch.autocast("cpu")),
    "a default device": swapped(torch.set_default_device, "meta", None),
    "a device's block": lambda stack: stack.enter_context(torch.device("meta")),
    "float64": swapped(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": swapped(lambda on: torch.use_deterministic_algorithms(on, warn_only=on), True, False),
    "print options": swapped(lambda how: torch.set_printoptions(**how), {"precision": 2}, {"profile": "default"}),
}


@pytest.mark.parametrize("session", SESSIONS)
def test_the_state_is_the_same_in_each_session_and_put_back(tmp_path, session):
    with known_state():
        wanted = {name: value for name, value in state().items() if name not in ("threads", "numpy prints")}
    with ExitStack() as stack:
        SESSIONS[session](stack)
        before = state()
        with suppress(KeyboardInterrupt), known_state():
            found = {name: value for name, value in state().items() if name in wanted}
            made = torch.ones(2, requires_grad=True) * 2
            disturb(tmp_path)
            if session != "a device's block":  # there torch itself refuses it
                torch.set_default_device("meta")
            raise KeyboardInterrupt
        assert found == wanted and state() == before
    assert made.device.type == "cpu" and made.dtype == torch.float32
    made.sum().backward()  # no inference tensor


def test_a_folder_that_was_deleted_is_no_trouble(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with known_state():
        assert torch.ones(1).item() == 1


FIRST = """
import torch
from residual_course.exercises import check
def center_and_scale(x, eps=1e-5):
    c = x - x.mean(dim=-1, keepdim=True)
    return c / (c.square().mean(dim=-1, keepdim=True) + eps).sqrt()
def pre(x, sublayer, norm, dropout):
    return x + dropout(sublayer(norm(x)))
def both():
    check(center_and_scale, "center_and_scale")
    check(pre, "residual_forward")
"""


def test_the_first_check_of_a_session_may_run_under_anything():
    """In a fresh Python, where that check is what imports the exercises and builds their inputs."""
    code = f"{FIRST}\nwith torch.inference_mode(), torch.device('meta'): both()\nboth()"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout.count("Everything holds.") == 4, printed.stdout + printed.stderr[-500:]
