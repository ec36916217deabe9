"""The examples of the reference: every piece has one, of at most five lines, and it prints what it shows."""

import doctest
from pathlib import Path

import pytest

import residual_edu
from tools.book.examples import groups

PIECES = [piece for group in groups(Path(__file__).parents[3]) for piece in group.pieces]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.name)
def test_an_example_prints_what_it_shows(piece):
    test = doctest.DocTestParser().get_doctest(piece.example, {}, piece.name, None, 0)
    own = [each.source for each in test.examples if not each.source.startswith(("import ", "from "))]
    assert 1 <= "".join(own).count("\n") <= 5 and piece.name in "".join(own)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    assert all(getattr(residual_edu, other) is getattr(residual_edu, piece.name) for other in piece.others)


def test_every_piece_has_an_example():
    shown = [name for piece in PIECES for name in (piece.name, *piece.others)]
    assert len(shown) == len(set(shown)) and set(residual_edu.__all__) <= set(shown)
