"""Old names: each is refused with the new one, which exists, and what works with names goes on as before."""

import copy
import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
from matplotlib.figure import Figure
from torch import nn

import residual_edu
from residual_edu import InvalidInput, Modulation, config, parts, renamed
from residual_edu.exercises import check
from residual_edu.exercises.catalogue import catalogue
from residual_edu.gradient_flow import GradientFlowRecorder
from residual_edu.plotting.attention import plot_scores_by_distance
from residual_edu.plotting.residual_block import plot_branch_shares
from residual_edu.renamed import OF_EXERCISES, RENAMED

EXERCISES = RENAMED[OF_EXERCISES]
NAMES = [(place, old, new) for place, table in RENAMED.items() if ":" not in place for old, new in table.items()]
INSTANCES = {
    "residual_edu.parts.adaln_zero:Modulation": Modulation(1, 2, 3),
    "residual_edu.gradient_flow.recorder:GradientFlowRecorder": GradientFlowRecorder(m := nn.Sequential(nn.ReLU()), m),
}
ATTRIBUTES = [(place, old, new) for place in INSTANCES for old, new in RENAMED[place].items()]
KEYWORDS = {
    "residual_edu.plotting.attention:plot_scores_by_distance": lambda ax, **ink: plot_scores_by_distance(
        np.zeros((2, 2)), ax, **ink
    ),
    "residual_edu.plotting.residual_block:plot_branch_shares": lambda ax, **ink: plot_branch_shares(
        np.ones((1, 2)), ["f"], ax, **ink
    ),
}


@pytest.fixture(scope="module", autouse=True)
def without_the_tests_own_hook():
    """The shape checks of a test run wrap every function, and a wrapper would stand between a caller and its module."""
    plain = inspect.unwrap(renamed.refuse_in_module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renamed, "refuse_in_module", plain)
        renamed.refuse_old_names("residual_edu")
        yield


def sentence(old, new):
    return re.escape(f"{old} is called {new} since version 0.2.0") + "$"


def test_the_table_holds_nothing_else():
    assert {place for place in RENAMED if ":" in place} == {*INSTANCES, *KEYWORDS, OF_EXERCISES}


@pytest.mark.parametrize(("module", "old", "new"), NAMES)
def test_an_old_name_of_a_module_is_refused_with_the_new_one(module, old, new):
    home = import_module(module)
    assert hasattr(home, new) and not hasattr(home, old) and getattr(home, old, None) is None
    with pytest.raises(AttributeError, match=sentence(f"{module}.{old}", new)):
        getattr(home, old)
    with pytest.raises(ImportError, match=sentence(f"{module}.{old}", new)):
        exec(f"from {module} import {old}")


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("residual_edu", "rotary_waves", "residual_edu.parts.position.rotary_cos_sin"),
        ("residual_edu", "through", "residual_edu.parts.residual.apply_gates"),
        ("residual_edu.parts", "through", "residual_edu.parts.residual.apply_gates"),
        ("residual_edu.mixers", "circle_size", "residual_edu.mixers.long_convolution.fft_size"),
        ("residual_edu.configurable", "LATER", "residual_edu.configurable.registry.MISSING"),
        ("residual_edu.explorers", "few", "residual_edu.explorers.explorer.choice_buttons"),
    ],
)
def test_a_package_refuses_the_old_names_of_its_modules(package, old, new):
    resolve_name(new)
    with pytest.raises(ImportError, match=sentence(f"{package}.{old}", new)):
        exec(f"from {package} import {old}")
    with pytest.raises(AttributeError, match=sentence(f"{package}.{old}", new)):
        getattr(import_module(package), old)


@pytest.mark.parametrize(("place", "old", "new"), ATTRIBUTES)
def test_an_old_attribute_is_refused_with_the_new_one(place, old, new):
    instance = INSTANCES[place]
    assert hasattr(type(instance), new) and not hasattr(instance, old)
    with pytest.raises(AttributeError, match=sentence(f"{type(instance).__name__}.{old}", new)):
        getattr(instance, old)


@pytest.mark.parametrize("place", KEYWORDS)
def test_an_old_keyword_is_refused_with_the_new_one(place):
    ((old, new),) = RENAMED[place].items()
    ax, draw = Figure().add_subplot(), KEYWORDS[place]
    assert draw(ax, **{new: "red"}) is ax and new in inspect.signature(resolve_name(place)).parameters
    with pytest.raises(TypeError, match=sentence(f"the argument {old} of {place.partition(':')[2]}", new)):
        draw(ax, **{old: "red"})


@pytest.mark.parametrize("old", EXERCISES)
def test_an_old_name_of_an_exercise_is_refused_with_the_new_one(as_installed, old):
    assert EXERCISES[old] in catalogue() and old not in catalogue()
    with pytest.raises(InvalidInput, match="^" + sentence(f"the exercise {old!r}", repr(EXERCISES[old]))):
        check(len, old)


def test_a_name_that_never_was_is_refused_in_pythons_own_words():
    with pytest.raises(ImportError, match="^cannot import name 'trough' from 'residual_edu.parts' "):
        exec("from residual_edu.parts import trough")
    with pytest.raises(AttributeError, match="^module 'residual_edu.parts' has no attribute 'trough'$") as refusal:
        parts.trough  # noqa: B018
    assert (refusal.value.name, refusal.value.obj) == ("trough", parts)  # from which Python guesses what was meant
    with pytest.raises(AttributeError, match="^'Modulation' object has no attribute 'gates'$") as refusal:
        Modulation(1, 2, 3).gates  # noqa: B018
    assert refusal.value.name == "gates"


def test_old_names_do_not_show_and_tools_that_read_names_work():
    assert not {"rotary_waves", "through"} & {*dir(parts), *dir(residual_edu), *dict(inspect.getmembers(parts))}
    assert not {"after", "open"} & {*dir(Modulation), *dir(Modulation(1, 2, 3))}
    scope = {}
    exec("from residual_edu import *", scope)
    assert {*residual_edu.__all__} <= scope.keys()


def named(mapping):
    """A function with an old name, which pickle looks for in every module since it does not say its own."""


def test_pickle_and_copies_work(monkeypatch):
    modulation = Modulation(1, 2, 3)
    assert pickle.loads(pickle.dumps(modulation)) == modulation == copy.deepcopy(modulation)
    assert pickle.loads(pickle.dumps(config.from_mapping)) is config.from_mapping
    monkeypatch.setattr(named, "__module__", None)
    assert pickle.whichmodule(named, "named") != "residual_edu.config"


def test_a_module_that_is_imported_first_refuses_too():
    code = "from residual_edu.parts.dropout import flip_coins"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("residual_edu.parts.dropout.flip_coins is called bernoulli_mask since version 0.2.0\n")


def test_the_changelog_has_the_table():
    text = (Path(residual_edu.__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = [line.strip(" |\n").split("|") for line in text.splitlines() if line.startswith("  | ") and "`" in line]
    words = [[re.findall(r"`\"?([\w.]+)", cell) for cell in row] for row in rows]
    pairs = {pair for _, old, new in words for pair in zip(old, new, strict=True)}
    assert pairs == {pair for table in RENAMED.values() for pair in table.items()}
