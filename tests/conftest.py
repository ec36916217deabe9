"""Shapes in signatures are checked while the tests run, except where a test asks for the code ``as_installed``."""

import os
import sys
from functools import cache, partial
from inspect import getclosurevars, isclass
from types import FunctionType

os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by every kernel; more threads are slower on lesson-sized work

import jaxtyping

jaxtyping.install_import_hook("residual_edu", "beartype.beartype")

import pytest
import torch

torch.set_num_threads(1)
WRAPPERS = jaxtyping._decorator.__file__  # the file in which the hook's wrappers are written


def without_hook(value):
    """Return the function, property or method that the hook wrapped, or ``value`` itself where it wrapped none."""
    if isinstance(value, FunctionType) and value.__code__.co_filename == WRAPPERS:
        inner = getclosurevars(value).nonlocals["fn"]
        return inner if inner is value.__wrapped__ else value  # not where a decorator, @checked say, is over the hook
    if isinstance(value, property) and without_hook(value.fget) is not value.fget:
        return property(without_hook(value.fget))
    if isinstance(value, staticmethod) and without_hook(value.__func__) is not value.__func__:
        return staticmethod(without_hook(value.__func__))
    return value


@cache
def hooked(modules):
    """Return what the hook wrapped in these modules and in their classes: owner, name, wrapped, without the hook."""
    owners = [sys.modules[name] for name in modules]
    owners += [one for module in owners for one in vars(module).values() if isclass(one) and one.__module__ in modules]
    named = [(owner, name, value) for owner in dict.fromkeys(owners) for name, value in vars(owner).items()]
    return [(*each, plain) for each in named if (plain := without_hook(each[2])) is not each[2]]


@pytest.fixture
def as_installed(monkeypatch):
    """The library as its users have it: no shape is checked, and ``torch.compile`` meets no wrapper of the hook."""
    unhook(monkeypatch)


@pytest.fixture(scope="module")
def all_as_installed():
    """The same for all tests of a file, once: it takes longer than most of them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        unhook(monkeypatch)
        yield


def unhook(monkeypatch):
    """Put what the hook wrapped in place of its wrappers, for as long as ``monkeypatch`` lasts."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a reference in a test or a table stays wrapped
    monkeypatch.setattr(jaxtyping, "jaxtyped", lambda typechecker: lambda function: function)  # as a function runs
    imported = frozenset(name for name in sys.modules if name.split(".")[0] == "residual_edu")
    for owner, name, wrapped, plain in hooked(imported):
        if vars(owner)[name] is wrapped:  # and not what another fixture put there
            monkeypatch.setattr(owner, name, plain)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items):
    """Two workers share the tests by file, those with slow ones first, so that neither ends long before the other.

    One takes all of grading, which looks for processes that it left behind.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            whole = item.path.parent if item.path.parent.name == "grading" else item.path
            item.add_marker(pytest.mark.xdist_group("/".join(whole.parts[-2:])))
    slow = {group(item) for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: group(item) not in slow)


def group(item):
    """Return the group of tests that one worker takes whole."""
    return item.get_closest_marker("xdist_group").args[0]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def compiled(as_installed):
    """``torch.compile`` into one graph, forgetting what earlier tests compiled, which counts against its limit."""
    torch.compiler.reset()
    return partial(torch.compile, fullgraph=True, backend="eager")
