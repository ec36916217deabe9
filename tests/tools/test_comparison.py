"""The stored outputs of notebooks are compared with tolerance for rounding and for nothing else.

But for the cells of a training: there the numbers are free, and nothing else is.
"""

from tools.comparison import same, same_but_for_numbers

SAME = [
    ("loss 0.1235", "loss 0.1236"),
    ("1234.5", "1235.5"),  # a thousandth of its size
    ("1.2345e+03", "1.2346e+03"),
    ("2.5e-08", "3.1e-08"),  # both are nothing, beside 2e-3
    ("tensor([-0.0000, 1.0000])", "tensor([0.0000, 1.0000])"),
    ("tensor([1., 2.])", "tensor([1.0000, 2.0001])"),
    ("tensor([nan, inf, 0.5])", "tensor([nan, inf, 0.5])"),
    ("a  b\n0.5   c", "a b\n0.5 c"),  # the amount of space
]
DIFFERENT = [
    ("loss 0.1235", "loss 0.1435"),
    ("0.5", "-0.5"),
    ("1.2345e+03", "1.2345e+04"),
    ("100000 steps", "100001 steps"),
    ("97%", "98%"),
    ("We count 100000.", "We count 100001."),  # the whole number that ends a sentence
    ("tensor([10000.])", "tensor([10001.])"),
    ("torch 2.13.0", "torch 2.13.1"),
    ("x1.5", "x1.5001"),  # a name
    ("tensor([nan, 0.5])", "tensor([0.5, nan])"),
    ("2", "2.0"),
    ("0.5", "0.5 0.5"),
    ("one\ntwo\nthree", "one\nthree"),
    ("one\ntwo", "one two"),
    ("holds", "Holds"),
    ("onetwo", "one two"),
]
FREE = [
    ("loss 0.1235", "loss -1.2e-05"),
    ("97%, 0.5x", "8%, 11.25x"),
    ("bytes: 16,384", "bytes: 912"),
    ("We count 3.", "We count 3.5."),
    ("tensor([1., 2.])", "tensor([-1.1000,  2.2000])"),
    ("a  b\n0.5   c", "a b\n7 c"),
]
BOUND = [
    ("loss 0.1235", "the loss 0.1235"),
    ("loss 0.1235", "loss nan"),
    ("loss inf", "loss 7.5"),
    ("0.5", "0.5 0.5"),
    ("[11]", "[3, 11]"),
    ("one\n0.5", "one 0.5"),
    ("x1 0.5", "x2 0.5"),  # a name
    ("better", "worse"),
]


def both(compare, pairs):
    """What the comparison says of each pair, whichever of the two is stored."""
    return {pair: (compare(*pair), compare(*pair[::-1])) for pair in pairs}


def test_rounding_is_tolerated_and_nothing_else_is():
    assert both(same, SAME) == dict.fromkeys(SAME, (True, True))
    assert both(same, DIFFERENT + FREE) == dict.fromkeys(DIFFERENT + FREE, (False, False))


def test_what_a_training_gave_may_have_other_numbers_and_neither_other_words_nor_more_or_fewer():
    assert both(same_but_for_numbers, FREE) == dict.fromkeys(FREE, (True, True))
    assert both(same_but_for_numbers, BOUND) == dict.fromkeys(BOUND, (False, False))
