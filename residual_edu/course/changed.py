"""Which test files look at what differs from the last commit."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

# Files outside the package, and the test file or folder that reads them.
READERS = {
    "course.py": "course/bootstrap",
    "README.md": "test_readme.py",
    "CONTRIBUTING.md": "test_readme.py",
    "docs": "test_readme.py",
    "pyproject.toml": "test_environment.py",
    "constraints.txt": "test_environment.py",
    "environment.yml": "test_environment.py",
    "notebooks": "notebooks",
}


def readers_of_changes(root: Path) -> list[Path]:
    """Return the test files of all that differs from the last commit in ``root``, without the folders that are slow."""
    found = {test for path in changed_files(root) for test in readers_of(root, path)}
    return sorted(test for test in found if not {"browser", "grading"} & set(test.parts))


def why_none(root: Path) -> str:
    """Return a sentence that says why ``readers_of_changes`` found no test file in ``root``."""
    try:
        subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=root, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return (
            "No unit test is run: without git it is not known what differs from the last commit. "
            "All of them: python course.py test --only units"
        )
    return "No unit test is run: no test file belongs to what differs from the last commit."


def changed_files(root: Path) -> list[Path]:
    """Return the files that git calls changed or new, as paths in ``root``; none where there is no git."""
    words = (["diff", "--name-only", "--relative", "HEAD"], ["ls-files", "--others", "--exclude-standard"])
    try:
        said = [subprocess.run(["git", *each], cwd=root, check=True, capture_output=True, text=True) for each in words]
    except (OSError, subprocess.CalledProcessError):
        return []
    return [Path(line) for each in said for line in each.stdout.splitlines()]


def readers_of(root: Path, path: Path) -> set[Path]:
    """Return the test files that look at the file ``path``: its own, and those that import it by its name."""
    top, tests = path.parts[0], root / "tests"
    if top == "tests":
        is_test = path.name.startswith("test_") and path.suffix == ".py"
        return set(python([root / path if is_test else root / path.parent]))
    if top == "residual_edu" and path.suffix == ".py":
        return mirrored(tests, path) | importers(tests, ".".join(path.with_suffix("").parts))
    return set(python([tests / READERS[top]])) if top in READERS else set()


def mirrored(tests: Path, path: Path) -> set[Path]:
    """Return the test files that stand where ``path`` does in the package: those of its name, or else its folder's."""
    folder = tests.joinpath(*path.parts[1:-1])
    return set(folder.glob(f"test_{path.stem}*.py")) or set(python([folder]) if folder != tests else [])


def importers(tests: Path, module: str) -> set[Path]:
    """Return the test files that name ``module``."""
    return {test for test in python([tests]) if module in test.read_text(encoding="utf-8")}


def python(places: Iterable[Path]) -> list[Path]:
    """Return the test files among ``places`` and below them."""
    return [test for place in places for test in ([place] if place.is_file() else place.rglob("test_*.py"))]
