"""One submission through nbgrader, in a process of its own.

Its folder is a course folder with a database; its task.json says what to do, and its result.json then what it came to.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from residual_course.commands.grading import feedback
from residual_course.commands.grading.submission import STUDENT, NotGradable, Submission, moment, printable, read
from residual_course.newer import newer

ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception|Died)\b|(\w+\.)+[A-Z]\w*(:|$)")  # or jinja2.TemplateNotFound: x


def settings(folder: Path, confined: bool) -> Config:
    """Return nbgrader's settings of ``folder``; a kernel without a network is reached over sockets."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{folder / 'gradebook.db'}"
    if confined:
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = str(Path(os.environ["JUPYTER_RUNTIME_DIR"], "kernel"))  # and a number for each socket
    return config


def release(folder: Path, name: str, due: str) -> dict[str, Any]:
    """Make the database of the assignment ``name`` from its source notebook."""
    config = settings(folder, False)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    done = api.generate_assignment(name, force=True, create=True)
    if done["success"]:
        with Gradebook(config.CourseDirectory.db_url) as book:
            book.update_or_create_assignment(name, **({"duedate": due} if due else {}))
    return {"state": "released" if done["success"] else reason(said(done))}


def grade(folder: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Grade the submission and write its feedback; return its points, or why there are none."""
    name, config = task["assignment"], settings(folder, task["confined"])
    submission = Submission(task["student"], name, Path(task["folder"]))
    try:
        unknown = hand_in(folder / "submitted" / STUDENT / name, submission, Path(task["source"]))
    except NotGradable as error:
        return {"state": f"could not be graded: {error}", "final": True}
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    done = api.autograde(name, STUDENT, force=True)
    done = give_feedback(api, folder, name) if done["success"] else done
    if not done["success"]:
        print(said(done))
        return {"state": f"could not be graded: {reason(said(done))}"}
    note = missing(nbformat.read(folder / "autograded" / STUDENT / name / f"{name}.ipynb", as_version=4))
    with Gradebook(config.CourseDirectory.db_url) as book:
        found = points(book.find_submission(name, STUDENT))
    return {"state": "graded", "note": note, **found} | ({"late": unknown} if unknown else {})


def give_feedback(api: NbGraderAPI, folder: Path, name: str) -> dict[str, Any]:
    """Write the feedback from what a student may see of the graded notebook, which stays as it is."""
    path = folder / "autograded" / STUDENT / name / f"{name}.ipynb"
    path.chmod(0o644)  # nbgrader lets nobody write to it
    whole = path.read_text(encoding="utf-8")
    path.write_text(feedback.shown(nbformat.reads(whole, as_version=4)), encoding="utf-8")
    done = api.generate_feedback(name, STUDENT, force=True)
    path.write_text(whole, encoding="utf-8")
    for page in (folder / "feedback" / STUDENT / name).glob("*.html"):
        page.write_text(feedback.named(page.read_text("utf-8"), nbformat.reads(whole, as_version=4)), "utf-8")
    return done


def hand_in(target: Path, submission: Submission, source: Path) -> str:
    """Put what was handed in, without outputs, where nbgrader looks for it; return why its time is not known, if so."""
    notebook = read(submission, source)
    target.mkdir(parents=True)
    nbformat.write(notebook, target / f"{submission.assignment}.ipynb")
    try:
        if (stamp := submission.folder / "timestamp.txt").exists():
            (target / stamp.name).write_text(str(moment(stamp.read_text(encoding="utf-8-sig"))))
    except ValueError as error:
        return printable(f"unknown: timestamp.txt: {error}")[:300]
    return ""


def missing(notebook: nbformat.NotebookNode) -> str:
    """Return a sentence on what a notebook asks for that the installed package does not have, if there is such."""
    outputs = (each for cell in notebook.cells for each in cell.get("outputs", []))
    errors = (each.evalue for each in outputs if each.output_type == "error")
    return printable(next(filter(None, map(newer, errors)), ""))[:300]


def points(submission: Any) -> dict[str, Any]:
    """Return the points of each graded cell, their largest sum, and whether the submission was late, where known."""
    parts = {each.name: each.score for notebook in submission.notebooks for each in notebook.grades}
    is_dated = submission.assignment.duedate and submission.timestamp
    late = submission.total_seconds_late > 0 if is_dated else None
    return {"parts": parts, "possible": submission.max_score, "late": late}


def said(done: dict[str, Any]) -> str:
    """Return nbgrader's log of a failure and its traceback; it leaves out what is empty."""
    return "\n".join(done.get(part) or "" for part in ("log", "error"))


def reason(log: str) -> str:
    """Return what nbgrader's log says last of an error, in a line."""
    lines = [line.strip() for line in feedback.COLOUR.sub("", log).splitlines() if line.strip()]
    if any("Kernel died" in line for line in lines):
        return "its kernel ended (it was stopped, or took too much memory)"
    errors = [line for line in lines if ERROR.match(line)]
    errors = [line for line in errors if "NbGraderException" not in line] or errors  # which only points above
    return printable((errors or lines or ["nbgrader said nothing"])[-1])[:300]


def main(folder: Path) -> None:
    """Do the task, and leave what it came to."""
    os.chdir(folder)
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    result = release(folder, task["release"], task["due"]) if "release" in task else grade(folder, task)
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
