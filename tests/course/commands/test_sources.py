"""Which sources there are, in which order, by which names; and which of them are drafts."""

import jupytext
import pytest

from residual_course.commands.checkout import Refusal, find_root, is_optional, lessons, notebook_of, with_homework
from residual_course.commands.drafts import finished, handed_out, is_draft

NAMES = ["00_first", "02_layer_norm", "08a_mixers", "08b_mixers"]
WHY, HOMEWORK = "investigations/source/02_why", ["source/homework/hw_00_01", "source/homework/hw_02_03"]
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
    for name in [*(f"source/{name}" for name in (*NAMES, "helper")), WHY, *HOMEWORK, "source/homework/helper"]:
        path = tmp_path / "notebooks" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_the_nearest_root_is_found_upwards(root):
    assert find_root(root / "notebooks" / "source") == root.resolve()
    (root / "inner" / "notebooks" / "source").mkdir(parents=True)
    assert find_root(root / "inner" / "notebooks") == (root / "inner").resolve()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], [*NAMES, "02_why", "hw_00_01", "hw_02_03"]),
        (["08"], ["08a_mixers", "08b_mixers"]),
        (["notebooks/02_layer_norm.ipynb", "00_first.py"], ["00_first", "02_layer_norm"]),
        (["02_why"], ["02_why"]),
        (["hw_02", "00"], ["00_first", "hw_02_03"]),
    ],
)
def test_lessons_are_found_in_order_by_their_beginning_and_what_is_optional_by_its_whole_name(root, names, found):
    assert [source.stem for source in with_homework(root, names)] == found
    assert len(lessons(root)) == len(NAMES) + 1


def test_an_unknown_lesson_is_refused_and_each_notebook_stands_without_its_source(root):
    with pytest.raises(Refusal, match="There is no lesson '03'; there are: 00_first, 02_layer_norm, 08a"):
        lessons(root, ["00", "03"])
    with pytest.raises(Refusal, match="There is no lesson '02_layer_norm_m'"):
        lessons(root, ["02_layer_norm_m"])
    first, why, *_, homework = (with_homework(root)[at] for at in (0, 4, 6))
    assert notebook_of(first) == root / "notebooks" / "00_first.ipynb"
    assert notebook_of(why) == root / "notebooks" / "investigations" / "02_why.ipynb"
    assert is_optional(why) and is_optional(notebook_of(why)) and not is_optional(first)
    assert notebook_of(homework) == root / "notebooks" / "homework" / "hw_02_03.ipynb"


def test_the_header_alone_says_what_is_a_draft_and_drafts_are_not_handed_out(tmp_path):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    for name, (text, _) in HEADERS.items():
        (tmp_path / "notebooks" / "source" / f"{name}.py").write_text(text)
    sources = lessons(tmp_path)
    drafts = {source.stem for source in sources} - {source.stem for source in finished(sources)}
    assert drafts == {name for name, (_, draft) in HEADERS.items() if draft}
    assert drafts == {source.stem for source in sources if is_draft(jupytext.read(source, fmt="py:percent"))}
    assert [source.stem[:2] for source in handed_out(tmp_path)] == ["01", "03", "04", "05"]
    assert [source.stem[:2] for source in handed_out(tmp_path, ["02", "03"])] == ["03"]
    with pytest.raises(Refusal, match=r"^Drafts are not handed out: 00_draft, 02_kernel\.$"):
        handed_out(tmp_path, ["00", "02"])
