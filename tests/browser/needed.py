"""A lesson cut down to what the browser is for: its questions and explorers, and the cells that these depend on.

Trainings that only print are nbval's business. A cell that is not needed is emptied, so that all stand in their places.
"""

import ast
from copy import deepcopy

from nbformat import NotebookNode


def explorers_only(notebook: NotebookNode) -> NotebookNode:
    """Return ``notebook`` with the cells that its explorers need."""
    return cut(notebook, ("explorer",))


def questions_and_explorers(notebook: NotebookNode) -> NotebookNode:
    """Return ``notebook`` with its predictions and what its explorers need.

    A prediction is answered by its own first choice: what was measured is compared by nbval.
    """
    made = deepcopy(notebook)
    for cell in made.cells:
        if "predict" in cell.metadata.get("tags", []):
            asked = questions(cell.source)
            reveal = "{0}.reveal({0}.choices[0] if {0}.choices else 1)".format
            cell.source = "\n".join(line for name, question in asked.items() for line in (question, reveal(name)))
    return cut(made, ("explorer", "predict"))


def questions(source: str) -> dict[str, str]:
    """Return the statements of a cell that ask for a prediction, by the name that they bind."""
    found = [
        node for node in ast.parse(source).body if isinstance(node, ast.Assign) and "predict(" in ast.unparse(node)
    ]
    return {ast.unparse(node.targets[0]): ast.unparse(node) for node in found}


def cut(notebook: NotebookNode, tags: tuple[str, ...]) -> NotebookNode:
    """Return ``notebook`` with the cells that those with one of ``tags`` need, the other code cells emptied."""
    made = deepcopy(notebook)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    for number in set(range(len(code))) - needed(code, tags):
        code[number].source = "pass  # not needed here"
    return made


def needed(code: list[NotebookNode], tags: tuple[str, ...]) -> set[int]:
    """Return the numbers of the cells with one of ``tags``, and of those before them that bind or change what they use.

    A change through another name is not seen. Where it matters, a cell fails in the browser and the test with it.
    """
    kept, wanted = set[int](), set[str]()
    for number in reversed(range(len(code))):
        tree = ast.parse(code[number].source)
        if set(tags) & set(code[number].metadata.get("tags", [])) or changes(tree) & wanted:
            kept.add(number)
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            wanted |= used - questions(code[number].source).keys()  # guess, which the cell itself binds
    return kept


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
