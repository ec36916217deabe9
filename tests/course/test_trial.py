"""A trial runs a lesson with other seeds and threads, and tells what may move from what must not."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from residual_edu.course import main
from residual_edu.course.execute import CellFailed
from residual_edu.course.notebook import plan
from residual_edu.course.trial import judge, trial

# With a seed larger by s, each of the three ways to draw gives what torch's own generator gives from there.
LESSON = """# %% [markdown]
# # A small lesson

# %%
import torch
from residual_edu.lesson import holds, predict, setup, summary
device = setup()
print("a number that stays", 7)

# %% tags=["trained"]
torch.manual_seed(2)
shift = torch.initial_seed() - 2
generator = torch.Generator()
drawn = [torch.rand(3), torch.rand(3, generator=generator.manual_seed(2)), torch.rand(3, generator=generator)]
own = torch._C.Generator().manual_seed(2 + shift)
wanted = [torch.rand(3, generator=own), torch.rand(3, generator=own)]
print("shifted by", shift)
holds(drawn[0].equal(wanted[0]) and drawn[1].equal(wanted[0]) and drawn[2].equal(wanted[1]), "It is shifted.")
holds(not (shift and torch.get_num_threads() == 2), "One thread.")

# %% tags=["predict"]
guess = predict("Which number", ["7", "8"])

# %% tags=["reveal"]
# Answer first, then run this cell.
print("an output that is stored apart", 7)
guess.reveal("7")

# %%
summary("00")

# %%
print("a number that another seed moves", shift)
assert shift == 0
"""


@pytest.mark.slow
def test_a_lesson_is_tried_with_each_seed_and_each_number_of_threads(tmp_path, monkeypatch, capsys):
    source = tmp_path / "notebooks" / "source" / "00_small.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert main(["build"]) == 0
    built = (tmp_path / "notebooks" / "00_small.ipynb").read_bytes()
    capsys.readouterr()
    assert main(["trial", "00", "--shifts", "0", "1000"]) == 1
    assert capsys.readouterr().out == (
        "00_small, seeds + 0, threads 1: every band holds\n"
        "00_small, seeds + 0, threads 2: every band holds\n"
        "00_small, seeds + 1000, threads 1: every band holds\n"
        "00_small, seeds + 1000, threads 2: cell 3 Not with these settings: One thread.\n"
    )
    assert (tmp_path / "notebooks" / "00_small.ipynb").read_bytes() == built
    assert not (tmp_path / "notebooks" / "answers.json").exists()
    source.write_text(LESSON + "\n# %%\nprint(1)\n")
    assert main(["trial", "00"]) == 2
    said = capsys.readouterr().err
    assert said == "00_small.ipynb is not what its source builds; run: residual-edu build 00_small\n"


def test_a_lesson_that_does_not_end_is_one_finding(tmp_path, monkeypatch):
    source = tmp_path / "notebooks" / "source" / "00_small.py"
    source.parent.mkdir(parents=True)
    source.write_text("# %%\nx = 1\n")
    nbformat.write(plan(source), source.parents[1] / "00_small.ipynb")
    monkeypatch.setattr("residual_edu.course.trial.differences", lambda source: [])

    def dies(notebook, *_, **__):
        widget = new_output("display_data", {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}})
        notebook.cells[1].outputs = [widget]
        raise CellFailed("cell 2: the kernel died")

    monkeypatch.setattr("residual_edu.course.trial.execute", dies)
    assert list(trial(source, 0, 1)) == ["cell 2: the kernel died"]


def printed(text, *tags):
    return new_code_cell("", outputs=[new_output("stream", name="stdout", text=text)], metadata={"tags": list(tags)})


def error(*tags):
    output = new_output("error", ename="ValueError", evalue="no", traceback=[])
    return new_code_cell("", outputs=[output], metadata={"tags": list(tags)})


MOVED, WORDS = "prints other numbers and is not tagged trained", "prints other words than are stored"
FAILED = "Not with these settings: It learns."


@pytest.mark.parametrize(
    ("now", "before", "same_seeds", "other_seeds"),
    [
        (printed("loss 0.1235"), printed("loss 0.1236"), [], []),
        (printed("loss 0.9"), printed("loss 0.1236"), [MOVED], []),
        (printed("loss 0.9", "trained"), printed("loss 0.1236", "trained"), [], []),
        (printed("lost 0.9", "trained"), printed("loss 0.1236", "trained"), [WORDS], []),
        (printed("loss 0.9", "nbval-ignore-output"), printed("loss 0.1", "nbval-ignore-output"), [], []),
        (printed(f"loss 0.9\n{FAILED}\n", "trained"), printed("loss 0.1\n", "trained"), [FAILED, WORDS], [FAILED]),
        (error(), printed("7"), ["stopped: ValueError: no", MOVED], []),
        (error("trained"), printed("7", "trained"), ["stopped: ValueError: no", WORDS], ["stopped: ValueError: no"]),
    ],
)
def test_each_cell_is_judged(now, before, same_seeds, other_seeds):
    assert list(judge(now, before)) == same_seeds
    assert list(judge(now, None)) == other_seeds


def test_pictures_are_not_compared_and_their_words_are():
    def shown(picture, words):
        output = new_output("display_data", {"image/png": picture, "text/plain": words})
        return new_code_cell("", outputs=[output])

    assert list(judge(shown("a", "A line."), shown("b", "A line."))) == []
    assert list(judge(shown("a", "A line."), shown("a", "A dot."))) == [MOVED]
