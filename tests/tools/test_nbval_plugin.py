"""Each cell is compared with its stored output, and each lesson is held to its bounds."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from residual_course.commands.checkout import companion_of
from tools.nbval_plugin import AWAY, go_away

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TRAINED, IGNORED = {"tags": ["trained"]}, {"tags": ["nbval-ignore-output"]}


def prints(source, stored, **metadata):
    """A cell whose stored output is the text ``stored``."""
    outputs = [new_output("stream", name="stdout", text=stored)] if stored else []
    return new_code_cell(source, outputs=outputs, execution_count=1, metadata=metadata)


def results(source, stored):
    """A cell whose last expression was shown as ``stored``."""
    output = new_output("execute_result", data={"text/plain": stored}, execution_count=1)
    return new_code_cell(source, outputs=[output], execution_count=1)


def run(folder, cells, *options):
    """Run nbval on a notebook of ``cells`` as the test command does; return the exit code and what was said."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "lesson.ipynb")
    plugin = ["-p", "tools.nbval_plugin", "--nbval", "--nbval-current-env", "--color=no", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-rA", "-c", ROOT / "pyproject.toml", "--rootdir", folder, *plugin]
    companion = companion_of(folder / "lesson.ipynb")
    companion.parent.mkdir(parents=True, exist_ok=True)
    companion.write_text('cells.right.holds = ["x == 7"]\ncells.wrong.holds = ["x == 7", "x > 8"]\n')
    environment = {**os.environ, AWAY: str(folder)}
    done = subprocess.run(
        [*command, *options, "lesson.ipynb"], cwd=folder, env=environment, capture_output=True, text=True, timeout=280
    )
    return done.returncode, done.stdout


PASSING = [
    prints("print('loss', 0.12345)", "loss 0.12355\n"),  # jitter of 1e-4
    results("import torch\ntorch.tensor([0.3333, 2.0])", "tensor([0.3334, 2.0000])"),
    prints("1.5;", ""),  # a closing semicolon keeps a cell quiet
    prints("x = 7", "anything\n", **IGNORED),
    prints("print(x)", "7\n"),  # the cell before was executed all the same
    prints("print('loss', 0.31, 'after', 7)", "loss 0.1235 after 8\n", **TRAINED),  # other digits
    prints("print('of a companion', x)", "of a companion 7\n", title="right"),
]
FAILING = [
    prints("print('loss', 0.1235)", "loss 0.1435\n"),
    prints("pass", "one\n"),
    prints("print('one')", ""),
    prints("print('of a companion', x)", "of a companion 7\n", title="wrong"),
    new_code_cell("print('never run')"),
    prints("print('of no answer')", "of no answer\n", tags=["solution"]),  # compared with what is stored apart
    results("2.5", "2.6"),
    prints("1 / 0", "anything\n", **IGNORED),
    prints("print('loss', 0.31)", "loss 0.1235\n", tags=["explorer"]),
    prints("print('loss', 0.31)", "the loss 0.1235\n", **TRAINED),
    prints("0.31", "0.31\n", **TRAINED),  # printed is stored, and a value comes
    prints("print('loss', 0.31)", "", **TRAINED),
    prints("import os\nos._exit(1)", ""),
]


def test_each_cell_is_judged_and_a_dead_kernel_noticed_long_before_the_timeout(tmp_path):
    code, said = run(tmp_path, PASSING + FAILING, "--nbval-cell-timeout=600")
    verdicts = {f"{'PASSED' if i < len(PASSING) else 'FAILED'} lesson.ipynb::Cell {i}" for i in range(20)}
    assert code == 1 and {line.partition(" - ")[0] for line in said.splitlines() if "::Cell" in line} >= verdicts
    assert f"{len(FAILING)} failed, {len(PASSING)} passed" in said
    assert "lesson.toml: it does not hold that x > 8\n" in said and "the kernel died while it ran this cell" in said


def test_what_a_lesson_used_is_reported_its_memory_bounded_and_a_slow_cell_left_out(tmp_path):
    (tmp_path / "conftest.py").write_text("import tools.nbval_plugin as plugin\nplugin.MEGABYTES = -999\n")
    cells = [*PASSING[:1], prints("1 / 0", "", tags=["slow"])]
    code, said = run(tmp_path, cells, "-n2", "--dist=loadfile", "-m", "not slow")
    assert code == 1 and "parameters())'; it may add -999 MB" in said and "1 passed, 1 error" in said
    section = said.split("lessons: processor time and memory")[1]
    name, seconds, _, megabytes, _, added, _ = section.split("\n")[1].split()
    assert name == "lesson.ipynb" and 0.1 < float(seconds) < 10
    assert 30 < float(megabytes) < 200 and float(added) < 0  # it imports nothing


def test_kernels_import_the_package_as_a_wheel_installs_it_beside_a_folder_called_as_the_clone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    go_away(tmp_path, ROOT)
    handout = Path(os.environ[AWAY])
    assert (handout / ROOT.name / "course.py").exists() and (handout / "00_residual_connection.ipynb").exists()
    asked = [sys.executable, "-c", "import residual_course.lesson as lesson; print(lesson.__file__)"]
    found = subprocess.run(asked, cwd=handout, env=os.environ, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()) == tmp_path / "site-packages" / "residual_course" / "lesson.py"
