"""Each block, compiled into one graph by torch's default compiler, gives the same values and gradients in float64."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BLOCKS = ["residual", "adaln_zero", "vit5_attention", "vit5_hyena", "configurable"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A folder for what is compiled, new in each run; the blocks share what says which instructions the machine has."""
    return tmp_path_factory.mktemp("inductor")


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="Inductor needs a C++ compiler")
@pytest.mark.skipif(" " in sys.prefix, reason="torch's own call of the compiler does not hold a space in a path")
@pytest.mark.parametrize("block", BLOCKS)
def test_it_compiles_into_one_graph(block, fresh):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(fresh)}
    command = [sys.executable, HERE / "by_inductor.py", block]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 5
