"""README's pictures are made of what is stored now: python -m tools.readme_pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from tools.readme_pictures import MARGIN, NOTEBOOK, PLACE, RIVER, STATES, stored, write_pictures

ROOT = Path(__file__).parents[2]
SHOWN = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder)
    return folder


def frames(path):
    with Image.open(path) as image:
        return [np.asarray(each.convert("RGB")).astype(int) for each in ImageSequence.Iterator(image)]


def test_the_same_bytes_are_made_twice(made, tmp_path):
    write_pictures(tmp_path)
    for name in ("explorer.gif", "stream.png"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


def test_the_explorer_that_is_shown_is_made_of_the_stored_states(made):
    """Each pixel, but for the edges of letters and sliders: other builds of matplotlib draw them otherwise."""
    index = json.loads((STATES / "index.json").read_text(encoding="utf-8"))
    values, start = index["controls"][0]["values"], index["controls"][1]["start"]
    shown, again = frames(SHOWN / "explorer.gif"), frames(made / "explorer.gif")
    assert len(shown) == len(again) == len(values)
    for at, (one, other) in enumerate(zip(shown, again, strict=True)):
        state = np.asarray(Image.open(STATES / f"{at}-{start}.png").convert("RGB"))
        (x, y), (height, width) = PLACE, state.shape[:2]
        assert np.abs(one[y : y + height, x : x + width] - state).max() <= 8
        assert (np.abs(one - other).max(-1) > 64).mean() < 0.01


def test_the_river_that_is_shown_is_the_stored_figure(made):
    assert np.array_equal(frames(SHOWN / "stream.png")[0], frames(made / "stream.png")[0])
    (made / "figure.png").write_bytes(stored(NOTEBOOK, RIVER))
    (whole,), (figure,) = frames(made / "stream.png"), frames(made / "figure.png")
    assert np.array_equal(whole[MARGIN:-MARGIN, MARGIN:-MARGIN], figure)


def test_the_explorer_moves_and_is_small():
    with Image.open(SHOWN / "explorer.gif") as image:
        assert image.n_frames >= 10 and image.info["loop"] == 0 and image.info["duration"] >= 500
    assert 100_000 < (SHOWN / "explorer.gif").stat().st_size < 1_500_000


def test_every_picture_is_named_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in SHOWN.iterdir() if f"(docs/pictures/{path.name})" not in readme] == []
