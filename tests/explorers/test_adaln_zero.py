"""The explorer of a training run shows, at each pause, what was seen there."""

import numpy as np
import pytest
import torch

from residual_edu import InvalidInput
from residual_edu.explorers.adaln_zero import Pauses, TrainingPicture, explore_training
from residual_edu.plotting.adaln_zero import mosaic

STEPS, GROUPS = [0, 1, 10, 100], ["front", "gates", "back"]


@pytest.fixture
def pauses():
    gradients = torch.tensor([[0, 0, 1e-1], [0, 1e-3, 1e-1], [1e-4, 1e-3, 1e-1], [1e-2, 1e-2, 1e-2]])
    gates = torch.linspace(0, 1, 4)[:, None, None] * torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    return Pauses(STEPS, GROUPS, gradients, gates, torch.rand(4, 2, 10, 8, 8))


@pytest.fixture
def picture(pauses):
    from matplotlib.figure import Figure

    return TrainingPicture(Figure(), pauses)


@pytest.mark.parametrize("at", range(4))
def test_the_picture_shows_the_pause(picture, pauses, at):
    picture.draw(STEPS[at])
    assert picture.frame.get_x() == at - 0.5 and picture.frame.get_width() == 1
    assert picture.cover.get_x() == at + 0.5 and picture.cover.get_x() + picture.cover.get_width() == 3.5
    mixers_then_mlps = [*pauses.gates[at, :, 0], *pauses.gates[at, :, 1]]
    assert [bar.get_height() for bar in picture.bars] == pytest.approx(list(map(float, mixers_then_mlps)))
    assert np.array_equal(picture.sheet.get_array(), mosaic(pauses.sheets[at].numpy()))
    assert picture.title.get_text() == f"what it draws after {STEPS[at]} step{'s' * (at != 1)}"


def test_the_reading_names_those_who_have_a_gradient(picture):
    assert "After 0 steps 1 of 3 groups have a gradient: back." in picture.draw(0)
    assert "After 1 step 2 of 3 groups have a gradient: gates; back." in picture.draw(1)
    assert "3 of 3" in picture.draw(100)


def test_the_reading_gives_the_mean_gates(picture):
    assert picture.draw(100).endswith("The mixers' gates are open by 0.200 on average, the MLPs' by 0.300.")


def test_every_step_has_its_picture_and_its_reading(pauses):
    explorer = explore_training(pauses)
    seen = {(explorer.image.value, explorer.reading.value)}
    for step in STEPS[1:]:
        explorer.inputs["step"].value = step
        assert "cannot be drawn" not in explorer.reading.value
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 4


def test_it_begins_before_training(pauses):
    explorer = explore_training(pauses)
    assert explorer.inputs["step"].value == 0 and explorer.alt.startswith("Before training")


@pytest.mark.usefixtures("as_installed")
def test_as_many_pauses_everywhere(pauses):
    with pytest.raises(InvalidInput, match=r"^pauses must all have the same number of rows, .*\[4, 3, 4, 4\]$"):
        explore_training(pauses._replace(gradients=pauses.gradients[:3]))
