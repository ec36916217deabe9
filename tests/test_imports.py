"""Who imports whom: a room imports only from rooms before it, and nothing heavy comes along unasked."""

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import residual_edu

PACKAGE = Path(residual_edu.__file__).parent
ROOT = PACKAGE.parent
BELOW = ["invalid_input", "errors", "values", "calls", "lazy", "checked"]  # what every room may use
TOP = [*BELOW, "config", "parts", "mixers", "blocks", "configurable", "networks"]  # what `import residual_edu` gives
ROOMS = [*TOP, "datasets", "training", "gradient_flow", "plotting", "contents", "progress"]
ROOMS += ["explorers", "exercises", "summary", "lesson", "course"]
ALONE = {  # what these rooms import besides the standard library: third-party packages, and rooms of this one
    "gradient_flow": ({"torch"}, {*BELOW, "gradient_flow"}),
    "plotting": ({"numpy", "matplotlib", "PIL"}, {"plotting"}),
}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
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
    """The room of a module of the package; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def own(module):
    return {name for name in imports(module) if name.split(".")[0] == "residual_edu"}


def others(module):
    """What ``module`` imports from outside the package and the standard library."""
    return {name.split(".")[0] for name in imports(module)} - {"residual_edu"} - sys.stdlib_module_names


def test_every_room_is_in_the_list():
    assert {room(module) for module in MODULES} - {None} <= set(ROOMS)


def test_a_room_imports_only_from_rooms_before_it():
    for module in MODULES:
        here = room(module)
        before = TOP if here is None else ROOMS[: ROOMS.index(here) + 1]
        assert {room(name) for name in own(module)} <= set(before), module


def test_no_module_imports_itself_through_others():
    list(TopologicalSorter({module: own(module) for module in MODULES}).static_order())  # raises CycleError


@pytest.mark.parametrize("here", ALONE)
def test_rooms_that_stand_alone(here):
    modules = [module for module in MODULES if room(module) == here]
    packages, rooms = ALONE[here]
    assert set().union(*map(others, modules)) <= packages
    assert {room(name) for module in modules for name in own(module)} <= rooms


def test_only_explorers_know_widgets():
    assert {room(module) for module in MODULES if "ipywidgets" in others(module)} == {"explorers"}


def loaded(code):
    """The modules that a fresh Python holds after ``code``."""
    printed = subprocess.check_output([sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"], text=True)
    return set(printed.split())


def test_importing_the_library_is_light():
    """Torch, NumPy and jaxtyping alone: no room for lessons, and nothing of an exercise."""
    names = loaded("import residual_edu")
    assert not {"matplotlib", "ipywidgets", "IPython", "sklearn", "rich", "nbformat", "filelock"} & names
    assert {room(name) for name in names if name.startswith("residual_edu")} - {None} <= set(TOP)


def test_solutions_hints_and_mistakes_are_imported_by_the_first_check_alone():
    solutions = {name for name, tree in TREES.items() if room(name) == "exercises" and "EXERCISES" in assigned(tree)}
    assert len(solutions) > 30
    assert not [name for name in MODULES if room(name) != "exercises" and own(name) & solutions]
    code = "import residual_edu.lesson; from residual_edu.exercises import attempt, check"
    assert not solutions & loaded(code)
    assert solutions <= loaded(f"{code}; from residual_edu.exercises.check import find; find('rms_norm')")


def assigned(tree):
    """The names that a module's own statements assign."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("here", ["parts", "mixers", "blocks", "networks"])
def test_the_package_gives_what_its_rooms_give(here):
    given = importlib.import_module(f"residual_edu.{here}")
    assert all(getattr(residual_edu, name) is getattr(given, name) for name in given.__all__)
    assert set(given.__all__) <= set(residual_edu.__all__)


def test_all_is_sorted_and_exists():
    for name in MODULES:
        apart = name.endswith("__main__") or {"nbgrader", "sphinx"} & others(name)  # which not everybody has
        module = None if apart else importlib.import_module(name)
        names = getattr(module, "__all__", [])
        assert names == sorted(names), name
        assert not [one for one in names if not hasattr(module, one)], name


def test_no_assert_statement():
    found = [(name, node.lineno) for name in MODULES for node in ast.walk(TREES[name]) if isinstance(node, ast.Assert)]
    assert not found


def test_no_file_is_long():
    files = [ROOT / "course.py", *MODULES.values(), *(ROOT / "tests").rglob("*.py")]
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {path: length for path, length in lengths.items() if length > 250} == {}
