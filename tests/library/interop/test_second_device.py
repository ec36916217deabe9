"""Every part, block, network and the recorder on a device that refuses tensors of the CPU, as a GPU does.

The device (``second_device/device.py``) changes torch for good, so it lives in a process of its own. Where
RESIDUAL_EDU_DEVICE names a GPU, it is that GPU.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.fuzzing.table import CASES
from tests.interop.second_device import compare
from torch import nn

import residual_edu

from .two_processes import NETWORKS

pytestmark = pytest.mark.slow


def is_module(name):
    kind = getattr(residual_edu, name)
    return isinstance(kind, type) and issubclass(kind, nn.Module)


MODULES = [name for name, case in CASES.items() if is_module(name) and case.method == "forward"]


@pytest.fixture(scope="module")
def there():
    """Call a function of ``compare`` in the process that has the device."""
    with ProcessPoolExecutor(1, get_context("spawn"), compare.start) as pool:
        yield lambda function, *words: pool.submit(function, *words).result()


@pytest.mark.parametrize("name", compare.REFUSED)
def test_the_device_refuses_what_a_gpu_refuses(there, name):
    there(compare.refuse, name)


@pytest.mark.parametrize("name", CASES)
def test_every_public_name_gives_the_same_values_and_gradients(there, name):
    there(compare.compare, name)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_runs_in_training_mode(there, name):
    there(compare.in_training, name)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_and_are_recorded_alike(there, name):
    there(compare.train, name)


@pytest.mark.parametrize("what", [compare.generate, compare.dependence, compare.draw])
def test_generation_dependence_and_sampling(there, what):
    there(what)
