"""Right and wrong answers to `costs_more_from` of the homework of lessons 08c and 09."""

import bisect


def first_where(one, other, limit, above):
    return next((n for n in range(1, limit + 1) if above(one.flop_count(n), other.flop_count(n))), None)


def not_cheaper(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a >= b)


def one_by_one(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a > b)


def in_powers_of_two(one, other, limit):
    lengths = [2**n for n in range(limit.bit_length())]
    return next((n for n in lengths if one.flop_count(n) > other.flop_count(n)), None)


def halved_below_the_limit(one, other, limit):
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if one.flop_count(middle) > other.flop_count(middle) else (middle + 1, high)
    return low if low < limit else None


def with_bisect(one, other, limit):
    found = bisect.bisect_left(range(1, limit + 1), True, key=lambda n: one.flop_count(n) > other.flop_count(n))
    return found + 1 if found < limit else None


WRONG = {
    "costs_more_from": [not_cheaper, one_by_one, in_powers_of_two, halved_below_the_limit],
}


RIGHT = {
    "costs_more_from": [with_bisect],
}
