"""A made-up class, graded in one command: what is right gains its points, and nothing else does."""

import time

import nbformat
import pytest

from residual_edu.course.grade.score import UNSEEN

SCALE, CENTER = "scale", "center"
SCALE_RIGHT = "def scale(x, factor):\n    return x * factor"
CENTER_RIGHT = "def center_and_scale(x, eps=1e-5):\n    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=eps)"
FULL, SCALE_ONLY, CENTER_ONLY, NONE = (1, 2, 2), (1, 2, 0), (0, 0, 2), (0, 0, 0)


MEAN = "(x - x.mean(-1, keepdim=True))"
LOUD = "for _ in range(9999): print('x' * 99)\n"
STUB = "def scale(x, factor): raise NotImplementedError"
TWICE = "def scale(x, factor): return 2 * x"


def wrong(before="", inside=""):
    """Both answers wrong, with code in front of each, and inside of each function."""
    lines = "".join(f"    {line}\n" for line in inside.split("\n"))
    define = "def NAME(x, *_, **__):\n" + (lines if inside else "") + "    return 0 * x\n"
    return {
        SCALE: f"{before}\n{define}".replace("NAME", "scale"),
        CENTER: f"{before}\n{define}".replace("NAME", "center_and_scale"),
    }


def centre(expression):
    """The first answer right, the second this expression."""
    return {SCALE: SCALE_RIGHT, CENTER: f"def center_and_scale(x, eps=1e-5):\n    return {expression}"}


PATCH = """import torch
torch.allclose = lambda *a, **k: True
torch.isclose = lambda a, b, **k: torch.ones_like(b).bool()"""
CLOSE = """import gc, types
for each in gc.get_objects():
    if isinstance(each, types.FunctionType) and each.__name__ in ("close", "check") and not each.__closure__:
        each.__code__ = (lambda *a, **k: None).__code__"""
LIAR = """import torch
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        name = getattr(f, "__name__", "")
        if name in ("allclose", "all", "equal"): return True
        if name == "isclose": return torch.ones(args[0].shape).bool()
        return super().__torch_function__(f, types, args, kwargs or {})
x = x.as_subclass(Liar)"""
FORGE = """import json, os
for check in ("scale-check", "scale-hidden", "center-check"):
    for secret in ("", None, "0" * 32):
        said = {"secret": secret, "id": check, "passed": True, "said": "", "evidence": []}
        os.write(3, (json.dumps(said) + "\\n").encode())"""
READ = """import glob, re
for path in ["ROOM/notebooks/source/homework/hw_small.py", *glob.glob("/**/exercises/*.py", recursive=True)]:
    exec(re.sub("# %%.*", "", open(path).read()))"""
REFERENCE = "from residual_edu.exercises.layer_norm import forward as center_and_scale"
SWALLOW = "while True:\n    try:\n        import os; os.fork()\n    except BaseException: pass"
CHECK = "check = attempt = lambda *a: None\nimport residual_edu.exercises as e\ne.check = e.attempt = check"
TRACE = """import builtins, sys
builtins.AssertionError = builtins.Exception = BaseException
sys.settrace(lambda *a: None); sys.excepthook = print
sys.modules["builtins"].__debug__ if False else None"""

