"""README's pictures that are made of what the lessons store: an explorer that moves, and the stream as a river.

``python -m tools.readme_pictures`` writes them into ``docs/pictures/``, the same bytes each time.
"""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from residual_course.plots.picture import palette_png
from residual_course.plots.style import DROPPED, PALE, REFERENCE, STREAM

ROOT = Path(__file__).parents[1]
STATES = ROOT / "docs" / "states" / "06" / "1"
NOTEBOOK, RIVER = ROOT / "notebooks" / "01_gradient_flow.ipynb", "Two rivers"  # begins the figure's alternative text
SIZE, PLACE = (640, 520), (20, 70)  # pixels of a frame, and where the explorer's picture stands in it
TRACKS, TRACK, HEIGHT = (120, 450), 140, 38  # where the sliders begin, how long they are, and how far from the top
MILLISECONDS, COLOURS = 900, 128
MARGIN = 24  # pixels of white around the river, which may stand on a dark page


def write_pictures(folder: Path) -> None:
    """Write both pictures into ``folder``."""
    frames = list(moving(STATES))
    frames[0].save(
        folder / "explorer.gif", save_all=True, append_images=frames[1:], duration=MILLISECONDS, loop=0, optimize=True
    )
    river = Image.open(io.BytesIO(stored(NOTEBOOK, RIVER))).convert("RGB")
    (folder / "stream.png").write_bytes(palette_png(ImageOps.expand(river, MARGIN, "white")))


def moving(states: Path) -> Iterator[Image.Image]:
    """Yield an explorer's drawn states: its first control goes from end to end, the others stay at their start."""
    index = json.loads((states / "index.json").read_text(encoding="utf-8"))
    first, *others = index["controls"]
    for at in range(len(first["values"])):
        place = [at, *(each["start"] for each in others)]
        state = index["states"]["-".join(map(str, place))]
        picture = card(index["controls"], place, state["reading"])
        picture.paste(Image.open(states / state["file"]).convert("RGB"), PLACE)
        yield picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)


def card(controls: list[dict[str, Any]], place: list[int], reading: str) -> Image.Image:
    """Return a white card: a slider at its ``place`` for each of ``controls``, the first held, and a reading below."""
    figure = Figure((SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor="white", edgecolor=PALE, linewidth=2)
    figure.set_layout_engine("none")  # whatever the surroundings have chosen
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, SIZE[0]), ylim=(SIZE[1], 0))
    ax.set_axis_off()
    for number, (control, at, start) in enumerate(zip(controls, place, TRACKS, strict=True)):
        ink, weight = (DROPPED, "normal") if number else (STREAM, "bold")
        slider(ax, start, at / (len(control["values"]) - 1), ink)
        about: dict[str, Any] = {"va": "center", "size": 12, "weight": weight, "color": REFERENCE}
        ax.text(start - 16, HEIGHT, control["label"], ha="right", **about)
        ax.text(start + TRACK + 16, HEIGHT, control["values"][at], **about)
    ax.text(SIZE[0] / 2, SIZE[1] - 30, reading, ha="center", va="center", size=11, color=REFERENCE)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.frombytes("RGBA", SIZE, canvas.buffer_rgba()).convert("RGB")


def slider(ax: Axes, start: int, share: float, ink: str) -> None:
    """Draw a slider from ``start`` whose knob stands at a ``share`` of the way."""
    knob = start + TRACK * share
    for end, colour in ((start + TRACK, PALE), (knob, ink)):
        ax.plot([start, end], [HEIGHT, HEIGHT], color=colour, linewidth=4, solid_capstyle="round")
    ax.plot(knob, HEIGHT, "o", color=ink, markersize=12)


def stored(notebook: Path, alt: str) -> bytes:
    """Return the stored figure of a notebook whose alternative text begins with ``alt``."""
    cells = nbformat.read(notebook, as_version=4).cells
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return next(base64.b64decode(data["image/png"]) for data in outputs if data.get("text/plain", "").startswith(alt))


if __name__ == "__main__":
    write_pictures(ROOT / "docs" / "pictures")
