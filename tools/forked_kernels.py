"""Kernels forked from a process that has imported what every lesson imports: a kernel of its own takes 7 seconds."""

import os
import signal
import sys
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from jupyter_client.provisioning import local_provisioner

# Nothing of this project, which is imported from where the kernel runs. torch loads _dynamo with the first optimizer.
IMPORTS = ["torch", "torch._dynamo", "matplotlib.figure", "ipywidgets", "sklearn.svm", "ipykernel.kernelapp"]


class Forked:
    """What jupyter_client asks of a ``subprocess.Popen``."""

    stdin = stdout = stderr = None

    def __init__(self, process: BaseProcess) -> None:
        self.process, self.pid = process, process.pid or 0
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        """Return the exit code, None as long as the kernel lives."""
        return self.process.exitcode

    def wait(self) -> int | None:
        """Wait for the end of the kernel."""
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """Signal the kernel, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)


def be_kernel(argv: list[str], folder: str, environment: dict[str, str]) -> None:
    """Become the kernel that a new process with this command, folder and environment would be."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.argv = argv
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()


def launch(cmd: list[str], env: dict[str, str], cwd: str = ".", **_: Any) -> Forked:
    """Stand in for jupyter_client's ``launch_kernel``."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    process = context.Process(target=be_kernel, args=(cmd[cmd.index("-m") + 1 :], str(cwd), env))
    process.start()
    forked = Forked(process)
    while forked.poll() is None and os.getpgid(forked.pid) != forked.pid:  # a signal to its group is for it alone
        time.sleep(0.01)
    return forked


def fork_kernels() -> None:
    """Let every kernel that this process starts be forked, where processes can be."""
    if hasattr(os, "fork"):
        local_provisioner.launch_kernel = launch  # type: ignore[assignment]
