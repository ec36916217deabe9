"""The command line: ``residual-edu`` and one of ``VERBS``, from any folder of a checkout."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from residual_course.commands.checkout import Refusal
from residual_course.commands.home import replace_home

# Each verb is a module with run(argv) -> exit code, imported only when it is called: those of this room are for
# learners and teachers, and an author's are in the folder tools of a clone, which is not installed.
VERBS = {
    "lab": "open JupyterLab on your copy of the first unfinished lesson",
    "student": "write the notebooks that a class is handed",
    "assignment": "write nbgrader's course folder",
    "grade": "run nbgrader over a class's submissions, each kernel shut in",
}
AUTHORS = {
    "test": "check the library and the lessons; --all for every check",
    "build": "execute the lessons and write their notebooks",
    "lint": "say where the lessons break their rules",
    "promote": "compare the pieces that lessons show with the library's modules, or copy them anew",
    "export": "write a lesson as one page of Markdown with its pictures",
    "book": "build the lessons as pages for a browser, with the library's reference",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 something is wrong with the lessons, 2 it could not begin."""
    verbs = VERBS | (AUTHORS if find_spec("tools") else {})
    listed = "\n".join(f"  {name:<10} {what}" for name, what in verbs.items())
    parser = argparse.ArgumentParser(
        prog="residual-edu",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"verbs:\n{listed}\n\nresidual-edu VERB --help says more.",
    )
    parser.add_argument("verb", choices=verbs, metavar="VERB", help="what to do, one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="what the verb takes")
    arguments = parser.parse_args(argv)
    replace_home()
    room = __name__ if arguments.verb in VERBS else "tools"
    try:
        return import_module(f"{room}.{arguments.verb}").run(arguments.rest)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 2
