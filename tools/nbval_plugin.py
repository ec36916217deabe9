"""Strict nbval for lessons: ``pytest -p tools.nbval_plugin --nbval notebooks``.

Every stored output, those of predictions and solutions too, is compared with the one that the cell prints or draws now,
as ``comparison`` and ``pictures`` say, and what a lesson's companion says of a cell must hold after it.
The kernels run away from the clone, with the package installed as a wheel installs it: in a folder that holds a
student's handout, and the clone under its own name, as the cell for Colab leaves it.
A kernel that dies is noticed at once. What each lesson took of processor time is listed at the end, and its memory is
held to that of a small machine: torch's builds differ by hundreds of MB, so what counts is what a lesson adds to a
kernel that imported it and made an optimizer.
"""

import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from nbval.kernel import RunningKernel
from nbval.plugin import CURRENT_ENV_KERNEL_NAME, IPyNbCell, IPyNbFile

from residual_course.commands.answers import answers_of, join
from residual_course.commands.checkout import companion_of, find_root
from residual_course.commands.exercise_cells import tags
from residual_course.companion import read
from tools import companions
from tools.comparison import TRAINED, Tolerant, Trained
from tools.pictures import PNG, Picture

MEGABYTES = 270  # that a lesson may add to what ``IMPORTS`` takes
# torch loads its compiler with the first optimizer, 80 MB in one build and 160 MB in another.
IMPORTS = "import torch, matplotlib.pyplot, ipywidgets; torch.optim.SGD(torch.nn.Linear(1, 1).parameters())"
POLL = 1  # seconds between two looks at whether the kernel is alive

# What a kernel has used, as expressions: processor seconds, and peak memory in a unit that depends on the system.
# Linux: less what is mapped from files, which kernels share: it is 90 or 140 MB for torch, by what the system's cache
# holds. (getrusage counts what the process that started the kernel held; the peak in /proc is the kernel's own.)
STATUS = "int(__import__('re').search(r'{}:\\s+(\\d+)', open('/proc/self/status').read())[1])"
PEAK, UNIT = {
    "linux": (f"{STATUS.format('VmHWM')} - {STATUS.format('RssFile')}", 1024),
    "win32": ("__import__('psutil').Process().memory_info().peak_wset", 1),
}.get(sys.platform, ("__import__('resource').getrusage(0).ru_maxrss", 1))
EXTRA = "450 * ('transformers' in __import__('sys').modules)"  # MB of lesson 01's libraries, where they are installed
USAGE = {"seconds": "__import__('time').process_time()", "peak": PEAK, "extra": EXTRA}
AWAY, BASE = "RESIDUAL_EDU_AWAY", "RESIDUAL_EDU_BASE"  # the folder in which kernels run, and what ``base`` returned
USED = pytest.StashKey[dict[str, list[float]]]()  # seconds, megabytes, added
FOLDER = pytest.StashKey[TemporaryDirectory[str]]()


def go_away(folder: Path, root: Path) -> None:
    """Install the package into ``folder``, write a handout beside it, and start kernels there from now on."""
    site, handout = folder / "site-packages", folder / "content"
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", f"--target={site}", str(root)]
    for words in (install, ["residual_course", "student", str(handout)]):
        subprocess.run([sys.executable, "-m", *words], cwd=root, check=True, stdout=subprocess.DEVNULL)
    (handout / root.name).symlink_to(root, target_is_directory=True)
    os.environ |= {AWAY: str(handout), "PYTHONPATH": str(site)}


def get_message(self: RunningKernel, stream: str, timeout: float | None = None) -> dict[str, Any]:
    """Wait for a message as nbval does, but look each second whether the kernel is still alive."""
    get = {"iopub": self.kc.get_iopub_msg, "shell": self.kc.get_shell_msg}[stream]
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return get(timeout=max(0, min(POLL, end - time.monotonic())))
        except Empty:
            if not self.is_alive():
                raise RuntimeError("the kernel died while it ran this cell") from None
            if time.monotonic() >= end:
                raise


def execute_cell_input(self: RunningKernel, cell_input: str, allow_stdin: bool | None = None) -> str:
    """Run a cell as a notebook does: with a history, without which IPython ignores a closing ``;``."""
    return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


def ask(kernel: RunningKernel, expressions: dict[str, str]) -> dict[str, Any]:
    """Return what ``kernel`` says to ``expressions``; its names are left alone."""
    request = kernel.kc.execute("", silent=True, user_expressions=expressions)
    while (reply := kernel.get_message("shell", timeout=60))["parent_header"].get("msg_id") != request:
        continue
    return reply["content"]["user_expressions"]


