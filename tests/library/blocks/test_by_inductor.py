"""Each block, compiled into one graph by torch's default compiler, gives the same values and gradients in float64.

This file is also the script that does it: the test run's shape hook is no part of the code as users have it, and one
process has one cache of compiled code.
"""

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn

BLOCKS = ["ResidualNetwork_cross", "AdaLN_Hyena", "Configurable_window"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A folder for what is compiled, new in each run; the blocks share what says which instructions the machine has."""
    return tmp_path_factory.mktemp("inductor")


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="Inductor needs a C++ compiler")
@pytest.mark.skipif(" " in sys.prefix, reason="torch's own call of the compiler does not hold a space in a path")
@pytest.mark.parametrize("name", BLOCKS)
def test_it_compiles_into_one_graph(name, fresh, pytestconfig):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(fresh), "PYTHONPATH": str(pytestconfig.rootpath)}
    done = subprocess.run([sys.executable, __file__, name], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 5


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    from tests.library.interop.models import NETWORKS
    from tests.library.interop.tools import gradients, same, tensors

    model, call = NETWORKS[sys.argv[1]].made(), NETWORKS[sys.argv[1]].inputs()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    expected = gradients(model, call)
    same(gradients(torch.compile(model, fullgraph=True, backend="inductor"), call), expected, rtol=1e-9, atol=1e-9)
    print(f"{len(tensors(expected))} tensors agree")
