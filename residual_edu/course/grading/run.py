"""Each submission in a course folder and a process of its own, some at a time; what is done is not done again."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from residual_edu.course.checkout import Refusal
from residual_edu.course.grading import confine
from residual_edu.course.grading.submission import NONE, Submission, printable

STUDENT = "student"  # in a folder of its own nobody needs another name
SHARED = 200_000_000  # bytes that a kernel may leave in the folder of its sockets
MEMORY = ["prlimit", "--data=6000000000", "--"]  # of nbgrader, which gathers a kernel's output


@dataclass
class Grader:
    """Grades the submissions of the course folder ``out``.

    Args:
        out: nbgrader's course folder.
        confined: whether kernels are shut in.
        seconds: how long a whole submission may take.
        due: the time until which each assignment may be handed in, as nbgrader reads it.
    """

    out: Path
    confined: bool
    seconds: float
    due: dict[str, str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def grade(self, submission: Submission) -> dict[str, Any]:
        """Return what a submission came to; a failure of the machinery is tried once more and not kept."""
        kept, mark = self.room / submission.assignment / quote(submission.student, safe=""), self.mark(submission)
        if (result := stored(kept / "result.json")).get("mark") == mark:
            return result
        if not submission.folder.is_dir():
            return {"state": NONE}
        for _ in range(2):
            result = self.attempt(submission) | {"mark": mark, "confined": self.confined}
            if result["state"] == "graded" or result.get("final") or self.stopped.is_set():
                break
        if result["state"] == "graded":
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "result.json").write_text(json.dumps(result), encoding="utf-8")
        return result

    @property
    def room(self) -> Path:
        """The folder for what this command keeps and works with."""
        return self.out / ".grading"

    def mark(self, submission: Submission) -> str:
        """Return a hash of all that a submission's points depend on."""
        files = [self.out / "nbgrader_config.py", self.source(submission.assignment)]
        parts = [submission.digest(), str(self.confined), self.due.get(submission.assignment, "")]
        return hashlib.sha256(
            b"\0".join([path.read_bytes() for path in files] + [p.encode() for p in parts])
        ).hexdigest()

    def source(self, assignment: str) -> Path:
        """Return the source notebook of an assignment."""
        return self.out / "source" / assignment / f"{assignment}.ipynb"

    def attempt(self, submission: Submission) -> dict[str, Any]:
        """Grade a submission in a folder of its own, which goes when it is done."""
        with tempfile.TemporaryDirectory(dir=self.room, ignore_cleanup_errors=True) as made, sockets() as shared:
            folder = Path(made)
            shutil.copy(self.out / "nbgrader_config.py", folder)
            shutil.copy(self.database(submission.assignment), folder / "gradebook.db")
            task: dict[str, Any] = {
                "student": submission.student,
                "assignment": submission.assignment,
                "folder": str(submission.folder),
            }
            task |= {"source": str(self.out / "source"), "confined": self.confined}
            if self.confined:
                confine.write_kernelspec(folder / "jupyter", shared)
            trouble = self.run(folder, task, shared)
            result = {"state": f"could not be graded: {trouble}"} if trouble else stored(folder / "result.json")
            if result.get("state") == "graded":
                self.hand_back(folder, submission)
            else:  # for who looks by hand
                shutil.copy(
                    folder / "log", self.room / f"{submission.assignment} {quote(submission.student, safe='')}.log"
                )
            return result or {"state": "could not be graded: nbgrader ended without a word"}

    def run(self, folder: Path, task: dict[str, Any], shared: Path) -> str:
        """Run ``one`` on ``folder``; return what stopped it from outside, empty where nothing did."""
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        command = [sys.executable, "-m", "residual_edu.course.grading.one", str(folder)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*(MEMORY if shutil.which("prlimit") else []), *command],
                cwd=folder,
                env=environment(folder, shared),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            trouble = self.watch(process, shared)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # bubblewrap's kernel dies with it
            process.wait()
        return trouble or ("" if process.returncode == 0 else last_line(folder / "log"))

    def watch(self, process: subprocess.Popen[bytes], shared: Path) -> str:
        """Wait for ``process``; return why it has to be stopped, empty where it ended by itself."""
        deadline = time.monotonic() + self.seconds
        while process.poll() is None:
            if self.stopped.wait(0.1):
                return "this command was stopped"
            if time.monotonic() > deadline:
                return f"it took more than {self.seconds:g} seconds"
            if sum(path.stat().st_size for path in shared.rglob("*") if path.is_file()) > SHARED:
                return "it filled the disk"
        return ""

    def hand_back(self, folder: Path, submission: Submission) -> None:
        """Put the graded notebook and the feedback where nbgrader would."""
        for kind in ("autograded", "feedback"):
            target = self.out / kind / submission.student / submission.assignment
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder / kind / STUDENT / submission.assignment, target)

    def database(self, assignment: str) -> Path:
        """Return the database of an assignment as nbgrader makes it from its source."""
        return self.room / assignment / "gradebook.db"

    def release(self, assignment: str) -> None:
        """Make that database, unless its source is as it was.

        Raises:
            Refusal: with nbgrader's last words, for a source that it does not take.
        """
        base, source = self.room / assignment, self.source(assignment)
        due = self.due.get(assignment, "")
        mark = hashlib.sha256(source.read_bytes() + (self.out / "nbgrader_config.py").read_bytes() + due.encode())
        if stored(base / "release.json").get("mark") == mark.hexdigest():
            return
        with tempfile.TemporaryDirectory(dir=self.room, ignore_cleanup_errors=True) as made, sockets() as shared:
            folder = Path(made)
            shutil.copy(self.out / "nbgrader_config.py", folder)
            shutil.copytree(source.parent, folder / "source" / assignment)
            trouble = self.run(folder, {"release": assignment, "due": due}, shared)
            result = stored(folder / "result.json")
            if trouble or result.get("state") != "released":
                raise Refusal(f"nbgrader does not take {source}: {trouble or result.get('state')}.")
            base.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / "gradebook.db", base / "gradebook.db")
            (base / "release.json").write_text(json.dumps({"mark": mark.hexdigest()}), encoding="utf-8")


def stored(path: Path) -> dict[str, Any]:
    """Return what a file of this command holds; nothing where it is missing or broken."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def sockets() -> Iterator[Path]:
    """A folder for a kernel's sockets, at a short path, which anybody may write: its kernel is nobody's."""
    folder = Path(tempfile.mkdtemp(prefix="k"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path, shared: Path) -> dict[str, str]:
    """Return what nbgrader needs of this environment; it finds alembic beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {name: str(folder / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    own |= {"JUPYTER_RUNTIME_DIR": str(shared), "JUPYTER_PATH": str(folder / "jupyter"), "HOME": str(folder)}
    own |= {"PATH": path, "LANG": "C.UTF-8", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    return own | {"RESIDUAL_EDU_STRICT": "1", "RESIDUAL_EDU_DEVICE": "cpu"}


def last_line(log: Path) -> str:
    """Return the last words of a log."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        words = file.read().decode(errors="replace").strip().splitlines()
    return printable(words[-1])[:300] if words else "it ended without a word"
