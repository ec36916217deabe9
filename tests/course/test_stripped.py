"""What a lesson leaves out of a finished piece, and what it keeps."""

import ast
from textwrap import dedent

import pytest

from residual_edu.course.checkout import Refusal
from residual_edu.course.stripped import stripped


def in_method(body):
    """A class whose one method has this body."""
    lines = dedent(body).strip("\n").split("\n")
    return "\n".join(["class A:", "    def f(self, x):", *(f"        {line}".rstrip() for line in lines)]) + "\n"


BODIES = {
    "a check": ('check_size("x", x)\nreturn x', "return x"),
    "a check of a module": ('errors.check_size("x", x)\nreturn x', "return x"),
    "a comment above a check goes with it": ("# why\ncheck_size(x)\nreturn x", "return x"),
    "a check that is a value stays": ("x = check_given(x)\nreturn x", "x = check_given(x)\nreturn x"),
    "a raise in an if": ("if x < 0:\n    raise InvalidInput(x)\nreturn x", "return x"),
    "a raise with its check": ("if x < 0:\n    check_tensor(x)\n    raise InvalidInput(x)\nreturn x", "return x"),
    "an else is kept": ("if x < 0:\n    raise E\nelse:\n    # why\n    y = x\nreturn y", "# why\ny = x\nreturn y"),
    "an elif is kept": ("if x:\n    raise E\nelif y:\n    a()\nelse:\n    b()", "if y:\n    a()\nelse:\n    b()"),
    "a raise in an elif": ("if x:\n    a()\nelif y:\n    raise E\nelse:\n    b()", "if x:\n    a()\nelse:\n    b()"),
    "a raise in a last elif": ("if x:\n    a()\nelif y:\n    raise E", "if x:\n    a()"),
    "a raise after two raises": ("if x:\n    raise E\nelif y:\n    raise E\nelse:\n    a()", "a()"),
    "more than a raise stays": ("if x:\n    y = 1\n    raise E(y)", "if x:\n    y = 1\n    raise E(y)"),
    "a raise alone stays": ("try:\n    a()\nexcept E:\n    raise F", "try:\n    a()\nexcept E:\n    raise F"),
    "a loop of checks": ("for y in x:\n    check_size(y)\nreturn x", "return x"),
    "a loop with more": ("for y in x:\n    check_size(y)\n    a(y)", "for y in x:\n    a(y)"),
    "a while of checks": ("while x:\n    check_size(x)\nreturn x", "return x"),
    "a with of checks": ("with a() as b:\n    check_size(b)\nreturn x", "return x"),
    "an if of checks": ("if x:\n    check_a(x)\nelse:\n    check_b(x)\nreturn x", "return x"),
    "loops in loops": ("for y in x:\n    if y:\n        for z in y:\n            check_z(z)\nreturn x", "return x"),
    "an else of checks": ("if x:\n    a()\nelse:\n    check_b(x)", "if x:\n    a()"),
    "a variable's annotation": ("y: Tensor = x\nreturn y", "y = x\nreturn y"),
    "an attribute's annotation": ("self.y: int = x", "self.y = x"),
    "a declaration": ("y: Tensor\ny = x", "y = x"),
    "a docstring": ('"""Return x.\n\nMore.\n"""\nreturn x', "return x"),
    "a docstring of one line": ('"""Return x."""\n\nreturn x', "return x"),
    "a word to the type checker": ("y = x  # type: ignore[assignment]", "y = x"),
    "words beside it": ("y = x  # type: ignore[assignment]  # given by then", "y = x  # given by then"),
    "a blank line between paragraphs": ("y = x\n\nreturn y", "y = x\n\nreturn y"),
}


@pytest.mark.parametrize(("before", "after"), BODIES.values(), ids=BODIES)
def test_bodies(before, after):
    assert stripped(in_method(before)) == in_method(after)


def test_a_body_on_the_line_of_its_head_is_read_too():
    assert stripped("def f(x):\n    if x: raise E\n    for y in x: check_y(y)\n    return x\n") == (
        "def f(x):\n    return x\n"
    )


