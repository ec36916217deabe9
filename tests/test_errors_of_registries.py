import pytest

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


def refuses(message, check, *arguments):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        check(*arguments)


def test_faults_are_listed_together():
    def bad(text):
        raise InvalidInput(text)

    errors.check_together("X", [lambda: None])
    refuses("X has a fault:\n  one", errors.check_together, "X", [lambda: bad("one"), lambda: None])
    both = [lambda: bad("one"), lambda: None, lambda: bad("two")]
    refuses("X has 2 faults:\n  one\n  two", errors.check_together, "X", both)
    with pytest.raises(ZeroDivisionError):  # what is no fault of the input is not hidden
        errors.check_together("X", [lambda: 1 / 0])


def test_names():
    errors.check_known("norm", "b", ["a", "b"])
    refuses(r"norm has no key 'c'\. Available: \[a, b\]\.", errors.check_known, "norm", "c", ["a", "b"])
    refuses(r"norm has no key \['a'\]\. Available: \[a\]\.", errors.check_known, "norm", ["a"], ["a"])
    errors.check_key_free("norm", "b", {"a": int}, float)
    refuses("norm already has key 'a', int; choose .*", errors.check_key_free, "norm", "a", {"a": int}, float)


def test_numbers_next_to_each_other():
    errors.check_divides("a", 3, "b", 12)
    refuses("a must divide b, got a=5 and b=12", errors.check_divides, "a", 5, "b", 12)
    errors.check_at_most("a", 3, "b", 3)
    refuses("a must be at most b, got a=4 and b=3", errors.check_at_most, "a", 4, "b", 3)
    errors.check_even("a", 4, "pairs")
    refuses("a must be even for pairs, got 3", errors.check_even, "a", 3, "pairs")
    for check, *rest in [(errors.check_divides, "b", 4), (errors.check_at_most, "b", 4), (errors.check_even, "pairs")]:
        for no_size in ("3", None, 2.5):  # said by check_size
            check("a", no_size, *rest)
    errors.check_divides("a", 0, "b", 4)


def test_single_values():
    errors.check_flag("bias", True)
    refuses("bias must be True or False, got 0", errors.check_flag, "bias", 0)
    errors.check_needed("w", 0, "x")
    refuses("w must be given for x, got None", errors.check_needed, "w", None, "x")
    errors.check_config("c", InvalidInput("x"), InvalidInput)
    refuses("c must be a InvalidInput, got 3", errors.check_config, "c", 3, InvalidInput)
    errors.check_count("v", [1, 2], "n", 2)
    refuses("v must be one for each of n=2, got 1", errors.check_count, "v", [1], "n", 2)
