"""What Sphinx and myst-nb lack: the fold of an answer, and signatures as they are written."""

import ast
import inspect
import re
import textwrap
from contextlib import suppress
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

UNFOUND = "no-search"  # Sphinx's class for what its search does not index
STARRED = re.compile(r"(?<![\w*`\\])\*(?=\w+[,)])")  # (*batch, channels), where Sphinx would begin an emphasis


class Answer(nodes.General, nodes.Element):
    """What opens once a prediction is made: its reveal, and all up to the next heading."""


def open_answer(self: HTML5Translator, node: Answer) -> None:
    """Begin the fold; a script hides it whole until the question is answered."""
    self.body.append(f'<details class="answer" id="{node["answer"]}"><summary>What was measured</summary>\n')


def close_answer(self: HTML5Translator, node: Answer) -> None:
    """End the fold."""
    self.body.append("</details>\n")


class FoldAnswers(SphinxTransform):
    """Fold each reveal with what follows it in its section, and keep it and all solutions out of the search."""

    default_priority = 800

    def apply(self, **kwargs: Any) -> None:
        """Go from the last reveal to the first: one that stands below another stays within its fold."""
        cells = list(self.document.findall(nodes.container))
        for cell in reversed([cell for cell in cells if "answer" in cell.get("cell_metadata", {})]):
            fold_from(cell)
        for cell in cells:
            if "tag_solution" in cell["classes"]:
                cell["classes"].append(UNFOUND)


def fold_from(cell: nodes.container) -> None:
    """Move a reveal, and its siblings up to the next section, into a fold."""
    parent = cell.parent
    at = parent.index(cell)
    end = next((i for i in range(at, len(parent)) if isinstance(parent[i], nodes.section)), len(parent))
    answer = Answer("", *parent[at:end], answer=cell["cell_metadata"]["answer"], classes=[UNFOUND])
    parent[at:end] = [answer]


def written(app: Sphinx, what: str, name: str, found: Any, *rest: Any) -> tuple[str, str | None] | None:
    """Return arguments and result of a function, method or class as its source writes them, shapes and units too."""
    if what not in ("function", "method", "class"):
        return None
    with suppress(TypeError, OSError, IndentationError):
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found)))).body[0]
        if isinstance(tree, ast.ClassDef):
            return of_class(tree)
        if isinstance(tree, ast.FunctionDef):
            return signature(tree, bound=what == "method")
    return None


def of_class(tree: ast.ClassDef) -> tuple[str, str | None] | None:
    """Return the arguments of a class: those of its ``__init__``, or the fields of a dataclass or NamedTuple."""
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return signature(each, bound=True)
    fields = [ast.unparse(each) for each in tree.body if isinstance(each, ast.AnnAssign)]
    return (f"({', '.join(fields)})", None) if fields else None


def signature(tree: ast.FunctionDef, bound: bool) -> tuple[str, str | None]:
    """Return the arguments, without ``self`` where it is bound, and the result."""
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in tree.decorator_list)
    first = tree.args.posonlyargs or tree.args.args
    if bound and first and not static:
        del first[0]
    result = tree.returns and tree.name != "__init__" and ast.unparse(tree.returns)
    return f"({ast.unparse(tree.args)})", result or None


def starred(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Keep the star of a shape such as (*batch, channels)."""
    lines[:] = [STARRED.sub(r"\\*", line) for line in lines]


def dark_code(app: Sphinx) -> None:
    """Set the colours of code in the dark look, before furo reads them; it has no such setting before its own start."""
    app.config.pygments_dark_style = "a11y-dark"


def levels(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the headings of furo's contents the level that a screen reader asks for."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    """Hand all of it to Sphinx."""
    app.add_node(Answer, html=(open_answer, close_answer))
    app.add_transform(FoldAnswers)
    app.connect("html-page-context", levels, priority=900)
    app.connect("builder-inited", dark_code, priority=400)
    app.connect("autodoc-process-signature", written)
    app.connect("autodoc-process-docstring", starred)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
