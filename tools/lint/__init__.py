"""``residual-edu lint``: what a lesson must keep to, each rule one small function that yields a sentence a breach."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from residual_course.commands.answers import answers_of, join
from residual_course.commands.checkout import find_root, is_optional, lessons, notebook_of
from residual_course.commands.exercise_cells import tags
from residual_course.commands.notebook import plan, read_notebook
from tools.companions import faults
from tools.lint import code, links, numbers, outputs, predictions


def run(argv: Sequence[str]) -> int:
    """Print what is wrong with the lessons named in ``argv``."""
    parser = argparse.ArgumentParser(prog="residual-edu lint", description="Say where the lessons break their rules.")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="02 or 02_layer_norm; all where none is given")
    sources = lessons(find_root(), parser.parse_args(argv).lessons)
    findings = [finding for source in sources for finding in lint(source)]
    print("\n".join(findings or ["Every lesson keeps its rules."]))
    return int(bool(findings))


def lint(source: Path) -> list[str]:
    """Return what is wrong with a lesson, one sentence each; its notebook is read, or planned where it is not built."""
    return [f"{source.stem}: {finding}" for finding in broken(source)]


def broken(source: Path) -> Iterator[str]:
    """Yield what is wrong; what is optional has no way in and on and no numbers. Nobody sees cells of hidden tests."""
    built = notebook_of(source)
    notebook = read_notebook(built) if built.exists() else plan(source)
    notebook.cells = [cell for cell in notebook.cells if "hidden-test" not in tags(cell)]
    yield from outputs.nothing_is_stored(notebook)
    join(notebook, answers_of(built))
    rules = [*code.RULES, code.narrow_lines, *predictions.RULES, links.links_lead_somewhere]
    rules += outputs.RULES if built.exists() else []
    rules += [] if is_optional(source) else [*links.FOR_A_LESSON, *numbers.RULES]
    yield from faults(source, notebook)
    yield from (finding for rule in rules for finding in rule(notebook, source))
