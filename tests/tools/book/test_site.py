"""The site that Sphinx makes: the fold of an answer, what the search holds, and the signatures."""

import re
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.book.lesson import ANSWER

pytestmark = pytest.mark.slow  # Sphinx is installed for --all and for those who build the book
MAKE = "import sys; from pathlib import Path; from tools.book.site import make_site; "
MAKE += "sys.exit(make_site(Path(sys.argv[1]), Path(sys.argv[2])))"


def answer_cell(text, answer):
    cell = new_code_cell(f"print({text!r})", metadata={"answer": answer, "tags": []})
    cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    return cell


def module(name):
    return f"# {name}\n\n```{{eval-rst}}\n.. automodule:: residual_edu.{name}\n   :members:\n```\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A small book of one notebook and two modules, as Sphinx makes it."""
    folder = tmp_path_factory.mktemp("book")
    pages = folder / "pages"
    (pages / "extra").mkdir(parents=True)
    cells = [
        new_markdown_cell("# Title\n\n## First\n\nAn aardvark asks."),
        answer_cell("A zebra answers.", "answer-1"),
        new_markdown_cell("A wombat explains.\n\nIt asks again."),
        answer_cell("A quokka answers.", "answer-2"),
        new_markdown_cell("### Deeper\n\nA capybara goes on.\n\n## Second\n\nAn okapi ends $x^2$."),
        new_code_cell("pangolin = 1", metadata={"tags": ["solution", "hide-cell"]}),
    ]
    nbformat.write(new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), pages / "lesson.ipynb")
    cells = [
        new_markdown_cell("# Other"),
        new_code_cell("lemur = 3"),
        new_code_cell(ANSWER, metadata={"answer": "answer-1", "tags": ["remove-input"]}),
        new_markdown_cell("::::{container} said\nAn ibex answers.\n::::"),
    ]
    nbformat.write(new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), pages / "other.ipynb")
    for name in ("parts.layer_norm", "configurable.config"):
        (pages / f"{name}.md").write_text(module(name))
    contents = "lesson\nother\nparts.layer_norm\nconfigurable.config"
    (pages / "index.md").write_text(f"# Book\n\n```{{toctree}}\n{contents}\n```\n")
    done = subprocess.run([sys.executable, "-c", MAKE, pages, folder / "site"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


def test_an_answer_reaches_to_the_next_heading_and_holds_the_next_one(site):
    html = (site / "lesson.html").read_text()
    first, second = (html.index(f'id="answer-{number}"') for number in (1, 2))
    ends = [match.start() for match in re.finditer("</details>", html) if match.start() > second]
    places = [html.index(word) for word in ("zebra", "wombat", "quokka")]
    assert first < places[0] < places[1] < second < places[2] < ends[0] < ends[1] < html.index("capybara")
    html = (site / "other.html").read_text()  # the code of an answer of one cell stays open
    assert html.index("lemur") < html.index('id="answer-1"') < html.index("ibex") < html.index("</details>")


def test_the_search_finds_no_answer_and_no_solution(site):
    for file in ("searchindex.js", "searchtexts.js"):
        found = (site / file).read_text()
        assert all(word in found for word in ("aardvark", "capybara", "okapi"))
        assert not [word for word in ("zebra", "wombat", "quokka", "pangolin", "ibex") if word in found]


def test_signatures_stand_as_written_with_their_shapes(site):
    norm, config = ((site / f"{name}.html").read_text() for name in ("parts.layer_norm", "configurable.config"))
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", norm)).replace("&#39;", "'")
    assert "layer_norm(x: Float[Tensor, '*batch dim'], weight: Float[Tensor, 'dim'] | None" in text
    assert "LayerNorm(dim: int, eps: float = 1e-05, *, elementwise_affine: bool = True" in text
    assert "0x" not in re.sub("<[^>]+>", "", config)
    assert norm.count('href="_modules/residual_edu/parts/layer_norm.html#') >= 3
