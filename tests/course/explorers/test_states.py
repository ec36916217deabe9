"""The states drawn for a page without a kernel: what may be named, and what is written."""

import io
import json

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from residual_course.explorers import Explorer
from residual_course.explorers.draw_states import draw_shown, draw_state
from residual_course.explorers.states import grid
from residual_edu.errors import InvalidInput

T = np.linspace(0, 1, 50)
SOME = {"size": [0.5, 1.0, 2.0], "turned": [False, True], "name": ["A", "B"]}


def wave(states):
    """A curve with four controls: its height, whether it is turned over, what it is called, and its speed."""
    axes = (figure := Figure(figsize=(6, 2))).add_subplot(ylim=(-4, 4))
    (curve,) = axes.plot(T, T, color="#0072B2")

    def draw(size, turned, name, speed):
        curve.set_ydata((-1 if turned else 1) * size * np.sin(speed * T))
        return f"{name}: size {size:g}, {'turned' if turned else 'upright'}, speed {speed}"

    controls = {
        "size": widgets.FloatSlider(value=1.0, max=3, description="how tall"),
        "turned": widgets.Checkbox(value=False),
        "name": widgets.SelectionSlider(options=[("first", "A"), ("second", "B")]),
        "speed": widgets.IntSlider(value=5),
    }
    return Explorer(figure, draw, controls, alt="A wave.", animated=[curve], states=states)


def test_the_grid_has_every_combination_and_states_are_few_name_controls_and_contain_the_start():
    assert len(grid(SOME)) == 12 and grid(SOME)["2-0-1"] == {"size": 2.0, "turned": False, "name": "B"}
    wave({"size": [1.0, *range(2, 31)], "turned": [False, True]})
    with pytest.raises(InvalidInput, match=r"^states must name at most 60 settings, got 62: leave out values or a con"):
        wave({"size": [1.0, *range(2, 32)], "turned": [False, True]})
    with pytest.raises(InvalidInput, match=r"^a name in states must be one of 'size', "):
        wave({"sise": [1.0]})
    with pytest.raises(InvalidInput, match=r"^states\['speed'\] must contain 5, at which the control starts$"):
        wave({"speed": [1, 2]})


def test_a_state_is_what_the_controls_show_with_its_inks():
    explorer, setting = wave(SOME), {"size": 2.0, "turned": True}
    picture, reading = draw_state(explorer, setting)
    for name, value in setting.items():
        explorer.inputs[name].value = value
    kept, moved = (Image.open(io.BytesIO(png)) for png in (picture, explorer.image.value))
    assert reading == "A: size 2, turned, speed 5" and reading in explorer.reading.value
    assert kept.mode == "P" and kept.size == moved.size == (600, 200)
    kept, moved = (np.asarray(each.convert("RGB"), int) for each in (kept, moved))
    inked = (moved == [0, 114, 178]).all(-1)  # of a short curve, which few colours might lose
    assert np.abs(kept - moved).mean() < 0.5 and 10 < inked.sum() < 1000
    assert np.abs(kept[inked] - [0, 114, 178]).max() < 25


def test_a_lesson_s_explorers_are_written_by_number_and_show_what_they_showed(tmp_path):
    explorer, folder = wave(SOME), tmp_path / "00"
    (folder / "3").mkdir(parents=True)
    before = explorer.image.value, explorer.reading.value
    draw_shown([1, explorer, "a result", wave({}), wave({"name": ["A"]})], folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]  # what was there is gone
    assert (explorer.image.value, explorer.reading.value) == before
    index = json.loads((folder / "1/index.json").read_text(encoding="utf-8"))
    assert index["controls"] == [
        {"label": "how tall", "values": ["0.5", "1", "2"], "start": 1},
        {"label": "turned", "values": ["off", "on"], "start": 0},
        {"label": "name", "values": ["first", "second"], "start": 0},
    ]
    assert index["states"]["1-0-0"] == {"file": "1-0-0.png", "alt": "A wave.", "reading": "A: size 1, upright, speed 5"}
    assert index["states"]["2-1-1"]["alt"] == "B: size 2, turned, speed 5"
    files = {path.name: path.read_bytes() for path in (folder / "1").glob("*.png")}
    assert files.keys() == {state["file"] for state in index["states"].values()}
    assert len(set(files.values())) == 6  # the name moves nothing but the reading
