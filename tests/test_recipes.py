"""CONTRIBUTING's recipes, written into a copy of this repository as they stand: nothing there refuses them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = re.compile(r"^```python\n# ((?:residual_edu|tests)/\S+\.py)\n(.*?)^```", re.M | re.S)
FILES = dict(FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
PIECES = {  # the module, its class, and what else its room's __init__ says of it
    "residual_edu/parts/dynamic_tanh.py": ("DynamicTanh", ""),
    "residual_edu/mixers/fourier.py": ("FourierMixer", ""),
    "residual_edu/configurable/mqa.py": ("MQA", 'attention_registry.register("mqa", MQA)\n'),
}
RULES = ["tests/test_imports.py", "tests/notebooks/test_promotion.py", "tests/configurable/test_registry.py"]
RULES += ["tests/blocks/test_every_mixer_in_every_block.py"]


def test_each_recipe_has_a_module_and_a_test():
    assert {name for name in FILES if name.startswith("residual_edu/")} == set(PIECES)
    assert {f"{Path(name).parts[1]}/{Path(name).stem.removeprefix('test_')}" for name in FILES} == {
        f"{Path(name).parts[1]}/{Path(name).stem}" for name in PIECES
    }


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy with the recipes' files, and their lines in the rooms' ``__init__.py``."""
    root = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns(".*", "__pycache__", "notebooks", "browser")
    for name in ("residual_edu", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, root / name, ignore=left_out)
    shutil.copytree(ROOT / "tests" / "notebooks", root / "tests" / "notebooks", dirs_exist_ok=True)
    shutil.copytree(ROOT / "notebooks" / "source", root / "notebooks" / "source")
    for name in ("pyproject.toml", "course.py", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, root / name)
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    for name, (piece, line) in PIECES.items():
        announce(root / Path(name).parent / "__init__.py", name.removesuffix(".py").replace("/", "."), piece, line)
    return root


def announce(init, module, piece, line):
    """Write a piece's import, its name in ``__all__`` and ``line`` into ``init``, as CONTRIBUTING says."""
    text = init.read_text(encoding="utf-8").replace(
        "from residual_edu.", f"from {module} import {piece}\nfrom residual_edu.", 1
    )
    head, names, rest = re.split(r"(?<=__all__ = \[\n)(.*?)(?=^\])", text, maxsplit=1, flags=re.M | re.S)
    names = "".join(sorted([*names.splitlines(keepends=True), f'    "{piece}",\n']))
    init.write_text(head.replace("__all__ = ", f"{line}\n__all__ = ") + names + rest, encoding="utf-8")
    run(init.parent, "ruff", "check", "--fix", "--select", "I", init)  # puts the import into its place


def run(folder, *command):
    environment = os.environ | {"PYTHONPATH": str(folder), "MYPYPATH": str(folder)}
    words = [sys.executable, "-m", *map(str, command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "residual_edu", "tests"],
        ["ruff", "format", "--check", "residual_edu", "tests"],
        ["mypy", *PIECES],
        ["pytest", "-q", "-p", "no:cacheprovider", *(name for name in FILES if name.startswith("tests/"))],
        ["pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *RULES],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_nothing_refuses_them(copy, command):
    run(copy, *command)
