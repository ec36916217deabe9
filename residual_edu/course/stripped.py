"""What a lesson shows of a finished piece: its code without what a first reader does not need.

Left out are docstrings, all but a summary of one line; annotations of arguments, results and variables; checks, the
decorator ``@checked`` among them; and the methods ``extra_repr``, ``__repr__`` and ``flop_count``. Annotated fields of
a record stay, since there they are the code. Nothing else is on the list. Comments and layout stay, and the shapes of
annotations become comments.
"""

import re
from typing import Any, TypeAlias

import libcst as cst

from residual_edu.course.checkout import Refusal
from residual_edu.course.layout import COLUMNS
from residual_edu.course.nodes import block, is_raise, last_name
from residual_edu.course.signatures import commented, plain, shape_lines

METHODS = {"extra_repr", "__repr__", "flop_count"}
RECORDS = {"NamedTuple", "Protocol", "dataclass"}
DIRECTIVE = re.compile(r"# *(?:type: *ignore(?:\[[^]]*\])?|noqa(?:: *[A-Z0-9, ]+)?) *")
DOTS = cst.parse_statement("...")
Left: TypeAlias = Any  # what a transformer puts in a node's place: a node, several, or the mark that it goes


def stripped(text: str, summary: bool = True) -> str:
    """Return the one class or function that ``text`` defines as a lesson shows it.

    Args:
        text: its definition, in a layout of any width.
        summary: whether a docstring of the class or function itself keeps its first line, where that is a sentence of
            plain words.

    Raises:
        Refusal: where a method that holds only checks is used other than by calling it as a statement.
    """
    module, hollow = cst.parse_module(text), frozenset[str]()
    while True:
        lesson = Lesson(hollow, summary)
        shown = module.visit(lesson).code
        if lesson.hollow <= hollow:
            break
        hollow |= lesson.hollow
    for name in hollow:
        if re.search(rf"\.{name}\b", shown):
            raise Refusal(f"The method {name} holds only checks, but is more than a statement where it is used.")
    return shown.strip("\n") + "\n"


class Lesson(cst.CSTTransformer):
    """Leaves out what a lesson does not show.

    Args:
        known: methods known to hold only checks, which go with their calls; those found are in ``hollow`` afterwards.
        summary: as in ``stripped``.
    """

    def __init__(self, known: frozenset[str], summary: bool) -> None:
        super().__init__()
        self.known, self.summary, self.hollow = known, summary, frozenset[str]()
        self.scopes: list[str] = []  # the classes and functions around a node: "record", "class" or "function"
        self.elifs: set[cst.CSTNode] = set()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Note what kind of class this is."""
        parts = [each.value for each in node.bases] + [each.decorator for each in node.decorators]
        self.scopes.append("record" if RECORDS & set(map(last_name, parts)) else "class")

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> Left:
        """Drop the docstring, or all but its first line."""
        self.scopes.pop()
        body = self.without_docstring(updated_node)
        return updated_node.with_changes(decorators=unchecked(updated_node), body=body or block([DOTS]))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Note that what follows is inside a function."""
        self.scopes.append("function")

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Left:
        """Drop a method that is not shown; of any other, docstring and annotations, whose shapes become comments."""
        self.scopes.pop()
        name, is_method = updated_node.name.value, self.scopes[-1:] not in ([], ["function"])
        if is_method and name in METHODS | self.known:
            return cst.RemoveFromParent()
        body = self.without_docstring(updated_node)
        if is_method and body is None and len(original_node.body.body) > bool(original_node.get_docstring()):
            self.hollow |= {name}
        shapes = shape_lines(original_node, COLUMNS - 4 * (len(self.scopes) + 1))
        body = commented(body or block([DOTS]), shapes)
        return plain(updated_node).with_changes(decorators=unchecked(updated_node), returns=None, body=body)

    def without_docstring(self, node: cst.ClassDef | cst.FunctionDef) -> cst.BaseSuite | None:
        """Return a body without its docstring, or with the first line of it; ``None`` where nothing is left."""
        words, body = node.get_docstring(), node.body
        if words is None:
            return body if body.body else None
        if self.summary and not self.scopes and is_plain(words):
            return block([cst.parse_statement(f'"""{words.partition(chr(10))[0]}"""'), *body.body[1:]])
        return block(body.body[1:]) if body.body[1:] else None

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> Left:
        """Drop the annotation of an argument."""
        return updated_node.with_changes(annotation=None)

    def leave_AnnAssign(self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign) -> Left:
        """Make ``x: int = 1`` to ``x = 1``, and drop ``x: int``, but for the fields of a record."""
        if self.scopes[-1:] == ["record"]:
            return updated_node
        if updated_node.value is None:
            return cst.RemoveFromParent()
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Left:
        """Drop checks."""
        body = [each for each in updated_node.body if not self.is_check(each)]
        return updated_node.with_changes(body=body) if body else cst.RemoveFromParent()

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> Left:
        """Drop checks from a body on the line of its head, and put the rest below."""
        body = [each for each in updated_node.body if not self.is_check(each)]
        return block([cst.SimpleStatementLine(body)] if body else [])

    def is_check(self, statement: cst.BaseSmallStatement) -> bool:
        """Whether a statement is a call of ``check_*``, or of a method that holds only checks."""
        if not (isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call)):
            return False
        called = statement.value.func
        own = isinstance(called, cst.Attribute) and last_name(called.value) in ("self", "super")
        return last_name(called).startswith("check_") or (own and last_name(called) in self.known)

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> Left:
        """Begin a body without a blank line, whatever stood first in it."""
        return updated_node.with_changes(body=block(updated_node.body).body)

    def visit_If(self, node: cst.If) -> None:
        """Note which ``if`` is an ``elif``."""
        self.elifs |= {node.orelse} if isinstance(node.orelse, cst.If) else set()

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Left:
        """Drop an ``if`` with nothing in it; of one that only raises, keep what follows ``else``."""
        rest = updated_node.orelse
        if not (is_raise(updated_node.body) or (rest is None and not updated_node.body.body)):
            return updated_node
        if isinstance(rest, cst.Else) and original_node not in self.elifs:
            return cst.FlattenSentinel(rest.body.body)
        return rest or cst.RemoveFromParent()

    def leave_For(self, original_node: Any, updated_node: Any) -> Left:
        """Drop a loop, a ``with`` or an ``else`` with nothing in it."""
        has_code = updated_node.body.body or getattr(updated_node, "orelse", None)
        return updated_node if has_code else cst.RemoveFromParent()

    leave_While = leave_With = leave_Else = leave_For

    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> Left:
        """Drop the space before a comment that went."""
        return updated_node if updated_node.comment else updated_node.with_changes(whitespace=cst.SimpleWhitespace(""))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> Left:
        """Drop what a comment says to type checker and linter."""
        left = DIRECTIVE.sub("", updated_node.value).rstrip()
        return updated_node.with_changes(value=left) if left else cst.RemoveFromParent()


def unchecked(node: cst.ClassDef | cst.FunctionDef) -> list[cst.Decorator]:
    """Return the decorators without ``@checked``, which checks what the annotations say."""
    return [each for each in node.decorators if last_name(each.decorator) != "checked"]


def is_plain(docstring: str) -> bool:
    """Whether a docstring's first line is a whole paragraph, in words without markup, and fits below a ``def``."""
    line, _, rest = docstring.partition("\n")
    in_words = "\\" not in line and ":`" not in line and not line.endswith('"')
    return in_words and rest[:1] in ("", "\n") and len(f'    """{line}"""') <= COLUMNS
