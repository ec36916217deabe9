"""The data are scikit-learn's own, whole, split without overlap, and need no network."""

import hashlib
import socket
import sys

import pytest
import torch
from sklearn.datasets import load_digits

from residual_course.datasets import (
    LETTERS,
    digits,
    font_letters,
    ink_rows,
    python_documentation,
    python_prose,
)
from residual_edu.errors import InvalidInput


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a data set asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def rows(images, labels):
    """Each digit as one tuple: its label and its 64 pixels of 0 to 16."""
    table = torch.cat([labels[:, None], (images.flatten(1) * 16).long()], dim=1)
    return sorted(map(tuple, table.tolist()))


def test_the_two_parts_hold_every_digit_once():
    data = digits()
    pixels, labels = (torch.tensor(a) for a in load_digits(return_X_y=True))
    train, test = rows(data.train_images, data.train_labels), rows(data.test_images, data.test_labels)
    assert (len(train), len(test)) == (1437, 360)
    assert sorted(train + test) == rows(pixels.view(-1, 8, 8) / 16, labels)
    assert data.train_images.shape == (1437, 8, 8) and data.train_images.dtype == torch.float32


@pytest.mark.parametrize("drawn", [lambda seed: digits(seed).train_images, lambda seed: font_letters(9, seed).pictures])
def test_a_seed_names_one_shuffle_and_leaves_the_global_one_alone(drawn):
    state = torch.get_rng_state()
    assert drawn(3).equal(drawn(3)) and not drawn(3).equal(drawn(4))
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (0, "test must be a whole number, at least 1, got 0"),
        (1797, "test must be below 1797, the number of digits, got 1797"),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_what_is_refused(test, words):
    with pytest.raises(InvalidInput, match=f"^{words}$"):
        digits(test=test)


def test_the_documentation_is_the_same_text_on_every_python():
    """Trained networks are held to bands, and a prediction has one truth: not a character may differ."""
    text = python_documentation()
    assert (len(text), len(set(text))) == (465_126, 103)
    assert hashlib.sha256(text.encode()).hexdigest().startswith("71f2ff5d")  # of the join under Python 3.11.7


def test_the_prose_has_each_paragraph_once_and_no_code():
    prose, whole = python_prose().split("\n"), " ".join(python_documentation().split())
    assert len(python_prose()) == 257_726 and len(set(prose)) == len(prose)
    assert all(each in whole and each[-1] in ".:" for each in prose)
    assert not any(sign in each for each in prose for sign in ("::=", ">>>", "=="))


@pytest.mark.parametrize(("up", "test"), [(0, True), (1, False), (3, True)])
def test_rows_of_inks_answer_both_questions(up, test):
    rows = ink_rows(40, torch.Generator().manual_seed(0), test=test, up=up, length=9)
    assert rows.x.shape == (40, 9, 68) and rows.x[..., 64:].sum(-1).eq(1).all()
    inks = rows.x[..., 64:].argmax(-1).tolist()
    for ink, digit, answers in zip(inks, rows.digits.tolist(), rows.answers.tolist(), strict=True):
        assert len({(one - digit[0] + 3) % 10 for one in digit}) <= 4
        for i, (larger, before) in enumerate(answers):
            there = [j for j in range(i) if digit[j] == (digit[i] + up) % 10]
            assert larger == (ink[there[-1]] if there else -100)
            assert before == (ink[i - 1] if i else -100)


def test_rows_show_pictures_of_their_part_and_of_the_digits_asked_for():
    data, shown = digits(), torch.arange(20).view(2, 10) % 10
    rows = ink_rows(2, torch.Generator().manual_seed(1), test=True, length=10, shown=shown)
    pixels = data.test_images.flatten(1).tolist()
    known = {tuple(image): label for image, label in zip(pixels, data.test_labels.tolist(), strict=True)}
    assert [[known[tuple(one)] for one in row] for row in rows.x[..., :64].tolist()] == shown.tolist()
    assert rows.digits.equal(shown)
    with pytest.raises(InvalidInput, match=r"^shown must have the shape \(2, 12\), got \(2, 10\)$"):
        ink_rows(2, torch.Generator(), shown=shown)


def test_letters_without_noise_are_ink_on_paper_and_those_of_a_label_are_alike():
    found = font_letters(2000, side=32, height=20.0, reach=0.0, noise=0.0)
    assert found.pictures.shape == (2000, 1, 32, 32) and found.labels.unique().tolist() == list(range(len(LETTERS)))
    assert found.pictures.min() >= 0 and 0.9 < found.pictures.max() <= 1
    assert found.pictures[:, 0, 0].max() < 0.1  # nothing reaches the edge
    means = torch.stack([found.pictures[found.labels == one].mean(0).flatten() for one in range(10)])
    nearest = torch.cdist(found.pictures.flatten(1), means).argmin(1)
    assert (nearest == found.labels).float().mean() > 0.7


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"scikit-learn, which is not installed: pip install 'residual_edu\[lab\]'$"):
        digits()
