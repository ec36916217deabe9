"""An explorer's moved picture equals a full draw, is accessible, and survives what cannot be drawn."""

import base64
import io

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from residual_course.explorers import Explorer

T = np.linspace(0.5, 5.5, 200)


def wave(animated=True):
    """A sine wave with two sliders: its curve, its title and a text move."""
    figure = Figure(figsize=(4, 2.5), layout="constrained")
    axes = figure.add_subplot(xlim=(0, 6), ylim=(-3, 3))
    (curve,) = axes.plot(T, T)
    moving = [curve, axes.set_title("?"), axes.text(3, 2.5, "?")]

    def draw(speed, size):
        if size == 0:
            raise ZeroDivisionError("a flat wave <has no speed>")
        curve.set_ydata(size * np.sin(speed * T))
        moving[1].set_text(f"A wave of size {size:.1f}")
        moving[2].set_text(f"speed {speed:.1f}")
        return f"speed {speed:.1f} < 9, size {size:.1f}"

    controls = {
        "speed": widgets.FloatSlider(value=1, min=0, max=3),
        "size": widgets.FloatSlider(value=1, max=2, description="how tall"),
    }
    return Explorer(figure, draw, controls, alt="A wave.", animated=moving if animated else [])


def test_only_what_moves_is_drawn_again_and_the_picture_equals_a_full_draw():
    quick, whole = wave(), wave(animated=False)
    assert wave().image.value == quick.image.value  # the same bytes on each run
    draws, seen = [], set()
    quick.canvas.draw = lambda: draws.append(1)
    for speed, size in [(2.0, 1.5), (0.5, 2.0), (3.0, 0.5)]:
        for explorer in (quick, whole):
            explorer.inputs["speed"].value, explorer.inputs["size"].value = speed, size
        pixels = [Image.open(io.BytesIO(explorer.image.value)) for explorer in (quick, whole)]
        assert pixels[0].mode == "RGB" and pixels[0].size == (600, 375)
        assert np.array_equal(*map(np.asarray, pixels))
        seen.add((quick.image.value, quick.reading.value))
    assert draws == [] and len(seen) == 3


def test_the_frame_stands_still_while_titles_change():
    explorer = wave(animated=False)
    box = explorer.canvas.figure.axes[0].get_position().bounds
    explorer.canvas.figure.axes[0].set_title("Two\nlines\nof title")
    explorer.inputs["speed"].value = 2.0
    assert explorer.canvas.figure.axes[0].get_position().bounds == box


def test_a_setting_that_cannot_be_drawn_is_said_under_the_picture_which_stays(capsys):
    explorer = wave()
    before = explorer.image.value
    assert explorer.reading.value == '<div role="status">speed 1.0 &lt; 9, size 1.0</div>'  # announced, no HTML
    explorer.inputs["size"].value = 0
    assert "the picture stays as it was: a flat wave &lt;has no speed&gt;</div>" in explorer.reading.value
    assert explorer.image.value == before and capsys.readouterr() == ("", "")
    explorer.inputs["size"].value = 2
    assert explorer.image.value != before and "size 2.0" in explorer.reading.value
    with pytest.raises(ZeroDivisionError):  # a first picture: as any cell does
        Explorer(Figure(), lambda: 1 / 0, {}, alt="Nothing.")


def test_a_page_without_a_kernel_gets_the_first_picture_with_its_alternative_text():
    explorer = wave()
    assert explorer.children == (*explorer.inputs.values(), explorer.image, explorer.reading)  # as it is read aloud
    first = explorer.image.value
    explorer.inputs["speed"].value = 3
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"] == "A wave." and metadata == {"image/png": {"alt": "A wave."}}
    assert base64.b64decode(data["image/png"]) == first
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
