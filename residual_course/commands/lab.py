"""``residual-edu lab``: JupyterLab on the learner's own copies, open on the first unfinished lesson."""

import argparse
import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

from residual_course.commands.checkout import Refusal, find_root, with_homework
from residual_course.progress import FOLDER

FIRST = "00_residual_connection.ipynb"
# JupyterLab's defaults, without its question about news and its look for updates, and with all cells on the page, so
# that the browser's own search and a screen reader find them. A page of Markdown, such as the glossary, opens as a page
# to read. What a person sets in JupyterLab still wins.
SETTINGS = Path(__file__).with_name("lab_settings")
CONNECTION = "residual_course.commands.connection.PromptConnection"
FULL = "the disk is full; free some space, then run the same command again"
CLOSED = "it cannot be written; make it yours, or copy the checkout to a folder of your own"
NO_FOLDER = "a file stands where a folder should be; rename it, then run the same command again"
CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), CLOSED),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), NO_FOLDER),
    errno.ENOENT: "it is missing; make it first: residual-edu build",
}


def run(argv: Sequence[str]) -> int:
    """Open JupyterLab; words in ``argv`` that are not ours, such as ``--no-browser``, are handed on to it."""
    parser = argparse.ArgumentParser(
        prog="residual-edu lab",
        description=f"Copy the lessons that {FOLDER}/ does not hold yet, and open JupyterLab there on the first "
        "unfinished one. What stands there is never overwritten. Other options are handed on to JupyterLab.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--fresh",
        action="append",
        default=[],
        metavar="LESSON",
        help="start this lesson (02, hw_02_03) anew; the copy that you worked in is kept beside it",
    )
    parser.add_argument("--edit", action="store_true", help="open the course's own notebooks, to change the course")
    parser.add_argument("--no-browser", action="store_true", help="open no browser; the address is printed")
    parser.add_argument("--port", type=int, metavar="N", help="serve at this port, not at 8888 or the next free one")
    given, rest = parser.parse_known_args(argv)
    if given.edit and given.fresh:
        parser.error("--fresh is about your copies, and --edit is not")
    if rest and not rest[0].startswith("-"):
        parser.error(f"lab opens the first unfinished lesson; --fresh {rest[0]} starts one anew")
    rest += ["--no-browser"] * given.no_browser + ([f"--port={given.port}"] if given.port else [])
    root = find_root()
    notebook = root / "notebooks" / FIRST if given.edit else prepare(root, given.fresh)
    if not notebook.exists():
        raise Refusal(f"There is no {notebook}; make it first: residual-edu build 00")
    return wait(subprocess.Popen(command(root, notebook, rest), env={"OMP_NUM_THREADS": "1", **os.environ}))


def prepare(root: Path, fresh: Sequence[str]) -> Path:
    """Bring ``my_lessons`` up to date, say what changed, and return the notebook to open.

    Raises:
        Refusal: where another JupyterLab has the folder open, or it cannot be written; nothing is lost then.
    """
    from residual_course.commands import copies

    refuse_a_second(root)
    if (mine := root / FOLDER).is_symlink() and not mine.is_dir():
        raise Refusal(f"{mine} is a link to {os.readlink(mine)}, which is no folder: make it, or remove the link.")
    try:
        copies.complete(root)
        done = copies.start_anew(root, fresh) if fresh else []
        done += copies.remarks(root)
        first = copies.copy_of(with_homework(root, fresh)[0]) if fresh else copies.first_unfinished(root)
    except OSError as error:
        raise Refusal(f"{error.filename or root / FOLDER}: {CAUSES.get(error.errno or 0, error)}.") from None
    print(*done, f"Opening {first.relative_to(root)}", sep="\n", flush=True)
    return first


def refuse_a_second(root: Path) -> None:
    """Refuse where a JupyterLab of this person already serves the checkout: two would save over each other."""
    from jupyter_core.paths import jupyter_runtime_dir

    for note in Path(jupyter_runtime_dir()).glob("jpserver-*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # a note that is broken, or of a server that is gone
            server = json.loads(note.read_text(encoding="utf-8"))
            address = f"{server['url']}lab/tree/{FOLDER}?token={server['token']}"
            if Path(server["root_dir"]) == root:
                create_connection((urlsplit(address).hostname, server["port"]), timeout=2).close()
                raise Refusal(f"JupyterLab already runs on {root}: open {address}, or stop it first ({note}).")


def command(root: Path, notebook: Path, argv: Sequence[str]) -> list[str]:
    """Return the command line that opens ``notebook`` in this Python's JupyterLab, and prints its address.

    Its root is the checkout, so that a lesson's link to docs/glossary.md leads somewhere.
    """
    ours = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{notebook.relative_to(root).as_posix()}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        "--LabApp.extension_manager=readonly",
        f"--ServerApp.kernel_websocket_connection_class={CONNECTION}",
        "--LanguageServerManager.autodetect=False",  # its list of what is not installed looks like an error
    ]
    return [sys.executable, "-m", "jupyterlab", *ours, *argv]


def wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of ``process``. Ctrl-C reaches it too: JupyterLab asks what to do, and we wait for that."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
