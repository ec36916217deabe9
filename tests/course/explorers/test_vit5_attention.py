"""The explorer of attention shows the token, the block and the moment that were chosen."""

import itertools

import numpy as np
import pytest

from residual_course.explorers.vit5_attention import explore_attention

NAMES = ["CLS", "R", "R"]


@pytest.fixture
def images():
    return np.random.default_rng(0).random((3, 8, 8))


@pytest.fixture
def maps():
    """Attention of four patches and a CLS token, without registers and with two."""
    weights = {name: np.random.default_rng(n).random((2, 2, 3, n, n)) for name, n in (("without", 5), ("with", 7))}
    return {name: table / table.sum(-1, keepdims=True) for name, table in weights.items()}


@pytest.fixture
def explorer(images, maps):
    return explore_attention(images, maps, NAMES)


def choose(explorer, **values):
    for name, value in values.items():
        explorer.inputs[name].value = value


@pytest.mark.parametrize(
    "trained, block, image, token", list(itertools.product((False, True), (1, 2), (0, 2), (0, 3, 4)))
)
def test_the_picture_shows_what_was_chosen(explorer, images, maps, trained, block, image, token):
    choose(explorer, image=image, token=token, block=block, trained=trained)
    digit, frame, _, *shown = explorer.animated
    assert np.allclose(digit.get_array(), images[image])
    assert frame.get_visible() is (token < 4) and (token == 4 or frame.get_xy() == (token % 2, token // 2))
    drawn = [np.ravel(artist.get_array()) for artist in shown if hasattr(artist, "get_array")]
    heard = [maps[name][int(trained), block - 1, image, token] for name in maps]
    assert np.allclose(np.concatenate(drawn), np.concatenate(heard))


def test_the_reading_says_the_numbers(explorer, maps):
    choose(explorer, image=1, token=2, block=2, trained=True)
    patches = [maps[name][1, 1, 1, 2, :4].sum() for name in maps]
    registers = maps["with"][1, 1, 1, 2, 5:].sum()
    assert (
        f"After training, in block 2, patch 2 gives: without, {patches[0]:.0%} for the patches, 0% for registers; "
        f"with, {patches[1]:.0%} for the patches, {registers:.0%} for registers."
    ) in explorer.reading.value
    assert f"patches {patches[1]:.0%}" in [a.get_text() for a in explorer.animated if hasattr(a, "get_text")]
    choose(explorer, token=4, trained=False)
    assert "Before training, in block 2, the CLS token gives: " in explorer.reading.value


def test_the_controls_offer_every_image_token_and_block(explorer):
    assert [value for _, value in explorer.inputs["token"].options] == [4, 0, 1, 2, 3]
    assert [value for _, value in explorer.inputs["block"].options] == [1, 2] and explorer.inputs["image"].max == 2


def test_each_control_changes_the_picture(explorer):
    seen = {explorer.image.value}
    for name, value in [("image", 1), ("token", 0), ("block", 2), ("trained", True)]:
        explorer.inputs[name].value = value
        seen.add(explorer.image.value)
    assert len(seen) == 5 and "cannot be drawn" not in explorer.reading.value
