import base64

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands import main
from residual_course.commands.answers import answers_of, store

PNG = base64.b64encode(b"a picture").decode()


def test_a_lesson_is_a_page_with_its_pictures_and_what_is_stored_apart(tmp_path, monkeypatch, capsys):
    drawn = new_output("display_data", {"image/png": PNG})
    told = [new_output("stream", text="two\n"), new_output("display_data", {"text/markdown": "**Four.**"})]
    asks = 'with predict("How many?", ["3", "4"]) as guess:\n    guess.truth = "4"'
    folded = {"jupyter": {"source_hidden": True}}
    cells = [
        new_markdown_cell(f"# Title\n\n![x](data:image/png;base64,{PNG})"),
        new_code_cell(asks, outputs=[*told, drawn]),
        new_code_cell("x = 1\ny = 2", metadata=folded),
    ]
    path = tmp_path / "notebooks" / "00_it.ipynb"
    (path.parent / "source").mkdir(parents=True)
    (path.parent / "source" / "00_it.py").touch()
    store(notebook := new_notebook(cells=cells), answers_of(path))
    nbformat.write(notebook, path)
    monkeypatch.chdir(tmp_path)
    assert main(["export", "00", "out"]) == 0
    assert (tmp_path / "out" / "picture_01.png").read_bytes() == b"a picture"
    parts = ["# Title", "![x]((picture))", f"```python\n{asks}\n```", "```\ntwo\n```", "**Four.**"]
    parts += ["![picture](picture_01.png)", "[folded code, 2 lines: `x = 1` ...]"]
    text = "\n\n".join(parts) + "\n"
    assert (tmp_path / "out" / "lesson.md").read_text() == text
    assert capsys.readouterr().out == f"out/lesson.md: {len(text.split())} words, 1 pictures\n"
    assert main(["export", "01", "out"]) == 2
