"""The page that a student gets is nbgrader's, with each test called by what it asks, and no path of the grader's."""

import json
import os
import re
import sys
from html import escape
from pathlib import Path
from sysconfig import get_paths

import nbformat
from nbformat import NotebookNode

from residual_course.commands.exercise_cells import HIDDEN
from residual_course.contents import calls, headings

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MINUTES = re.compile(r" *(\(\d+ minutes\)|· \d+ minutes).*$")
CELL = re.compile(r"/tmp/ipykernel_\d+/\d+\.py:(\d+)")  # as Python names a cell in a warning
NAMED = re.compile(r'(<a href="#([^"]+)">)Test cell|Grade cell: <code>([^<]+)</code>')
STYLE = "<style>summary { display: list-item } .rendered_html :is(td, th) { padding: 0.3em 0.6em }</style></head>"


def shown(notebook: NotebookNode) -> str:
    """Return a graded notebook as its student may see it: of a hidden test the sentence, of others the own frames."""
    for cell in notebook.cells:
        is_hidden = HIDDEN.search(cell.source)
        outputs = [each for each in cell.get("outputs", []) if not is_hidden or each.output_type == "error"]
        for error in (each for each in outputs if each.output_type == "error"):
            own = [frame for frame in error.traceback if not COLOUR.sub("", frame).startswith("File /")]
            error.traceback = [f"{error.ename}: {error.evalue}"] if is_hidden else own
        if cell.cell_type == "code":
            cell.outputs = nbformat.from_dict(json.loads(without_paths(json.dumps(outputs, ensure_ascii=False))))
    return nbformat.writes(notebook)


def without_paths(text: str) -> str:
    """Return ``text`` with this machine's paths cut to what they are called in any other."""
    roots = [*get_paths().values(), sys.prefix, sys.base_prefix, os.getcwd(), str(Path(__file__).parents[3])]
    for root in sorted(roots, key=len, reverse=True):
        text = text.replace(f"{root}/", "").replace(root, Path(root).name)
    return CELL.sub(r"line \1 of this cell", text)


def named(page: str, notebook: NotebookNode) -> str:
    """Return nbgrader's page with each test called by the heading above it, and the name of what is tested."""
    titles, heading, name = dict[str, str](), "", ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = next((text for _, text in reversed(headings(cell.source))), heading)
        elif cell.metadata.get("nbgrader", {}).get("grade"):
            name = next((name for _, name in calls(cell.source)), name)
            other = ", on other inputs" if HIDDEN.search(cell.source) else ""
            titles[cell.metadata.nbgrader.grade_id] = f"{MINUTES.sub('', heading)} ({name}){other}"
    page = page.replace("</head>", STYLE, 1)
    return NAMED.sub(lambda m: (m[1] or "") + escape(titles.get(m[2] or m[3], m[2] or m[3])), page)
