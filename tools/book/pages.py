"""The sources of the book, written for Sphinx: lessons, investigations, homework, docs/, the library, a front page.

They lie as in the checkout, so that links between them hold: ``notebooks/`` with its folders, ``docs/``.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat

from residual_course.commands.checkout import INVESTIGATIONS, notebook_of, with_homework
from tools.book.explorers import FOLDER as STATES
from tools.book.lesson import Lesson
from tools.book.pictures import FOLDER as PICTURES
from tools.book.pictures import Pictures
from tools.book.reference import built_in, write_reference
from tools.states import states_of

EXTRA = "extra"  # what Sphinx copies as it is
PAGES = tuple(
    f"docs/{name}.md"
    for name in ("your_network", "glossary", "coming_from", "scale", "instructors", "labs", "grading", "authoring")
)
PAGES += ("docs/hub.md", "CONTRIBUTING.md", "CHANGELOG.md")
SECTION = r"^## {}\n(.*?)(?=^## |\Z)"
FILES = re.compile(r"\]\((?:\.\./)*(LICENSE|residual_course/data/LICENSE\.txt|hub/\w+\.?\w*)\)")
FRONT = """\
# Residual connections, built from nothing in PyTorch

After these lessons you can write every piece of a residual block yourself, from a norm and a gate to attention, a long
convolution and a scan, and read the block of a published design as a few choices in one equation. You can see what
reaches each layer of any network, forwards and backwards, and find out why it does not train. You have built a small
GPT and a vision transformer, of pieces that a tested PyTorch package holds for your own work.

{picture}

**[Begin with lesson 00](notebooks/00_residual_connection.ipynb)**, or
[see gradient flow in your own network](docs/your_network.md), or look up [a piece of the library](reference/index.md).

{about}

<p class="answered" data-all></p>

## The lessons

{lessons}

Each lesson asks for predictions: choose, and the page shows what was measured. This browser remembers your choices.
The exercises are done in JupyterLab, with `python course.py lab`; their solutions are folded here.

## Investigations

Each of them asks one question that its lesson leaves open; no lesson needs them.

{investigations}

## Homework

{homework}

## One equation
{equation}
{contents}
{questions}
"""
BESIDE = re.compile(r"\. \[[^\]]*\]\([^)]*\) is an investigation beside it")  # for it has a list of its own
CONTENTS = "```{{toctree}}\n:hidden:\n:caption: {}\n{}\n```"


def write_pages(root: Path, out: Path, lab: str = "") -> None:
    """Write the sources of the book of the checkout ``root`` into the new folder ``out``; ``lab`` as in ``Lesson``."""
    for folder in ("notebooks/homework", f"notebooks/{INVESTIGATIONS}", "docs"):
        (out / folder).mkdir(parents=True)
    questions = write_lessons(root, out, lab)
    for name in PAGES:
        text = (root / name).read_text(encoding="utf-8")
        (out / name).write_text(FILES.sub("]", text), encoding="utf-8")
    shutil.copytree(root / "docs" / "pictures", out / "docs" / "pictures")
    write_reference(root, out / "reference", built_in(root))
    write_front(root, out, questions)


def write_lessons(root: Path, out: Path, lab: str) -> dict[str, int]:
    """Write every lesson, investigation and homework; return how many predictions each page asks for."""
    extra = out / EXTRA / "notebooks"
    pictures, questions = Pictures(extra / PICTURES), dict[str, int]()
    shutil.copytree(root / "docs" / "states", extra / STATES, ignore=shutil.ignore_patterns("*.json"))
    for source in with_homework(root):
        notebook = notebook_of(source)
        lesson = Lesson(notebook, states_of(source), pictures, lab)
        target = out / notebook.relative_to(root)
        target.write_text(nbformat.writes(lesson.page()), encoding="utf-8", newline="\n")
        questions[docname(target, out)] = len(lesson.asked)
    return questions


def docname(page: Path, out: Path) -> str:
    """Return the name by which Sphinx knows a page."""
    return page.relative_to(out).with_suffix("").as_posix()


def write_front(root: Path, out: Path, questions: Mapping[str, int]) -> None:
    """Write the front page, of the README's texts, and the order of all pages."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    parts = {
        "Lessons": [name for name in questions if name.count("/") == 1],
        "Investigations": [name for name in questions if f"/{INVESTIGATIONS}/" in name],
        "Homework": [name for name in questions if "/homework/" in name],
        "Guides": [name.removesuffix(".md") for name in PAGES],
        "The library": ["reference/index"],
    }
    text = FRONT.format(
        picture=re.search(r"^!\[.*\)$", readme, re.M)[0],  # type: ignore[index]  # the README begins with one
        about=re.split(r"^(?:!|## )", readme.partition("\n")[2], maxsplit=1, flags=re.M)[0].strip(),
        lessons=BESIDE.sub("", section(readme, "The lessons")),
        investigations="\n".join(f"- [](/{name}.ipynb)" for name in parts["Investigations"]),
        homework="\n".join(f"- [](/{name}.ipynb)" for name in parts["Homework"]),
        equation=section(readme, "One equation"),
        contents="\n\n".join(CONTENTS.format(name, "\n".join(pages)) for name, pages in parts.items() if pages),
        questions=f'<script type="application/json" id="questions">{json.dumps(questions)}</script>',
    )
    (out / "index.md").write_text(text, encoding="utf-8")


def section(text: str, title: str) -> str:
    """Return what stands under a heading of the README."""
    found = re.search(SECTION.format(re.escape(title)), text, re.M | re.S)
    return found[1].strip() if found else ""
