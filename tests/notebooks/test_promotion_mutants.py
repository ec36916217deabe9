"""A change of one operator, default, name or order in a real piece is seen by ``promote --check``."""

import ast
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from residual_edu.course.pieces import pieces
from residual_edu.course.promote import code, difference

AT_LEAST = 20  # pieces that each kind of change is tried on, or all that have a place for it
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}


def operator(node):
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
        return True
    return False


def comparison(node):
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return True
    return False


def default(node):
    if isinstance(node, ast.arguments) and node.defaults:
        node.defaults[-1] = ast.Constant("another")
        return True
    return False


def number(node):
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value += 1
        return True
    return False


def name(node):
    if isinstance(node, ast.Name):
        node.id += "_"
        return True
    return False


def attribute(node):
    if isinstance(node, ast.Attribute):
        node.attr += "_"
        return True
    return False


def keyword(node):
    if isinstance(node, ast.keyword) and node.arg:
        node.arg += "_"
        return True
    return False


def parameters_order(node):
    if isinstance(node, ast.arguments) and len(node.args) > 1:
        node.args[-2:] = node.args[:-3:-1]
        return True
    return False


def arguments_order(node):
    if isinstance(node, ast.Call) and len(node.args) > 1 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
        node.args[:2] = node.args[1::-1]
        return True
    return False


def statements_order(node):
    body = getattr(node, "body", None)
    if isinstance(body, list) and len(body) > 1 and ast.dump(body[0]) != ast.dump(body[1]):
        body[:2] = body[1::-1]
        return True
    return False


def statement_lost(node):
    body = getattr(node, "body", None)
    if isinstance(body, list) and len(body) > 1:
        del body[-1]
        return True
    return False


CHANGES = [operator, comparison, default, number, name, attribute, keyword]
CHANGES += [parameters_order, arguments_order, statements_order, statement_lost]


def changed(tree, change):
    """The tree with the change made at the last place that there is for it; ``None`` where there is none."""
    tree = deepcopy(tree)
    return tree if any(change(node) for node in reversed(list(ast.walk(tree)))) else None


def with_text(piece, text):
    return replace(piece, definition=replace(piece.definition, text=text))


@pytest.fixture(scope="module")
def every():
    return pieces(Path(__file__).parents[2])


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_of_one_thing_is_seen_in_each_piece(every, change):
    tried = 0
    for piece in every:
        shown = ast.parse(code(piece.definition.text)).body[0]
        if (mutant := changed(shown, change)) is not None and tried < AT_LEAST:
            assert difference(with_text(piece, ast.unparse(mutant))) != [], piece
            tried += 1
    assert tried >= AT_LEAST


def test_most_pieces_are_long_enough_to_be_changed(every):
    assert len(every) > 50
    assert sum(len(code(piece.definition.text).split("\n")) > 3 for piece in every) > 50