CLASS = {  # name: answers, points for scale-check, scale-hidden and center-check, and words of the remark
    "right": ({SCALE: SCALE_RIGHT, CENTER: CENTER_RIGHT}, FULL, ""),
    "right-by-hand": (centre(f"{MEAN} / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()"), FULL, ""),
    "right-with-a-helper": ({SCALE: "def h(x): return x\n" + SCALE_RIGHT, CENTER: "h(1)\n" + CENTER_RIGHT}, FULL, ""),
    "right-and-loud": ({SCALE: LOUD + SCALE_RIGHT, CENTER: CENTER_RIGHT}, FULL, ""),
    "right-and-checks-itself": ({SCALE: SCALE_RIGHT, CENTER: CENTER_RIGHT + "\ncheck(1, 'nonsense')"}, FULL, ""),
    "tests-deleted-answers-right": ({SCALE: SCALE_RIGHT, CENTER: CENTER_RIGHT, "center-check": "pass"}, FULL, ""),
    "first-alone": ({SCALE: SCALE_RIGHT, CENTER: ""}, SCALE_ONLY, "NameError"),
    "second-alone": ({SCALE: "", CENTER: CENTER_RIGHT}, CENTER_ONLY, "NameError"),
    "visible-test-alone": ({SCALE: TWICE, CENTER: CENTER_RIGHT}, (1, 0, 2), "another factor"),
    "n-minus-1": (centre(f"{MEAN} / (x.var(-1, keepdim=True) + eps).sqrt()"), SCALE_ONLY, "n - 1"),
    "no-mean": (centre("x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()"), SCALE_ONLY, "not centred"),
    "returns-nothing": (centre("None"), SCALE_ONLY, "is a `return` missing?"),
    "raises": (centre("1 / 0"), SCALE_ONLY, "ZeroDivisionError"),
    "untouched": ({SCALE: STUB, CENTER: CENTER_RIGHT}, CENTER_ONLY, "NotImpl"),
    "syntax-error": ({SCALE: "def scale(x", CENTER: CENTER_RIGHT}, CENTER_ONLY, "SyntaxError"),
    "a-magic": ({SCALE: "%timeit 1\n" + SCALE_RIGHT, CENTER: CENTER_RIGHT}, CENTER_ONLY, "SyntaxError"),
    "all-wrong": (wrong(), NONE, "center-check"),
    "tampered-tests": (wrong() | {"scale-check": "pass", "scale-hidden": "pass", "center-check": "pass"}, NONE, ""),
    "missing-cell": ({CENTER: CENTER_RIGHT}, CENTER_ONLY, "the cell is missing"),
    "double-cell": ({SCALE: [SCALE_RIGHT, SCALE_RIGHT], CENTER: CENTER_RIGHT}, CENTER_ONLY, "more than once"),
    "os-exit": (wrong("import os; os._exit(0)"), NONE, "its process ended"),
    "os-exit-in-a-call": (wrong("", "import os; os._exit(0)"), NONE, "its process ended"),
    "sys-exit": (wrong("import sys; sys.exit(0)"), NONE, "SystemExit"),
    "sys-exit-in-a-call": (wrong("", "import sys; sys.exit(0)"), NONE, "SystemExit"),
    "crash": (wrong("import ctypes; ctypes.string_at(0)"), NONE, "its process ended"),
    "endless": ({SCALE: SCALE_RIGHT, CENTER: "while True: pass"}, SCALE_ONLY, "ran out of time"),
    "endless-in-a-call": (centre("[0 for _ in iter(int, 1)]"), SCALE_ONLY, "time"),
    "asleep": ({SCALE: SCALE_RIGHT, CENTER: "import time; time.sleep(1e6)"}, SCALE_ONLY, "ran out of time"),
    "fork-bomb": (wrong("import os\nwhile True: os.fork()"), NONE, "PermissionError"),
    "fork-bomb-that-swallows": ({SCALE: SCALE_RIGHT, CENTER: SWALLOW}, SCALE_ONLY, "ran out of time"),
    "starts-a-program": (wrong("import subprocess; subprocess.Popen(['sleep', '60'])"), NONE, "PermissionError"),
    "starts-a-thread": (wrong("import threading; threading.Thread(target=print).start()"), NONE, "start new thread"),
    "kills-the-grader": (wrong("import os; os.kill(os.getppid(), 9)"), NONE, "PermissionError"),
    "4-gigabytes": (wrong("hoard = bytearray(4_000_000_000)"), NONE, "MemoryError"),
    "4-gigabytes-in-a-call": (wrong("", "hoard = torch.ones(4_000_000_000, dtype=torch.uint8)"), NONE, "memory"),
    "network": (wrong("import socket; socket.create_connection(('127.0.0.1', 80))"), NONE, "PermissionError"),
    "overwrites-scores": (wrong("open('ROOM/scores.csv', 'w').write('scores')"), NONE, "PermissionError"),
    "patched-allclose": (wrong(PATCH), NONE, UNSEEN),
    "patched-allclose-in-a-call": (wrong("", PATCH), NONE, UNSEEN),
    "patched-assert": (wrong(TRACE), NONE, ""),
    "patched-check": (wrong(CHECK), NONE, ""),
    "patched-from-within": (wrong(CLOSE), NONE, UNSEEN),
    "lying-tensor": (wrong("", LIAR), NONE, UNSEEN),
    "forged-result": (wrong(FORGE), NONE, ""),
    "reads-the-solutions": (wrong(READ), NONE, "PermissionError"),
    "imports-the-reference": ({SCALE: SCALE_RIGHT, CENTER: REFERENCE}, SCALE_ONLY, "Error"),
}
FILES = {
    "no-notebook": b"not json",
    "no-cells": b"{}",
    "nested": b"[" * 100_000,
    "binary": bytes(range(256)),
    "empty": b"",
}

LIMIT = 120  # seconds for all of them, on two slow cores


@pytest.fixture(scope="module")
def rows(room, send, grade):
    """The row of each submission."""
    paths = {name: send(name, {task: here(source, room) for task, source in CLASS[name][0].items()}) for name in CLASS}
    for name, content in FILES.items():
        paths[name] = f"sent/{name}.ipynb"
        (room / paths[name]).write_bytes(content)
    paths["never-sent"] = "sent/never-sent.ipynb"
    start = time.monotonic()
    found = grade(*paths.values(), "--jobs", "2", "--seconds", "2")
    assert time.monotonic() - start < LIMIT
    return {name: found[path] for name, path in paths.items()}


def here(source, room):
    """Put this room's paths into an answer that reads or writes files."""
    return source.replace("ROOM", str(room)) if isinstance(source, str) else source


def test_it_is_a_class_of_forty_and_more():
    assert len(CLASS) + len(FILES) >= 40


@pytest.mark.parametrize("name", CLASS)
def test_what_is_right_gains_its_points_and_nothing_else_does(rows, name):
    _, points, words = CLASS[name]
    row = rows[name]
    assert tuple(float(row[check]) for check in ("scale-check", "scale-hidden", "center-check")) == points, row
    assert float(row["points"]) == sum(points) and row["of"] == "5"
    assert words in row["remarks"] and bool(row["remarks"]) == (points != FULL)


@pytest.mark.parametrize("name", [*FILES, "never-sent"])
def test_a_file_that_is_no_notebook_gains_nothing(rows, name):
    assert rows[name]["points"] == "0" and "the " in rows[name]["remarks"]


def test_every_submission_has_its_feedback(rows, room):
    for name in rows:
        notebook = nbformat.read(room / "scores-feedback" / "sent" / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert f"{rows[name]['points']} of 5 points" in notebook.cells[0].source


def test_no_hidden_test_and_no_solution_is_told(rows, room):
    told = "".join(path.read_text() for path in (room / "scores-feedback").rglob("*.ipynb"))
    told += (room / "scores.csv").read_text()
    assert "another factor" in told
    assert not [secret for secret in ("secret_factor", "10.5", "scaled_tensor", "deviation") if secret in told]


def test_nothing_is_left_running(rows, left_over):
    assert left_over() == []
