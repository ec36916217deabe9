import pytest

from residual_course.commands.checkout import Refusal, find_root, is_optional, lessons, notebook_of, with_homework


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


def test_an_investigation_follows_all_lessons_and_is_named_whole(root):
    source = root / "notebooks" / "investigations" / "source" / "02_why.py"
    source.parent.mkdir(parents=True)
    source.touch()
    assert lessons(root)[-1] == source and source not in lessons(root, ["02"])
    assert lessons(root, ["02_why"]) == [source] and is_optional(source) and is_optional(notebook_of(source))
    assert notebook_of(source) == root / "notebooks" / "investigations" / "02_why.ipynb"


def test_an_unknown_lesson_is_refused(root):
    message = "There is no lesson '03'; there are: 00_first, 02_layer_norm, 08a_mixers, 08b_mixers."
    with pytest.raises(Refusal, match=message):
        lessons(root, ["00", "03"])


def test_the_notebook_stands_one_folder_up(root):
    assert notebook_of(lessons(root)[0]) == root / "notebooks" / "00_first.ipynb"


def test_homework_follows_the_lessons_and_is_built_into_its_own_folder(root):
    homework = root / "notebooks" / "source" / "homework"
    homework.mkdir()
    for name in ("hw_02_03.py", "hw_00_01.py", "helper.py"):
        (homework / name).touch()
    assert [source.stem for source in with_homework(root)][3:] == ["08b_mixers", "hw_00_01", "hw_02_03"]
    assert [source.stem for source in with_homework(root, ["hw_02", "00"])] == ["00_first", "hw_02_03"]
    assert notebook_of(homework / "hw_00_01.py") == root / "notebooks" / "homework" / "hw_00_01.ipynb"
    assert len(lessons(root)) == 4
