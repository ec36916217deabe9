"""Each submission in a course folder and a process of its own, some at a time; what is done is not done again."""

import hashlib
import json
import shutil
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock

from residual_course.commands.checkout import Refusal
from residual_course.commands.grading import confine, process
from residual_course.commands.grading.submission import STUDENT, Submission, printable

KINDS = ("autograded", "feedback")


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
        """Return what a submission came to, whatever happens; only points are kept for the next run."""
        try:
            return self.kept_or_graded(submission)
        except Exception as error:  # a row for every student
            return {"state": printable(f"could not be graded: {type(error).__name__}: {error}")[:300]}

    def kept_or_graded(self, submission: Submission) -> dict[str, Any]:
        """Return what is kept of an earlier run, or grade; a failure of the machinery is tried once more."""
        if not submission.notebooks():
            return {"state": printable(submission.without_notebook())}
        kept, mark = self.room / submission.assignment / quote(submission.student, safe=""), self.mark(submission)
        if (result := stored(kept / "result.json")).get("mark") == mark:
            return result
        for _ in range(2):
            result = self.attempt(submission) | {"mark": mark, "confined": self.confined}
            if result["state"] == "graded":
                kept.mkdir(parents=True, exist_ok=True)
                (kept / "result.json").write_text(json.dumps(result), encoding="utf-8")
            if result["state"] == "graded" or result.get("final") or self.stopped.is_set():
                break
        return result

    def attempt(self, submission: Submission) -> dict[str, Any]:
        """Grade a submission in a folder of its own, which goes when it is done."""
        name, student = submission.assignment, submission.student
        task = {"student": student, "assignment": name, "folder": str(submission.folder)}
        with (
            tempfile.TemporaryDirectory(dir=self.room, ignore_cleanup_errors=True) as made,
            process.sockets() as shared,
        ):
            folder = Path(made)
            shutil.copy(self.out / "nbgrader_config.py", folder)
            shutil.copy(self.room / name / "gradebook.db", folder)
            if self.confined:
                confine.write_kernelspec(folder / "jupyter", shared)
            result = self.result(folder, task | {"source": str(self.out / "source")}, shared)
            if result["state"] == "graded":
                self.hand_back(folder, submission)
            else:
                self.take_back(submission)
            words, kept = folder / "log", self.room / f"{name} {quote(student, safe='')}.log"  # to be looked at by hand
            kept.unlink(missing_ok=True)
            if result["state"] != "graded" and words.stat().st_size:
                shutil.copy(words, kept)
            return result

    def result(self, folder: Path, task: dict[str, str], shared: Path) -> dict[str, Any]:
        """Return what a task came to in ``folder``."""
        words = task | {"confined": self.confined}
        trouble = process.run(folder, words, shared, self.seconds, self.stopped)
        found = {} if trouble else stored(folder / "result.json")
        return found or {"state": f"could not be graded: {trouble or process.last_line(folder / 'log')}"}

    def hand_back(self, folder: Path, submission: Submission) -> None:
        """Put the graded notebook and the feedback where nbgrader would."""
        self.take_back(submission)
        for kind in KINDS:
            target = self.out / kind / submission.folder.parent.name / submission.assignment
            shutil.copytree(folder / kind / STUDENT / submission.assignment, target)
        if (secret := submission.folder / "submission_secret.txt").exists():  # by which the exchange knows whose it is
            shutil.copy(secret, self.out / "feedback" / submission.folder.parent.name / submission.assignment)

    def take_back(self, submission: Submission) -> None:
        """Remove what stands there of an earlier submission."""
        for kind in KINDS:
            folder = self.out / kind / submission.folder.parent.name / submission.assignment
            shutil.rmtree(folder, ignore_errors=True)

    def release(self, assignment: str) -> None:
        """Make the database of an assignment from its source by nbgrader, unless its source is as it was.

        Raises:
            Refusal: with nbgrader's last words, for a source that it does not take.
        """
        base, source, due = self.room / assignment, self.source(assignment), self.due.get(assignment, "")
        mark = hashed([(self.out / "nbgrader_config.py").read_bytes(), source.read_bytes(), due.encode()])
        with (
            FileLock(self.room / "release.lock"),  # another part of the class may begin at the same moment
            tempfile.TemporaryDirectory(dir=self.room, ignore_cleanup_errors=True) as made,
            process.sockets() as shared,
        ):
            if stored(base / "release.json").get("mark") == mark:
                return
            folder = Path(made)
            shutil.copy(self.out / "nbgrader_config.py", folder)
            shutil.copytree(source.parent, folder / "source" / assignment)
            state = self.result(folder, {"release": assignment, "due": due}, shared)["state"]
            if state != "released":
                raise Refusal(f"nbgrader does not take {source}: {state.removeprefix('could not be graded: ')}.")
            base.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / "gradebook.db", base / "gradebook.db")
            (base / "release.json").write_text(json.dumps({"mark": mark}), encoding="utf-8")

    @property
    def room(self) -> Path:
        """The folder for what this command keeps and works with."""
        return self.out / ".grading"

    def source(self, assignment: str) -> Path:
        """Return the source notebook of an assignment."""
        return self.out / "source" / assignment / f"{assignment}.ipynb"

    def mark(self, submission: Submission) -> str:
        """Return a hash of all that a submission's points depend on."""
        files = [self.out / "nbgrader_config.py", self.source(submission.assignment), *submission.files()]
        words = [str(self.confined), self.due.get(submission.assignment, "")]
        return hashed([path.read_bytes() for path in files] + [word.encode() for word in words])


def hashed(parts: Iterable[bytes]) -> str:
    """Return one hash of all ``parts``."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def stored(path: Path) -> dict[str, Any]:
    """Return what a file of this command holds; nothing where it is missing or broken."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
