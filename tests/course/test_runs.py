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
from residual_edu.lesson import stored_runs
from residual_edu.old_errors import InvalidInput

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


def test_runs_are_stored_with_their_settings(checkout, capsys):
    assert main(["build", "--runs", "00"]) == 0
    path = checkout / "residual_edu" / "data" / "runs" / "00_small.json"
    assert capsys.readouterr().out == f"{path}\n"
    stored = json.loads(path.read_text())
    assert stored["settings"] == {"steps": 3, "within": 0.5}
    assert stored["runs"] == {"0": {"sum": 10}, "1": {"sum": 13}, "2": {"sum": 16}}


def test_a_lesson_reads_them_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sorted(stored_runs("02_layer_norm")["runs"]) == [0, 1, 2]
    with pytest.raises(InvalidInput, match="^lesson must be one of '00_residual_connection', .*, got '02'"):
        stored_runs("02")


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


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ({"b": 2.05}, []),
        ({"b": 2.15}, ["seed 0, b: 2.15 and stored 2.0"]),
        ({"b": 2.0, "c": 3.0}, ["seed 0, c: 3.0 and stored None"]),
        ({}, ["seed 0: no number"]),
    ],
)
def test_of_a_part_what_it_computed_is_compared(numbers, found):
    assert runs.difference(computed({}, a=1.0, b=2.0), computed({}, **numbers), runs.THIRDS[1]) == found


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A checkout with three lessons with stored runs; the second computes a part where it is asked for one."""
    root = tmp_path_factory.mktemp("built")
    folder = root / "notebooks" / "source"
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PYTHONPATH", str(ROOT))
        for name in ("01_a", "02_b", "03_c"):
            (folder / f"{name}.py").write_text((IN_PARTS if name == "02_b" else LESSON).replace("10", name[1]))
            assert main(["build", "--runs", name]) == 0
    return root


IN_PARTS = """# %%
base = 10

# %% tags=["runs"]
def runs(seed, part=slice(None), steps=3, within=0.5):
    return {name: base + seed * steps for name in "abcd"[part]}
"""


@pytest.fixture
def three(checkout, built):
    """Three lessons with stored runs, and one without."""
    shutil.copytree(built, checkout, dirs_exist_ok=True)
    return sorted((checkout / "notebooks" / "source").glob("*.py"))


@pytest.mark.parametrize("turn", [0, 1, 2, 5])
def test_at_each_turn_another_lesson_is_computed_again(three, turn):
    assert list(runs.to_compute_again(three, turn)) == [three[1 + turn % 3]]


def test_one_in_parts_is_computed_whole_in_three_of_its_turns(three):
    again = [runs.to_compute_again(three, turn) for turn in (1, 4, 7)]
    assert [list(each) for each in again] == [[three[2]]] * 3
    found = [runs.compute(three[2], (2,), *each.values()) for each in again]
    assert [each["runs"]["2"] for each in found] == [{"a": 8, "d": 8}, {"b": 8}, {"c": 8}]
    stored = json.loads(runs.runs_of(three[2]).read_text())
    assert [each["settings"] for each in found] == [stored["settings"]] * 3 == [{"steps": 3, "within": 0.5}] * 3
    assert {**found[0]["runs"]["2"], **found[1]["runs"]["2"], **found[2]["runs"]["2"]} == stored["runs"]["2"]
    assert [runs.difference(stored, each, *part.values()) for each, part in zip(found, again, strict=True)] == [[]] * 3
    assert runs.difference(stored, found[0]) == [f"seed 2, {name}: None and stored 8" for name in "bc"]


def test_what_changed_is_computed_again_and_text_is_no_change(three):
    three[3].write_text(three[3].read_text().replace("seed * steps", "seed + steps"))
    three[1].write_text("# %% [markdown]\n# Some words.\n\n" + three[1].read_text() + "\n# %%\nprint(1)\n")
    assert runs.to_compute_again(three, 0) == {three[1]: runs.WHOLE, three[3]: runs.WHOLE}
    assert runs.to_compute_again(three, 1) == {three[2]: runs.THIRDS[0], three[3]: runs.WHOLE}
    assert runs.to_compute_again(three[3:], 1) == {three[3]: runs.WHOLE}
    assert runs.to_compute_again(three, None) == dict.fromkeys(three[1:], runs.WHOLE)


def test_one_in_parts_that_changed_is_computed_whole(three):
    three[2].write_text(three[2].read_text().replace("seed * steps", "seed + steps"))
    assert runs.to_compute_again(three, 1) == {three[2]: runs.WHOLE, three[3]: runs.WHOLE}


def test_runs_stored_without_their_code_are_computed_again(three):
    path = runs.runs_of(three[2])
    path.write_text(json.dumps({name: each for name, each in json.loads(path.read_text()).items() if name != "code"}))
    assert list(runs.to_compute_again(three, 0)) == [three[2], three[1]]


DUE = [
    # minutes each: on either worker
    pytest.param(source, part, id=source.stem, marks=pytest.mark.xdist_group(source.stem))
    for source, part in runs.to_compute_again(with_homework(ROOT), turn(ROOT)).items()
]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("source", "part"), DUE)
def test_the_last_stored_seed_computed_again_is_within_its_band(source, part):
    stored = json.loads(runs.runs_of(source).read_text())
    assert runs.difference(stored, runs.compute(source, (runs.SEEDS[-1],), part), part) == []


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
