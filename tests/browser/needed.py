"""A lesson cut down to what the browser is for: its questions and explorers, and the cells that these depend on.

Trainings that only print are nbval's business. A cell that is not needed is emptied, so that all stand in their places.
"""

import ast
from copy import deepcopy

from nbformat import NotebookNode

from residual_course.contents import predicts

EMPTY = "pass  # not needed here"


def explorers_only(notebook: NotebookNode) -> NotebookNode:
    """Return ``notebook`` with the cells that its explorers need."""
    return cut(notebook, ("explorer",))


def questions_and_explorers(notebook: NotebookNode) -> NotebookNode:
    """Return ``notebook`` with its predictions and what its explorers need.

    A prediction is answered by its own first choice: what was measured is compared by nbval.
    """
    return cut(notebook, ("explorer", "predict"))


def cut(notebook: NotebookNode, tags: tuple[str, ...]) -> NotebookNode:
    """Return ``notebook`` with the cells that have one of ``tags`` and those that bind or change what these use.

    The others are emptied, but for the cell that sets the lesson up. Of a cell that asks, only the question stays,
    unless it binds more that is used. A change through another name is not seen: where it matters, a cell fails in the
    browser and the test with it.
    """
    made, wanted = deepcopy(notebook), set[str]()
    for cell in reversed([cell for cell in made.cells if cell.cell_type == "code"]):
        kinds = {*cell.metadata.get("tags", []), *(["predict"] if predicts(cell.source) else [])}
        asks, is_target = questions(cell), bool(set(tags) & kinds)
        bound = changes(ast.parse(cell.source))
        if not (bound - asks.keys()) & wanted and "setup()" not in cell.source:
            only_asked = "\n".join(asks.values()) if is_target or bound & wanted else ""
            cell.source = only_asked or (cell.source if is_target else EMPTY)
        wanted |= {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)} - asks.keys()
    return made


def questions(cell: NotebookNode) -> dict[str, str]:
    """Return the question of a cell that asks for a prediction, by the name that it binds."""
    if call := predicts(cell.source):
        bound = ast.parse(cell.source).body[0].items[0].optional_vars
        name = ast.unparse(bound) if bound else "guess"
        return {name: f"with {ast.unparse(call)} as {name}:\n    {name}.truth = {name}.choices[0]"}
    return {}


def changes(tree: ast.AST) -> set[str]:
    """Return every name that a cell binds, and every one whose value it may change: what it calls or hands over."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Call):
            reached = [*node.args, *(each.value for each in node.keywords)]
            found |= roots(reached + ([node.func] if isinstance(node.func, ast.Attribute) else []))
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= roots([node])
    return found


def roots(expressions: list[ast.expr]) -> set[str]:
    """Return the names at the root of expressions such as ``net.blocks[0]`` and ``*nets``."""
    found = set[str]()
    for each in expressions:
        while isinstance(each, ast.Attribute | ast.Subscript | ast.Starred):
            each = each.value
        found |= {each.id} if isinstance(each, ast.Name) else set()
    return found
