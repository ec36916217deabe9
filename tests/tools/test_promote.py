"""A lesson shows a piece as its module has it, docstrings cut to a line; a difference is found, and a copy mends it."""

import pytest

from residual_course.commands import main

MODULE = '''"""The module."""

import torch


def centre(x: torch.Tensor) -> torch.Tensor:
    r"""Return x less its mean.

    More of it.
    """
    return x - x.mean()  # over all


@torch.no_grad()
def other(x):
    return x


class Centre(torch.nn.Module):
    """Calls ``centre``.

    Args:
        none: at all.
    """

    size = """not a docstring
    of two lines"""

    def forward(self, x):
        """Centre ``x``.

        Its shape stays.
        """
        return centre(x)
'''
CENTRE = '''def centre(x: torch.Tensor) -> torch.Tensor:
    r"""Return x less its mean."""
    return x - x.mean()  # over all'''
CLASS = '''class Centre(torch.nn.Module):
    """Calls ``centre``."""

    size = """not a docstring
    of two lines"""

    def forward(self, x):
        """Centre ``x``."""
        return centre(x)'''
OTHER = "@torch.no_grad()\ndef other(x):\n    return x"
CELL = '# %% tags=["promote:parts/centre"]\nimport torch\n\n\n{}\n\n# %%\nx = 1\n'


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A function that writes a lesson with a promoted cell, and returns its file."""
    (tmp_path / "residual_edu" / "parts").mkdir(parents=True)
    (tmp_path / "residual_edu" / "parts" / "centre.py").write_text(MODULE)
    source = tmp_path / "notebooks" / "source" / "00_small.py"
    source.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def write(*shown):
        source.write_text(CELL.format("\n\n\n".join(shown)))
        return source

    return write


@pytest.mark.parametrize(
    ("old", "new"),
    [("x.mean()", "x.mean(-1)"), ("  # over all", ""), ("its mean.", "a mean."), ('r"', '"')],
)
def test_any_other_character_is_shown_and_a_copy_mends_it(lesson, capsys, old, new):
    source = lesson(CENTRE.replace(old, new, 1), OTHER, CLASS)
    assert main(["promote", "--check"]) == 1
    assert "+++ residual_edu/parts/centre.py" in capsys.readouterr().out
    assert main(["promote", "--refresh"]) == 0
    assert source.read_text() == CELL.format("\n\n\n".join([CENTRE, OTHER, CLASS]))
    assert main(["promote", "--check"]) == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("centre(x", "centred(x", "shows centred of "), ("parts/centre", "parts/center", "tagged promote:parts/center")],
)
def test_what_the_package_does_not_have_is_refused(lesson, capsys, old, new, said):
    source = lesson(CENTRE)
    source.write_text(source.read_text().replace(old, new))
    assert main(["promote", "--check"]) == 2
    assert said in capsys.readouterr().err