PIECES = {
    "annotations": (
        "def f(x: int, *y: int, z: str = 'a', **w: int) -> int:\n    return x\n",
        "def f(x, *y, z = 'a', **w):\n    return x\n",
    ),
    "the layout that they needed": (
        "def f(\n    self,\n    x: int,\n    /,\n    *,\n    y: int,\n) -> int:\n    return x\n",
        "def f(self, x, /, *, y):\n    return x\n",
    ),
    "comments in a signature": (
        "def f(\n    x: int,  # the first\n    y: int,\n):\n    return x\n",
        "def f(\n    x,  # the first\n    y,\n):\n    return x\n",
    ),
    "the decorator @checked": (
        "class A:\n    @checked\n    @property\n    def f(self):\n        return 1\n",
        "class A:\n    @property\n    def f(self):\n        return 1\n",
    ),
    "the decorator @checked of a class": ("@errors.checked()\nclass A:\n    x = 1\n", "class A:\n    x = 1\n"),
    "methods that say or count": (
        "class A:\n    x = 1\n\n    def extra_repr(self):\n        return ''\n\n"
        "    def __repr__(self):\n        return ''\n\n"
        "    def flop_count(self, n):\n        return n\n\n    def reset_parameters(self):\n        self.x = 1\n",
        "class A:\n    x = 1\n\n    def reset_parameters(self):\n        self.x = 1\n",
    ),
    "a function flop_count stays": ("def flop_count(n):\n    return n\n", "def flop_count(n):\n    return n\n"),
    "a variable of a class": ("class A:\n    x: ClassVar[int] = 1\n    y: int\n", "class A:\n    x = 1\n"),
    "fields of a dataclass": ("@dataclass(frozen=True)\nclass A:\n    x: int = 1\n    y: int\n",) * 2,
    "fields of a NamedTuple": ("class A(NamedTuple):\n    x: Tensor\n",) * 2,
    "fields of a Protocol": ("class A(typing.Protocol[T]):\n    x: Tensor\n",) * 2,
    "annotations in a record's method": (
        "class A(NamedTuple):\n    x: int\n\n    def f(self, y: int) -> int:\n        z: int = y\n        return z\n",
        "class A(NamedTuple):\n    x: int\n\n    def f(self, y):\n        z = y\n        return z\n",
    ),
    "a docstring alone": ("class A(E):\n    '''Raised by :func:`f`.'''\n", "class A(E):\n    ...\n"),
    "shapes": (
        'def f(x: Float[Tensor, "batch *space channels"], n: int) -> Int[Tensor, "batch"]:\n    # why\n    return x\n',
        "def f(x, n):\n    # x: batch, ..., channels; result: batch\n    # why\n    return x\n",
    ),
    "comments of the code": ("def f(x):\n    # why\n    return x  # so\n    # the end\n",) * 2,
}


@pytest.mark.parametrize(("before", "after"), PIECES.values(), ids=PIECES)
def test_pieces(before, after):
    assert stripped(before) == after


SUMMARIES = {
    '"""In plain words."""': True,
    '"""In plain words.\n\n    More.\n    """': True,
    '"""Begun here\n    and ended there."""': False,
    'r"""With :math:`x`."""': False,
    'r"""With \\alpha."""': False,
    f'"""{"word " * 16}end."""': False,
}


@pytest.mark.parametrize(("docstring", "stays"), SUMMARIES.items())
def test_of_a_docstring_at_the_top_one_line_of_words_stays(docstring, stays):
    text = f"class A:\n    {docstring}\n\n    x = 1\n"
    line = docstring.lstrip("r").strip('"').partition("\n")[0]
    assert stripped(text) == (f'class A:\n    """{line}"""\n\n    x = 1\n' if stays else "class A:\n    x = 1\n")
    assert stripped(text, summary=False) == "class A:\n    x = 1\n"


HOLLOW = """
class A:
    def f(self, x):
        for y in x:
            self._check(y)
            super()._also(y)
        return x

    def _check(self, x):
        '''Say what is wrong.'''
        check_size(x)
        self._also(x)

    def _also(self, x):
        if x:
            raise E

    def g(self):
        other._check(1)
"""


def test_a_method_that_holds_only_checks_goes_with_its_calls():
    text = HOLLOW.replace("        other._check(1)\n", "        return 1\n")
    assert stripped(text) == "class A:\n    def f(self, x):\n        return x\n\n    def g(self):\n        return 1\n"


@pytest.mark.parametrize("use", ["other._check(1)", "return self._check"])
def test_such_a_method_is_no_value(use):
    with pytest.raises(Refusal, match="^The method _check holds only checks, but is more than a statement where it is"):
        stripped(HOLLOW.replace("other._check(1)", use))


def test_a_method_without_code_of_its_own_stays():
    text = "class A(Protocol):\n    def f(self, x: int) -> int:\n        '''Return x.'''\n\n    def g(self): ...\n"
    shown = ast.unparse(ast.parse(stripped(text)))
    assert shown == "class A(Protocol):\n\n    def f(self, x):\n        ...\n\n    def g(self):\n        ..."


def test_what_is_shown_has_nothing_more_to_leave_out():
    for before, _ in PIECES.values():
        assert stripped(stripped(before)) == stripped(before)
