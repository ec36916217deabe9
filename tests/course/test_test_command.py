"""``residual-edu test`` runs every step in order, goes on after a failure, and says at the end how it went."""

import re

import pytest

from residual_edu.course import test as command

PASS, FAIL = ["platform"], ["residual_edu.course", "no-such-verb"]  # python -m platform prints a line
SKIPPING = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip('nothing to see')\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a skipping test in it, as the current folder; not CI, whatever runs these tests."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


@pytest.fixture
def steps(checkout, monkeypatch):
    """Three quick steps in place of the real ones; the second fails."""
    made = {
        "first": PASS,
        "second": FAIL,
        "third": ["pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_skipping.py"],
    }
    monkeypatch.setattr(command, "STEPS", made)


def test_it_goes_on_after_a_failure_and_sums_up(steps, capfd):
    assert command.run([]) == 1
    out = capfd.readouterr().out
    headings = [out.index(f"{step}: ") for step in ("first", "second", "third")]
    assert headings == sorted(headings)
    assert "SKIPPED [1] test_skipping.py:3: nothing to see" in out
    assert re.search(r"first passed in \d+\.\d s", out)
    rows = re.findall(r"(first|second|third) +│ (\w[\w ,]*?) +│ +(\d+\.\d)", out)
    assert [row[:2] for row in rows] == [("first", "passed"), ("second", "failed"), ("third", "passed, 1 skipped")]
    assert out.splitlines()[-1] == "2 passed, 1 failed"


def test_only_some_steps_in_their_own_order(steps, capfd):
    assert command.run(["--only", "third", "--only", "first"]) == 0
    out = capfd.readouterr().out
    assert out.index("first: ") < out.index("third: ")
    assert "second: " not in out
    assert out.splitlines()[-1] == "2 passed, 0 failed"


@pytest.mark.parametrize(("value", "code"), [("true", 1), ("1", 1), ("", 0), ("false", 0)])
def test_in_ci_a_skip_is_a_failure(steps, capfd, monkeypatch, value, code):
    monkeypatch.setenv("CI", value)
    assert command.run(["--only", "third"]) == code
    assert ("failed, 1 skipped" in capfd.readouterr().out) == bool(code)


def test_an_unknown_step_is_refused(steps, capfd):
    with pytest.raises(SystemExit):
        command.run(["--only", "fourth"])
    assert "invalid choice: 'fourth'" in capfd.readouterr().err


def test_every_step_takes_one_thread(checkout, capfd, monkeypatch):
    (checkout / "threads.py").write_text("import os; print('threads:', os.environ['OMP_NUM_THREADS'])\n")
    monkeypatch.setattr(command, "STEPS", {"only": ["threads"]})
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert command.run([]) == 0
    assert "threads: 1" in capfd.readouterr().out


def test_ctrl_c_ends_it_after_the_step_has_cleaned_up(steps, capfd, monkeypatch, as_installed):
    class Interrupted:
        waited = 0

        def wait(self):
            self.waited += 1
            if self.waited == 1:
                raise KeyboardInterrupt
            return 1

    step = Interrupted()
    monkeypatch.setattr(command.subprocess, "Popen", lambda *words, **more: step)
    assert command.run([]) == 130
    assert step.waited == 2
    assert capfd.readouterr().err == "Stopped.\n"


def test_the_real_steps():
    assert " ".join(command.STEPS) == "ruff format types promote build lessons units notebooks browser"
    assert [name for name, step in command.STEPS.items() if step[0] == "pytest"] == ["units", "notebooks", "browser"]
    assert {"--nbval", "--nbval-cell-timeout=120", "residual_edu.course.nbval_plugin"} <= set(
        command.STEPS["notebooks"]
    )
