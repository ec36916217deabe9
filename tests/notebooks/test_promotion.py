"""Every public class of these rooms is built in exactly one lesson, from where it was promoted."""

import importlib
import inspect
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from residual_edu.course.promote import pieces

ROOMS = [name for name in ("parts", "mixers", "blocks", "gradient_flow") if find_spec(f"residual_edu.{name}")]


def public_classes(room):
    module = importlib.import_module(f"residual_edu.{room}")
    classes = {getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))}
    return sorted(f"{room}.{one.__name__}" for one in classes)  # a class with two names once


@pytest.fixture(scope="module")
def promoted():
    found = pieces(Path(__file__).parents[2])
    return Counter(f"{piece.module.parent.name}.{piece.definition.name}" for piece in found)


@pytest.mark.parametrize("name", [name for room in ROOMS for name in public_classes(room)])
def test_a_public_class_is_promoted_by_one_lesson(name, promoted):
    assert promoted[name] == 1, f"{name} is promoted by {promoted[name]} lessons"
