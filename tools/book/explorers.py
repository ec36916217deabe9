"""An explorer in the book: its controls over the states that ``residual-edu build`` has drawn."""

import html
import json
from collections.abc import Iterator
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
    controls = "".join(control_html(f"{states.name}-{number}-{at}", one) for at, one in enumerate(index["controls"]))
    return (
        f'<div class="explorer" data-place="{place}"><div class="controls">{controls}</div>{shown}'
        f'<p class="reading" aria-live="polite">{html.escape(start["reading"])}</p>'
        f'{NOTE}<script type="application/json">{data}</script></div>'
    )


def control_html(name: str, control: dict[str, Any]) -> str:
    """Return a slider for numbers in order, or a button for each word."""
    label, values, start = html.escape(control["label"]), control["values"], control["start"]
    if not numbers(values):
        return f"<fieldset><legend>{label}</legend>{''.join(buttons(name, values, start))}</fieldset>"
    return (
        f'<label class="slider"><span>{label}</span><input type="range" min="0" max="{len(values) - 1}" '
        f'value="{start}" aria-valuetext="{values[start]}" data-values="{html.escape(json.dumps(values))}">'
        f"<output>{values[start]}</output></label>"
    )


def buttons(name: str, values: list[str], start: int) -> Iterator[str]:
    """Yield a button for each value, of which one is pressed."""
    for at, value in enumerate(values):
        chosen = " checked" if at == start else ""
        yield f'<label><input type="radio" name="{name}" value="{at}"{chosen}><span>{html.escape(value)}</span></label>'


def numbers(values: list[str]) -> bool:
    """Whether values are numbers that grow, as those of a slider do."""
    try:
        found = [float(value) for value in values]
    except ValueError:
        return False
    return len(found) > 2 and found == sorted(found)
