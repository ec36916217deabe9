"""The fast form of the test command runs the test files that look at what differs from the last commit."""

import subprocess
from pathlib import Path

import pytest

from residual_edu.course.changed import changed_files, readers_of, readers_of_changes

FILES = {
    "course.py": "",
    "residual_edu/config.py": "",
    "residual_edu/lesson.py": "",
    "residual_edu/parts/__init__.py": "",
    "residual_edu/parts/mlp.py": "",
    "residual_edu/parts/odd.py": "",
    "residual_edu/course/lint/code.py": "",
    "notebooks/source/00_first.py": "",
    "notebooks/00_first.ipynb": "",
    "benchmarks/blocks.py": "",
    "tests/test_config.py": "",
    "tests/test_readme.py": "",
    "tests/test_other.py": "from residual_edu.lesson import show",
    "tests/parts/test_mlp.py": "",
    "tests/parts/test_mlp_more.py": "from residual_edu.config import build",
    "tests/parts/helper.py": "",
    "tests/course/bootstrap/test_once.py": "",
    "tests/course/lint/test_code.py": "",
    "tests/notebooks/test_promotion.py": "",
    "tests/browser/test_lessons.py": "import residual_edu.parts.mlp",
}
EXPECTED = {
    "residual_edu/config.py": {"test_config.py", "parts/test_mlp_more.py"},
    "residual_edu/lesson.py": {"test_other.py"},
    "residual_edu/parts/mlp.py": {"parts/test_mlp.py", "parts/test_mlp_more.py", "browser/test_lessons.py"},
    "residual_edu/parts/odd.py": {"parts/test_mlp.py", "parts/test_mlp_more.py"},
    "residual_edu/parts/__init__.py": {"parts/test_mlp.py", "parts/test_mlp_more.py"},
    "residual_edu/course/lint/code.py": {"course/lint/test_code.py"},
    "course.py": {"course/bootstrap/test_once.py"},
    "docs/instructors.md": {"test_readme.py"},
    "notebooks/source/00_first.py": {"notebooks/test_promotion.py"},
    "benchmarks/blocks.py": set(),
    "tests/parts/test_mlp.py": {"parts/test_mlp.py"},
    "tests/parts/helper.py": {"parts/test_mlp.py", "parts/test_mlp_more.py"},
    "tests/parts/test_that_is_gone.py": set(),
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", EXPECTED)
def test_each_file_has_its_readers(checkout, name):
    assert readers_of(checkout, Path(name)) == {checkout / "tests" / test for test in EXPECTED[name]}


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_what_is_changed_deleted_or_new_is_found_below_the_checkout(checkout):
    git(checkout, "init")
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "first")
    assert readers_of_changes(checkout) == []
    (checkout / "residual_edu" / "parts" / "mlp.py").write_text("pass")
    (checkout / "residual_edu" / "lesson.py").unlink()
    (checkout / "tests" / "test_new.py").touch()
    names = ["residual_edu/lesson.py", "residual_edu/parts/mlp.py", "tests/test_new.py"]
    assert changed_files(checkout) == [Path(name) for name in names]
    found = [path.relative_to(checkout / "tests").as_posix() for path in readers_of_changes(checkout)]
    assert found == ["parts/test_mlp.py", "parts/test_mlp_more.py", "test_new.py", "test_other.py"]  # not the browser's


def test_a_checkout_without_git_has_no_changes(checkout, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(checkout / "none"))
    assert readers_of_changes(checkout) == []
    monkeypatch.setenv("PATH", "")
    assert readers_of_changes(checkout) == []
