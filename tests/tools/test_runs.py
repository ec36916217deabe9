import json
from pathlib import Path

import pytest

from residual_course.commands import main
from residual_course.commands.checkout import with_homework
from residual_course.lesson import stored_runs
from residual_edu.errors import InvalidInput
from tools import runs

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


def test_a_lesson_reads_them_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sorted(stored_runs("02_learning_rates")["runs"]) == [0, 1, 2]
    with pytest.raises(InvalidInput, match="^lesson must be one of '00_signal_or_gradient', .*, got '02'"):
        stored_runs("02")


def test_runs_are_stored_with_their_settings_and_do_not_need_what_is_stored(checkout, capsys):
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
    path = checkout / "residual_course" / "data" / "runs" / "00_small.json"
    assert capsys.readouterr().out == f"{path}\n"
    stored = json.loads(path.read_text())
    assert stored["settings"] == {"steps": 3, "within": 0.5}
    assert stored["runs"] == {"0": {"sum": 21}, "1": {"sum": 24}, "2": {"sum": 27}}


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
        (computed({}, a=float("nan"), b=2.0), ["seed 0, a: nan and stored 1.0"]),
        (computed({}, b=2.0), ["seed 0, a: None and stored 1.0"]),
        (computed({"steps": 2}, a=1.0, b=2.0), ["settings {'within': 0.1, 'steps': 2}, stored with {'within': 0.1}"]),
    ],
)
def test_what_is_further_than_its_band_is_found(again, found):
    assert runs.difference(computed({}, a=1.0, b=2.0), again) == found


def test_what_changed_is_computed_again_and_text_is_no_change(checkout):
    source = checkout / "notebooks" / "source" / "00_small.py"
    assert main(["build", "--runs", "00"]) == 0
    source.write_text("# %% [markdown]\n# Some words.\n\n" + source.read_text() + "\n# %%\nprint(1)\n")
    assert runs.to_compute_again([source]) == []
    source.write_text(source.read_text().replace("10", "11"))
    assert runs.to_compute_again([source]) == [source]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_last_stored_seed_computed_again_is_within_its_band():
    found = {}
    for source in runs.to_compute_again(with_homework(ROOT)):
        stored = json.loads(runs.runs_of(source).read_text())
        found[source.stem] = runs.difference(stored, runs.compute(source, (runs.SEEDS[-1],)))
    assert not any(found.values()), found
