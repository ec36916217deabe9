"""Each block, compiled into one graph by torch's default compiler, gives the same values and gradients in float64."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BLOCKS = ["residual", "adaln_zero", "vit5_attention", "vit5_hyena", "configurable"]


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="Inductor needs a C++ compiler")
@pytest.mark.skipif(" " in sys.prefix, reason="torch's own call of the compiler does not hold a space in a path")
@pytest.mark.parametrize("block", BLOCKS)
def test_it_compiles_into_one_graph(block, tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, HERE / "by_inductor.py", block]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 5
