"""Sphinx's part: its settings, and the run that makes the pages. There is no conf.py; this is it."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

import residual_edu  # noqa: F401 - with torch itself, before autodoc puts a mock in its place
from tools.book.pages import EXTRA

STATIC = Path(__file__).with_name("static")
MATHJAX = "mathjax/tex-chtml.js"
SETTINGS: dict[str, Any] = {
    "project": "residual_edu",
    "extensions": [
        "myst_nb",
        "sphinx.ext.autodoc",
        "sphinx.ext.githubpages",
        "sphinx.ext.mathjax",
        "sphinx.ext.napoleon",
        "sphinx.ext.viewcode",
        "tools.book.extension",
    ],
    "smartquotes": False,  # the lessons' words stand as JupyterLab shows them
    "exclude_patterns": ["jupyter_execute", EXTRA],
    "suppress_warnings": ["myst.header"],
    "html_theme": "furo",
    "html_title": "residual_edu",
    "html_static_path": [str(STATIC)],
    "html_css_files": ["book.css"],
    "html_js_files": [("book.js", {"defer": "defer"})],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_domain_indices": False,
    "html_use_index": False,
    "mathjax_path": MATHJAX,
    "mathjax3_config": {"options": {"enableMenu": False}},  # the menu would load more files
    "myst_enable_extensions": ["colon_fence", "dollarmath"],
    "myst_heading_anchors": 4,
    "nb_execution_mode": "off",
    "nb_render_markdown_format": "myst",
    "nb_merge_streams": True,
    "nb_render_text_lexer": "none",
    "add_module_names": False,
    "viewcode_follow_imported_members": False,  # a method from elsewhere would have a link back that leads nowhere
    "autodoc_mock_imports": ["torch", "jaxtyping", "numpy", "sklearn", "matplotlib", "PIL"],
    "napoleon_numpy_docstring": False,
}


def make_site(pages: Path, out: Path) -> int:
    """Make the site in ``out`` from its sources; return 1 where Sphinx warns. The rest lies beside ``out``."""
    settings = SETTINGS | {"html_extra_path": [str(pages / EXTRA)]}
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    with patch_docutils(), docutils_namespace():
        how: dict[str, Any] = {"status": None, "freshenv": True, "parallel": os.cpu_count() or 1}
        app = Sphinx(pages, None, out, out.with_name("doctrees"), "html", settings, **how)
        app.build(force_all=True)
    copy_mathjax(out / "_static" / Path(MATHJAX).parent)
    for leftover in (out / ".buildinfo", out / "objects.inv"):
        leftover.unlink(missing_ok=True)
    return int(app._warncount > 0)


def copy_mathjax(out: Path) -> None:
    """Copy what the pages need of MathJax, out of the package that brings it."""
    found = find_spec("sphinx-mathjax-offline")
    source = Path(str(found and found.origin)).with_name("static") / "mathjax"
    for path in [source / Path(MATHJAX).name, *sorted((source / "output/chtml/fonts/woff-v2").glob("*.woff"))]:
        target = out / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
