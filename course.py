#!/usr/bin/env python3
"""Two commands on any machine that has Python 3.11 or newer:

    python course.py lab      JupyterLab, open on your copy of the first unfinished lesson
    python course.py test     what a change of the lessons or the library can break; --all for every check

The first run makes .venv and installs into it; later runs start at once. Any other verb (build, promote, ...) is
handed on to `python -m residual_course` in the same way. `assignment` and `grade` work in .venv-grading, where
nbgrader is: it would switch on its own panels in everybody's JupyterLab. `book` adds Sphinx to .venv when it is first
called, and `hub`, which starts the JupyterHub of docs/hub.md, adds that to .venv-grading. Standard library only, and
written to be parsed by Python 3.8, so that an old Python gets a sentence.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
STEP = re.compile(" *(Starting|Collecting|Downloading|Using cached|Processing|Building|Preparing|Installing)")
CUDA = "several more where pip brings CUDA"
AGAIN = "then run the same command again."
BROKEN = f"The environment {{}} is broken: {{}}. Delete that folder, {AGAIN}"
# What a person's own settings would have pip do elsewhere than in the environment, or otherwise.
DIVERTED = re.compile("PIP_(USER|TARGET|PREFIX|ROOT|PYTHON|DRY_RUN|NO_DEPS|REQUIRE_\\w+|NO_BUILD_ISOLATION)", re.I)
CAUSES = {  # what Python, pip or the system says (the first that fits counts), and what we say
    "No space left|Errno 28|not enough space": f"The disk is full. Free at least 3 GB, {CUDA}, {AGAIN}",
    "Permission denied|Read-only file system|Access is denied": f"Cannot write into {ROOT}. Make it yours, {AGAIN}",
    "No module named '?(venv|ensurepip)": "This Python cannot make environments: its venv or ensurepip is missing. "
    f"Install it (Debian and Ubuntu: apt install python3-venv), {AGAIN}",
    "No module named '?pip": BROKEN.format("{folder}", "it has no pip"),
    "No such file .*'npm'": f"JupyterHub needs npm. Install it (Debian and Ubuntu: apt install nodejs npm), {AGAIN}",
    "establish a new connection|[Cc]onnection ?(Error|refused|reset|aborted|broken)|name resolution|getaddrinfo|"
    "timed out|unreachable|SSLError|ProxyError": f"No network: pip cannot reach the package index. Connect, {AGAIN}",
}


class Environment:
    """A folder with a Python of its own, and what is installed into it.

    Args:
        name: the folder's name in the checkout.
        extras: the parts of pyproject.toml that it holds besides the package.
        stamp: ends the name of the file that says what was installed, where a folder has several parts.
        package: what npm installs there, in place of the extras.
    """

    def __init__(self, name: str, extras: str, stamp: str = "", package: str = "") -> None:
        self.folder, self.extras, self.package = ROOT / name, extras, package
        self.python = self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.stamp, self.log = self.folder / f"installed-by-course-py{stamp}", self.folder / "pip.log"


LEARNING, GRADING = Environment(".venv", "lab,test"), Environment(".venv-grading", "grading")
BOOK = Environment(".venv", "book", "-book")  # the same folder: only those who build the book wait for Sphinx
PEERS = Environment(".venv", "peers", "-peers")  # likewise: other libraries, whose networks one test records
HUB = Environment(".venv-grading", "hub", "-hub")
PROXY = Environment(".venv-grading", "", "-proxy", "configurable-http-proxy@4.6.3")  # the last that runs on Node 18


def main(arguments: list[str]) -> int:
    """Install what is missing, hand the verb over, and return its exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - too old a Python is what it is for
        sys.exit(f"This course needs Python 3.11 or newer, and this is {platform.python_version()}.")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    needed = environments(arguments)
    try:
        folders = dict.fromkeys(env.folder for env in needed)
        parts = [[env for env in needed if env.folder == folder] for folder in folders]
        if len(parts) == 1:
            prepare(parts[0])
        else:
            with ThreadPoolExecutor() as pool:  # pip uses one core
                list(pool.map(prepare, parts))
        return hand_over(needed[0], arguments)
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the same command again to go on.")
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(explain(f"{error} {getattr(error, 'output', '')}", needed[-1]))


def environments(arguments: list[str]) -> list[Environment]:
    """Return the environment of a verb, and any other that it will use."""
    if arguments[0] in ("assignment", "grade"):
        return [GRADING]
    if arguments[0] == "hub":
        return [GRADING, HUB, PROXY]
    if arguments[0] == "book":
        return [LEARNING, BOOK]
    if arguments[0] == "test" and "--all" in arguments:
        return [LEARNING, GRADING, BOOK, PEERS, HUB, *[PROXY] * bool(shutil.which("npm"))]
    return [LEARNING]


