"""``residual-edu book``: the lessons as pages for a browser, from what is stored; nothing is executed.

The stored notebooks, joined with their answers, become MyST sources in a folder of their own (``pages``); Sphinx with
myst-nb makes the pages of them (``site``). Whoever has no Jupyter reads these from a folder, a server or a USB stick.
"""

import argparse
import shutil
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from residual_course.commands.checkout import Refusal, find_root

INDEX = "index.html"


def run(argv: Sequence[str]) -> int:
    """Build the book and print where it begins; return 1 if Sphinx had anything to say against it."""
    parser = argparse.ArgumentParser(prog="residual-edu book", description="Build the lessons as pages for a browser.")
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT", help="where to; book/ in the checkout if not given")
    parser.add_argument("--lab", default="", metavar="URL", help="what begins the address of a notebook in your lab")
    root, given = find_root(), parser.parse_args(argv)
    if not find_spec("myst_nb"):
        raise Refusal("The book needs Sphinx and myst-nb; run: python course.py book")
    start, out = time.monotonic(), (given.out or root / "book").resolve()
    make_room(out)
    code = build(root, out, given.lab)
    print(f"{out / INDEX}, in {time.monotonic() - start:.0f} s")
    return code


def make_room(out: Path) -> None:
    """Remove an earlier book; refuse a folder that holds anything else."""
    if out.is_dir() and any(out.iterdir()) and not (out / INDEX).exists():
        raise Refusal(f"{out} is not empty and holds no book.")
    shutil.rmtree(out, ignore_errors=True)


def build(root: Path, out: Path, lab: str = "") -> int:
    """Build the book of the checkout ``root`` in ``out``; return 0, or 1 where Sphinx warns."""
    from tools.book.pages import write_pages
    from tools.book.site import make_site

    with TemporaryDirectory() as folder:
        pages, site = Path(folder) / "pages", Path(folder) / "site"
        write_pages(root, pages, lab)
        code = make_site(pages, site)
        shutil.move(site, out)
    return code
