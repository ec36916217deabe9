"""Right and wrong answers to `beside` of the homework of lessons 08c and 09."""

import torch


def gaps(losses):
    lists = zip(losses[True, True], losses[True, False], losses[False, True], losses[False, False], strict=True)
    return [(both - a) - (b - neither) for both, a, b, neither in lists]


def told(numbers, least):
    if all(number > least for number in numbers):
        return "less"
    return "more" if all(number < -least for number in numbers) else "cannot tell"


def two_runs(losses, least):
    return told([both - a for both, a in zip(losses[True, True], losses[True, False], strict=True)], least)


def of_means(losses, least):
    return told([sum(gaps(losses)) / len(gaps(losses))], least)


def without_least(losses, least):
    return told(gaps(losses), 0.0)


def sorts_in_place(losses, least):
    for numbers in losses.values():
        numbers.reverse()
    return told(gaps(losses), least)


def a_beside_b(losses, least):
    return told(gaps({(b, a): numbers for (a, b), numbers in losses.items()}), least)


def with_tensors(losses, least):
    four = {pair: torch.tensor(numbers, dtype=torch.float64) for pair, numbers in losses.items()}
    gap = four[True, True] + four[False, False] - four[True, False] - four[False, True]
    if bool((gap > least).all()):
        return "less"
    return "more" if bool((gap < -least).all()) else "cannot tell"


WRONG = {
    "beside": [two_runs, of_means, without_least, sorts_in_place],
}


RIGHT = {
    "beside": [with_tensors, a_beside_b],
}
