"""``residual-edu test`` runs every step in order, goes on after a failure, and says at the end how it went."""

import re
import subprocess
from pathlib import Path

import pytest

from residual_edu.course import running, steps
from residual_edu.course import test as command
from residual_edu.course.checkout import Refusal
from residual_edu.course.steps import Step

PASS, FAIL = ["platform"], ["residual_edu.course", "no-such-verb"]  # python -m platform prints a line
SKIPPING = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip('nothing to see')\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with a skipping test in it, as the current folder; not CI, whatever runs these tests."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "RESIDUAL_EDU_TURN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_two_workers_share_the_tests_by_file(request):
    """pytest-xdist writes the group behind a test's name, or groups nothing and does not say so."""
    by_group = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@course/test_test_command.py") == by_group


def test_files_with_slow_tests_come_first(request):
    files = dict[str, bool]()
    for item in request.session.items:
        files[item.path] = files.get(item.path, False) or item.get_closest_marker("slow") is not None
    first = list(files.values()).index(False)
    assert not any(list(files.values())[first:])


@pytest.fixture
def three(checkout, monkeypatch):
    """Three quick steps in place of the real ones; the second fails."""
    third = ["pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_skipping.py"]
    made = [Step("first", PASS, 1), Step("second", FAIL, 1), Step("third", third, 3)]
    monkeypatch.setattr(command.steps, "usual", lambda: made)
    monkeypatch.setattr(command.steps, "everything", lambda root: made)
    monkeypatch.setattr(command.steps, "SECONDS", dict.fromkeys(step.name for step in made))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to be imported, and are not used


def test_it_goes_on_after_a_failure_and_sums_up(three, capfd):
    assert command.run([]) == 1
    out = capfd.readouterr().out
    headings = [out.index(f"{step}: ") for step in ("first", "second", "third")]
    assert headings == sorted(headings)
    assert "SKIPPED [1] test_skipping.py:3: nothing to see" in out
    assert re.search(r"first passed in \d+\.\d s", out)
    rows = re.findall(r"(first|second|third) +│ (\w[\w ,]*?) +│ +(\d+\.\d)", out)
    assert [row[:2] for row in rows] == [("first", "passed"), ("second", "failed"), ("third", "passed, 1 skipped")]
    assert out.splitlines()[-1] == "2 passed, 1 failed"


def test_only_some_steps_in_their_own_order(three, capfd):
    assert command.run(["--only", "third", "--only", "first"]) == 0
    out = capfd.readouterr().out
    assert out.index("first: ") < out.index("third: ")
    assert "second: " not in out
    assert out.splitlines()[-1] == "2 passed, 0 failed"


