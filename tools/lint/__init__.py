"""``residual-edu lint``: what a lesson must keep to, each rule one small function that yields a sentence a breach."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from residual_course.commands.answers import answers_of, join
from residual_course.commands.checkout import find_root, is_appendix, lessons, notebook_of
from residual_course.commands.drafts import finished
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import read_notebook
from tools.lint import code, length, links, outputs, pacing, predictions

SOURCE_RULES = pacing.RULES + predictions.SOURCE_RULES + length.SOURCE_RULES
# An appendix has no minutes, goals or laws of its own, and need not have an explorer or exercises.
FOR_A_WHOLE_LESSON = [*pacing.FOR_A_WHOLE_LESSON, *length.FOR_A_WHOLE_LESSON]
OUTPUT_RULES = outputs.RULES + predictions.OUTPUT_RULES + length.OUTPUT_RULES


def run(argv: Sequence[str]) -> int:
    """Print what is wrong with the lessons named in ``argv``, in source and notebook; drafts are left out."""
    parser = argparse.ArgumentParser(prog="residual-edu lint", description="Say where the lessons break their rules.")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02 or 02_layer_norm; all where none is given")
    sources = finished(lessons(find_root(), parser.parse_args(argv).lessons))
    paths = [path for source in sources for path in (source, notebook_of(source)) if path.exists()]
    findings = [finding for path in paths for finding in lint(path)]
    print("\n".join(findings or ["Every lesson keeps its rules."]))
    return int(bool(findings))


def lint(path: Path) -> list[str]:
    """Return what is wrong with a lesson's source (.py) or built notebook (.ipynb), one sentence each.

    Both are held to the rules of code; the source to those of pacing, form and links, the notebook to those of outputs.
    Cells tagged ``hidden-test`` are left out, since no learner sees them. An appendix is held to no rule of a whole
    lesson.
    """
    notebook = read_notebook(path)
    if path.suffix == ".ipynb":
        join(notebook, answers_of(path))
    notebook.cells = [cell for cell in notebook.cells if "hidden-test" not in tags(cell)]
    every = code.RULES + (OUTPUT_RULES if path.suffix == ".ipynb" else SOURCE_RULES)
    exempt = FOR_A_WHOLE_LESSON if is_appendix(path) else []
    found = [finding for rule in every if rule not in exempt for finding in rule(notebook)]
    if path.suffix == ".py":
        found += [finding for rule in (*links.RULES, pacing.has_explorer) for finding in rule(notebook, path)]
    return [f"{path.name}: {finding}" for finding in found]
