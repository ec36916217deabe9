import subprocess

import pytest

from residual_edu.course.turns import LATELY, due, share, turn

NAMES = list("abcdefg")


@pytest.fixture
def counted(monkeypatch):
    """Nobody asked for all."""
    monkeypatch.delenv("RESIDUAL_EDU_TURN", raising=False)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("first", [0, 5])
def test_so_many_commits_in_a_row_check_everything_once(parts, first):
    shares = [share(NAMES, parts, at) for at in range(first, first + parts)]
    assert sorted(sum(shares, [])) == NAMES
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert share(NAMES, parts, None) == NAMES


@pytest.fixture
def commit(tmp_path, counted):
    """Make ``tmp_path`` a repository; what is returned commits the file it is given, or nothing."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)

    def one_more(name=""):
        if name:
            (tmp_path / name).write_text(name)
            subprocess.run([*git, "add", name], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one more"], check=True)

    return one_more


def test_each_commit_has_the_next_turn(tmp_path, commit):
    for number in 1, 2:
        commit()
        assert turn(tmp_path) == number


def test_what_reads_a_file_that_was_changed_lately_is_due_whatever_the_turn(tmp_path, commit):
    read = {name: {tmp_path / f"{name}.py", tmp_path / "helper.py"} for name in NAMES[:3]}
    read["d"] = {tmp_path / "d.py"}
    commit("d.py")
    assert due(read, 4, tmp_path) == {"b", "d"}
    for _ in range(LATELY - 1):
        assert "d" in due(read, 4, tmp_path)
        commit()
    commit()
    assert due(read, 4, tmp_path) == {"d"} == set(share(NAMES[:4], 4, turn(tmp_path)))
    commit("helper.py")
    assert due(read, 4, tmp_path) == {"a", "b", "c"}


def test_without_git_it_is_the_first_turn(tmp_path, counted):
    assert turn(tmp_path) == 0
    assert due({name: {tmp_path / name} for name in NAMES}, 7, tmp_path) == {"a"}


def test_all_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("RESIDUAL_EDU_TURN", "all")
    assert turn(tmp_path) is None
    assert due({name: {tmp_path / name} for name in NAMES}, 7, tmp_path) == set(NAMES)