def prepare(parts: list[Environment]) -> None:
    """Make the folder of these parts and install what a part's stamp does not say was done, all at once."""
    env = parts[0]
    if not env.folder.exists():
        create(env)
    stamp = fingerprint(env)
    missing = [part for part in parts if not part.stamp.exists() or part.stamp.read_text() != stamp]
    for command in commands(missing):
        install(command, env)
    if missing:
        compile_all(env)
    for part in missing:
        part.stamp.write_text(stamp)


def commands(parts: list[Environment]) -> list[list[str]]:
    """Return what installs these parts: one command of pip, and one of npm for each package of its own."""
    words = ["-m", "pip", "install", "--no-compile", "--progress-bar=off", "-c", "constraints.txt", "-e"]
    extras = ",".join(part.extras for part in parts if part.extras)
    pip = [[str(part.python), *words, f".[{extras}]"] for part in parts if part.extras][:1]
    npm = [shutil.which("npm") or "npm", "install", "--global", "--prefix"]
    return pip + [[*npm, str(part.folder), part.package] for part in parts if part.package]


def create(env: Environment) -> None:
    """Make the environment; what fails or is stopped half way leaves nothing behind."""
    print(f"Making the environment {env.folder}; this happens once, takes minutes and 2 GB, {CUDA}.", flush=True)
    try:
        import venv

        venv.create(env.folder, with_pip=True)
        # An old pip takes half as long again. Where there is no newer one to be had, it will do.
        newest = ["-m", "pip", "install", "--retries=0", "--upgrade", "pip"]
        subprocess.run([str(env.python), *newest], env=plain(), capture_output=True)
    except BaseException:
        shutil.rmtree(env.folder, ignore_errors=True)
        raise


def fingerprint(env: Environment) -> str:
    """Hash all that an installation depends on; asking the environment's own Python shows that it runs."""
    try:
        asked = [str(env.python), "-c", "import sys; print(sys.version)"]
        version = subprocess.run(asked, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        sys.exit(BROKEN.format(env.folder, "its Python is missing or does not start"))
    files = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join([version, os.fsencode(ROOT), *files])).hexdigest()


def install(command: list[str], env: Environment) -> None:
    """Run pip or npm, and show in one moving line what it does and for how long."""
    said = ["Starting pip\n"]
    out, err = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command, cwd=ROOT, env=plain(), stdout=out, stderr=err, encoding="utf-8", errors="replace"
    ) as pip:
        reader = threading.Thread(target=lambda: said.extend(pip.stdout or ()), daemon=True)
        reader.start()
        try:
            watch(pip, said)
        finally:
            pip.terminate()
            reader.join(5)  # before its file is closed, also on Ctrl-C
    if pip.returncode:
        env.log.write_text("".join(said), encoding="utf-8")
        sys.exit(explain("".join(said), env))


def plain() -> dict[str, str]:
    """Return the variables of this process without those that divert pip; a pip.conf may say ``user`` too."""
    kept = {name: text for name, text in os.environ.items() if not DIVERTED.fullmatch(name)}
    return {**kept, "PIP_USER": "0"}


def compile_all(env: Environment) -> None:
    """Compile what was installed, without tests and peers' networks; pip uses one core. What fails is no Python."""
    print("      compiling, on every core", flush=True)
    words = ["-m", "compileall", "-qq", "-j0", "-x", r"[/\\](tests|transformers[/\\]models)[/\\]", str(env.folder)]
    subprocess.run([str(env.python), *words], capture_output=True)


def watch(pip: subprocess.Popen[str], said: list[str]) -> None:
    """Show the latest step of ``pip`` until it ends: on a terminal every half second, in a log every ten."""
    every, line = (0.5, "\r{:4.0f} s  {:66}") if sys.stdout.isatty() else (10, "{:4.0f} s  {}\n")
    start = time.monotonic()
    while pip.poll() is None:
        steps = [text.strip() for text in said if STEP.match(text)]
        print(line.format(time.monotonic() - start, steps[-1][:66]), end="", flush=True)
        try:
            pip.wait(every)
        except subprocess.TimeoutExpired:
            continue
    print(line.format(time.monotonic() - start, "pip has stopped" if pip.returncode else "installed").rstrip())


def explain(text: str, env: Environment) -> str:
    """Say in one sentence what went wrong."""
    fits = (sentence.replace("{folder}", str(env.folder)) for sign, sentence in CAUSES.items() if re.search(sign, text))
    last = (re.findall("(?i)^ *error: (.+)", text, re.MULTILINE) or text.strip().split("\n"))[-1]
    return next(fits, f"The installation did not work: {last} (All that pip said, if it ran, is in {env.log}.)")


def hand_over(env: Environment, arguments: list[str]) -> int:
    """Run the verb. Ctrl-C reaches it too and it decides when to end; we wait for that."""
    words = ["residual_course", *arguments]
    if arguments[0] == "hub":
        words = ["jupyterhub", "--config", str(ROOT / "docs" / "hub" / "jupyterhub_config.py"), *arguments[1:]]
    verb = subprocess.Popen([str(env.python), "-m", *words], cwd=ROOT)
    while True:
        try:
            return verb.wait()
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
