"""A lesson without a flaw has no findings; each planted fault is found, and what looks like one is not."""

import jupytext
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from residual_course.commands import main
from residual_course.commands.answers import answers_of, store
from residual_course.commands.checkout import companion_of, notebook_of
from residual_course.commands.notebook import plan
from tools.lint import lint

NAME, FOLDED = "08a_lesson", {"jupyter": {"source_hidden": True}}
IMPORTS = 'import torch\nfrom residual_course.lesson import check, predict, progress, show, summary\n\nprogress("08a")'
ASK = """with predict("What is the mean?", ["zero", "one"]) as guess:
    middle = centre(1)
    show(middle)
    guess.truth = "zero" if middle == 0 else "one\""""
TEXTS = """[predictions."What is the mean?"]
why.zero = "It was taken away."
why.one = "It was not."
"""
ON = "## Next\n\n- [Glossary](../docs/glossary.md)\n- [Next](10_last.ipynb)\n- [Homework](homework/hw_00_08a.ipynb)"
BESIDE = "00_first 10_last homework/hw_00_08a homework/hw_08b_09 ../investigations/source/08a_why"


def code(source, *tags, **metadata):
    return new_code_cell(source, metadata={"tags": list(tags), **metadata})


def exercise(name):
    about = {"grade_id": name, "solution": True, "grade": False}
    source = f"def {name}():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    yield new_markdown_cell("### Exercise 1 · The mean (5 minutes)")
    yield code(source, "exercise", nbgrader=about)
    yield code(f'check({name}, "{name}")', nbgrader={"grade_id": f"{name}-check", "solution": False, "grade": True})


@pytest.fixture
def cells():
    """The cells of a clean lesson, the second of three; the fifth asks."""
    first = new_markdown_cell("# A lesson\n\nIt needs [lesson 00](00_first.ipynb), and takes the **mean** away.")
    piece = code(
        'def centre(x):\n    """Return x without its mean."""\n    return x - x.mean()', "promote:parts/centre"
    )
    asks = [new_markdown_cell("## What is left"), code(ASK, title="asks")]
    tasks = [cell for name in ("one", "two") for cell in exercise(name)]
    return [first, code(IMPORTS), piece, *asks, *tasks, code('summary("08a")'), new_markdown_cell(ON)]


@pytest.fixture
def folder(tmp_path):
    """The folder of the sources, with other lessons, homework, an investigation, a glossary and companions."""
    source = tmp_path / "notebooks" / "source"
    for name in BESIDE.split():
        path = source / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").touch()
    companion_of(source / "x.py").parent.mkdir(parents=True)
    return source


@pytest.fixture
def find(cells, folder):
    """Write the lesson, build it as if executed, let ``spoil`` change its notebook, and return what lint finds."""

    def finds(spoil=lambda built: None, name=NAME, texts=TEXTS, stored=lambda built: None):
        path = folder / f"{name}.py"
        jupytext.write(new_notebook(cells=cells), path, fmt="py:percent")
        companion_of(path).write_text(texts)
        built = plan(path)
        for count, cell in enumerate((cell for cell in built.cells if cell.cell_type == "code"), 1):
            cell.outputs, cell.execution_count = [new_output("stream", text="The mean is 0.25.\n")], count
            if "predict(" in cell.source:
                said = "**You made no prediction; we measured zero.** It was."
                cell.outputs += [picture(alt="A dot."), new_output("display_data", {"text/markdown": said})]
        spoil(built)
        store(built, answers_of(notebook_of(path)))
        stored(built)
        jupytext.write(built, notebook_of(path), fmt="ipynb")
        return [finding.removeprefix(f"{name}: ") for finding in lint(path)]

    return finds


def picture(**about):
    return new_output("display_data", {"image/png": "iVBORw0="}, metadata={"image/png": about})


def test_a_clean_lesson_has_no_findings_built_or_not_and_the_verb_names_the_one_that_has(
    find, folder, cells, monkeypatch, capsys
):
    assert find() == []
    notebook_of(folder / f"{NAME}.py").unlink()
    assert lint(folder / f"{NAME}.py") == []
    cells[2].source += "\n%time"
    find()
    monkeypatch.chdir(folder)
    assert main(["lint", NAME]) == 1 and capsys.readouterr().out.startswith(f"{NAME}: cell 3 (def centre(x")


