"""What an answer's process can no longer do; each limit is for good, so it is tried in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from residual_edu.course.sandbox.confine import PACKAGE, missing, readable
from residual_edu.course.sandbox.landlock import around

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's limits")
SHUT_IN = """
import os, sys, socket, resource, threading
from pathlib import Path
from residual_edu.course.sandbox.confine import confine
confine(2, 300, Path(sys.argv[1]), [Path(sys.argv[2])])
{}
"""
REFUSED = {
    "a secret file": "open(sys.argv[2] + '/key.py')",
    "the exercises": f"open({str(PACKAGE / 'exercises' / 'check.py')!r})",
    "the grader": f"open({str(PACKAGE / 'course' / 'checkout.py')!r})",
    "another process": "open('/proc/1/environ')",
    "its own memory": "open('/proc/self/mem')",
    "a file elsewhere": "open(sys.argv[1] + '/../elsewhere', 'w')",
    "a large file": "open('large', 'wb').write(bytes(1 << 22))",
    "a fork": "os.fork()",
    "a program": "os.execv('/bin/true', ['true'])",
    "a signal": "os.kill(os.getppid(), 0)",
    "the network": "socket.socket()",
    "a thread": "threading.Thread(target=print).start()",
    "memory": "bytearray(400_000_000)",
    "a higher limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "another owner": "os.chown('.', 1, 1)",
    "another mode": f"os.chmod({str(PACKAGE / 'config.py')!r}, 0)",
}
ERRORS = {  # where it is no PermissionError
    "a large file": "OSError",
    "a thread": "RuntimeError",
    "memory": "MemoryError",
    "a higher limit": "ValueError",
}
ALLOWED = {
    "a file of its own": "open('notes', 'w').write('mine')",
    "the package": f"open({str(PACKAGE / 'config.py')!r}).read()",
    "an import": "import wave",
    "some memory": "bytes(100_000_000)",
}
EACH = """
import json
said = {}
for what, code in json.loads(sys.argv[3]).items():
    try:
        exec(code)
        said[what] = "done"
    except BaseException as error:
        said[what] = type(error).__name__
print(json.dumps(said))
"""


def shut_in(folder, code, given=()):
    (folder / "scratch").mkdir()
    (folder / "secret").mkdir()
    (folder / "secret" / "key.py").write_text("solution")
    command = [sys.executable, "-c", SHUT_IN.format(code), str(folder / "scratch"), str(folder / "secret"), *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_what_is_not_an_answer_s_business_is_refused_and_what_it_needs_is_left(tmp_path):
    done = shut_in(tmp_path, EACH, [json.dumps(REFUSED | ALLOWED)])
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert {what: said[what] for what in ALLOWED} == dict.fromkeys(ALLOWED, "done")
    assert {what: said[what] for what in REFUSED} == {what: ERRORS.get(what, "PermissionError") for what in REFUSED}
    assert (tmp_path / "scratch" / "notes").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["scratch", "secret"]


def test_an_endless_loop_is_killed(tmp_path):
    assert shut_in(tmp_path, "while True: pass").returncode == -9


def test_all_of_it_is_to_be_had_here():
    assert missing() == ""


def test_the_folders_around_a_secret_are_found(tmp_path):
    for name in ("open", "shut/key", "shut/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shut" / "file").write_text("")
    found = set(around(tmp_path, [tmp_path / "shut" / "key"]))
    assert found == {tmp_path / "open", tmp_path / "shut" / "other", tmp_path / "shut" / "file"}
    assert list(around(tmp_path, [tmp_path])) == []


def test_a_secret_folder_around_python_hides_nothing_of_python():
    assert Path(sys.prefix).resolve() in readable([Path(sys.prefix).parent, Path("/")])
    assert not [path for path in readable([]) if path.is_relative_to(PACKAGE / "exercises")]
