import base64
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_edu.course import main
from residual_edu.course.answers import answers_of, store

PNG = base64.b64encode(b"a picture").decode()


def code(source, *tags, outputs=(), **metadata):
    return new_code_cell(source, metadata={"tags": list(tags), **metadata}, outputs=list(outputs), execution_count=1)


def printed(text):
    return new_output("stream", name="stdout", text=text)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    picture = new_output("display_data", {"image/png": PNG, "text/plain": "A dot."})
    picture.metadata = nbformat.from_dict({"image/png": {"alt": "A dot."}})
    measured = new_output("display_data", {"text/markdown": "**we measured 3.** Why.", "text/plain": "plain"})
    cells = [
        new_markdown_cell("# A lesson"),
        code("print(1)", outputs=[printed("1\n")]),
        code("long = 1", jupyter={"source_hidden": True}),
        code('guess = predict("How many", ["2", "3"])', "predict", outputs=[printed("Predict: How many\n")]),
        code("guess.reveal(str(3))", "reveal", outputs=[picture, measured]),
        code("def f(): return 7", "solution", outputs=[printed("it is 7\n")]),
    ]
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "notebooks" / "source" / "00_small.py").write_text("# %%\n")
    notebook, path = new_notebook(cells=cells), tmp_path / "notebooks" / "00_small.ipynb"
    store(notebook, answers_of(path))
    nbformat.write(notebook, path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_ends_at_the_prediction_and_the_next_begins_with_what_was_measured(checkout, capsys):
    assert main(["read", "00", "out"]) == 0
    first, second = ((checkout / "out" / f"page_0{number}.md").read_text() for number in (1, 2))
    assert capsys.readouterr().out.split() == [str(Path("out", f"page_0{number}.md")) for number in (1, 2)]
    assert first.startswith("# A lesson\n") and "```python\nprint(1)\n```\n\n```\n1\n```" in first
    assert first.endswith("Only then open the next page.]\n") and "Predict: How many" in first
    assert "measured" not in first and "str(3)" not in first + second
    assert "**we measured 3.** Why." in second and "alternative text: A dot." in second
    assert (checkout / "out" / "picture_01.png").read_bytes() == b"a picture"


def test_solutions_and_folded_code_stand_apart(checkout):
    main(["read", "00", "out"])
    pages = "".join(page.read_text() for page in sorted((checkout / "out").glob("page_*.md")))
    assert "long = 1" not in pages and "return 7" not in pages and "it is 7" not in pages
    assert "long = 1" in (checkout / "out" / "code_01.md").read_text()
    assert "it is 7" in (checkout / "out" / "solution_03.md").read_text()
    assert all(name in pages for name in ("code_01.md", "code_02.md", "solution_03.md"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["7", "out"], "There is no lesson '7'"),
        (["00", "."], " is not an empty folder."),
        (["01", "out"], "01_next.ipynb is not built; run: residual-edu build 01_next"),
        (["0", "out"], "'0' begins 2 lessons; name one."),
    ],
)
def test_what_cannot_be_read_is_said(checkout, capsys, words, said):
    (checkout / "notebooks" / "source" / "01_next.py").write_text("# %%\n")
    assert main(["read", *words]) == 2
    assert said in capsys.readouterr().err
