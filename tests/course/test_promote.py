import pytest

from residual_edu.course import main
from residual_edu.course.checkout import Refusal
from residual_edu.course.promote import pieces

MODULE = '''"""The module's own words."""

import math

HALF = 0.5


def area(r):
    """Return the area."""
    return math.pi * r**2


def other():
    return HALF
'''

LESSON = '''# %% [markdown]
# # A circle

# %% tags=["promote:parts/circle"]
def area(r):
    """Return the area."""
    return math.pi * r**2

# %%
def not_promoted(): ...
'''


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "residual_edu" / "parts").mkdir(parents=True)
    (tmp_path / "residual_edu" / "parts" / "circle.py").write_text(MODULE)
    (tmp_path / "notebooks" / "source" / "00_circle.py").write_text(LESSON)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def module(checkout):
    return checkout / "residual_edu" / "parts" / "circle.py"


@pytest.fixture
def lesson(checkout):
    return checkout / "notebooks" / "source" / "00_circle.py"


def cell(target, body):
    return f'\n# %% tags=["promote:{target}"]\n{body}\n'


def test_equal_text_is_no_drift(module, capsys):
    assert main(["promote", "--check"]) == 0
    assert capsys.readouterr().out == "Every promoted piece (1) stands in its module as in its lesson.\n"
    assert main(["promote"]) == 0
    assert module.read_text() == MODULE


@pytest.mark.parametrize("side", ["module", "lesson"])
@pytest.mark.parametrize(("old", "new"), [("r**2", "r**3"), ("the area.", "the area"), ("(r):", "(r ):")])
def test_one_character_on_either_side_is_shown(request, capsys, side, old, new):
    path = request.getfixturevalue(side)
    path.write_text(path.read_text().replace(old, new, 1))
    before = path.read_text()
    assert main(["promote", "--check"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("--- area of residual_edu/parts/circle.py\n+++ the same in 00_circle.py\n")
    removed, added = (new, old) if side == "module" else (old, new)
    assert any(line.startswith("-") and removed in line for line in said.splitlines()[2:])
    assert any(line.startswith("+") and added in line for line in said.splitlines()[2:])
    assert path.read_text() == before


def test_promote_replaces_that_definition_alone(lesson, module, capsys):
    lesson.write_text(LESSON.replace("math.pi * r**2", "math.pi * r * r  # no power\n    # the end"))
    assert main(["promote"]) == 0
    assert capsys.readouterr().out == "area of residual_edu/parts/circle.py is now as in 00_circle.py\n"
    assert module.read_text() == MODULE.replace("math.pi * r**2", "math.pi * r * r  # no power")
    assert main(["promote", "--check"]) == 0


def test_promote_keeps_its_place_when_the_text_grows(lesson, module):
    decorated = "@functools.cache\n@functools.cache\ndef area(r):\n    two = 2\n    return math.pi * r**two"
    head, tail = LESSON.split("def area")[0], "\n\n# %%\nx = 1\n"
    lesson.write_text(head + decorated + tail)
    assert main(["promote"]) == 0
    start, end = MODULE.index("def area"), MODULE.index("\n\n\ndef other")
    assert module.read_text() == MODULE[:start] + decorated + MODULE[end:]


def test_promote_appends_what_the_module_lacks(lesson, module):
    ring = "class Ring:\n    hole = 1"
    lesson.write_text(LESSON + cell("parts/circle", ring))
    assert main(["promote", "--check"]) == 1
    assert main(["promote"]) == 0
    assert module.read_text() == f"{MODULE}\n\n{ring}\n"
    assert main(["promote", "--check"]) == 0


def test_promote_begins_a_new_module(lesson, module):
    lesson.write_text(LESSON + cell("parts/ring", "def ring(): ...\n\n\nclass Ring: ..."))
    assert main(["promote"]) == 0
    assert module.with_name("ring.py").read_text() == "def ring(): ...\n\n\nclass Ring: ...\n"


def test_one_module_stands_in_no_room(lesson, checkout, capsys):
    lesson.write_text(LESSON + cell("config", "def build(spec): ..."))
    assert main(["promote"]) == 0
    assert capsys.readouterr().out == "build of residual_edu/config.py is now as in 00_circle.py\n"
    assert (checkout / "residual_edu" / "config.py").read_text() == "def build(spec): ...\n"


LOOSE = "00_circle.py: the cell tagged promote:parts/ring may hold whole classes and functions alone, not {!r}."
NOWHERE = "00_circle.py: the cell tagged promote:{} names no room/module of residual_edu, such as "


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        ("parts/ring", "def ring(): ...\nring()", LOOSE.format("ring()")),
        ("parts/ring", "import math\ndef ring(): ...", LOOSE.format("import math")),
        ("../parts", "def ring(): ...", NOWHERE.format("../parts")),
        ("parts/../../ring", "def ring(): ...", NOWHERE.format("parts/../../ring")),
        ("/tmp/ring", "def ring(): ...", NOWHERE.format("/tmp/ring")),
        ("ring", "def ring(): ...", NOWHERE.format("ring")),
        ("parts/ring.py", "def ring(): ...", NOWHERE.format("parts/ring.py")),
        ("parts/ring/x", "def ring(): ...", NOWHERE.format("parts/ring/x")),
        ("nowhere/ring", "def ring(): ...", NOWHERE.format("nowhere/ring")),
        ("parts/ring", "def ring(:", "00_circle.py: the cell tagged promote:parts/ring is not valid Python: "),
        ("parts/circle", "def area(): ...", "is promoted twice, by 00_circle.py and 00_circle.py."),
    ],
)
def test_what_cannot_be_promoted_is_refused_before_anything_is_written(lesson, module, capsys, target, body, message):
    lesson.write_text(LESSON.replace("r**2", "r**3") + cell(target, body))
    for argv in (["promote"], ["promote", "--check"]):
        assert main(argv) == 2
        assert message in capsys.readouterr().err
    assert module.read_text() == MODULE


def test_two_lessons_may_not_promote_the_same(lesson, checkout):
    (lesson.parent / "01_again.py").write_text(LESSON)
    message = "area of residual_edu/parts/circle.py is promoted twice, by 00_circle.py and 01_again.py."
    with pytest.raises(Refusal, match=message):
        pieces(checkout)


def test_a_module_that_is_not_python_is_refused(module, capsys):
    module.write_text("def area(:\n")
    assert main(["promote"]) == 2
    assert "circle.py is not valid Python" in capsys.readouterr().err