@cache
def base() -> float:
    """Return the peak memory in MB of a kernel that has run ``IMPORTS``, measured once a run."""
    if BASE in os.environ:
        return float(os.environ[BASE])
    manager, client = start_new_kernel(startup_timeout=600, stderr=subprocess.DEVNULL)
    try:
        reply = client.execute(IMPORTS, silent=True, user_expressions={"peak": PEAK}, reply=True, timeout=600)
        return float(reply["content"]["user_expressions"]["peak"]["data"]["text/plain"]) * UNIT / 1e6
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def measure(lesson: IPyNbFile) -> None:
    """Note what ``lesson`` used, and fail if it added too much memory; a GPU's is not the lesson's."""
    seconds, peak, extra = (float(value["data"]["text/plain"]) for value in ask(lesson.kernel, USAGE).values())
    name, megabytes = lesson.path.name, peak * UNIT / 1e6
    added, most = megabytes - base(), MEGABYTES + extra
    lesson.config.stash.setdefault(USED, {})[name] = [seconds, megabytes, added]
    if os.environ.get("RESIDUAL_EDU_DEVICE", "cpu") == "cpu" and added > most:
        said = f"{name} added {added:.0f} MB to the {base():.0f} MB of {IMPORTS!r}; it may add {most:.0f} MB"
        pytest.fail(said, pytrace=False)


def setup(self: IPyNbFile) -> None:
    """Start the lesson's kernel away from the lesson."""
    patience = self.config.option.nbval_kernel_startup_timeout
    self.skip_compare = tuple(key for key in self.skip_compare if key != "image/png")
    self.kernel = RunningKernel(CURRENT_ENV_KERNEL_NAME, cwd=os.environ[AWAY], startup_timeout=patience)


nbval_runtest, nbval_sanitize, nbval_teardown = IPyNbCell.runtest, IPyNbCell.sanitize, IPyNbFile.teardown


def runtest(self: IPyNbCell) -> None:
    """Run and compare a cell, then ask the kernel whether what the companion says of it holds."""
    nbval_runtest(self)
    if wanted := companions.bands(read(companion_of(self.parent.path)), self.cell):
        answers = ask(self.parent.kernel, companions.asked_of_kernel(wanted))
        for sentence in companions.broken(wanted, answers):
            pytest.fail(f"{companion_of(self.parent.path).name}: {sentence}", pytrace=False)


def sanitize(self: IPyNbCell, output: Any) -> Any:
    """Let texts and pictures be compared with tolerance; nbval compares what this returns with ``!=``."""
    if isinstance(output, str) and output.startswith(PNG):
        return Picture(output, TRAINED in tags(self.cell))
    clean, compared = nbval_sanitize(self, output), Trained if TRAINED in tags(self.cell) else Tolerant
    return compared(clean) if isinstance(clean, str) else clean


def teardown(self: IPyNbFile) -> None:
    """Measure the lesson before nbval stops its kernel."""
    try:
        if self.kernel is not None and self.kernel.is_alive():
            measure(self)
    finally:
        nbval_teardown(self)


def pytest_configure(config: pytest.Config) -> None:
    """Replace six methods of nbval, all here: it has no option for any of them, and is held at 0.11 for that."""
    if AWAY not in os.environ:  # workers of pytest-xdist inherit it
        config.stash[FOLDER] = TemporaryDirectory()
        with ThreadPoolExecutor() as pool:  # pip uses one core
            away = pool.submit(go_away, Path(config.stash[FOLDER].name), find_root())
            os.environ[BASE] = str(base())
        away.result()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the kernels, as is the next
    os.environ["RESIDUAL_EDU_STRICT"] = os.environ["RESIDUAL_EDU_BUILD"] = "1"
    RunningKernel.get_message, RunningKernel.execute_cell_input = get_message, execute_cell_input
    IPyNbCell.runtest, IPyNbCell.sanitize, IPyNbFile.setup, IPyNbFile.teardown = runtest, sanitize, setup, teardown


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compare what is stored apart too, and a cell that was never run: nbval would let it pass whatever it prints.

    A cell tagged ``slow`` trains for long, or needs one that does: the usual run leaves it out, as it does slow tests.
    The last lessons train longest, and come first: else one of two workers would end long before the other.
    """
    items.sort(key=lambda item: item.path.name, reverse=True)  # the cells of a lesson stay in their order
    cells = [item for item in items if isinstance(item, IPyNbCell)]
    for lesson in {cell.parent for cell in cells}:
        join(lesson.nb, answers_of(lesson.path))
    for item in cells:
        item.cell.execution_count = item.cell.execution_count or 0
        if "slow" in tags(item.cell):
            item.add_marker("slow")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder away from the clone."""
    if FOLDER in config.stash:
        config.stash[FOLDER].cleanup()
        del os.environ[AWAY], os.environ[BASE], os.environ["PYTHONPATH"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: hand over what its lessons used."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["used"] = session.config.stash.get(USED, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what the lessons of a worker used; one that died has nothing to hand over."""
    node.config.stash.setdefault(USED, {}).update(getattr(node, "workeroutput", {}).get("used", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what each lesson used."""
    if used := terminalreporter.config.stash.get(USED, {}):
        terminalreporter.section("lessons: processor time and memory")
        for name, (seconds, megabytes, added) in sorted(used.items()):
            terminalreporter.line(f"{name:40} {seconds:6.1f} s {megabytes:6.0f} MB, {added:.0f} added")
