"""The form of a lesson: its first imports, promoted cells, and long pieces."""

import jupytext
import pytest

from residual_edu.course import main

LONG = "import torch\n\n\ndef centre(x):\n" + "    x = x - x.mean()\n" * 18 + "    return x"


@pytest.fixture
def find(source, findings):
    """What lint finds in the clean lesson as it now is, the file's name left out."""
    return lambda name="lesson.py": [finding.partition(": ")[2] for finding in findings(source, name)]


@pytest.fixture
def piece(source, first):
    return first(source, "promote:parts/centre")


def test_first_imports_of_more_than_12_lines_are_found(source, find):
    source.cells[1].source = "import torch\n\n" + "\n".join(f"from residual_edu import a{i}  # one" for i in range(11))
    assert find() == []
    source.cells[1].source += "\nx = 1"
    assert find() == ["cell 2 (import torch) has 13 lines of code, more than 12 for the first imports"]


def test_a_check_among_the_first_imports_is_found(source, find):
    source.cells[1].source += "\nfrom residual_edu.old_errors import InvalidInput, check_size"
    assert find() == ["cell 2 (import torch) imports check_size; a lesson leaves checks out"]


def test_other_cells_may_import_what_they_like(source, find):
    cell = next(cell for cell in source.cells if "explorer" in cell.metadata.get("tags", []))
    cell.source = "from residual_edu.old_errors import check_size\n" + cell.source
    assert find() == []


def test_a_promoted_cell_that_leans_on_another_cells_imports_is_found(source, piece, find):
    piece.source = piece.source.removeprefix("import torch\n\n\n")
    (finding,) = find()
    assert finding.endswith("promotes a piece that reads 'torch', which other cells import; import it here")


def test_a_promoted_cell_may_use_what_an_earlier_one_defines(source, piece, find):
    later = piece.copy()
    later.update(source="def twice(x):\n    return 2 * centre(x)", id="later")
    for place, found in [(1, 0), (0, 1)]:
        source.cells.insert(source.cells.index(piece) + place, later)
        assert sum("a piece that reads 'centre', which other cells import" in each for each in find()) == found
        source.cells.remove(later)


@pytest.mark.parametrize(
    ("words", "announced"),
    [
        ("`centre` takes the mean away; a first reader may skip it.", True),
        ("Skip this: a piece named `centre`.", False),  # in the middle of a sentence it is meant
        ("The piece; a first reader may skip it.", False),
        ("`centre` takes the mean away.", False),
    ],
)
def test_a_long_piece_is_announced(source, piece, find, words, announced):
    piece.source, piece.metadata["jupyter"] = LONG, {"source_hidden": True}
    source.cells[source.cells.index(piece) - 1].source = words
    expected = "is long, and the cell above does not name it and say that a first reader may skip it"
    assert find() == ([] if announced else [f"cell 4 (import torch) {expected}"])


def test_a_long_piece_is_folded(source, piece, find):
    piece.source = LONG
    source.cells[source.cells.index(piece) - 1].source = "`centre`, which a first reader may skip."
    assert find() == ["cell 4 (import torch) has more than 20 lines of code and is not folded"]
    piece.source = LONG.replace("    x = x - x.mean()\n", "", 1)
    assert find() == []


def test_drafts_are_left_out(source, tmp_path, monkeypatch):
    folder = tmp_path / "notebooks" / "source"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    source.cells = source.cells[:3]
    text = jupytext.writes(source, fmt="py:percent")
    for draft, code in [("true", 0), ("false", 1)]:
        (folder / "00_new.py").write_text(f"# ---\n# jupyter:\n#   draft: {draft}\n# ---\n\n{text}")
        assert main(["lint"]) == code
