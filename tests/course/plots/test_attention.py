import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots import attention as plots


@pytest.fixture
def ax():
    return Figure().add_subplot()


def words(ax):
    return [text.get_text() for text in ax.texts]


def tokens(count):
    """Some tokens: pixels that count up, and the inks in turn."""
    x = np.zeros((count, 68))
    x[:, :64] = np.linspace(0, 1, 64)
    x[range(count), 64 + np.arange(count) % 4] = 1
    return x


def test_a_token_is_drawn_in_its_ink_on_white():
    picture = plots.colored(tokens(2)[1])
    assert picture.shape == (8, 8, 3) and np.allclose(picture[0, 0], 1) and np.allclose(picture[-1, -1], plots.INKS[1])


def test_inks_can_be_told_from_white_and_from_each_other_by_their_letters():
    assert len(plots.LETTERS) == len(plots.INKS) == 4 and (plots.INKS.mean(-1) < 0.5).all()


def test_a_row_has_its_pictures_the_letters_of_its_inks_and_the_answers(ax):
    assert plots.plot_row(tokens(5), [-100, 0, 1, 2, 3], ax, (4, 1)) is ax
    assert len(ax.images) == 5
    assert words(ax)[:10] == ["R", "–", "B", "R", "G", "B", "K", "G", "R", "K"]
    assert ax.texts[-1].arrow_patch is not None


def test_one_head_is_drawn_from_its_keys_to_the_ink_with_most_weight(ax):
    scores, weights = np.array([2.5, -1.0, -np.inf]), np.array([0.75, 0.25, 0.0])
    keys = np.array([[2, 0], [0, -1], [1, 1]])
    mixture = weights @ tokens(3)[:, 64:]
    assert plots.plot_one_head(tokens(3), 1, [2, 0], keys, scores, weights, mixture, ax) is ax
    said = words(ax)
    assert said[:12] == ["2\n0", "2.5", ".75", "R", "0\n−1", "−1.0", ".25", "B", "1\n1", "−∞", ".00", "G"]
    assert "asks, q = (2, 0)" in said and "k  (3, 2)" in said and "MLP: R" in said
    assert said[said.index("K") + 1] == ".00" and len(ax.images) == 3
    upright, lying = [bar.get_height() for bar in ax.patches[:3]], [bar.get_width() for bar in ax.patches[3:7]]
    assert np.allclose(upright, 0.9 * weights) and np.allclose(lying, 1.2 * mixture)


def test_a_map_names_the_digits_of_its_rows_and_columns(ax):
    plots.plot_attention_map(np.tri(3), tokens(3), ax, digits=[7, 0, 4])
    assert words(ax) == ["7", "7", "0", "0", "4", "4"]
    assert [text.get_position()[0] for text in ax.texts[::2]] == [-1.55] * 3 and ax.get_xlim()[0] < -1.55


def test_a_map_hides_what_comes_later_and_rings_what_is_named(ax):
    weights = np.tri(4) / np.arange(1, 5)[:, None]
    assert plots.plot_attention_map(weights, tokens(4), ax, [-1, 0, 0, 2]) is ax
    shown, *pictures = ax.images
    assert np.array_equal(np.ma.getmaskarray(shown.get_array()), np.triu(np.ones((4, 4)), 1) > 0) and len(pictures) == 8
    rings = [line.get_xydata().mean(0) for line in ax.lines if len(line.get_xydata()) == 41]
    assert np.allclose([ring[1] for ring in rings], [1.5, 2.5, 3.5], atol=0.02)
