import jupytext
import pytest

from residual_course.commands.checkout import Refusal
from residual_course.commands.drafts import finished, handed_out, is_draft

HEADERS = {
    "00_draft": ("# ---\n# jupyter:\n#   draft: true\n# ---\n\n# %%\nx = 1\n", True),
    "01_other": ("# ---\n# jupyter:\n#   draft: false\n# ---\n\n# %%\nx = 1\n", False),
    "02_kernel": ("# ---\n# jupyter:\n#   jupytext:\n#     formats: py:percent\n#   draft: true\n# ---\n", True),
    "03_none": ("# %%\nx = 1\n", False),
    "04_empty": ("", False),
    "05_below": ("# %% [markdown]\n# ---\n# jupyter:\n#   draft: true\n# ---\n", False),
}


@pytest.fixture
def root(tmp_path):
    source = tmp_path / "notebooks" / "source"
    source.mkdir(parents=True)
    for name, (text, _) in HEADERS.items():
        (source / f"{name}.py").write_text(text)
    return tmp_path


def test_the_header_alone_says_what_the_whole_lesson_says(root):
    sources = sorted((root / "notebooks" / "source").iterdir())
    drafts = {source.stem for source in sources} - {source.stem for source in finished(sources)}
    assert drafts == {name for name, (_, draft) in HEADERS.items() if draft}
    assert drafts == {source.stem for source in sources if is_draft(jupytext.read(source, fmt="py:percent"))}


def test_what_is_handed_out_is_all_or_what_is_named_without_drafts(root):
    assert [source.stem[:2] for source in handed_out(root)] == ["01", "03", "04", "05"]
    assert [source.stem[:2] for source in handed_out(root, ["02", "03"])] == ["03"]
    with pytest.raises(Refusal, match=r"^Drafts are not handed out: 00_draft, 02_kernel\.$"):
        handed_out(root, ["00", "02"])
    with pytest.raises(Refusal, match="There is no lesson '07'"):
        handed_out(root, ["07"])
