"""The lessons that are not rewritten yet, and the rules that do not hold them until they are.

A lesson leaves the list when it is rewritten; the file goes with the last of them.
"""

from residual_edu.course.lint import form, length, predictions

NOT_REWRITTEN = {
    "10_configurable_block",
}
FOR_REWRITTEN = [
    *form.RULES,
    *predictions.SOURCE_RULES,
    *predictions.OUTPUT_RULES,
    *length.SOURCE_RULES,
    length.a_lab_is_enough,
    length.minutes_are_not_too_many,  # while their exercises state an author's minutes, not a reader's
    length.visible_code_is_short,
]
