"""The explorer of removed branches asks the network for what its sliders say, and draws what it returns."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from residual_course.explorers.conditions import CompletedPicture, explore_branches, removed
from residual_course.plots.adaln_zero import mosaic

WHOLE = torch.linspace(-1, 1, 640).view(10, 8, 8)


def complete(gone):
    """Fainter pictures, and a larger loss, for each removed branch."""
    return WHOLE / (1 + len(gone)), 0.1 + 0.05 * len(gone)


@pytest.mark.parametrize(
    ("choices", "gone"),
    [
        ({}, set()),
        ({"mlp": "block 2"}, {(1, 2)}),
        ({"attention": "all", "condition": "none"}, {(0, 0), (1, 0), (2, 0)}),
        ({"condition": "block 3", "mlp": "all"}, {(2, 1), (0, 2), (1, 2), (2, 2)}),
    ],
)
def test_what_is_removed(choices, gone):
    assert removed(3, **choices) == gone


def test_the_picture_shows_what_is_made_without_the_branches():
    picture = CompletedPicture(Figure(), complete, WHOLE, 4)
    reading = picture.draw(attention="none", condition="none", mlp="all")
    assert reading == "Without 4 branches the loss is 0.300, +0.200."
    wanted = mosaic(np.stack([WHOLE.numpy(), WHOLE.numpy() / 5]))
    np.testing.assert_allclose(picture.image.get_array(), wanted.clip(-1, 1), atol=1e-6)
    assert picture.title.get_text() == "without 4 of 12 branches: loss 0.300"


def test_every_slider_changes_the_picture():
    explorer = explore_branches(complete, WHOLE)
    seen = {explorer.image.value}
    for name, value in (("attention", "block 1"), ("condition", "all"), ("mlp", "block 4")):
        explorer.inputs[name].value = value
        assert "cannot be drawn" not in explorer.reading.value
        seen.add(explorer.image.value)
    assert len(seen) == 4
