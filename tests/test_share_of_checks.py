"""How much of what a learner reads in a constructor or a forward are checks: at most 12 % of the lines.

A check is a call of ``check_*`` or ``self._check`` as a statement, or an ``if`` that only raises. Lines are those of
the body, from its first statement to its last, without the docstring; the head with its annotations does not count.
"""

import ast
from pathlib import Path

import residual_edu

ROOMS = ("parts", "mixers", "blocks", "configurable", "networks")  # the classes of the library
MOST = 0.12


def is_check(statement):
    """Whether a statement only checks."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return getattr(called, "attr", getattr(called, "id", "")).lstrip("_").startswith("check")
    return isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Raise)


def lines(statement):
    """How many lines a statement takes."""
    return statement.end_lineno - statement.lineno + 1


def checking_lines(statements):
    """How many lines in a body are checks, those within loops and branches too."""
    count = 0
    for one in statements:
        count += lines(one) if is_check(one) else checking_lines(ast.iter_child_nodes(one))
    return count


def body_of(function):
    """The statements of a function without its docstring."""
    return function.body[1:] if ast.get_docstring(function) else function.body


def counted(tree):
    """The name of every ``__init__`` and ``forward`` of a module with its lines and those of its checks."""
    for owner in ast.walk(tree):
        for one in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "forward"):
                body = body_of(one)
                whole = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                yield f"{owner.name}.{one.name}", whole, checking_lines(body)


def test_the_share_of_checks():
    package = Path(residual_edu.__file__).parent
    paths = [path for room in ROOMS for path in sorted((package / room).glob("*.py"))]
    found = [each for path in paths for each in counted(ast.parse(path.read_text(encoding="utf-8")))]
    whole, checks = sum(each[1] for each in found), sum(each[2] for each in found)
    print(f"{checks} of {whole} lines of {len(found)} functions: {checks / whole:.1%}")
    assert len(found) > 100
    assert checks <= MOST * whole, f"{checks} of {whole} lines, {checks / whole:.1%}"


def test_what_counts_as_a_check():
    source = '''
class A:
    def forward(self, x):
        """Words."""
        check_shape("x", x)
        self._check(x)
        if x is None:
            raise InvalidInput("x")
        for one in x:
            check_size("one", one)
        return x
'''
    assert list(counted(ast.parse(source))) == [("A.forward", 7, 5)]
