"""An explorer in the book: its controls over the states that ``residual-edu build`` has drawn."""

import html
import json
from pathlib import Path
from typing import Any

from tools.book.pictures import image

FOLDER = "states"  # beside the lessons' pages
NOTE = '<p class="note">These settings were drawn in advance; in JupyterLab the explorer has all of them.</p>'


def explorer(states: Path, number: int, picture: str, up: str = "") -> str:
    """Return the HTML of a lesson's explorer; of one without drawn states, its ``picture`` alone.

    ``up`` leads from the page to the lessons' folder.
    """
    folder = states / str(number)
    if not (folder / "index.json").exists():
        return picture
    index, place = json.loads((folder / "index.json").read_text("utf-8")), f"{up}{FOLDER}/{states.name}/{number}/"
    start = index["states"]["-".join(str(control["start"]) for control in index["controls"])]
    shown = image(place + start["file"], start["alt"], (folder / start["file"]).read_bytes())
    data = json.dumps(index["states"], ensure_ascii=False).replace("</", "<\\/")
    controls = "".join(map(slider, index["controls"]))
    return (
        f'<div class="explorer" data-place="{place}"><div class="controls">{controls}</div>{shown}'
        f'<p class="reading" aria-live="polite">{html.escape(start["reading"])}</p>'
        f'{NOTE}<script type="application/json">{data}</script></div>'
    )


def slider(control: dict[str, Any]) -> str:
    """Return a slider over the values of a control, in their order."""
    label, values, start = html.escape(control["label"]), control["values"], control["start"]
    return (
        f'<label class="slider"><span>{label}</span><input type="range" min="0" max="{len(values) - 1}" '
        f'value="{start}" aria-valuetext="{values[start]}" data-values="{html.escape(json.dumps(values))}">'
        f"<output>{values[start]}</output></label>"
    )
