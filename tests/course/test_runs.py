import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from residual_edu.course import main, runs
from residual_edu.course.checkout import with_homework
from residual_edu.course.turns import turn
from residual_edu.errors import InvalidInput
from residual_edu.lesson import stored_runs

ROOT = Path(__file__).parents[2]
LESSON = """# %%
base = 10

# %% tags=["runs"]
def runs(seed, steps=3, within=0.5):
    return {"sum": base + seed * steps}

# %%
raise RuntimeError("what follows is not needed")
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    source = tmp_path / "notebooks" / "source" / "00_small.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_runs_are_stored_with_their_settings_and_read_from_a_copy(checkout, capsys, monkeypatch):
    assert main(["build", "--runs", "00"]) == 0
    path = checkout / "notebooks" / "runs" / "00_small.json"
    assert capsys.readouterr().out == f"{path}\n"
    assert json.loads(path.read_text())["settings"] == {"steps": 3, "within": 0.5}
    (checkout / "my_lessons" / "homework").mkdir(parents=True)
    monkeypatch.chdir(checkout / "my_lessons" / "homework")
    assert stored_runs("00_small")["runs"] == {0: {"sum": 10}, 1: {"sum": 13}, 2: {"sum": 16}}
    with pytest.raises(InvalidInput, match="^lesson must be one with stored runs, in a copy of the course, got '01'$"):
        stored_runs("01")


def test_runs_do_not_need_what_is_stored(checkout):
    read = """# %% tags=["trained"]
base = 20

# %%
stored = stored_runs("00_small")

# %% tags=["trained"]
print(stored[0])

# %% tags=["solution"]
half = stored[0]["sum"] / 2

# %%
base += 1

"""
    source = checkout / "notebooks" / "source" / "00_small.py"
    source.write_text(LESSON.replace("# %% tags", read + "# %% tags"))
    assert main(["build", "--runs", "00"]) == 0
    assert json.loads(runs.runs_of(source).read_text())["runs"] == {
        "0": {"sum": 21},
        "1": {"sum": 24},
        "2": {"sum": 27},
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["runs"]', '["run"]', "00_small.py has no cell tagged runs."),
        ("def runs(", "def run(", "must define a function"),
    ],
)
def test_a_lesson_without_runs_is_refused(checkout, capsys, old, new, said):
    source = checkout / "notebooks" / "source" / "00_small.py"
    source.write_text(source.read_text().replace(old, new))
    assert main(["build", "--runs", "00"]) == 2
    assert said in capsys.readouterr().err


def computed(settings, **numbers):
    return {"settings": {"within": 0.1} | settings, "runs": {"0": numbers}}


@pytest.mark.parametrize(
    ("again", "found"),
    [
        (computed({}, a=1.05, b=2.0), []),
        (computed({}, a=1.15, b=2.0), ["seed 0, a: 1.15 and stored 1.0"]),
        (computed({}, a=float("nan"), b=2.0), ["seed 0, a: nan and stored 1.0"]),
        (computed({}, b=2.0), ["seed 0, a: None and stored 1.0"]),
        (computed({"steps": 2}, a=1.0, b=2.0), ["settings {'within': 0.1, 'steps': 2}, stored with {'within': 0.1}"]),
    ],
)
def test_what_is_further_than_its_band_is_found(again, found):
    assert runs.difference(computed({}, a=1.0, b=2.0), again) == found


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A checkout with three lessons with stored runs."""
    root = tmp_path_factory.mktemp("built")
    folder = root / "notebooks" / "source"
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PYTHONPATH", str(ROOT))
        for name in ("01_a", "02_b", "03_c"):
            (folder / f"{name}.py").write_text(LESSON.replace("base = 10", f"base = {name[1]}"))
            assert main(["build", "--runs", name]) == 0
    return root


@pytest.fixture
def three(checkout, built):
    """Three lessons with stored runs, and one without."""
    shutil.copytree(built, checkout, dirs_exist_ok=True)
    return sorted((checkout / "notebooks" / "source").glob("*.py"))


@pytest.mark.parametrize("turn", [0, 1, 2, 5])
def test_at_each_turn_another_lesson_is_computed_again(three, turn):
    assert runs.to_compute_again(three, turn) == [three[1 + turn % 3]]


def test_what_changed_is_computed_again_and_text_is_no_change(three):
    three[3].write_text(three[3].read_text().replace("seed * steps", "seed + steps"))
    three[1].write_text("# %% [markdown]\n# Some words.\n\n" + three[1].read_text() + "\n# %%\nprint(1)\n")
    assert runs.to_compute_again(three, 0) == [three[1], three[3]]
    assert runs.to_compute_again(three, 1) == [three[2], three[3]]
    assert runs.to_compute_again(three[3:], 1) == [three[3]]
    assert runs.to_compute_again(three, None) == three[1:]


def test_runs_stored_without_their_code_are_computed_again(three):
    path = runs.runs_of(three[2])
    path.write_text(json.dumps({name: each for name, each in json.loads(path.read_text()).items() if name != "code"}))
    assert runs.to_compute_again(three, 0) == three[1:3]


DUE = [
    pytest.param(source, id=source.stem, marks=pytest.mark.xdist_group(source.stem))  # minutes each: on either worker
    for source in runs.to_compute_again(with_homework(ROOT), turn(ROOT))
]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", DUE)
def test_the_last_stored_seed_computed_again_is_within_its_band(source):
    stored = json.loads(runs.runs_of(source).read_text())
    assert runs.difference(stored, runs.compute(source, (runs.SEEDS[-1],))) == []


class WithoutBodies(ast.NodeTransformer):
    """What is executed as the cells are: what a function names may be missing as long as nobody calls it."""

    def visit_FunctionDef(self, node):
        node.body = [ast.Pass()]
        return node


@pytest.mark.parametrize(
    "source", [each for each in with_homework(ROOT) if runs.runs_of(each).exists()], ids=lambda each: each.stem
)
def test_what_computes_the_runs_uses_nothing_that_reads_them(source):
    tree = ast.parse("\n\n".join(cell.source for cell in runs.up_to_runs(source)))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-"]
    found = subprocess.run(ruff, input=ast.unparse(WithoutBodies().visit(tree)), capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
