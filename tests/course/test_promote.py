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


def test_equal_code_is_no_difference(lesson, module, capsys):
    assert main(["promote", "--check"]) == 0
    assert capsys.readouterr().out == "Every promoted piece (1) stands in its module as in its lesson.\n"
    assert (lesson.read_text(), module.read_text()) == (LESSON, MODULE)


@pytest.mark.parametrize("side", ["module", "lesson"])
@pytest.mark.parametrize(("old", "new"), [("r**2", "r**3"), ("(r):", "(r, d):"), ("math.pi", "-math.pi")])
def test_another_tree_on_either_side_is_shown(request, capsys, side, old, new):
    path = request.getfixturevalue(side)
    path.write_text(path.read_text().replace(old, new, 1))
    before = path.read_text()
    assert main(["promote", "--check"]) == 1
    said = capsys.readouterr().out.replace(" ** ", "**")
    assert said.startswith("--- area of residual_edu/parts/circle.py\n+++ the same in 00_circle.py\n")
    assert "residual-edu promote --refresh 00  # writes the module's code into the lesson\n" in said
    removed, added = (new, old) if side == "module" else (old, new)
    assert any(line.startswith("-") and removed in line for line in said.splitlines()[2:])
    assert any(line.startswith("+") and added in line for line in said.splitlines()[2:])
    assert path.read_text() == before


@pytest.mark.parametrize("side", ["module", "lesson"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(r):", "(r: float) -> float:"),
        ("the area.", "another thing."),
        ("    return", '    check_size("r", r)\n    return'),
        ("    return", "    if r < 0:\n        raise InvalidInput(r)\n    return"),
        ("math.pi * r**2", "(math.pi\n        * r ** 2)  # by Archimedes"),
    ],
)
def test_what_a_lesson_leaves_out_is_no_difference_on_either_side(request, side, old, new):
    path = request.getfixturevalue(side)
    path.write_text(path.read_text().replace(old, new, 1))
    assert main(["promote", "--check"]) == 0


def test_imports_stand_above_the_pieces_of_a_cell(lesson):
    lesson.write_text(LESSON.replace("def area", "import math\nfrom math import pi\n\n\ndef area"))
    assert main(["promote", "--check"]) == 0


RING = "class Ring:\n    hole = 1\n\n    def area(self, r):\n        return math.pi * Disc(r) + HALF"


def test_a_new_piece_is_written_with_its_imports(lesson, module, capsys):
    extra = "\n# %%\nfrom residual_edu.parts.disc import Disc\n" + cell("parts/circle", f"import math\n\n\n{RING}")
    lesson.write_text(LESSON + extra)
    assert main(["promote", "--check"]) == 1
    assert "residual-edu promote Ring  # writes the lesson's code into the module, " in capsys.readouterr().out
    assert main(["promote", "Ring"]) == 0
    said = "Ring of residual_edu/parts/circle.py is new, as in 00_circle.py; "
    assert capsys.readouterr().out == f"{said}its docstring, annotations and checks belong there.\n"
    imports = "import math\n\nfrom residual_edu.parts.disc import Disc\n"
    assert module.read_text() == MODULE.replace("import math\n", imports) + f"\n\n{RING}\n"
    assert main(["promote", "--check"]) == 0


def test_a_new_piece_imports_what_the_lesson_promotes_elsewhere(lesson, module):
    lesson.write_text(LESSON + cell("parts/ring", "def ring(r):\n    return area(r)"))
    assert main(["promote", "ring"]) == 0
    text = "from residual_edu.parts.circle import area\n\n\ndef ring(r):\n    return area(r)\n"
    assert module.with_name("ring.py").read_text() == text


def test_a_name_that_nothing_binds_is_said(lesson, module, capsys):
    lesson.write_text(LESSON + cell("parts/circle", "def ring(r):\n    return thickness * r"))
    assert main(["promote", "ring"]) == 0
    assert capsys.readouterr().out.endswith("\nIt reads thickness, which nothing binds there.\n")


def test_a_piece_that_is_there_is_never_overwritten(lesson, module, capsys):
    edited = MODULE.replace("return math.pi * r**2", "return math.pi * r**2  # a comment of the module's")
    module.write_text(edited)
    assert main(["promote", "area"]) == 0
    said = "area of residual_edu/parts/circle.py is there already, with the code of 00_circle.py.\n"
    assert capsys.readouterr().out == said
    lesson.write_text(LESSON.replace("r**2", "r * r"))
    assert main(["promote", "area"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("area of residual_edu/parts/circle.py is there already and stays as it is.\n--- area of")
    assert "+    return math.pi * r * r\n" in said
    assert "residual-edu promote --refresh 00  # " in said
    assert module.read_text() == edited


def test_one_module_stands_in_no_room(lesson, checkout):
    lesson.write_text(LESSON + cell("config", "def build(spec): ..."))
    assert main(["promote", "build"]) == 0
    assert (checkout / "residual_edu" / "config.py").read_text() == "def build(spec): ...\n"


def test_a_name_that_no_lesson_promotes_is_refused(module, capsys):
    assert main(["promote", "area", "other"]) == 2
    assert capsys.readouterr().err == "No lesson promotes other.\n"


@pytest.mark.parametrize("argv", [[], ["--check", "--refresh"]])
def test_without_a_task_the_usage_is_shown(module, capsys, argv):
    with pytest.raises(SystemExit):
        main(["promote", *argv])
    assert "usage: residual-edu promote" in capsys.readouterr().err


RING_CELL = "00_circle.py: the cell tagged promote:parts/ring"
LOOSE = f"{RING_CELL} may hold imports, then whole classes and functions alone, not {{!r}}."
NOWHERE = "00_circle.py: the cell tagged promote:{} names no room/module of residual_edu, such as "


@pytest.mark.parametrize(
    ("target", "body", "message"),
    [
        ("parts/ring", "def ring(): ...\nring()", LOOSE.format("ring()")),
        ("parts/ring", "def ring(): ...\nimport math", LOOSE.format("import math")),
        ('parts/ring", "promote:config', "def ring(): ...", "is promoted to 2 modules; a cell holds pieces of one."),
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
    for argv in (["promote", "ring"], ["promote", "--refresh"], ["promote", "--check"]):
        assert main(argv) == 2
        assert message in capsys.readouterr().err
    assert module.read_text() == MODULE
    assert not module.with_name("ring.py").exists()


def test_two_lessons_may_not_promote_the_same(lesson, checkout):
    (lesson.parent / "01_again.py").write_text(LESSON)
    message = "area of residual_edu/parts/circle.py is promoted twice, by 00_circle.py and 01_again.py."
    with pytest.raises(Refusal, match=message):
        pieces(checkout)


def test_a_module_that_is_not_python_is_refused(module, capsys):
    module.write_text("def area(:\n")
    assert main(["promote", "area"]) == 2
    assert "circle.py is not valid Python" in capsys.readouterr().err
