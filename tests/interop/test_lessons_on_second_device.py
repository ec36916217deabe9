"""The cells of lessons run on a second device wherever they run on the CPU, with few training steps.

With few steps some cells fail on the CPU as well, such as a figure that begins with step 60; these say nothing.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from residual_edu.course.turns import share, turn
from tests.interop.second_device.lessons import NOTEBOOKS, failures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb") if not path.stem.endswith("_more"))
PARTS = 7  # two lessons at each commit


def in_a_process(*words):
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(failures, *words).result()


@pytest.mark.parametrize("name", share(NAMES, PARTS, turn(NOTEBOOKS.parent)))
def test_a_lesson_runs_on_the_second_device(name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    elsewhere = in_a_process(name, True)
    here = in_a_process(name, False) if elsewhere else {}
    assert {place: error for place, error in elsewhere.items() if place not in here} == {}
    assert len(here) <= 7
