"""Draw the states of an explorer in advance, so that its controls also move on a page without a kernel.

``residual-edu build`` writes them to ``docs/states/NN/N/``, N counting the explorers of a lesson: a picture for each
state, and ``index.json``. A state is called by the place of each control's value in its list, such as ``0-2``.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.states import grid
from residual_course.plots.picture import palette_png

COLOURS = 64  # of a picture's palette
KMEANS = 1  # keeps the ink of a short curve, which the median cut alone mixes with the greys


def draw_state(explorer: Explorer, values: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the picture for ``values``, the other controls at their start, as palette PNG; and its reading."""
    reading = explorer.draw_setting(explorer.start | dict(values))
    return palette_png(explorer.pixels(), COLOURS, KMEANS), reading


def draw_explorer(explorer: Explorer, folder: Path) -> None:
    """Write the picture of each state into ``folder``, and an index with the controls' labels and what is seen."""
    folder.mkdir(parents=True)
    pictures = {}
    for name, values in grid(explorer.states).items():
        picture, reading = draw_state(explorer, values)
        (folder / f"{name}.png").write_bytes(picture)
        starts = all(explorer.start[control] == value for control, value in values.items())
        pictures[name] = {"file": f"{name}.png", "alt": explorer.alt if starts else reading, "reading": reading}
    controls = [control_of(explorer, name) for name in explorer.states]
    index = {"controls": controls, "states": pictures}
    text = json.dumps(index, ensure_ascii=False, indent=1) + "\n"
    (folder / "index.json").write_text(text, encoding="utf-8", newline="\n")
    explorer.redraw()


def control_of(explorer: Explorer, name: str) -> dict[str, Any]:
    """Return a control's label, the labels of its values, and the place of the value at which it starts."""
    values = list(explorer.states[name])
    labels = [label_of(explorer.inputs[name], value) for value in values]
    return {"label": explorer.inputs[name].description, "values": labels, "start": values.index(explorer.start[name])}


def label_of(control: widgets.ValueWidget, value: Any) -> str:
    """Return what a control shows for ``value``."""
    pairs = (option if isinstance(option, tuple) else (option, option) for option in getattr(control, "options", ()))
    labels = [str(label) for label, option in pairs if option == value]
    if labels:
        return labels[0]
    return ("off", "on")[value] if isinstance(value, bool) else f"{value:g}"


def draw_shown(displayed: Iterable[Any], folder: Path) -> None:
    """Draw the states of each explorer among a lesson's ``displayed`` results; what was in ``folder`` goes."""
    shutil.rmtree(folder, ignore_errors=True)
    explorers = [each for each in displayed if isinstance(each, Explorer) and each.states]
    for number, explorer in enumerate(explorers, 1):
        draw_explorer(explorer, folder / str(number))
