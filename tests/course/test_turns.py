import subprocess

import pytest

from residual_edu.course.turns import share, turn

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


def test_each_commit_has_the_next_turn(tmp_path, counted):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in 1, 2:
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one more"], check=True)
        assert turn(tmp_path) == number


def test_without_git_it_is_the_first_turn(tmp_path, counted):
    assert turn(tmp_path) == 0


def test_all_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("RESIDUAL_EDU_TURN", "all")
    assert turn(tmp_path) is None
