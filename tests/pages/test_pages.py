"""Pages that describe a class, read sentence by sentence: each row of a page's table names a test, and it is there.

A page joins as one more ``.toml`` beside this file.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["row"] for path in sorted(HERE.glob("*.toml"))}


@pytest.fixture(scope="module")
def collected():
    """Every test in the files that the tables name, as pytest itself finds it."""
    files = sorted({row["test"].split("::")[0] for rows in ROWS.values() for row in rows})
    command = [sys.executable, "-m", "pytest", "--noconftest", "--collect-only", "-q", *files]
    found = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return {re.sub(r"^tests/|\[.*", "", line) for line in found.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("page", ROWS)
def test_each_row_names_a_test_that_is_collected(page, collected):
    assert [row["test"] for row in ROWS[page] if row["test"] not in collected] == []


@pytest.mark.parametrize("page", ROWS)
def test_each_row_says_that_its_sentence_holds_or_what_is_right(page):
    for row in ROWS[page]:
        assert list(row) == ["sentence", "verdict", "test"]
        assert row["sentence"].endswith(".") and (row["verdict"] == "holds" or row["verdict"].endswith("."))
    sentences = [row["sentence"] for row in ROWS[page]]
    assert len(sentences) == len(set(sentences)) >= 20
