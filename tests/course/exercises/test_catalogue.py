from residual_course.checking.catalogue import catalogue
from residual_course.checking.exercise import Exercise


def test_every_entry_is_an_exercise_with_a_name_that_can_be_typed():
    assert catalogue()
    for name, exercise in catalogue().items():
        assert name.isidentifier() and name.islower() and isinstance(exercise, Exercise)


def test_it_is_read_once():
    assert catalogue() is catalogue()