def test_a_step_that_would_end_too_late_is_left_out_and_told(three, capfd, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert command.run(["--minutes", "0.04", "--only", "first", "--only", "third"]) == 0  # it takes 3 s
    out = capfd.readouterr().out
    assert re.search("third +│ left out: no time", out) and "test_skipping" not in out
    assert out.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert command.run(["--minutes", "0.04"]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_the_pace_of_this_run_decides_what_is_left_out(three, capfd, monkeypatch):
    for words, pace in ((["--minutes", "0.1"], 1.0), (["--minutes", "0.1"], 9.0)):
        monkeypatch.setattr(running.Forecast, "pace", pace)
        assert command.run([*words, "--only", "third"]) == 0
        assert ("left out" in capfd.readouterr().out) == (pace == 9.0)


@pytest.mark.parametrize(("value", "code"), [("true", 1), ("1", 1), ("", 0), ("false", 0)])
def test_in_ci_a_skip_is_a_failure(three, capfd, monkeypatch, value, code):
    monkeypatch.setenv("CI", value)
    assert command.run(["--only", "third"]) == code
    assert ("failed, 1 skipped" in capfd.readouterr().out) == bool(code)


def test_an_unknown_step_is_refused(three, capfd):
    with pytest.raises(SystemExit):
        command.run(["--only", "fourth"])
    assert "invalid choice: 'fourth'" in capfd.readouterr().err


@pytest.mark.parametrize("words", [["threads"], ["pytest", "-s", "-p", "no:cacheprovider", "threads.py"]])
def test_every_step_takes_one_thread_and_is_strict(checkout, capfd, monkeypatch, words):
    (checkout / "threads.py").write_text(
        "import os; print('threads:', *map(os.environ.get, ('OMP_NUM_THREADS', 'RESIDUAL_EDU_STRICT')))\n"
        "def test_nothing(): pass\n"
    )
    monkeypatch.setattr(command.steps, "usual", lambda: [Step("units", words, 1)])
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert command.run([]) == 0
    assert "threads: 1 1" in capfd.readouterr().out


def test_ctrl_c_ends_it_after_the_step_has_cleaned_up(three, capfd, monkeypatch, as_installed):
    class Interrupted:
        waited, stdout = 0, ()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def wait(self):
            self.waited += 1
            if self.waited == 1:
                raise KeyboardInterrupt
            return 1

    step = Interrupted()
    monkeypatch.setattr(running.subprocess, "Popen", lambda *words, **more: step)
    assert command.run(["--only", "third"]) == 130
    assert step.waited == 2
    assert capfd.readouterr().err == "Stopped.\n"


def test_the_forms(checkout, monkeypatch):
    style = "ruff format types promote build lessons"
    usual, everything = steps.usual(), steps.everything(checkout)
    assert " ".join(step.name for step in usual) == f"{style} units notebooks browser"
    assert " ".join(step.name for step in everything) == f"{style} units notebooks browser delays"
    for some, all_of in zip(usual, everything[:-1], strict=True):
        slow_left_out = some.command[0] == "pytest"
        words = [word for word in all_of.command if (all_of.name, word) != ("units", "--timeout=1800")]
        left_out = (["-m", "not slow"] if slow_left_out else []) + steps.NO_APPENDIX * (some.name == "notebooks")
        assert some.command == words + left_out
        assert some.seconds <= all_of.seconds
    assert sum(step.seconds for step in usual) < 12 * 60 and sum(step.seconds for step in everything) < 38 * 60
    for name in "abc":
        (checkout / "notebooks" / f"{name}_more.ipynb").touch()
    notebooks = next(step for step in steps.everything(checkout) if step.name == "notebooks")
    assert notebooks.command[-2:] == ["--ignore=notebooks/b_more.ipynb", "--ignore=notebooks/c_more.ipynb"]
    monkeypatch.setattr(steps, "readers_of_changes", lambda root: [Path("tests/test_config.py")])
    *before, units = steps.fast(checkout)
    assert " ".join(step.name for step in before) == style
    assert units.command[:4] == ["pytest", "-q", "-rs", "tests/test_config.py"]
    monkeypatch.setattr(steps, "readers_of_changes", lambda root: [])
    assert " ".join(step.name for step in steps.fast(checkout)) == style


@pytest.mark.parametrize(
    ("git", "said"),
    [
        (True, "No unit test is run: no test file belongs to what differs from the last commit."),
        (
            False,
            "No unit test is run: without git it is not known what differs from the last commit. "
            "All of them: python course.py test --only units",
        ),
    ],
)
def test_a_fast_run_without_unit_tests_says_so(checkout, capfd, monkeypatch, git, said):
    if git:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run(["git", *who, *words], cwd=checkout, check=True)
    else:
        monkeypatch.setenv("GIT_DIR", str(checkout / "none"))
    monkeypatch.setattr(steps, "STYLE", {"first": PASS})
    monkeypatch.setattr(steps, "SECONDS", steps.SECONDS | {"first": (1, 1)})
    assert command.run(["--fast"]) == 0
    assert capfd.readouterr().out.splitlines()[-2:] == [said, "1 passed, 0 failed"]
    with pytest.raises(Refusal, match=f"^{re.escape(said)}$"):
        command.run(["--fast", "--only", "units"])


@pytest.mark.parametrize("words", [["--all", "--fast"], ["--slow"]])
def test_words_that_do_not_fit_show_the_usage(checkout, words):
    with pytest.raises(SystemExit):
        command.run(words)


def test_a_hanging_test_ends_and_is_told_by_its_name(checkout, capfd, monkeypatch):
    (checkout / "test_hanging.py").write_text("import time\ndef test_that_hangs(): time.sleep(60)\n")
    hanging = ["pytest", "-q", "--timeout=1", "-p", "no:cacheprovider", "test_hanging.py"]
    monkeypatch.setattr(command.steps, "usual", lambda: [Step("units", hanging, 1)])
    assert command.run([]) == 1
    assert re.search(r"FAILED test_hanging\.py::test_that_hangs - .*Timeout", capfd.readouterr().out)


def test_every_test_has_a_deadline(pytestconfig):
    assert 60 <= float(pytestconfig.getini("timeout")) <= 900


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


def test_the_time_that_is_left_follows_the_pace_of_this_run(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(running, "time", clock)
    forecast = running.Forecast([300, 600, 1200])
    assert forecast.left() == 2100
    clock.now = 100
    assert forecast.left() == 2000
    clock.now = 600  # the first step took twice as long as usual
    forecast.advance()
    assert forecast.pace == 2 and forecast.left() == 2 * 1800
    clock.now, forecast.share = 900, 0.5  # half of the second, by pytest's own count
    assert forecast.left() == 300 + 2 * 1200
    clock.now, forecast.share = 10_000, 0.0  # far beyond what was forecast
    assert forecast.left() == 0.05 * 1200 + 2 * 1200
    forecast.leave_out()
    clock.now = 600
    forecast.advance()
    assert forecast.pace == 2 and forecast.passed() == 600


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, "less than a minute"), (61.0, "about 1 min"), (599.0, "about 10 min")]
)
def test_the_time_that_is_left_in_words(seconds, said):
    assert running.words(seconds) == f"{said} left"
