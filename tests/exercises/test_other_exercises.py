"""A known mistake of one exercise, handed to the check of another, is not given a name that it does not deserve."""

from inspect import Parameter, signature
from pathlib import Path

import pytest

from residual_edu.course.turns import share, turn
from residual_edu.exercises.catalogue import catalogue
from residual_edu.exercises.guard import Guard
from residual_edu.exercises.observation import diagnosis, failures

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("as_installed")]

# What a mistake is elsewhere, by hand, where that is another name than its own; "?" stands for "may be".
NAMES = {  # (its exercise, the other one, the mistake)
    ("residual_forward", "post_norm_forward", "a branch without its norm"): "a connection without its norm",
    ("post_norm_forward", "residual_forward", "a connection without its norm"): "a branch without its norm",
    ("residual_forward", "post_norm_forward", "post-norm, the other order"): "right",
    ("post_norm_forward", "residual_forward", "pre-norm, the order of the exercise before"): "right",
    # 0 for each group is what a network without dead parts gives
    ("input_gradient_sum", "wake_up_steps", "post-norm's answer"): (
        "a network whose groups all have a gradient from the same step on?"
    ),
    ("rms_norm", "layer_scale", "a gain that begins at 0, which silences the layer"): (
        "gates that start at 0, whatever was asked?"
    ),
}
LOST = "a network of the right sizes in which most of the difference between digits is lost"
NAMES["mended_network", "repaired_network", "the network as it was handed over"] = LOST
NAMES["mended_network", "repaired_network", "a network that learns, but slowly"] = "right"  # at three times the rate
NAMES["mended_network", "repaired_network", "a network that learns, and whose stream grows"] = (
    "right"  # it may grow there
)
# the camera's networks have no dropout, and learn wrong labels by heart
NAMES["mended_camera", "mended_dropout", "a network that reads none of the camera's images"] = (
    "a network that still memorises most of the wrong labels"
)
for mistake in (
    "a mend for the bright images alone",
    "a network that was trained on other numbers than it is given afterwards",
):
    NAMES["mended_camera", "mended_dropout", mistake] = "a network that nothing keeps from memorising"
# it returns nothing, and that is what the name says
NAMES["mended_biases", "depth_to_find", "blocks as they were"] = "a search that never returns a depth?"
EACH = {
    ("mended_camera", "the outputs in the place of the network?"),  # true of every answer that returns a tensor
    ("mended_biases", "blocks as they were"),  # true of every answer that changes no bias
    ("mended_blocks", "blocks as they were?"),  # true of every answer that changes no parameter
}


def kind(answer):
    """Return what decides whether an answer can be called by a check: a class, or the number of its inputs."""
    if isinstance(answer, type):
        return "class"
    inputs = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in inputs and one.default is one.empty for one in signature(answer).parameters.values())


def named(exercise, answer):
    """Return the name that a check gives to an answer, with a "?" if it is not sure; "right" if it passes."""
    failed = failures(exercise, answer)
    if not failed:
        return "right"
    found = diagnosis(exercise, Guard(answer, exercise.effort).call(exercise.observe), failed)
    return found and found[0].looks_like + ("" if found[1] else "?")


# All pairs take five minutes: a third of the exercises at each commit.
@pytest.mark.parametrize("name", share(list(catalogue()), 3, turn(Path(__file__).parents[2])))
def test_no_mistake_of_another_exercise_of_the_same_kind_gets_a_wrong_name(name):
    exercise = catalogue()[name]
    found = {}
    for other, there in catalogue().items():
        if other != name and kind(there.reference) == kind(exercise.reference):
            for mistake in there.mistakes:
                if isinstance(mistake.wrong, type) and not isinstance(exercise.reference, type):
                    continue  # a network for 65,536 tokens, where the cost of 65,536 tokens is asked, has 17 GB
                given = named(exercise, mistake.wrong)
                if given and given.rstrip("?") != mistake.looks_like and (name, given) not in EACH:
                    found[other, name, mistake.looks_like] = given
    assert found == {key: value for key, value in NAMES.items() if key[1] == name}
