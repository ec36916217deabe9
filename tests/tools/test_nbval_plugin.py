"""Each cell is compared with its stored output, and each lesson is held to its bounds."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from residual_course.commands.checkout import companion_of
from tools.nbval_plugin import AWAY, go_away

ROOT = Path(__file__).parents[2]
TWO_AT_A_TIME = ["-n2", "--dist=loadfile"]


def prints(source, stored, **metadata):
    """A cell whose stored output is the text ``stored``."""
    outputs = [new_output("stream", name="stdout", text=stored)] if stored else []
    return new_code_cell(source, outputs=outputs, execution_count=1, metadata=metadata)


def results(source, stored):
    """A cell whose last expression was shown as ``stored``."""
    output = new_output("execute_result", data={"text/plain": stored}, execution_count=1)
    return new_code_cell(source, outputs=[output], execution_count=1)


def run(folder, cells, *options, **environment):
    """Run nbval on a notebook of ``cells`` as the test command does; return the process and each cell's verdict."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "lesson.ipynb")
    plugin = ["-p", "tools.nbval_plugin", "--nbval", "--nbval-current-env", "--color=no"]
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", folder, *plugin]
    report, companion = folder / "report.xml", companion_of(folder / "lesson.ipynb")
    companion.parent.mkdir(parents=True)
    companion.write_text('cells.right.holds = ["x == 7"]\ncells.wrong.holds = ["x == 7", "x > 8"]\n')
    done = subprocess.run(
        [*command, f"--junitxml={report}", "-p", "no:cacheprovider", *options, "lesson.ipynb"],
        cwd=folder,
        env={**os.environ, AWAY: str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    cases = ElementTree.parse(report).findall(".//testcase")
    return done, {case.get("name"): {part.tag for part in case} - {"properties"} for case in cases}, cases


PASSING = [
    prints("print('loss', 0.12345)", "loss 0.12355\n"),  # jitter of 1e-4
    prints("print(1.2345e-3, 1e-05)", "0.0012346 9e-06\n"),
    prints("import torch\nprint(torch.tensor([-0.0, 1.25]))", "tensor([0.0000, 1.2500])\n"),
    results("torch.tensor([0.3333, 2.0])", "tensor([0.3334, 2.0000])"),
    prints("1.5;", ""),  # a closing semicolon keeps a cell quiet
    prints("import time\nprint(time.time_ns())", "1\n", tags=["nbval-ignore-output"]),
    prints("x = 7", "anything\n", tags=["nbval-ignore-output"]),
    prints("print(x)", "7\n"),  # the cell before was executed all the same
    prints("print('loss', 0.31, 'after', 7)", "loss 0.1235 after 8\n", tags=["trained"]),  # other digits
    prints("from residual_course.lesson import holds\nholds(0.31 < 0.5, 'It learns.')", "", tags=["trained"]),
    prints("print('of a companion', x)", "of a companion 7\n", title="right"),
]
FAILING = [
    prints("print('loss', 0.1235)", "loss 0.1435\n"),
    prints("print(12, 'steps')", "13 steps\n"),
    prints("print('one\\nthree')", "one\ntwo\nthree\n"),
    prints("pass", "one\n"),
    prints("print('one')", ""),
    prints("print('of a companion', x)", "of a companion 7\n", title="wrong"),
    new_code_cell("print('never run')"),
    results("2.5", "2.6"),
    prints("raise KeyError('no')", ""),
    prints("1 / 0", "anything\n", tags=["nbval-ignore-output"]),
    prints("print('loss', 0.31)", "loss 0.1235\n", tags=["explorer"]),
    prints("print('loss', 0.31)", "the loss 0.1235\n", tags=["trained"]),
    prints("print('loss', 0.31)", "loss 0.1235\nloss 0.31\n", tags=["trained"]),
    prints("0.31", "0.31\n", tags=["trained"]),  # printed is stored, and a value comes
    prints("print('loss', 0.31)", "", tags=["trained"]),
    prints("from residual_course.lesson import holds\nholds(0.61 < 0.5, 'It learns.')", "", tags=["trained"]),
]


@pytest.mark.slow
def test_each_cell_is_judged(tmp_path):
    done, verdicts, _ = run(tmp_path, PASSING + FAILING)
    right = {f"Cell {i}": set() if i < len(PASSING) else {"failure"} for i in range(len(PASSING + FAILING))}
    assert verdicts == right
    assert done.returncode == 1
    assert f"{len(FAILING)} failed, {len(PASSING)} passed" in done.stdout
    assert "lesson.toml: it does not hold that x > 8\n" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], TWO_AT_A_TIME], ids=["alone", "in workers"])
def test_a_passing_lesson_reports_what_it_used(tmp_path, workers):
    done, _, _ = run(tmp_path, PASSING[:1], *workers)
    assert done.returncode == 0, done.stdout
    section = done.stdout.split("lessons: processor time and memory")[1]
    name, seconds, _, megabytes, _, added, _ = section.split("\n")[1].split()
    assert name == "lesson.ipynb"
    assert 0.1 < float(seconds) < 10
    assert 30 < float(megabytes) < 200 and float(added) < 0  # it imports nothing


@pytest.mark.slow
def test_a_dead_kernel_is_noticed_long_before_the_timeout(tmp_path):
    cells = [prints("import os\nos._exit(1)", ""), prints("print(1)", "1\n")]
    done, verdicts, cases = run(tmp_path, cells, "--nbval-cell-timeout=600")
    assert done.returncode == 1
    assert verdicts == {"Cell 0": {"failure"}, "Cell 1": {"failure"}}
    assert "the kernel died while it ran this cell" in done.stdout
    assert float(cases[0].get("time")) < 60  # two seconds on a quiet machine


@pytest.mark.slow
def test_a_hang_ends_at_the_timeout(tmp_path):
    done, verdicts, cases = run(tmp_path, [prints("while True:\n    pass", "")], "--nbval-cell-timeout=2")
    assert done.returncode == 1
    assert verdicts == {"Cell 0": {"failure"}}
    assert "Timeout of 2 seconds exceeded" in done.stdout
    assert float(cases[0].get("time")) < 60


TIGHT = "import tools.nbval_plugin as plugin\nplugin.MEGABYTES = -999\n"


@pytest.mark.slow
def test_a_lesson_that_adds_too_much_memory_fails(tmp_path):
    (tmp_path / "conftest.py").write_text(TIGHT)
    done, _, _ = run(tmp_path, PASSING[:1], *TWO_AT_A_TIME, RESIDUAL_EDU_DEVICE="cpu")
    assert done.returncode == 1
    assert "parameters())'; it may add -999 MB" in done.stdout
    assert "1 passed, 1 error" in done.stdout


@pytest.mark.slow
def test_on_a_gpu_nothing_is_bounded(tmp_path):
    (tmp_path / "conftest.py").write_text(TIGHT)
    done, _, _ = run(tmp_path, PASSING[:1], RESIDUAL_EDU_DEVICE="cuda")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_kernels_import_the_package_as_a_wheel_installs_it_beside_a_folder_called_as_the_clone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    go_away(tmp_path, ROOT)
    handout = Path(os.environ[AWAY])
    assert (handout / ROOT.name / "course.py").exists() and (handout / "00_residual_connection.ipynb").exists()
    asked = [sys.executable, "-c", "import residual_course.lesson as lesson; print(lesson.__file__)"]
    found = subprocess.run(asked, cwd=handout, env=os.environ, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()) == tmp_path / "site-packages" / "residual_course" / "lesson.py"
