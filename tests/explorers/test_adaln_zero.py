"""The explorer of drawings draws, at each move, what the network draws for its label, guidance and noise."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from residual_edu import InvalidInput
from residual_edu.explorers.adaln_zero import SHOWN, DrawingsPicture, apart, explore_drawings, noise_at
from residual_edu.plotting.adaln_zero import mosaic

NOISES = torch.randn(3, 10, 8, 8, generator=torch.Generator().manual_seed(0))


def path(noise, label, guidance):
    """A way from noise to one grey for each label, which depends on the guidance."""
    goal = torch.full_like(noise, label / 5 - 1) + 0.01 * guidance
    return torch.stack([noise.lerp(goal, step / 10) for step in range(11)])


@pytest.fixture
def picture():
    return DrawingsPicture(Figure(), path, NOISES)


@pytest.mark.parametrize("label", [0, 4, 9])
@pytest.mark.parametrize("guidance", [0.0, 2.0, 12.0])
def test_the_picture_shows_the_drawings_and_the_way_of_the_first(picture, label, guidance):
    picture.draw(label, guidance, 1.0)
    way = path(NOISES[1], label, guidance)
    last = mosaic(way[-1].clamp(-1, 1).view(2, 5, 8, 8).numpy())
    np.testing.assert_allclose(picture.drawings.get_array(), last.clip(-1, 1), atol=1e-6)
    first = mosaic(way[[0, 2, 4, 6, 8, 10], 0][None].numpy())
    np.testing.assert_allclose(picture.way.get_array(), first.clip(-1, 1), atol=1e-6)
    assert picture.title.get_text() == f"label {label}, guidance {guidance:g}"


def test_the_reading_tells_how_far_two_drawings_are_apart(picture):
    assert picture.draw(3, 2.0, 0.0).endswith("two of the ten drawings differ by 0.00 on average.")
    pair = torch.stack([torch.zeros(8, 8), torch.full((8, 8), 0.5)])
    assert apart(pair) == pytest.approx(0.5)


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0, 1.5, 2.0])
def test_the_noise_leads_through_all_sets_and_keeps_its_size(place):
    noise = noise_at(NOISES, place)
    assert noise.square().mean().sqrt() == pytest.approx(1, abs=0.06)
    if place == int(place):
        torch.testing.assert_close(noise, NOISES[int(place)])


def test_every_slider_changes_the_picture():
    explorer = explore_drawings(path, NOISES)
    seen = {explorer.image.value}
    for name, value in (("label", 7), ("guidance", 12.0), ("noise", 0.7)):
        explorer.inputs[name].value = value
        assert "cannot be drawn" not in explorer.reading.value
        seen.add(explorer.image.value)
    assert len(seen) == 4


def test_it_opens_with_a_digit_and_every_state_is_one_of_its_settings():
    explorer = explore_drawings(path, NOISES)
    assert (explorer.inputs["label"].value, explorer.inputs["guidance"].value) == (3, 2)
    assert explorer.alt.startswith("Ten drawings of a 3")
    assert set(SHOWN) <= {value for _, value in explorer.inputs["guidance"].options}


@pytest.mark.usefixtures("as_installed")
def test_ten_noises_in_each_set():
    with pytest.raises(InvalidInput, match=r"^noises must have shape \(sets, 10, side, side\), got \(3, 9, 8, 8\)"):
        explore_drawings(path, NOISES[:, :9])
