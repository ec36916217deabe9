"""The explorer of drawings draws, at each move, what the network draws for its label, guidance and noise."""

import pytest
import torch
from matplotlib.figure import Figure

from residual_course.explorers.adaln_zero import SHOWN, DrawingsPicture, apart, explore_drawings, noise_at
from residual_edu import InvalidInput

NOISES = torch.randn(3, 10, 8, 8, generator=torch.Generator().manual_seed(0))


def path(noise, label, guidance):
    """A way from noise to one grey for each label, which depends on the guidance."""
    goal = torch.full_like(noise, label / 5 - 1) + 0.01 * guidance
    return torch.stack([noise.lerp(goal, step / 10) for step in range(11)])


def test_the_reading_says_how_far_two_drawings_are_apart_and_six_steps_of_the_way_are_kept():
    """Its pixels are compared by nbval and with the stored states."""
    picture = DrawingsPicture(Figure(), path, NOISES)
    assert picture.draw(4, 12.0, 1.0).endswith("two of the ten drawings differ by 0.00 on average.")
    short = DrawingsPicture(Figure(), lambda *given: path(*given)[::2], NOISES)
    assert picture.kept.tolist() == [0, 2, 4, 6, 8, 10] and short.kept.tolist() == [0, 1, 2, 3, 4, 5]
    assert apart(torch.stack([torch.zeros(8, 8), torch.full((8, 8), 0.5)])) == pytest.approx(0.5)


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
        seen.add(explorer.image.value)
    assert len(seen) == 4 and set(SHOWN) <= {value for _, value in explorer.inputs["guidance"].options}


@pytest.mark.usefixtures("as_installed")
def test_ten_noises_in_each_set():
    words = r"^noises must be floating point of shape \(sets, 10, side, side\), got torch.float32 \(3, 9, 8, 8\)"
    with pytest.raises(InvalidInput, match=words):
        explore_drawings(path, NOISES[:, :9])