# The number of a cell, what stands in it and what is put there, and how the only finding ends.
FAULTS = [
    (2, "return", "import matplotlib.pyplot as plt\n    return", "re-execute the same or needs a kernel to show"),
    (2, "return", "ipywidgets.Output()\n    return", "re-execute the same or needs a kernel to show"),
    (2, "return", "from tqdm.auto import trange\n    return", "re-execute the same or needs a kernel to show"),
    (2, "return", f"{'1 + ' * 22}1\n    return", "has a line of 93 columns, more than 88"),
    (0, "00_first", "10_last", "the first cell of text does not link to 00_first.ipynb"),
    (-1, "10_last", "00_first", "the last cell of text does not link to 10_last.ipynb"),
    (-1, "hw_00_08a", "hw_08b_09", "the last cell of text does not link to homework/hw_00_08a.ipynb"),
    (1, '\n\nprogress("08a")', "", 'the first code cell does not call progress("08a")'),
    (-2, '"08a"', '"07"', 'the last code cell is not summary("08a")'),
    (-2, ")", ")\nx = 1", 'the last code cell is not summary("08a")'),
    *(
        (3, "left", f"left\nSee [there]({target}), and `norms[0](x)`.", f"the link to {target} leads {leads}")
        for target, leads in (
            ("99_gone.ipynb", "nowhere"), ("../docs/gone.md", "nowhere"), ("source/00_first.py", "nowhere"),
            ("#Gone", "to no heading"),
        )
    ),
    (4, '["zero", "one"]', "choices", "must write out its question and its choices"),
    (4, '"zero" if middle == 0 else "one"', '"zero"', "must compute the truth from what it measured"),
    (3, "What is left", "The mean is Zero", "measures 'zero', which was told before: 'The mean is Zero'"),
    (0, "It needs", "x " * 5600 + "It needs", "words, more than 5500"),
    (5, "(5 minutes)", "(70 minutes)", "minutes, more than 75"),
    (5, "(5 minutes)", "", "1 exercises do not say their minutes at the end of their heading"),
    (0, "**mean**", " ".join(f"**term {n}**" for n in range(8)), "8 bold terms, more than 7"),
    (2, "return", "x = 1\n    " * 26 + "return", "has 28 lines of code, more than 25"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "old", "new", "said"), FAULTS, ids=[fault[-1] for fault in FAULTS])
def test_a_planted_fault_is_found(cells, find, at, old, new, said):
    assert old in cells[at].source
    cells[at].source = cells[at].source.replace(old, new)
    found = find()
    assert len(found) <= 2 and any(one.endswith(said) for one in found)


def test_what_looks_like_a_fault_is_none(cells, find):
    targets = "investigations/08a_why.ipynb homework/hw_08b_09.ipynb #A-lesson https://a.org/gone"
    cells[3].source += "\n".join(f"\n[there]({target})" for target in targets.split())
    cells[2].source += '\nx = "interact"  # tqdm'
    cells[3].source += "\n\nThe mean is zero, in a sentence.\n\n## The mean is zeroed"
    assert find() == []


def test_tags_bands_reasons_and_companions_are_held_to_what_they_mean(cells, find):
    cells[2].metadata["tags"] = ["reveals"]
    assert find(texts=TEXTS.partition("why.one")[0]) == [
        "cell 3 (def centre(x):) has the tag 'reveals', which means nothing",
        'cell 5 (with predict("What is the mean?", ["zero) has no reason in 08a_lesson.toml for \'one\'',
    ]
    cells[2].metadata.update(tags=["trained"], title="train")
    assert find()[0].endswith("is tagged trained, and nothing says what holds of its numbers")
    assert find(texts=TEXTS + '[cells.train]\nholds = ["x == 1"]\n') == []
    assert find(texts="[cells.lost]\n" + TEXTS)[0].startswith("08a_lesson.toml names the cell 'lost', and 0 cells")


def test_more_than_the_form_has_room_for_is_found(cells, find, folder):
    cells[2:2] = [code("x = 1\n" * 20) for _ in range(11)] + [code("x = 1\n" * 18, **FOLDED) for _ in range(10)]
    cells[-2:-2] = [code(ASK.replace("guess", name)) for name in "abc"] + [*exercise("three"), *exercise("four")]
    found = {one.rpartition(" has ")[2] for one in find() if "the lesson" in one}
    assert found >= {"4 predictions, more than 3", "4 exercises, more than 3"}
    assert "180 hidden lines of code, more than 160" in found
    assert any("visible lines of code, more than 220" in one for one in found)
    small = " ".join(find(name="02_small"))
    assert "visible lines of code, more than 170" in small


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (new_output("stream", text="/home/ada/lesson.py"), "names this machine in its output: /home/ada"),
        (new_output("stream", text=r"C:\Users\ada"), r"names this machine in its output: C:\U"),
        (new_output("execute_result", {"text/html": "device='cuda:0'"}), "names this machine in its output: cuda"),
        (new_output("stream", text="1/2 and mean/std/max, https://arxiv.org/abs/1607, cpuset, x: /, </b></i>"), ""),
        (picture(), "stores a picture without alternative text; use show(figure)"),
        (picture(alt=" "), "stores a picture without alternative text; use show(figure)"),
        (picture(alt="All are zero."), "measures 'zero', which was told before: 'All are zero.'"),
    ],
)
def test_outputs_have_words_and_tell_neither_machine_nor_answer(find, output, found):
    (said,) = find(lambda built: built.cells[2].update(outputs=[output])) or [""]
    assert said.endswith(found) and bool(said) == bool(found)


def test_an_answer_that_is_stored_in_the_notebook_is_found_and_hidden_tests_are_left_alone(cells, find):
    cells.insert(2, code("import tqdm", "hidden-test"))
    assert find() == []
    (said,) = find(stored=lambda built: built.cells[5].update(outputs=[new_output("stream", text="zero")]))
    assert said.endswith("stores its answer in the notebook")
