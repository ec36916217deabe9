"""Where the lessons stand in a checkout, and what is said when they do not."""

from collections.abc import Sequence
from pathlib import Path

INVESTIGATIONS = "investigations"  # the folder in notebooks of what a lesson leaves open, with a source of its own


class Refusal(Exception):
    """What a verb cannot do, said to the person in one sentence."""


def find_root(start: Path | None = None) -> Path:
    """Return the nearest folder with a notebooks/source, from ``start`` (or the current folder) upwards.

    Raises:
        Refusal: where there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "notebooks" / "source").is_dir():
            return folder
    raise Refusal(f"There is no notebooks/source in {here} or above it: change into a checkout of residual_edu first.")


def lessons(root: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the sources in order: all, or those that ``names`` begin (02, 02_layer_norm, or a path to either form).

    The investigations follow all lessons; only its whole name names one.

    Raises:
        Refusal: for a name that begins no lesson.
    """
    folders = (root / "notebooks" / "source", root / "notebooks" / INVESTIGATIONS / "source")
    return chosen([source for folder in folders for source in sorted(folder.glob("[0-9]*.py"))], names)


def with_homework(root: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the same with the homework of each pair of lessons behind them, such as hw_00_01."""
    homework = sorted((root / "notebooks" / "source" / "homework").glob("hw_*.py"))
    return chosen([*lessons(root), *homework], names)


def chosen(every: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """Return those of ``every`` that ``names`` begin; all where there are no names."""
    stems = [Path(name).stem for name in names]
    for stem in stems:
        if not any(begins(stem, source) for source in every):
            raise Refusal(f"There is no lesson {stem!r}; there are: {', '.join(s.stem for s in every) or 'none yet'}.")
    return [source for source in every if not stems or any(begins(stem, source) for stem in stems)]


def begins(stem: str, source: Path) -> bool:
    """Whether ``stem`` names ``source``, by its beginning; what is optional is named by its whole name alone."""
    return source.stem == stem if is_optional(source) else source.stem.startswith(stem)


def is_optional(lesson: Path) -> bool:
    """Whether a source or notebook is an investigation, which nobody has to do."""
    return INVESTIGATIONS in (folder.name for folder in list(lesson.parents)[:2])


def course_of(lesson: Path) -> Path:
    """Return the checkout of a source or notebook; its own folder, where it stands in none."""
    return next((folder.parent for folder in lesson.parents if folder.name == "notebooks"), lesson.parent)


def companion_of(lesson: Path) -> Path:
    """Return where the companion of a source or notebook stands: in the package, as far as it belongs to a checkout."""
    return course_of(lesson) / "residual_course" / "data" / "lessons" / f"{lesson.stem}.toml"


def notebook_of(source: Path) -> Path:
    """Return where the built notebook of ``source`` stands: at the same place under notebooks, without its source."""
    top = next(folder for folder in source.parents if folder.name == "source")
    return top.parent / source.relative_to(top).with_suffix(".ipynb")
