"""The explorer of configs shows the two runs that were picked."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_edu.explorers.configurable import SMOOTH, Run, RunsPicture, explore_runs, smoothed

RUNS = {
    "base": Run(np.linspace(4, 2, 40), 2.19, 72768, 1024.0, [4.0, 3.0, 2.0]),
    "attention: mla": Run(np.linspace(4, 3, 40), 2.22, 62560, 192.0, [1.2, 1.1, 1.0]),
    "position: none": Run(np.linspace(4, 2.5, 40), 2.55, 72768, 1024.0, [0.5, 0.8, 1.0]),
}


@pytest.fixture
def picture():
    return RunsPicture(Figure(), RUNS, 2.46)


def test_a_loss_is_averaged_over_a_few_steps():
    losses = np.arange(40.0)
    assert smoothed(losses) == pytest.approx(losses[SMOOTH // 2 : -(SMOOTH // 2)])


def test_the_picture_shows_the_pair(picture):
    picture.draw("position: none", "attention: mla")
    for curve, name in zip(picture.curves, ("position: none", "attention: mla"), strict=True):
        assert curve.get_ydata() == pytest.approx(smoothed(RUNS[name].losses))
    for curve, name in zip(picture.returns, ("position: none", "attention: mla"), strict=True):
        assert curve.get_ydata() == pytest.approx(np.array(RUNS[name].stream_gradient) / RUNS[name].stream_gradient[-1])
    assert [bar.get_width() for bar in picture.bars] == pytest.approx([1, 62560 / 72768, 1, 192 / 1024])
    assert [text.get_text() for text in picture.words] == [
        "– – 72,768 parameters",
        "— 62,560 parameters",
        "– – 1,024 bytes a token",
        "— 192 bytes a token",
    ]


def test_the_reading_has_the_numbers(picture):
    reading = picture.draw("base", "attention: mla")
    assert reading.startswith(
        "Dashed, base: a loss of 2.19 on new text, 72,768 parameters, 1,024 bytes a token; before"
    )
    assert (
        "before training the first block's gradient is 2.00 times the last one's." in reading
        and "Solid, attention: mla: a" in reading
    )


def test_every_pick_has_its_picture_and_its_reading():
    explorer = explore_runs(RUNS, 2.46)
    seen = {(explorer.image.value, explorer.reading.value)}
    for name in ("base", "attention: mla"):
        explorer.inputs["solid"].value = name
        assert "cannot be drawn" not in explorer.reading.value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 3


def test_it_begins_with_the_first_and_the_last():
    explorer = explore_runs(RUNS, 2.46)
    assert explorer.inputs["dashed"].value == "base" and explorer.inputs["solid"].value == "position: none"
    assert "base and position: none" in explorer.alt
