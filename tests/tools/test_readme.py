"""What README.md, CONTRIBUTING.md and the guides say can be done, found and seen."""

import doctest
import re
from pathlib import Path

import pytest

from residual_course.commands import AUTHORS, VERBS
from residual_course.commands.checkout import with_homework
from tools.test import STEPS

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "CONTRIBUTING.md", "docs/authoring.md", "docs/instructors.md", "docs/labs.md", "docs/grading.md")
# Whose names and tables are looked at by test_docs.py.
OTHERS = ("CHANGELOG.md", "docs/glossary.md", "docs/coming_from.md")
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
TEXTS = PAGES | {name: (ROOT / name).read_text(encoding="utf-8") for name in OTHERS}
LINKS = [(page, *found) for page, text in TEXTS.items() for found in LINK.findall(text)]
PYTHON = [  # but for whole files of a recipe
    (page, block)
    for page, text in PAGES.items()
    for block in re.findall(r"^```python\n(?!# (?:residual_edu|tests)/)(.*?)^```", text, re.M | re.S)
]


@pytest.mark.parametrize(("page", "block"), PYTHON)
def test_python_blocks_run(page, block):
    if ">>>" in block:
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(doctest.DocTestParser().get_doctest(block, {}, page, page, 0))
        assert runner.summarize(verbose=False).failed == 0
    else:
        exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize("page", PAGES)
def test_every_verb_and_step_that_is_named_exists(page):
    said = re.findall(r"(?:residual-edu|python course\.py) ([a-z]+)", PAGES[page])
    assert set(said) <= set(VERBS | AUTHORS)
    assert set(re.findall(r"--only (\w+)", PAGES[page])) <= set(STEPS)


@pytest.mark.parametrize(("page", "picture", "text", "target"), LINKS)
def test_every_link_leads_somewhere_and_every_picture_says_what_it_shows(page, picture, text, target):
    assert len(text) >= (20 if picture else 1)
    if "://" not in target:
        assert ((ROOT / page).parent / target.partition("#")[0]).exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_exists(page):
    prose = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.M | re.S)
    named = re.findall(r"`([\w.]+/[\w./]+\.\w+|[\w/]+/)`", prose) + re.findall(r"^    (\w[\w/]*/)  ", prose, re.M)
    # A pattern, and what the commands make.
    made = ("NN_", "my_lessons/", "book/", "../class", "../private")
    made += tuple(
        f"{name}/" for name in ("release", "submitted", "feedback", "autograded", "downloaded", "source", ".grading")
    )
    missing = [path for path in named if not any(name in path for name in made) and not (ROOT / path).exists()]
    assert not missing


LABS = {lab.split()[0]: lab for lab in re.split(r"^##+ ", PAGES["docs/labs.md"], flags=re.M) if re.match(r"\d\d", lab)}


def test_every_lesson_has_a_lab():
    sources = sorted((ROOT / "notebooks" / "source").glob("[0-9]*.py"))
    assert list(LABS) == [source.name.split("_")[0] for source in sources]


@pytest.mark.parametrize("name", LABS)
def test_a_lab_quotes_and_names_what_stands_in_its_lesson_and_ends_in_time(name):
    lab, (source,) = LABS[name], with_homework(ROOT, [name])
    lesson = " ".join(re.sub("^# ?", "", source.read_text(encoding="utf-8"), flags=re.M).split())
    quotes, said = re.findall('"([^"]+)"', lab), re.sub('"[^"]+"', "", lab)
    named = [f"{kind.title()} {at} · " for kind, at in re.findall(r"\b(exercise|step|section)s? (\d+)", said, re.I)]
    (refuted,) = re.findall(r"^They believe that .*$", lab, re.M)
    headings = [f"# {name.removeprefix('Section ')}" for name in [*named, *re.findall('"([^"]+)"', refuted)]]
    assert not [text for text in [*headings, *quotes] if text not in lesson]
    for column, end in (0, 60), (1, 90):
        minutes = [row[column] for row in re.findall(r"^\| ([\d–]+) \| ([\d–]+) \|", lab, re.M)[1:]]
        clock = [int(minute) for minute in minutes if minute != "–"]
        assert clock == sorted({0, *clock}) and end - 10 < clock[-1] < end


def test_the_points_of_each_homework_are_as_told():
    told = dict(re.findall(r"(hw_\w+), (\d+) points", PAGES["docs/labs.md"]))
    for source in with_homework(ROOT, ["hw"]):
        points = re.findall(r'"points": (\d+)', source.read_text(encoding="utf-8"))
        assert told[source.stem] == str(sum(map(int, points)))
