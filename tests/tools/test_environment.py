"""pyproject.toml, environment.yml and constraints.txt ask for the same things."""

import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib", "playwright-python": "playwright"}


def asked(*more):
    """Name and bounds of what pip installs: the package's dependencies, its extras lab and test, and ``more``."""
    lines = [*PROJECT["dependencies"], *(line for name in ("lab", "test", *more) for line in EXTRAS[name])]
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one.specifier for one in found if one.name != PROJECT["name"]}


def conda():
    """The same of environment.yml, by pyproject.toml's names; conda writes 0.11.* where pip writes ==0.11.*."""
    pairs = [line.split(maxsplit=1) for line in CONDA["dependencies"] if isinstance(line, str) and " " in line]
    exact = {name: bounds if bounds[0] in "<>=" else f"=={bounds}" for name, bounds in pairs}
    return {CONDA_NAMES.get(name, name): SpecifierSet(bounds) for name, bounds in exact.items()}


def pinned():
    """The requirements of constraints.txt by name."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    return {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines if line}


def test_conda_asks_for_the_same_names_and_bounds():
    assert conda() == {"python": SpecifierSet(PROJECT["requires-python"]), **asked()}


def test_every_direct_dependency_is_pinned():
    assert set(asked("book", "peers", "hub")) <= set(pinned())


@pytest.mark.parametrize("requirement", pinned().values(), ids=str)
def test_a_pin_is_one_public_version_within_the_bounds(requirement):
    (pin,) = requirement.specifier
    assert pin.operator == "=="
    assert "+" not in pin.version  # a local build such as +cpu exists on one platform only
    assert "*" not in pin.version
    assert asked("book", "peers", "hub").get(canonicalize_name(requirement.name), SpecifierSet()).contains(pin.version)
