"""``residual-edu promote``: a finished piece of a lesson is the package's own code, without what a first reader skips.

A cell tagged ``promote:parts/layer_norm`` holds its imports, then whole classes and functions. Each has the syntax tree
of the one of that name in ``residual_edu/parts/layer_norm.py`` once ``stripped`` has been at both. ``promote:config``
names the one module that stands in no room.
"""

import argparse
import ast
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from residual_edu.course.checkout import Refusal, find_root, is_appendix, lessons
from residual_edu.course.new_piece import write
from residual_edu.course.pieces import Piece, pieces, pieces_of
from residual_edu.course.refresh import refresh
from residual_edu.course.stripped import stripped

HELP = """\
  promote NAME           write a new class or function from its lesson into its module
  promote --check        show where the code of lessons and modules differs
  promote --refresh 02   write the modules' code into a lesson; without a lesson, into each whose code is the same"""


def run(argv: Sequence[str]) -> int:
    """Write a new piece into its module, refresh lessons from the modules, or show how the two differ."""
    parser = argparse.ArgumentParser(
        prog="residual-edu promote", formatter_class=argparse.RawDescriptionHelpFormatter, description=HELP
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; show the differences")
    how.add_argument("--refresh", action="store_true", help="write from the modules into the lessons")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a piece such as LayerNorm; with --refresh a lesson")
    arguments = parser.parse_args(argv)
    if not (arguments.check or arguments.refresh or arguments.names):
        parser.error("name the class or function to write, or give --check or --refresh")
    root = find_root()
    every = pieces(root)
    if arguments.refresh:
        return refresh_lessons(root, arguments.names)
    if arguments.names:
        every = [piece for piece in every if piece.definition.name in arguments.names]
        if unknown := set(arguments.names) - {piece.definition.name for piece in every}:
            raise Refusal(f"No lesson promotes {', '.join(sorted(unknown))}.")
    return check(every) if arguments.check else write_new(every)


def check(every: Sequence[Piece]) -> int:
    """Show how pieces differ between lesson and module, and what to do."""
    found = [line for piece in every for line in shown(piece)]
    print("\n".join(found or [f"Every promoted piece ({len(every)}) stands in its module as in its lesson."]))
    return int(bool(found))


def shown(piece: Piece) -> list[str]:
    """Return the difference of a piece with what to do about it; nothing where there is none."""
    stem, name = piece.lesson.stem, piece.definition.name
    lesson = stem if is_appendix(piece.lesson) else stem.partition("_")[0]
    into_lesson = f"residual-edu promote --refresh {lesson}  # writes the module's code into the lesson"
    into_module = f"residual-edu promote {name}  # writes the lesson's code into the module, which has no {name}"
    lines = difference(piece)
    return [*lines, into_lesson if piece.in_module() else into_module, ""] if lines else []


def difference(piece: Piece, refreshed: bool = False) -> list[str]:
    """Return the diff from the module's code to the lesson's, or back where the lesson is refreshed; empty for none."""
    has = piece.in_module()
    ours = (code(has.text) if has else "").splitlines(), str(piece)
    theirs = code(piece.definition.text).splitlines(), f"the same in {piece.lesson.name}"
    (old, old_name), (new, new_name) = (theirs, ours) if refreshed else (ours, theirs)
    return list(unified_diff(old, new, old_name, new_name, lineterm=""))


def code(text: str) -> str:
    """Return what is compared of a definition, in a layout that depends on its syntax tree alone."""
    return ast.unparse(ast.parse(stripped(text, summary=False)))


def write_new(every: Sequence[Piece]) -> int:
    """Write pieces into modules that lack them; one that is there stays as it is."""
    worst = 0
    for piece in every:
        if piece.in_module() is None:
            unbound = sorted(write(piece))
            print(f"{piece} is new, as in {piece.lesson.name}; its docstring, annotations and checks belong there.")
            print(*(f"It reads {name}, which nothing binds there.\n" for name in unbound), sep="", end="")
        elif found := shown(piece):
            print("\n".join([f"{piece} is there already and stays as it is.", *found]))
            worst = 1
        else:
            print(f"{piece} is there already, with the code of {piece.lesson.name}.")
    return worst


def refresh_lessons(root: Path, names: Sequence[str]) -> int:
    """Write the modules' code into lessons; one that was not named keeps code of its own."""
    worst, package = 0, root / "residual_edu"
    for lesson in lessons(root, names):
        every = list(pieces_of(lesson, package))
        if not names and (found := [line for piece in every for line in shown(piece)]):
            print("\n".join([f"{lesson.name} stays as it is, since its code is not the package's.", *found]))
            worst = 1
        elif every:
            change = refresh(lesson, package)
            replaced = [line for piece in every for line in difference(piece, refreshed=True)]
            lesson.write_text(change.text, encoding="utf-8", newline="\n")
            print("\n".join([*replaced, *change.lost, f"{lesson.name}: {change}"]))
    return worst
