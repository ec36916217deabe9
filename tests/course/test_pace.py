"""The pace of the machine, by which a lesson's processor time is judged."""

import types

import pytest
import torch

from residual_edu.course import pace


@pytest.mark.parametrize(("took", "expected"), [(0.1, 1.0), (pace.QUIET, 1.0), (3 * pace.QUIET, 3.0)])
def test_a_slow_machine_has_a_large_pace_and_a_fast_one_the_pace_1(monkeypatch, took, expected):
    clock = iter([5.0, 5.0 + took])
    monkeypatch.setattr(pace, "time", types.SimpleNamespace(process_time=lambda: next(clock)))
    monkeypatch.setattr(pace, "work", lambda: None)
    assert pace.pace() == pytest.approx(expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_work_leaves_chance_and_modes_as_they_were(mode):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with mode():
        pace.work()
        assert torch.rand(3).equal(expected)


def test_a_plain_kernel_s_default_device_and_dtype_do_not_matter(monkeypatch):
    torch.set_default_dtype(torch.float64)
    try:
        pace.work()
    finally:
        torch.set_default_dtype(torch.float32)
