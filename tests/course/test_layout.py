from pathlib import Path

import pytest

from residual_edu.course.checkout import Refusal
from residual_edu.course.layout import formatted, laid_out, raised, sorted_imports

CODE = "    width = torch.promote_types(x.dtype, torch.float32)"


def test_a_comment_that_makes_its_line_too_long_stands_above_it():
    text = f"def f(x):\n{CODE}  # in 16 bits the kernel's sums over rows would stall\n    return x  # short\n"
    assert raised(text) == (
        f"def f(x):\n    # in 16 bits the kernel's sums over rows would stall\n{CODE}\n    return x  # short\n"
    )


def test_a_long_comment_is_wrapped():
    words = "words " * 30
    for text in (f"    # {words}\n    x = 1\n", f"    x = 1  # {words}\n"):
        lines = raised(f"def f():\n{text}").split("\n")
        assert max(map(len, lines)) <= 88
        assert " ".join(line.strip("# ") for line in lines[1:-2]) == words.strip()
        assert lines[-2] == "    x = 1"


def test_a_hash_in_a_string_is_no_comment():
    text = f'x = "# {"a" * 100}"\n'
    assert raised(text) == text


def test_code_is_broken_at_88_columns_and_imports_are_sorted():
    text = f"import torch\nimport math\nfrom residual_edu import a\nx = f({'argument, ' * 9}1)\n"
    assert laid_out(text) == (
        "import math\n\nimport torch\n\nfrom residual_edu import a\n\nx = f(\n    "
        + ",\n    ".join(["argument"] * 9)
        + ",\n    1,\n)\n"
    )
    assert formatted(laid_out(text)) == laid_out(text)


def test_a_module_keeps_its_layout_but_for_the_order_of_imports():
    text = f'"""Words."""\nimport torch\nimport math\n\nx = {{"a":1, "b":{"1" * 90}}}\n'
    done = sorted_imports(text, Path("residual_edu/parts/circle.py"))
    assert done == text.replace("import torch\nimport math", "import math\n\nimport torch")


def test_what_is_not_python_is_refused():
    with pytest.raises(Refusal, match="^ruff could not lay this out: .*Failed to parse"):
        formatted("def f(:\n")
