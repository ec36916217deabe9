"""Which sources there are, in which order, by which names."""

import pytest

from residual_course.commands.checkout import Refusal, find_root, is_optional, lessons, notebook_of, with_homework

NAMES = ["00_first", "02_layer_norm", "08a_mixers", "08b_mixers"]
WHY, HOMEWORK = "investigations/source/02_why", ["source/homework/hw_00_01", "source/homework/hw_02_03"]


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
