"""``residual-edu test`` runs every step in order, goes on after a failure, and says at the end how it went."""

import re

import pytest

from tools import test as command

SKIPPING = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip('nothing to see')\n"
ONE_THREAD = (
    "import os\ndef test_it(): print('threads', os.environ['OMP_NUM_THREADS'], os.environ['RESIDUAL_EDU_STRICT'])"
)


@pytest.fixture
def three(tmp_path, monkeypatch):
    """A checkout with three quick steps in place of the real ones, of which the second fails; not CI."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    (tmp_path / "test_threads.py").write_text(ONE_THREAD)
    third = ["pytest", "-q", "-rs", "-s", "-p", "no:cacheprovider", "test_skipping.py", "test_threads.py"]
    steps = {"first": ["platform"], "second": ["residual_course", "no-such-verb"], "third": third}
    monkeypatch.setattr(command, "STEPS", steps)  # python -m platform prints a line
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # importing nbval's takes longer than the steps


def test_it_goes_on_after_a_failure_and_sums_up(three, capfd):
    assert command.run([]) == 1
    out = capfd.readouterr().out
    headings = [out.index(f"{step}: ") for step in ("first", "second", "third")]
    assert headings == sorted(headings)
    assert "SKIPPED [1] test_skipping.py:3: nothing to see" in out
    assert "threads 1 1" in out
    rows = re.findall(r"(first|second|third) +│ (\w[\w ,]*?) +│ +(\d+\.\d)", out)
    assert [row[:2] for row in rows] == [("first", "passed"), ("second", "failed"), ("third", "passed, 1 skipped")]
    assert out.splitlines()[-1] == "2 passed, 1 failed"


@pytest.mark.parametrize(("value", "code"), [("true", 1), ("false", 0)])
def test_in_ci_a_skip_is_a_failure(three, capfd, monkeypatch, value, code):
    monkeypatch.setenv("CI", value)
    assert command.run(["--only", "third", "--only", "first"]) == code
    out = capfd.readouterr().out
    assert ("failed, 1 skipped" in out) == bool(code)
    assert out.index("first: ") < out.index("third: ") and "second: " not in out
