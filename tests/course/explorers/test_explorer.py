"""An explorer's moved picture equals a full draw, is accessible, and survives what cannot be drawn."""

import base64
import io
import logging

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from residual_course.explorers import Explorer

T = np.linspace(0.5, 5.5, 200)


def wave(animated=True, **kwargs):
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
    return Explorer(figure, draw, controls, alt="A wave.", animated=moving if animated else [], **kwargs)


def pixels(explorer):
    return np.asarray(Image.open(io.BytesIO(explorer.image.value)))


def test_only_what_moves_is_drawn_again_and_the_picture_equals_a_full_draw():
    quick, whole = wave(), wave(animated=False)
    draws = []
    quick.canvas.draw = lambda: draws.append(1)
    for speed, size in [(2.0, 1.5), (0.5, 2.0), (3.0, 0.5)]:
        for explorer in (quick, whole):
            explorer.inputs["speed"].value, explorer.inputs["size"].value = speed, size
        assert np.array_equal(pixels(quick), pixels(whole))
    assert draws == []


def kept(**kwargs):
    """The same with each wave that was tried as a pale curve."""
    axes = (figure := Figure(figsize=(6, 3))).add_subplot(xlim=(0, 6), ylim=(-3, 3))
    (pale,), (curve,) = axes.plot([], [], color="grey"), axes.plot(T, T)

    def draw(speed):
        curve.set_ydata(np.sin(speed * T))
        return f"speed {speed}"

    controls = {"speed": widgets.IntSlider(1)}
    return Explorer(
        figure, draw, controls, alt="A wave.", animated=[pale, curve], keep=lambda: {pale: curve.get_data()}
    )


def test_what_was_tried_stays_in_the_picture_until_the_button_clears_it():
    explorer = kept()
    *_, button, _, _ = explorer.children
    assert button.description == "Clear what was tried"
    seen = [explorer.image.value]
    for speed in (2, 3, 2, 1):
        explorer.inputs["speed"].value = speed
        seen.append(explorer.image.value)
    assert len(set(seen)) == 5  # the first and the last differ by what lies between them
    button.click()
    assert explorer.image.value == seen[0] and explorer.reading.value == '<div role="status">speed 1</div>'


def test_no_button_stands_where_nothing_is_kept():
    assert not any(isinstance(child, widgets.Button) for child in wave().children)


def test_the_frame_stands_still_while_titles_change():
    explorer = wave(animated=False)
    box = explorer.canvas.figure.axes[0].get_position().bounds
    explorer.canvas.figure.axes[0].set_title("Two\nlines\nof title")
    explorer.inputs["speed"].value = 2.0
    assert explorer.canvas.figure.axes[0].get_position().bounds == box


def test_each_move_changes_the_picture_and_the_reading():
    explorer, seen = wave(), set()
    for speed in (1.0, 2.0, 3.0):
        explorer.inputs["speed"].value = speed
        seen.add((explorer.image.value, explorer.reading.value))
    assert len(seen) == 3 and len({picture for picture, _ in seen}) == 3


def test_the_picture_is_opaque_600_pixels_wide_and_of_the_figure_s_shape():
    picture = Image.open(io.BytesIO(wave().image.value))
    assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (600, 375))
    assert picture.getpixel((0, 0)) == (255, 255, 255)


def test_the_reading_is_announced_and_is_text_not_html():
    assert wave().reading.value == '<div role="status">speed 1.0 &lt; 9, size 1.0</div>'


def test_a_setting_that_cannot_be_drawn_is_said_under_the_picture_which_stays(caplog, capsys):
    explorer = wave()
    before = explorer.image.value
    with caplog.at_level(logging.DEBUG):
        explorer.inputs["size"].value = 0
    assert explorer.reading.value == (
        '<div role="status">This cannot be drawn, so the picture stays as it was: '
        "a flat wave &lt;has no speed&gt;</div>"
    )
    assert explorer.image.value == before and not caplog.records and capsys.readouterr() == ("", "")
    explorer.inputs["size"].value = 2
    assert explorer.image.value != before and "size 2.0" in explorer.reading.value


def test_a_first_picture_that_cannot_be_drawn_raises_as_any_cell_does():
    def draw():
        raise ZeroDivisionError("no first picture")

    with pytest.raises(ZeroDivisionError, match="^no first picture$"):
        Explorer(Figure(), draw, {}, alt="Nothing.")


def test_every_control_has_a_label_and_stands_before_the_picture():
    explorer = wave()
    assert [control.description for control in explorer.inputs.values()] == ["speed", "how tall"]
    assert [control.style.description_width for control in explorer.inputs.values()] == ["8ch", "8ch"]
    assert explorer.children == (*explorer.inputs.values(), explorer.image, explorer.reading)


def test_a_page_without_a_kernel_gets_the_first_picture_with_its_alternative_text():
    explorer = wave()
    first = explorer.image.value
    explorer.inputs["speed"].value = 3
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"] == "A wave." and metadata == {"image/png": {"alt": "A wave."}}
    assert base64.b64decode(data["image/png"]) == first
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id


def test_the_picture_is_the_same_bytes_on_each_run():
    assert wave().image.value == wave().image.value
