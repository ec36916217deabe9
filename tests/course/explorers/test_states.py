"""The states drawn for a page without a kernel: what may be named, and what is written."""

import io
import json

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from residual_course.explorers import Explorer
from residual_course.explorers.draw_states import draw_explorer, draw_shown, draw_state
from residual_course.explorers.states import grid
from residual_edu.errors import InvalidInput

T = np.linspace(0, 1, 50)


def wave(states, keep=False):
    """A curve with four controls: its height, whether it is turned over, what it is called, and its speed."""
    axes = (figure := Figure(figsize=(6, 2))).add_subplot(ylim=(-4, 4))
    (tried,), (curve,) = axes.plot([], [], lw=1), axes.plot(T, T, color="#0072B2")

    def draw(size, turned, name, speed):
        curve.set_ydata((-1 if turned else 1) * size * np.sin(speed * T))
        return f"{name}: size {size:g}, {'turned' if turned else 'upright'}, speed {speed}"

    controls = {
        "size": widgets.FloatSlider(value=1.0, max=3, description="how tall"),
        "turned": widgets.Checkbox(value=False),
        "name": widgets.SelectionSlider(options=[("first", "A"), ("second", "B")]),
        "speed": widgets.IntSlider(value=5),
    }
    kept = {"keep": lambda: {tried: curve.get_data()}} if keep else {}
    return Explorer(figure, draw, controls, alt="A wave.", animated=[tried, curve], states=states, **kept)


SOME = {"size": [0.5, 1.0, 2.0], "turned": [False, True], "name": ["A", "B"]}


def opened(picture):
    return Image.open(io.BytesIO(picture))


def test_the_grid_has_every_combination_by_the_places_of_its_values():
    every = grid(SOME)
    assert len(every) == 12 and every["2-0-1"] == {"size": 2.0, "turned": False, "name": "B"}
    assert grid({}) == {"": {}}


def test_sixty_settings_are_allowed_and_more_are_refused_in_a_sentence():
    wave({"size": [1.0, *range(2, 31)], "turned": [False, True]})
    with pytest.raises(InvalidInput, match=r"^states must name at most 60 settings, got 62: leave out values or a con"):
        wave({"size": [1.0, *range(2, 32)], "turned": [False, True]})


def test_states_name_controls_and_contain_the_start():
    with pytest.raises(InvalidInput, match=r"^a name in states must be one of 'size', "):
        wave({"sise": [1.0]})
    with pytest.raises(InvalidInput, match=r"^states\['speed'\] must contain 5, at which the control starts$"):
        wave({"speed": [1, 2]})


def test_a_short_curve_keeps_its_ink_in_a_state():
    explorer, ink = wave(SOME), np.array([0, 114, 178])
    setting = {"size": 2.0}
    kept = opened(draw_state(explorer, setting)[0]).convert("RGB")
    explorer.inputs["size"].value = 2.0
    inked = (np.asarray(explorer.pixels()) == ink).all(-1)
    assert 10 < inked.sum() < 1000
    assert np.abs(np.asarray(kept, int)[inked] - ink).max() < 25


def test_a_state_is_what_the_controls_show():
    explorer = wave(SOME)
    picture, reading = draw_state(explorer, {"size": 2.0, "turned": True})
    for name, value in {"size": 2.0, "turned": True}.items():
        explorer.inputs[name].value = value
    moved = opened(explorer.image.value)
    assert reading == "A: size 2, turned, speed 5" and reading in explorer.reading.value
    assert opened(picture).mode == "P" and opened(picture).size == moved.size == (600, 200)
    assert np.abs(np.asarray(opened(picture).convert("RGB"), int) - np.asarray(moved, int)).mean() < 0.5


def test_the_other_controls_stand_at_their_start_and_nothing_tried_is_seen():
    explorer, fresh = wave(SOME, keep=True), wave(SOME, keep=True)
    for speed in (1, 9):
        explorer.inputs["speed"].value = speed
    assert draw_state(explorer, {"size": 2.0}) == draw_state(fresh, {"size": 2.0})


def test_pictures_and_index_are_written_and_the_explorer_shows_what_it_showed(tmp_path):
    explorer = wave(SOME)
    before = explorer.image.value, explorer.reading.value
    draw_explorer(explorer, tmp_path / "1")
    index = json.loads((tmp_path / "1/index.json").read_text(encoding="utf-8"))
    assert (explorer.image.value, explorer.reading.value) == before
    assert index["controls"] == [
        {"label": "how tall", "values": ["0.5", "1", "2"], "start": 1},
        {"label": "turned", "values": ["off", "on"], "start": 0},
        {"label": "name", "values": ["first", "second"], "start": 0},
    ]
    assert index["states"]["1-0-0"] == {"file": "1-0-0.png", "alt": "A wave.", "reading": "A: size 1, upright, speed 5"}
    assert index["states"]["2-1-1"]["alt"] == "B: size 2, turned, speed 5"
    files = {path.name: path.read_bytes() for path in (tmp_path / "1").glob("*.png")}
    assert files.keys() == {state["file"] for state in index["states"].values()}
    assert len(set(files.values())) == 6  # the name moves nothing but the reading


def test_a_lesson_s_explorers_are_numbered_and_what_was_there_goes(tmp_path):
    folder = tmp_path / "00"
    (folder / "3").mkdir(parents=True)
    draw_shown([1, wave({"turned": [False, True]}), "a result", wave({}), wave({"name": ["A"]})], folder)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png")) == ["1/0.png", "1/1.png", "2/0.png"]
    assert not (folder / "3").exists()
    first = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    draw_shown([wave({"turned": [False, True]}), wave({"name": ["A"]})], folder)
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == first
