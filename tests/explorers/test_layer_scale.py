"""The explorer of gates shows the run that was chosen, at the step that was chosen."""

import itertools

import numpy as np
import pytest

from residual_edu.explorers.layer_scale import explore_gates

STARTS, OPTIMISERS, STEPS, BLOCKS = (1e-6, 1e-2, 1.0), ("Adam", "SGD"), 200, 8
RUNS = list(itertools.product(OPTIMISERS, STARTS))


@pytest.fixture
def gates():
    """Sizes of gates that differ for each run, step and block."""
    growth = np.linspace(0, 0.1, STEPS)[:, None] * np.linspace(0.8, 1.2, BLOCKS)
    return {(name, start): start + growth / (1 + OPTIMISERS.index(name)) for name, start in RUNS}


@pytest.fixture
def losses():
    return {(name, start): np.linspace(2.5, start, STEPS) for name, start in RUNS}


@pytest.fixture
def explorer(gates, losses):
    return explore_gates(gates, losses)


def choose(explorer, start, optimiser, step):
    for name, value in {"start": start, "optimiser": optimiser, "step": step}.items():
        explorer.inputs[name].value = value


@pytest.mark.parametrize(("optimiser", "start"), RUNS)
def test_the_picture_shows_the_chosen_run_and_its_siblings(explorer, gates, optimiser, start):
    choose(explorer, start, optimiser, 50)
    *others, chosen, here, blocks = explorer.animated[2:-4]
    means = {key: run.mean(-1) for key, run in gates.items() if key[0] == optimiser}
    assert np.allclose(chosen.get_ydata(), means[optimiser, start])
    assert np.allclose(here.get_xydata(), [[50, means[optimiser, start][50]]])
    assert np.allclose(blocks.get_ydata(), gates[optimiser, start][50] / means[optimiser, start][50])
    drawn = sorted(line.get_ydata()[0] for line in others if len(line.get_ydata()))
    assert np.allclose(drawn, [s for s in STARTS if s != start])


def test_the_reading_and_the_title_say_the_numbers(explorer):
    choose(explorer, 1e-2, "SGD", 199)
    reading = explorer.reading.value
    assert "At step 199 of SGD from λ = 0.01 the gates have a mean size of 0.06" in reading
    assert "from 0.05 in block 1 to 0.07 in block 8; the loss is 0.01." in reading
    assert explorer.animated[-1].get_text() == "SGD, λ = 0.01, step 199: loss 0.01"


def test_the_controls_offer_every_run_and_every_step(explorer):
    assert [value for _, value in explorer.inputs["start"].options] == list(STARTS)
    assert explorer.inputs["optimiser"].options == OPTIMISERS
    assert (explorer.inputs["step"].min, explorer.inputs["step"].max) == (0, STEPS - 1)


def test_each_control_changes_the_picture_and_the_reading(explorer):
    seen = {(explorer.image.value, explorer.reading.value)}
    for name, value in [("step", 120), ("optimiser", "SGD"), ("start", 1.0)]:
        explorer.inputs[name].value = value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_every_corner_of_the_controls_can_be_drawn(explorer):
    for (optimiser, start), step in itertools.product(RUNS, (0, STEPS - 1)):
        choose(explorer, start, optimiser, step)
        assert "cannot be drawn" not in explorer.reading.value
