"""The explorer of drawings draws, at each move, what the network draws for its label, guidance and noise."""

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from residual_course.explorers.adaln_zero import SHOWN, DrawingsPicture, apart, explore_drawings, noise_at
from residual_course.plots.adaln_zero import mosaic
from residual_edu import InvalidInput

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
    assert_shows(picture.drawings, way[-1].clamp(-1, 1).view(2, 5, 8, 8))
    assert_shows(picture.way, way[[0, 2, 4, 6, 8, 10], 0][None])


def assert_shows(sheet, images):
    """Compare the pixels, whose lowest row is the first, with the enlarged pictures: white is -1."""
    ink = mosaic(images.numpy(), enlarged=sheet.enlarged).clip(-1, 1)
    grey, opaque = sheet.pixels[::-1, :, :3], sheet.pixels[..., 3]
    np.testing.assert_allclose(grey, np.repeat(127.5 * (1 - ink)[..., None], 3, axis=2), atol=0.51)
    assert (opaque == 255).all()


def test_the_pixels_of_a_sheet_are_those_of_the_picture(picture):
    figure = picture.drawings.figure
    figure.set_dpi(100)
    canvas = FigureCanvasAgg(figure)
    picture.draw(3, 2.0, 0.0)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())
    for sheet in picture.moving:
        height, width = sheet.pixels.shape[:2]
        top = len(drawn) - sheet.bottom - height
        assert top >= 0 and sheet.left + width <= drawn.shape[1]
        np.testing.assert_array_equal(drawn[top : top + height, sheet.left : sheet.left + width], sheet.pixels[::-1])


def test_every_picture_of_a_short_way_is_shown():
    picture = DrawingsPicture(Figure(), lambda *given: path(*given)[::2], NOISES)
    assert picture.kept.tolist() == [0, 1, 2, 3, 4, 5]
    words = [text.get_text() for text in picture.drawings.figure.texts]
    assert words[2:] == ["t = 0", "t = 0.2", "t = 0.4", "t = 0.6", "t = 0.8", "t = 1"]


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
    words = r"^noises must be floating point of shape \(sets, 10, side, side\), got torch.float32 \(3, 9, 8, 8\)"
    with pytest.raises(InvalidInput, match=words):
        explore_drawings(path, NOISES[:, :9])
