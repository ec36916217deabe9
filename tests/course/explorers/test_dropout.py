import numpy as np
import pytest

from residual_course.explorers.dropout import PLACES, explore_coins, noises, streams


@pytest.mark.parametrize("place", PLACES.values())
def test_without_coins_there_is_no_noise(place):
    assert np.all(noises(0.0, 12, place) == 0)


def test_evaluation_does_not_depend_on_the_rate():
    calm, again = streams(6, "branch", 0.1, None), streams(6, "stream", 0.6, None)
    assert all(one.equal(other) for one, other in zip(calm, again, strict=True))


def test_one_sample_coin_is_as_loud_as_unit_coins_and_both_stay_near_the_signal():
    branch, path = noises(0.3, 48, "branch")[-1], noises(0.3, 48, "path")[-1]
    assert 0.5 < branch < 1 and 0.5 < path < 1


def test_on_the_stream_the_noise_passes_the_signal_early_and_grows():
    noise = noises(0.3, 24, "stream")
    assert np.argmax(noise > 1) in (2, 3) and noise[-1] > 10


def test_once_at_the_start_the_noise_fades_a_little():
    noise = noises(0.3, 24, "start")
    assert 0.55 < noise[0] < 0.75 and 0.3 < noise[-1] < noise[0]


def test_every_control_changes_the_picture():
    explorer = explore_coins()
    pictures = {explorer.image.value}
    for name, value in (("rate", 0.5), ("depth", 48), ("place", "units of the stream")):
        explorer.inputs[name].value = value
        pictures.add(explorer.image.value)
    assert len(pictures) == 4
    assert "units of the stream" in explorer.reading.value
