"""Who imports whom: a room imports only from rooms before it, and nothing heavy comes along unasked."""

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import residual_edu
from residual_course.checking.check import find

ROOT = Path(__file__).parents[2]
LIBRARY = ["errors", "config", "parts", "mixers", "blocks", "configurable", "networks", "gradient_flow"]
COURSE = "newer data datasets training plots contents companion progress explorers checking exercises summary lesson"
ROOMS = [*COURSE.split(), "commands"]
ORDER = [f"residual_edu.{room}" for room in LIBRARY] + [f"residual_course.{room}" for room in ROOMS] + ["tools"]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("residual_edu", "residual_course", "tools")
    for path in sorted((ROOT / package).rglob("*.py"))
}
OURS = {"residual_edu", "residual_course", "tools"}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports(module):
    """Every module that ``module`` imports, inside functions too; ``from a import b`` gives a.b if that is a module."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {name if name in MODULES else node.module for name in inner}


def room(module):
    """The place of a module in the order; a package that only gathers its rooms stands behind them."""
    if module in ("residual_edu", "residual_course"):
        return max(at for at, name in enumerate(ORDER) if name.startswith(module)) if module == "residual_edu" else -1
    return ORDER.index("tools" if module.startswith("tools") else ".".join(module.split(".")[:2]))


def own(module):
    return {name for name in imports(module) if name.split(".")[0] in OURS}


def others(module):
    """What ``module`` imports from outside of the project and the standard library."""
    return {name.split(".")[0] for name in imports(module)} - OURS - sys.stdlib_module_names


def test_a_room_imports_only_from_rooms_before_it():
    apart = {"residual_course.__main__"}
    wrong = [(m, name) for m in MODULES.keys() - apart for name in own(m) if room(name) > room(m)]
    assert [pair for pair in wrong if pair[0] not in ("residual_edu", "residual_course")] == []


def test_no_module_imports_itself_through_others():
    list(TopologicalSorter({module: own(module) for module in MODULES}).static_order())  # raises CycleError


def test_the_library_imports_torch_numpy_and_jaxtyping_alone():
    modules = [name for name in MODULES if name.split(".")[0] == "residual_edu"]
    assert set().union(*map(others, modules)) <= {"torch", "numpy", "jaxtyping", "typing_extensions"}
    assert not [name for module in modules for name in own(module) if name.split(".")[0] != "residual_edu"]


def test_solutions_hints_and_mistakes_are_imported_by_the_first_check_alone():
    solutions = {name for name in MODULES if ".exercises." in name and "EXERCISES" in assigned(TREES[name])}
    assert len(solutions) > 30
    assert not [name for name in MODULES if ".exercises" not in name and own(name) & solutions]
    code = "import sys, residual_course.lesson; from residual_course.exercises import check; print(*sys.modules)"
    assert not solutions & set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert find("drop_path") and solutions <= sys.modules.keys()


def assigned(tree):
    """The names that a module's own statements assign."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("here", [room for room in LIBRARY if room not in ("errors", "config")])
def test_the_package_gives_what_its_rooms_give(here):
    given = importlib.import_module(f"residual_edu.{here}")
    assert all(getattr(residual_edu, name) is getattr(given, name) for name in given.__all__)
    assert set(given.__all__) <= set(residual_edu.__all__)
