"""The learner's own copies of the lessons, in ``my_lessons``: made where they are missing, never overwritten."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import nbformat
from filelock import FileLock

import residual_course.contents as contents
import residual_course.progress as progress
from residual_course.commands.checkout import is_optional, lessons, notebook_of, with_homework
from residual_course.commands.notebook import outline, read_notebook


def complete(root: Path) -> None:
    """Copy the lessons, investigations and homework that are not in ``my_lessons`` yet.

    Raises:
        OSError: for a folder that cannot be written, a full disk, or a lesson that was not built.
    """
    folder = root / progress.FOLDER
    (folder / "homework").mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".copies.lock", timeout=60):
        for source in with_homework(root):
            copy_of(source).parent.mkdir(exist_ok=True)
            if not copy_of(source).exists():
                progress.replace(copy_of(source), copied(source))


def copy_of(source: Path) -> Path:
    """Return where the learner's copy of ``source`` stands."""
    notebook = notebook_of(source)
    top = next(folder for folder in notebook.parents if folder.name == "notebooks")
    return top.with_name(progress.FOLDER) / notebook.relative_to(top)


def copied(source: Path) -> str:
    """Return the built notebook of ``source`` as text, with a mark of what it was copied from."""
    notebook = read_notebook(notebook_of(source))
    notebook.metadata["residual_edu"] = {"copy_of": mark(source)}
    return nbformat.writes(notebook) + "\n"


def mark(source: Path) -> str:
    """Return a hash of all that the built notebook of ``source`` says, its outputs left out."""
    lines = outline(read_notebook(notebook_of(source)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def remarks(root: Path) -> list[str]:
    """Return a sentence each on copies whose lesson has changed since, copies and answers that cannot be read."""
    marks = {source: taken_from(copy_of(source)) for source in with_homework(root)}
    broken = [source.stem for source, taken in marks.items() if taken is None]
    older = [source.stem for source, taken in marks.items() if taken not in (None, mark(source))]
    said = {
        "The course has newer versions than your copies of": older,
        "These copies cannot be read as notebooks": broken,
    }
    end = "`python course.py lab --fresh LESSON` starts one anew and keeps yours."
    lines = [f"{begin}: {', '.join(names)}; {end}" for begin, names in said.items() if names]
    _, trouble = progress.read(root / progress.FOLDER)
    return [*lines, trouble] if trouble else lines


def taken_from(copy: Path) -> str | None:
    """Return the mark of a copy, empty where it has lost it; ``None`` where it is no notebook."""
    try:
        metadata = nbformat.read(copy, as_version=4).metadata
        return str(metadata.get("residual_edu", {}).get("copy_of", ""))
    except OSError:
        raise
    except Exception:  # nbformat raises whatever its own code stumbles over
        return None


def start_anew(root: Path, names: Sequence[str]) -> list[str]:
    """Put fresh copies of the lessons ``names`` in place and keep the old ones beside them; return what was done.

    Raises:
        OSError: for a folder that cannot be written or a full disk; the old copy is then where it was.
    """
    return [renew(source) for source in with_homework(root, names)]


def renew(source: Path) -> str:
    """Put a fresh copy of ``source`` in place, forget its answers, and say how the old one is called now."""
    copy, fresh = copy_of(source), copied(source)
    if not copy.exists():
        progress.replace(copy, fresh)
        return f"{copy.name} is new."
    kept = free_name(copy)
    copy.rename(kept)
    try:
        progress.replace(copy, fresh)
    except OSError:
        kept.rename(copy)
        raise
    old = asked(notebook_of(source))
    mine = next(folder for folder in copy.parents if folder.name == progress.FOLDER)
    trouble = progress.change(mine, {}, gone=old | {"measured": old["predictions"]})
    said = f"{copy.name} is new; the one you worked in is now {kept.name!r}, and its answers are forgotten."
    return f"{said} {trouble}".strip()


def free_name(copy: Path) -> Path:
    """Return a name that says since when ``copy`` is kept, and that nothing has yet."""
    names = (
        f"{copy.stem} (kept {datetime.now():%Y-%m-%d %H.%M.%S}{more}).ipynb"
        for more in ("", *map(".{}".format, range(99)))
    )
    return next(path for name in names if not (path := copy.with_name(name)).exists())


def first_unfinished(root: Path) -> Path:
    """Return the copy of the first lesson with a prediction or an exercise still open, or of the last lesson.

    What is optional may stay open.
    """
    done, _ = progress.read(root / progress.FOLDER)
    sources = [source for source in lessons(root) if not is_optional(source)]
    unfinished = (
        s for s in sources if any(set(names) - set(done[kind]) for kind, names in asked(notebook_of(s)).items())
    )
    return copy_of(next(unfinished, sources[-1]))


def asked(notebook: Path) -> progress.Answers:
    """Return what ``notebook`` asks: the questions of its predictions, and the names of its exercises."""
    found: progress.Answers = {kind: {} for kind in ("predictions", "exercises")}
    for each in contents.asked(notebook):
        found[each.kind][each.name] = True
    return found
