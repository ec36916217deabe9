"""``residual-edu test`` runs the steps that take one core two at a time, and those that take both alone."""

import time

import pytest

from residual_edu.course import running, steps
from residual_edu.course import test as command
from residual_edu.course.steps import Step

MEETS = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
for _ in range(600):
    if pathlib.Path(sys.argv[2]).exists():
        sys.exit(print(sys.argv[1], "met", sys.argv[2]))
    time.sleep(0.1)
sys.exit(1)
"""


@pytest.fixture
def use(tmp_path, monkeypatch):
    """Put steps in place of the real ones, in an empty checkout."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def these(made):
        monkeypatch.setattr(steps, "usual", lambda: made)

    return these


def test_two_steps_on_one_core_each_run_at_a_time_and_are_shown_in_order(use, tmp_path, capfd):
    """Each ends when the other has begun; then a step on both cores finds nothing beside it."""
    (tmp_path / "meets.py").write_text(MEETS)
    (tmp_path / "test_alone.py").write_text("from pathlib import Path\ndef test_it(): assert Path('c').exists()\n")
    words = [("a", "b"), ("b", "a"), ("c", "b")]
    made = [Step(f"{one} step", ["meets", one, other], 1) for one, other in words]
    alone = ["pytest", "-q", "-p", "no:cacheprovider", "test_alone.py"]
    use([*made, Step("alone", alone, 1)])
    assert command.run([]) == 0
    out = capfd.readouterr().out
    said = [out.index(text) for one, other in words for text in (f"{one} step: ", f"{one} met {other}")]
    assert said == sorted(said) and out.index("alone: ") > said[-1]


def test_after_ctrl_c_no_other_step_begins(use, monkeypatch):
    begun = []

    def captured(words, root):
        begun.append(words[-1])
        time.sleep(0.2)
        return running.Captured(0, "", 0.2)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "captured", captured)
    monkeypatch.setattr(command, "perform", interrupted)
    use([Step(name, [name], 1) for name in "abcd"])
    assert command.run([]) == 130
    assert begun == ["a", "b"]
