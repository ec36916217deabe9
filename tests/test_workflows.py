"""The workflow files, which nothing here can run: they say so, and what they call exists."""

import re
from pathlib import Path

import pytest
import yaml

from residual_edu.course import VERBS

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_workflow_says_that_it_was_not_executed_and_calls_what_exists(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# NOT EXECUTED: ")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands and all("@v" in step["uses"] for step in steps if "uses" in step)
    for command in commands:
        assert set(re.findall(r"course\.py (\w+)", command)) <= set(VERBS)
        assert all((ROOT / named).exists() for named in re.findall(r"course\.py|\.ci/\w+", command))


def test_there_is_one_that_publishes_the_book_and_one_that_runs_every_check():
    assert [path.name for path in FILES] == ["book.yml", "checks.yml"]
