import pytest

from residual_edu.course.checkout import Refusal, find_root, lessons, notebook_of


@pytest.fixture
def root(tmp_path):
    source = tmp_path / "notebooks" / "source"
    source.mkdir(parents=True)
    for name in ("08b_mixers.py", "00_first.py", "02_layer_norm.py", "08a_mixers.py", "helper.py"):
        (source / name).touch()
    return tmp_path


def test_the_root_is_found_upwards(root):
    inner = root / "notebooks" / "source"
    assert find_root(root) == find_root(inner) == root.resolve()


def test_the_nearest_root_counts(root):
    (root / "inner" / "notebooks" / "source").mkdir(parents=True)
    assert find_root(root / "inner" / "notebooks") == (root / "inner").resolve()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], ["00_first", "02_layer_norm", "08a_mixers", "08b_mixers"]),
        (["02"], ["02_layer_norm"]),
        (["08"], ["08a_mixers", "08b_mixers"]),
        (["notebooks/02_layer_norm.ipynb", "00_first.py"], ["00_first", "02_layer_norm"]),
    ],
)
def test_lessons_are_found_in_order_by_their_beginning(root, names, found):
    assert [source.stem for source in lessons(root, names)] == found


def test_an_unknown_lesson_is_refused(root):
    message = "There is no lesson '03'; there are: 00_first, 02_layer_norm, 08a_mixers, 08b_mixers."
    with pytest.raises(Refusal, match=message):
        lessons(root, ["00", "03"])


def test_the_notebook_stands_one_folder_up(root):
    assert notebook_of(lessons(root)[0]) == root / "notebooks" / "00_first.ipynb"
