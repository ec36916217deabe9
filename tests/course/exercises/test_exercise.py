import dataclasses

import pytest

from residual_course.checking import exercise, gradients, properties, unchanged, unmet
from residual_course.checking.exercise import Exercise, Mistake, Property

PROPERTY = Property("it is 7", lambda f: None)
MISTAKE = Mistake(lambda: 8, "eight", "Subtract one.")
EXERCISE = Exercise(lambda: 7, lambda f: f(), (PROPERTY,), (MISTAKE,), ("A nudge.", "7."))


@pytest.mark.parametrize("declared", [PROPERTY, MISTAKE, EXERCISE])
def test_what_is_declared_does_not_change(declared):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(declared, dataclasses.fields(declared)[0].name, "another")


def test_one_import_brings_what_a_property_is_written_with():
    for module, names in [
        (properties, {"close", "construct", "draw", "letters_of", "run", "value_of"}),
        (gradients, {"Part", "filled", "gradients", "same_gradients"}),
        (unchanged, {"unchanged"}),
        (unmet, {"Broken", "Unmet", "note"}),
    ]:
        assert names <= set(exercise.__all__)
        assert all(getattr(exercise, name) is getattr(module, name) for name in names)
