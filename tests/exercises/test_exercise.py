import dataclasses

import pytest

from residual_edu.exercises import exercise, properties
from residual_edu.exercises.exercise import Exercise, Mistake, Property

PROPERTY = Property("it is 7", lambda f: None)
MISTAKE = Mistake(lambda: 8, "eight", "Subtract one.")
EXERCISE = Exercise(lambda: 7, lambda f: f(), (PROPERTY,), (MISTAKE,), ("A nudge.", "7."))


@pytest.mark.parametrize("declared", [PROPERTY, MISTAKE, EXERCISE])
def test_what_is_declared_does_not_change(declared):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(declared, dataclasses.fields(declared)[0].name, "another")


def test_one_import_brings_all_that_a_property_is_written_with():
    own = {name for name, value in vars(properties).items() if getattr(value, "__module__", "") == properties.__name__}
    public = {name for name in own if not name.startswith("_")}
    assert public | {"Exercise", "Mistake", "Property"} == set(exercise.__all__)
