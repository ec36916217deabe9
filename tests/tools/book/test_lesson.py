"""A stored notebook as the book has it."""

import base64
import io
import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from residual_course.commands.checkout import companion_of
from tools.book.lesson import Lesson
from tools.book.pictures import Pictures

FOLDED = {"jupyter": {"source_hidden": True}}


def png(width=4, height=2):
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def picture(**about):
    return new_output(
        "display_data", data={"image/png": png()}, metadata={"image/png": {"alt": 'a "red" dot', **about}}
    )


def prose(text):
    return new_output("display_data", data={"text/markdown": text, "text/plain": text})


@pytest.fixture
def page(tmp_path):
    """Returns the book's cells for those of a notebook, whose answers are given by cell id."""

    def make(*cells, answers=None, states=None, lab=""):
        (tmp_path / "notebooks" / "answers").mkdir(parents=True)
        path = tmp_path / "notebooks" / "02_it.ipynb"
        nbformat.write(new_notebook(cells=[new_markdown_cell("# Title"), *cells]), path)
        (path.parent / "answers" / "02_it.json").write_text(json.dumps(answers or {}))
        title, *rest = Lesson(path, states or tmp_path / "none", Pictures(tmp_path / "pictures"), lab).page().cells
        assert "python course.py lab" in title.source and ("<a href=" in title.source) is bool(lab)
        return rest

    return make


def code(source, *tags, outputs=(), **metadata):
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags), **metadata})


def test_a_prediction_of_one_cell_is_a_question_its_open_code_and_the_answer_folded(page, tmp_path):
    asks = code("with predict('Is \"a\" < b?', ['3', '4']) as guess:\n    print(7)\n    guess.truth = '4'")
    companion = companion_of(tmp_path / "notebooks" / "02_it.ipynb")
    companion.parent.mkdir(parents=True)
    companion.write_text('[predictions.\'Is "a" < b?\']\nafter = "So."\nwhy."3" = "Three."\n')
    told = [new_output("display_data", data={"text/plain": "Predict: it (3 / 4)"})]
    told += [prose("**You made no prediction; we measured 4.** Four."), new_output("stream", text="7"), prose("So.")]
    question, open_code, fold, verdict, shown, after = page(asks, answers={asks.id: told})
    assert 'data-answer="answer-1"' in question.source and open_code.source == asks.source and not open_code.outputs
    assert 'data-question="Is &quot;a&quot; &lt; b?"' in question.source and question.source.count("<button") == 3
    assert fold.metadata["answer"] == "answer-1" and "remove-input" in shown.metadata["tags"]
    for said in ("**You said 3; we measured 4.** Three.\n", "**You said 4; we measured 4.** Four.\n"):
        assert said in verdict.source and verdict.source.count("**We measured 4.** Four.\n") == 1
    assert [output.text for output in shown.outputs] == ["7"] and after.source == "So."


def test_an_explorer_has_a_slider_for_each_control(page, tmp_path):
    folder = tmp_path / "states" / "02" / "1"
    folder.mkdir(parents=True)
    (folder / "0-1.png").write_bytes(base64.b64decode(png(600, 400)))
    controls = [
        {"label": "rate", "values": ["0.1", "0.3", "1"], "start": 0},
        {"label": "blocks", "values": ["4", "8"], "start": 1},
    ]
    states = {"0-1": {"file": "0-1.png", "alt": "an alt", "reading": "pre & post </script>"}}
    (folder / "index.json").write_text(json.dumps({"controls": controls, "states": states}))
    explorer = code("explore()", "explorer", outputs=[picture()])
    (cell,) = page(explorer, states=tmp_path / "states" / "02")
    html = cell.outputs[0].data["text/html"]
    assert html.count('type="range"') == 2 and 'max="2"' in html and 'aria-valuetext="0.1"' in html
    assert 'max="1" value="1" aria-valuetext="8"' in html and "<span>blocks</span>" in html
    assert 'src="states/02/1/0-1.png"' in html and 'data-place="states/02/1/"' in html
    assert "pre &amp; post" in html and html.count("</script>") == 1


def test_each_kind_of_cell_is_as_a_page_needs_it(page, tmp_path):
    folded, words = {"source": "def report(x):\n    def inner(): ...\n\n\nclass Net: ..."}, "Nothing answered yet. Here"
    cells = code("show(fig)", outputs=[picture(width=600)]), code("explore()", "explorer", outputs=[picture()])
    more = code(**folded, **FOLDED), code("class LayerNorm: ...", "promote:parts/layer_norm", "hide-cell", **FOLDED)
    last = code("summary()", outputs=[prose(words)]), code("f()", outputs=[new_output("stream", text="\x1b[31mred")])
    made = page(new_markdown_cell("Text."), *cells, *more, *last)
    text, shown, explorer, fold, piece, link, counted, printed = made
    html = shown.outputs[0].data["text/html"]
    assert 'alt="a &quot;red&quot; dot"' in html and 'width="600" height="300"' in html and 'loading="lazy"' in html
    (file,) = (tmp_path / "pictures").glob("*.png")
    assert f'src="pictures/{file.name}"' in html and file.read_bytes() == base64.b64decode(png())
    assert explorer.outputs[0].data["text/html"].startswith("<img ")  # without states
    assert [cell.metadata["mystnb"]["code_prompt_show"] for cell in (fold, counted)] == ["Code: report, Net", "Code"]
    assert link.source == "In the library: {py:mod}`residual_edu.parts.layer_norm`."
    assert counted.outputs[0].data["text/html"] == '<p class="answered"></p>'  # left to the page
    assert (text.source, printed.outputs[0].text, [cell.id for cell in made]) == ("Text.", "red", list("12345678"))


def test_an_exercise_says_how_to_do_it_and_its_solution_is_folded_whole(page):
    stub = code("def f(): ...", "exercise", nbgrader={"solution": True, "grade": False})
    check = code('check(f, "f")', nbgrader={"grade": True}, outputs=[new_output("stream", text="not attempted yet")])
    solution = code("def f(): return 1", "solution", "hide-cell", **FOLDED)
    shown, checked, way, solved = page(stub, check, solution, lab="https://lab/?path=")
    assert shown.source == "def f(): ..." and checked.outputs == []
    assert "my_lessons/02_it.ipynb" in way.source and 'href="https://lab/?path=02_it.ipynb"' in way.source
    assert solved.metadata["tags"] == ["solution", "hide-cell"]
    assert solved.metadata["mystnb"]["code_prompt_show"] == "Solution"
