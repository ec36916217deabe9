"""One answer in its own process: define it, run its tests, and say with each what the answer returned.

Whatever happens here is a claim: the process belongs to the answer. ``evidence`` says what makes a claim believed.
"""

import functools
import json
import linecache
import os
import random
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from typing import Any

import torch

from residual_edu.course.sandbox.evidence import plain
from residual_edu.exercises.attempt import attempt
from residual_edu.exercises.catalogue import catalogue
from residual_edu.exercises.check import check
from residual_edu.exercises.guard import Guard, Notepad

Job = dict[str, Any]
Names = dict[str, Any]
EXERCISES = "residual_edu.exercises"


def work(job: Job, steps: Names, say: Callable[[Job], None]) -> None:
    """Define the answer of ``job`` and run its tests; ``say`` hears of each as it ends.

    Args:
        job: ``earlier`` answers and the ``answer`` itself, each an id and a source; the ``names`` that it is to define;
            its ``checks``, each an id and a source; ``reference``, whether it is the solution itself.
        steps: the names that the source's own cells have made by then.
        say: takes what is to be told of one cell: id, passed, said, evidence.
    """
    hide_exercises()
    own: Names = {}
    for each in job["earlier"]:
        define(each, steps, own)
    trouble = define(job["answer"], steps, own)
    if trouble:
        for each in job["checks"]:
            say({"id": each["id"], "passed": False, "said": trouble, "evidence": []})
        return
    for each in job["checks"]:
        say(tried(each, steps, {name: own[name] for name in job["names"] if name in own}, job["reference"]))


def hide_exercises() -> None:
    """Put an idle module where the exercises' right answers could be imported from."""
    for name in [name for name in sys.modules if name.startswith(EXERCISES)]:
        del sys.modules[name]
    idle = types.ModuleType(EXERCISES)
    idle.__dict__.update(check=nothing, attempt=nothing)
    sys.modules[EXERCISES] = sys.modules["residual_edu"].__dict__["exercises"] = idle


def nothing(*_: Any) -> Any:
    """Do nothing: what ``check`` and ``attempt`` are to an answer."""
    return nullcontext()


def define(cell: Job, steps: Names, own: Names) -> str:
    """Run an answer's cell, add the names that it made to ``own``, and return what went wrong, if anything."""
    names = {name: nothing if value is check or value is attempt else value for name, value in steps.items()} | own
    start = dict(names)
    try:
        with redirect_stdout(Notepad()), redirect_stderr(Notepad()):
            run(cell, names)
    except BaseException as error:  # sys.exit is no Exception
        return f"the cell raised {shown(error)}"
    finally:
        own.update({name: value for name, value in names.items() if start.get(name, own) is not value})
    return ""


def run(cell: Job, names: Names) -> None:
    """Execute a cell in ``names``; a traceback finds its lines."""
    place = f"<{cell['id']}>"
    linecache.cache[place] = (len(cell["source"]), None, cell["source"].splitlines(True), place)
    exec(compile(cell["source"], place, "exec"), names)


def seed() -> None:
    """Start the random numbers that tests may draw anew, so that every answer is asked the same."""
    random.seed(0)
    torch.manual_seed(0)


def tried(cell: Job, steps: Names, answers: Names, reference: bool) -> Job:
    """Run the tests of one cell on ``answers`` among the source's own names, and return what came of it."""
    evidence: list[Any] = []
    names = {**steps, **{name: witnessed(value, evidence) for name, value in answers.items()}}
    if steps.get("check") is check:
        names["check"] = functools.partial(observed_check, evidence, reference)
    paper, said, passed = Notepad(4000), "", True
    seed()
    try:
        with redirect_stdout(paper), redirect_stderr(paper):
            run(cell, names)
    except BaseException as error:
        said, passed = shown(error), False
    text = "\n".join(part for part in (paper.text.strip(), said) if part)
    return {"id": cell["id"], "passed": passed, "said": text, "evidence": evidence}


def observed_check(evidence: list[Any], reference: bool, candidate: Any, name: str) -> None:
    """Check as the learner does; the evidence is what the exercise observes, of the reference each right answer's."""
    candidate, exercise = getattr(candidate, "__wrapped__", candidate), catalogue()[name]
    check(candidate, name)
    rights = (candidate, exercise.reference, *exercise.also_right) if reference else (candidate,)
    evidence.append([plain(Guard(each).call(exercise.observe).value) for each in rights])


def witnessed(answer: Any, evidence: list[Any]) -> Any:
    """Return ``answer`` with each result of a call written down; of a class, of each call of its instances."""
    if isinstance(answer, type):
        call = next((vars(each)["__call__"] for each in answer.__mro__ if "__call__" in vars(each)), None)
        return type(answer.__name__, (answer,), {"__call__": witnessed(call, evidence), "__wrapped__": answer})
    if not isinstance(answer, types.FunctionType):
        return answer

    @functools.wraps(answer)
    def witness(*args: Any, **keywords: Any) -> Any:
        result = answer(*args, **keywords)
        evidence.append([plain(result)])
        return result

    return witness


def shown(error: BaseException) -> str:
    """Return an error's type and message; of an assertion the message alone."""
    try:
        text = str(error)[:500]
    except Exception:  # a learner's own __str__ may raise
        text = ""
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def speak(pipe: int, secret: str) -> Callable[[Job], None]:
    """Return a function that writes a line with ``secret`` into ``pipe``."""

    def say(what: Job) -> None:
        os.write(pipe, (json.dumps({"secret": secret, **what}) + "\n").encode())

    return say
