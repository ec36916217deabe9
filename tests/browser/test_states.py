"""The drawn states of each explorer are there, and are what it draws today; no browser is needed."""

import io
import json

import numpy as np
import pytest
from nbformat.v4 import new_code_cell
from PIL import Image

from tools.execute import execute
from tools.states import states_of

from .page import NOTEBOOKS, without_trainings

EXPLORERS = {path: path.read_text(encoding="utf-8").count('"explorer"') for path in NOTEBOOKS}
LARGEST = 15e6  # bytes of all pictures together
CLOSE = 2.0  # mean difference of a channel, of 255: what was trained moves a little with another build of torch
DRAW = """\
import json
from pathlib import Path
from residual_course.explorers import Explorer
from residual_course.explorers.draw_states import draw_state, grid
for number, explorer in enumerate((each for each in Out.values() if isinstance(each, Explorer)), 1):
    states = grid(explorer.states)
    folder = Path({folder!r}, str(number))
    folder.mkdir()
    (folder / "names.json").write_text(json.dumps(list(states)))
    for name in (list(states)[0], list(states)[-1]):
        (folder / f"{{name}}.png").write_bytes(draw_state(explorer, states[name])[0])
"""


def indices(lesson):
    """The index of each of a lesson's explorers, with its folder; none for a lesson without explorers."""
    folders = sorted(states_of(lesson.parent / "source" / f"{lesson.stem}.py").glob("*"))
    return {folder: json.loads((folder / "index.json").read_text(encoding="utf-8")) for folder in folders}


def pixels(path):
    return np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB"), int)


def test_each_explorer_has_its_states_each_with_a_small_picture_and_words():
    assert {lesson: len(indices(lesson)) for lesson in EXPLORERS} == EXPLORERS
    found, pictures = {}, []
    for lesson in EXPLORERS:
        found |= indices(lesson)
    for folder, index in found.items():
        pictures += folder.glob("*.png")
        count = int(np.prod([len(control["values"]) for control in index["controls"]]))
        assert 1 < len(index["states"]) == count <= 60
        assert {path.name for path in folder.glob("*.png")} == {state["file"] for state in index["states"].values()}
        assert all(state["alt"].strip() and state["reading"].strip() for state in index["states"].values())
    assert sum(path.stat().st_size for path in pictures) < LARGEST
    for path in pictures:
        with Image.open(path) as picture:
            assert (picture.mode, picture.width) == ("P", 600)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", [path for path, count in EXPLORERS.items() if count], ids=lambda path: path.stem)
def test_the_first_and_the_last_state_are_what_the_explorer_draws_today(lesson, tmp_path):
    notebook = without_trainings(lesson)
    last = max(at for at, cell in enumerate(notebook.cells) if "explorer" in cell.metadata.get("tags", []))
    notebook.cells[last + 1 :] = [new_code_cell(DRAW.format(folder=str(tmp_path)))]
    execute(notebook, lesson.parent, lambda at: None)
    for folder, index in indices(lesson).items():
        drawn = tmp_path / folder.name
        assert json.loads((drawn / "names.json").read_text()) == list(index["states"])
        for path in drawn.glob("*.png"):
            difference = np.abs(pixels(path) - pixels(folder / path.name)).mean()
            again = (
                f"{folder / path.name} differs by {difference:.2f} from what is drawn today: build {lesson.stem} again"
            )
            assert difference < CLOSE, again
