"""Right and wrong answers to `costs_more_from` of the homework of lessons 08c and 09."""

import bisect


def in_strides(one, other, limit):
    for top in range(1000, limit + 1000, 1000):
        if one.flop_count(min(top, limit)) > other.flop_count(min(top, limit)):
            return next(n for n in range(top - 999, top + 1) if one.flop_count(n) > other.flop_count(n))
    return None


def first_where(one, other, limit, above):
    return next((n for n in range(1, limit + 1) if above(one.flop_count(n), other.flop_count(n))), None)


def not_cheaper(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a >= b)


def one_by_one(one, other, limit):
    return first_where(one, other, limit, lambda a, b: a > b)


def in_powers_of_two(one, other, limit):
    lengths = [2**n for n in range(limit.bit_length())]
    return next((n for n in lengths if one.flop_count(n) > other.flop_count(n)), None)


def without_the_limit(one, other, limit):
    return next((n for n in range(1, limit) if one.flop_count(n) > other.flop_count(n)), None)


def halved_below_the_limit(one, other, limit):
    low, high = 1, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if one.flop_count(middle) > other.flop_count(middle) else (middle + 1, high)
    return low if low < limit else None


def bit_by_bit(one, other, limit):
    cheap = 0
    for bit in reversed(range(limit.bit_length())):
        n = cheap + 2**bit
        cheap = n if n <= limit and one.flop_count(n) <= other.flop_count(n) else cheap
    return cheap + 1 if cheap < limit else None


def with_bisect(one, other, limit):
    found = bisect.bisect_left(range(1, limit + 1), True, key=lambda n: one.flop_count(n) > other.flop_count(n))
    return found + 1 if found < limit else None


def recursive(one, other, limit, low=1):
    if low > limit:
        return None
    middle = (low + limit) // 2
    if one.flop_count(middle) <= other.flop_count(middle):
        return recursive(one, other, limit, middle + 1)
    return recursive(one, other, middle - 1, low) or middle


WRONG = {
    "costs_more_from": [
        not_cheaper,
        one_by_one,
        in_powers_of_two,
        without_the_limit,
        halved_below_the_limit,
        in_strides,
        lambda one, other, limit: 1 if one.flop_count(1) > other.flop_count(1) else None,
        lambda one, other, limit: limit if one.flop_count(limit) > other.flop_count(limit) else None,
    ],
}


RIGHT = {
    "costs_more_from": [with_bisect, bit_by_bit, recursive],
}
