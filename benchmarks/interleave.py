"""Timing on a noisy machine: what is compared runs in turn, each way between two runs of its base.

Processor time of one process, one thread. Each round gives a ratio of its own, (B + B) / (A + A) from the order
A B B A, so that a slow minute weighs on both sides; the table shows the median of the ratios and their quartiles. The
last column compares the fastest run of each: what is left when the neighbours are quiet.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

Key = TypeVar("Key")  # how a way is called
Way = Callable[[], AbstractContextManager[object]]
Round = tuple[float, float, float, float]  # seconds: base, way, way, base


def timed(step: Callable[[], object], context: AbstractContextManager[object]) -> float:
    """Return the processor seconds of one ``step`` inside ``context``; its closing is counted, its opening is not."""
    with context:
        start = time.process_time()
        step()
    return time.process_time() - start


def interleave(step: Callable[[], object], base: Way, ways: Mapping[str, Way], rounds: int) -> dict[str, list[Round]]:
    """Return the times of ``rounds`` rounds for each way, all ways in turn."""
    times: dict[str, list[Round]] = {name: [] for name in ways}
    for nth in range(-1, rounds):  # the first round warms up
        gc.collect()
        for name, way in ways.items():
            a, b, c, d = (timed(step, make()) for make in (base, way, way, base))
            if nth >= 0:
                times[name].append((a, b, c, d))
    return times


def summary(times: list[Round]) -> list[float]:
    """Return the median ratio of way to base, the quartiles, and the ratio of the fastest runs, as per cent above 1."""
    low, median, high = statistics.quantiles([(b + c) / (a + d) for a, b, c, d in times], n=4)
    fastest = min(min(b, c) for _, b, c, _ in times) / min(min(a, d) for a, _, _, d in times)
    return [100 * (ratio - 1) for ratio in (median, low, high, fastest)]


def print_table(times: Mapping[str, list[Round]]) -> None:
    """Print what each way costs, one line a way."""
    print(f"{'per cent above a bare step':34}{'median':>8}{'quartiles':>18}{'fastest':>10}")
    for name, rounds in times.items():
        median, low, high, fastest = summary(rounds)
        print(f"{name:34}{median:+8.1f}{f'{low:+.1f} to {high:+.1f}':>18}{fastest:+10.1f}", flush=True)


def in_turn(ways: Mapping[Key, Callable[[], object]], rounds: int, repeats: int = 1) -> dict[Key, list[float]]:
    """Return the processor seconds of a call of each way, once a round: all in turn, every other round backwards."""
    times: dict[Key, list[float]] = {name: [] for name in ways}
    for nth in range(-1, rounds):  # the first round warms up
        gc.collect()
        for name in list(ways)[:: 1 if nth % 2 else -1]:
            if repeats > 1:
                ways[name]()  # so that what ran before it, and how much memory that took, does not weigh on it
            taken = seconds(ways[name], repeats)
            if nth >= 0:
                times[name].append(taken / repeats)
    return times


def seconds(way: Callable[[], object], repeats: int) -> float:
    """Return the processor seconds of ``repeats`` calls."""
    start = time.process_time()
    for _ in range(repeats):
        way()
    return time.process_time() - start


def in_pairs(one: Callable[[], object], other: Callable[[], object], rounds: int, repeats: int = 1) -> list[float]:
    """Return what ``one`` took of the time of ``other``, once a round: A B B A, each of the two inside by turns.

    The one inside finds itself in the caches, which makes it up to a per cent faster.
    """
    ratios = []
    for nth in range(-2, rounds):  # the first two warm up
        outside, inside = (one, other) if nth % 2 else (other, one)
        a, b, c, d = (seconds(way, repeats) for way in (outside, inside, inside, outside))
        ratios.append((a + d) / (b + c) if nth % 2 else (b + c) / (a + d))
    return ratios[2:]


def ratio(times: Mapping[Key, list[float]], way: Key, base: Key) -> float:
    """Return the median over the rounds of what ``way`` took in one, to what ``base`` took in the same."""
    return statistics.median(a / b for a, b in zip(times[way], times[base], strict=True))
