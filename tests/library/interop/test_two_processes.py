"""Two processes, each with half of a batch, train as one process with all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .two_processes import CASES, NETWORKS, PROCESSES, QUANTITIES, ROWS, STEPS, trained

pytestmark = pytest.mark.slow
HERE = Path(__file__)
ROOT = HERE.parents[3]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What the two processes found, by case."""
    out = tmp_path_factory.mktemp("processes")
    words = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(PROCESSES)]
    command = [sys.executable, "-m", *words, str(HERE.with_name("two_processes.py")), str(out)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [torch.load(out / f"{rank}.pt") for rank in range(PROCESSES)]
    return {case: [each[case] for each in found] for case in [*CASES, *NETWORKS]}


@pytest.fixture(scope="module")
def alone():
    """What one process finds with all of each batch, by network."""
    return {name: trained(name, "alone", slice(None)) for name in dict.fromkeys(case[0] for case in CASES)}


def close(found, expected, about):
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-12, equal_nan=True, msg=lambda text: f"{about}: {text}"
    )


def root_mean_square(sizes, counts):
    """Join the sizes that processes measured, each over so many numbers; a process without numbers has nan."""
    squares = sum(size.nan_to_num().square() * count for size, count in zip(sizes, counts, strict=True))
    return (squares / sum(counts)).sqrt()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_and_gradients_are_those_of_one_process(both, alone, case):
    for found in both[case]:
        for step, gradients in enumerate(alone[case[0]]["gradients"]):
            for name, gradient in gradients.items():
                close(found["gradients"][step][name], gradient, f"{name}, step {step}")
    sums = case[2]
    losses = [found["losses"].view(STEPS, sums).sum(1) for found in both[case]]
    close(sum(losses) / PROCESSES, alone[case[0]]["losses"], "losses")


@pytest.mark.parametrize("case", [case for case in CASES if case[2] == 1], ids=str)
def test_what_the_recorders_measured_joins_to_what_one_measures(both, alone, case):
    """Samples and shards are shared out, so root mean squares are joined; each loss is the mean of half the batch."""
    name, way, _ = case
    for quantity in QUANTITIES[:-1]:
        joined = root_mean_square([found["sizes"][quantity] for found in both[case]], [ROWS] * PROCESSES)
        factor = PROCESSES if "gradient" in quantity else 1
        close(joined, factor * alone[name]["sizes"][quantity], quantity)
    sizes = [found["sizes"]["weight_gradient"] for found in both[case]]
    expected = alone[name]["sizes"]["weight_gradient"]
    if way == "ddp":
        for size in sizes:
            close(size, expected, "weight_gradient")
    else:
        close(root_mean_square(sizes, [torch.tensor(found["shards"]) for found in both[case]]), expected, "of shards")


@pytest.mark.parametrize("case", [case for case in CASES if case[2] == 2], ids=str)
def test_with_accumulation_the_last_row_of_a_step_has_the_weight_gradients_of_all_of_it(both, alone, case):
    name, way, sums = case
    last = [found["sizes"]["weight_gradient"][sums - 1 :: sums] for found in both[case]]
    counts = [torch.tensor(found["shards"]) for found in both[case]]
    close(root_mean_square(last, counts), alone[name]["sizes"]["weight_gradient"], way)


@pytest.mark.parametrize("name", NETWORKS)
def test_started_as_shards_each_parameter_has_the_size_that_it_is_built_with(both, name):
    """Each process draws its own random numbers; both hold the same whole, and what is not random is as built."""
    first, second = both[name]
    builds = [dict(NETWORKS[name]().double().named_parameters()) for _ in range(2)]
    for key, expected in builds[0].items():
        close(first[key], second[key], key)
        if expected.equal(builds[1][key]):
            torch.testing.assert_close(first[key], expected.detach(), rtol=1e-6, atol=0)  # built in float32
        else:
            assert 0.2 < first[key].norm() / expected.norm() < 5, key
            halves = first[key].chunk(PROCESSES)
            assert len(halves) == 1 or not halves[0].equal(halves[1]), key
