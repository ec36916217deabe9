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
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
LINKS = [(page, *found) for page, text in PAGES.items() for found in LINK.findall(text)]
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


def test_the_two_commands_are_quoted_and_exist():
    shell = "".join(re.findall(r"^```sh\n(.*?)^```", PAGES["README.md"], re.M | re.S))
    assert re.findall(r"^python (\S+) (\w+)", shell, re.M) == [("course.py", "lab"), ("course.py", "test")]
    assert (ROOT / "course.py").exists()


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


def test_every_heading_that_refutes_a_wrong_idea_stands_in_its_lesson():
    rows = re.findall(r"^\| [^|]+ \| (\d\d\w*|hw_\w+) \| (\"[^|]+\") \|$", PAGES["docs/labs.md"], re.M)
    assert len(rows) >= 12
    for lesson, headings in rows:
        (source,) = with_homework(ROOT, [lesson])
        text = source.read_text(encoding="utf-8")
        missing = [each for each in re.findall(r'"([^"]+)"', headings) if f"# ## {each}\n" not in text]
        assert not missing, f"{source.name} has no section {missing}"


def test_the_points_of_each_homework_are_as_told():
    told = dict(re.findall(r"(hw_\w+), (\d+) points", PAGES["docs/labs.md"]))
    for source in with_homework(ROOT, ["hw"]):
        points = re.findall(r'"points": (\d+)', source.read_text(encoding="utf-8"))
        assert told[source.stem] == str(sum(map(int, points)))
