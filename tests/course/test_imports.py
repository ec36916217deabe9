"""Imports of cells: what a promoted piece needs, and what a lesson does not use any more."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from residual_edu.course.checkout import Refusal
from residual_edu.course.imports import needed, without_unused

MODULE = """import math
import torch.nn.functional
import torch
import torch.utils.data
from torch import nn as network
from residual_edu.parts.ring import Ring, thick as broad
from residual_edu.parts import Disc

HALF = 0.5


def area(r): ...


class Circle: ...
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "residual_edu" / "parts" / "circle.py"
    path.parent.mkdir(parents=True)
    path.write_text(MODULE)
    return path


NEEDED = {
    "def f(x): return math.pi * len(x)": ["import math"],
    "def f(x): return torch.nn.functional.relu(x)": ["import torch.nn.functional"],
    "def f(x): return torch.zeros(x)": ["import torch"],
    "def f(x): return torch.nn.functional.relu(torch.utils.data.x)": [
        "import torch.nn.functional",
        "import torch.utils.data",
    ],
    "class A(network.Module): x = HALF": [
        "from residual_edu.parts.circle import HALF",
        "from torch import nn as network",
    ],
    "def f(r): return area(r) + g(r)\ndef g(r): return 1": ["from residual_edu.parts.circle import area"],
    "def f(): return Ring(), Disc()": [
        "from residual_edu.parts import Disc",
        "from residual_edu.parts.ring import Ring",
    ],
    "def f(): return broad": ["from residual_edu.parts.ring import thick as broad"],
    "def f(math): return math": [],
    "def f():\n    import math\n    return math": [],
}


@pytest.mark.parametrize(("text", "lines"), NEEDED.items())
def test_a_name_comes_from_where_the_module_has_it(module, text, lines):
    assert [str(each) for each in needed(text, module, {})] == lines


def test_what_earlier_cells_promote_is_not_imported(module):
    text = "def f(): return area, Ring, Disc, broad, Circle"
    earlier = {
        "area": "residual_edu.parts.circle",
        "Ring": "residual_edu.parts.ring",
        "Disc": "residual_edu.parts.disc",  # the room hands it on
        "thick": "residual_edu.parts.ring",  # is known by another name here
        "Circle": "residual_edu.mixers.circle",  # another one
    }
    assert [str(each) for each in needed(text, module, earlier)] == [
        "from residual_edu.parts.circle import Circle",
        "from residual_edu.parts.ring import thick as broad",
    ]


def test_a_name_that_the_module_does_not_bind_is_refused(module):
    with pytest.raises(Refusal, match="^residual_edu.parts.circle reads diameter, radius and binds no such name.$"):
        needed("def f(): return 2 * radius, diameter", module, {})


def lesson(*sources, prose="", promoted="def f(): ..."):
    cells = [new_code_cell(source) for source in sources] + [new_markdown_cell(prose)]
    return [*cells, new_code_cell(promoted, metadata={"tags": ["promote:parts/circle"]})]


def after(*sources, **more):
    return [cell.source for cell in without_unused(lesson(*sources, **more)) if cell.cell_type == "code"][:-1]


def test_imports_that_no_cell_uses_go():
    first = "import math\nimport time\n\nimport torch\n\nfrom residual_edu import a, b, c\n\nx = torch.zeros(b)"
    kept = "import math\n\nimport torch\n\nfrom residual_edu import b, c\n\nx = torch.zeros(b)"
    assert after(first, "print(math.pi, c)") == [kept, "print(math.pi, c)"]


def test_what_only_a_promoted_cell_uses_goes_and_the_cell_itself_stays():
    piece = "import math\nimport time\n\n\ndef f(): return math.pi"
    assert after("import math\nx = 1", promoted=piece) == ["x = 1"]
    assert without_unused(lesson("import math", promoted=piece))[-1].source == piece


def test_a_cell_of_imports_alone_goes_with_them():
    assert after("# For the pieces below.\nfrom typing import Any", "x = 1", "# empty") == ["x = 1", "# empty"]


def test_what_prose_mentions_as_code_stays_but_for_checks():
    first = "from residual_edu import Ring, Disc, Tube, check_size"
    prose = "Try `Ring(3)`, <code>Tube\n</code>, a Disc, or `check_size`."
    assert after(first, prose=prose) == ["from residual_edu import Ring, Tube"]


def test_a_comment_beside_names_that_stay_stays_above_them():
    (cell,) = after("from a import b, c  # of the\u00a0page\nprint(b)")
    assert cell == "# of the\u00a0page\nfrom a import b\nprint(b)"
    assert after("from a import c  # gone\nprint(1)") == ["print(1)"]


def test_lines_that_are_too_long_are_cut_and_neighbours_filled():
    names = [f"name_{letter}" for letter in "abcdefghijklmnop"]
    cut = after(f"from residual_edu import {', '.join(names)}\nprint({', '.join(names)})")[0].split("\n")[:-1]
    assert [name for line in cut for name in line.removeprefix("from residual_edu import ").split(", ")] == names
    assert len(cut) == 2
    assert max(map(len, cut)) <= 88
    two = "from a import b, c\nfrom a import d\nprint(b, d)"
    assert after(two) == ["from a import b, d\nprint(b, d)"]


def test_what_is_used_stays_as_it_is_written():
    first = "from a import (\n    b,\n    c,\n)\nimport z, y\n\n\ndef f():\n    return b, c, z, y"
    assert after(first) == [first]
