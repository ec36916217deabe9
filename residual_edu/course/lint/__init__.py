"""``residual-edu lint``: what a lesson must keep to, each rule one small function that yields a sentence a breach."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import jupytext

from residual_edu.course.checkout import find_root, lessons, notebook_of
from residual_edu.course.exercise_cells import tags
from residual_edu.course.lint import code, outputs, pacing


def run(argv: Sequence[str]) -> int:
    """Print what is wrong with the lessons named in ``argv``, their sources and those notebooks that are built."""
    parser = argparse.ArgumentParser(prog="residual-edu lint", description="Say where the lessons break their rules.")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02 or 02_layer_norm; all where none is given")
    sources = lessons(find_root(), parser.parse_args(argv).lessons)
    paths = [path for source in sources for path in (source, notebook_of(source)) if path.exists()]
    findings = [finding for path in paths for finding in lint(path)]
    print("\n".join(findings or ["Every lesson keeps its rules."]))
    return int(bool(findings))


def lint(path: Path) -> list[str]:
    """Return what is wrong with a lesson's source (.py) or built notebook (.ipynb), one sentence each.

    Both are held to the rules of code; the source to those of pacing, the notebook to those of outputs. Cells tagged
    ``hidden-test`` are left out, since no learner sees them.
    """
    notebook = jupytext.read(path)
    notebook.cells = [cell for cell in notebook.cells if "hidden-test" not in tags(cell)]
    rules = [*code.RULES, *(outputs.RULES if path.suffix == ".ipynb" else pacing.RULES)]
    return [f"{path.name}: {finding}" for rule in rules for finding in rule(notebook)]
