"""What Sphinx and myst-nb lack: the fold of an answer, excerpts in the search, and some of the theme's settings."""

import html
import json
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

from tools.book.signatures import starred, written

# Where a browser or a server forbids to keep anything, the theme's scripts find a store that lasts as long as the page.
# Neither is asked here: of a page from a disk that asks so early, Chromium may lose what it keeps.
STORE = """<script>{
  const kept = new Map(), given = Object.getOwnPropertyDescriptor(window, "localStorage").get;
  const store = { getItem: key => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value),
                  removeItem: key => kept.delete(key) };
  const found = () => { try { return given.call(window); } catch { return store; } };
  Object.defineProperty(window, "localStorage", { get: found });
}</script>
"""
UNFOUND = "no-search"  # Sphinx's class for what its search does not index
# The search shows a piece of each page that it finds. It would fetch that page, which a browser refuses on a disk, and
# which holds what a prediction has not opened yet; so the texts that it may show are in a file of their own.
TEXTS = "searchtexts.js"
FETCH = """const TEXTS = %s;
const ROOT = document.documentElement.dataset.content_root;
window.fetch = async url => new Response(TEXTS[url.slice(ROOT.length, -".html".length)]);
"""
UNTOLD = re.compile(r"<script.*?</script>|<[^>]+>", re.S)


class Answer(nodes.General, nodes.Element):
    """What opens once a prediction is made: its answer, and all up to the next heading."""


def open_answer(self: HTML5Translator, node: Answer) -> None:
    """Begin the fold; a script hides it whole until the question is answered."""
    self.body.append(f'<details class="answer" id="{node["answer"]}"><summary>What was measured</summary>\n')


def close_answer(self: HTML5Translator, node: Answer) -> None:
    """End the fold."""
    self.body.append("</details>\n")


class FoldAnswers(SphinxTransform):
    """Fold each answer with what follows it in its section, and keep it and all solutions out of the search."""

    default_priority = 800

    def apply(self, **kwargs: Any) -> None:
        """Go from the last answer to the first: one that stands below another stays within its fold."""
        cells = list(self.document.findall(nodes.container))
        for cell in reversed([cell for cell in cells if "answer" in cell.get("cell_metadata", {})]):
            fold_from(cell)
        for cell in cells:
            if "tag_solution" in cell["classes"]:
                cell["classes"].append(UNFOUND)


def fold_from(cell: nodes.container) -> None:
    """Move an answer, and its siblings up to the next section, into a fold."""
    parent = cell.parent
    at = parent.index(cell)
    end = next((i for i in range(at, len(parent)) if isinstance(parent[i], nodes.section)), len(parent))
    answer = Answer("", *parent[at:end], answer=cell["cell_metadata"]["answer"], classes=[UNFOUND])
    parent[at:end] = [answer]


def keep_text(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Keep what the search may show of a page."""
    app.env.__dict__.setdefault("texts", {})[page] = f'<div role="main">{text_of(doctree)}</div>'


def text_of(node: nodes.Node) -> str:
    """Return the text of what the search finds, as HTML; the sections in it have their names."""
    if isinstance(node, nodes.Text):
        return html.escape(node.astext())
    if isinstance(node, nodes.raw):
        return html.escape(html.unescape(UNTOLD.sub(" ", node.astext())))
    if not isinstance(node, nodes.Element) or UNFOUND in node.get("classes", ()):
        return ""
    inner = "".join(map(text_of, node.children)) + " " * (not isinstance(node, nodes.Inline))
    return f'<section id="{node["ids"][0]}">{inner}</section>' if isinstance(node, nodes.section) else inner


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the texts of all pages beside the search."""
    if not error:
        (app.outdir / TEXTS).write_text(FETCH % json.dumps(app.env.__dict__["texts"]), encoding="utf-8")


def dark_code(app: Sphinx) -> None:
    """Set the colours of code in the dark look, before furo reads them; it has no such setting before its own start."""
    app.config.pygments_dark_style = "a11y-dark"


def levels(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the headings of furo's contents the level that a screen reader asks for, and its scripts what they need."""
    texts = f'<script src="{TEXTS}" defer></script>\n' if page == "search" else ""
    context["metatags"] = context.get("metatags", "") + STORE + texts
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    """Hand all of it to Sphinx."""
    app.add_node(Answer, html=(open_answer, close_answer))
    app.add_transform(FoldAnswers)
    app.connect("doctree-resolved", keep_text)
    app.connect("build-finished", write_texts)
    app.connect("html-page-context", levels, priority=900)
    app.connect("builder-inited", dark_code, priority=400)
    app.connect("autodoc-process-signature", written)
    app.connect("autodoc-process-docstring", starred)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
