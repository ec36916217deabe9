"""The hook that checks shapes while the tests run, and the fixture ``as_installed``, which takes it off."""

import jaxtyping
import pytest
import torch

from residual_edu import BlockConfig, InvalidInput, LayerNorm
from residual_edu.mixers.real_fft import RealFFT
from residual_edu.parts import position


def wrapped():
    """Whether each of these is what the hook made of it: a method, a property, a static method, a function."""
    made = [LayerNorm.forward, BlockConfig.head_dim.fget, RealFFT.backward, position.rotate, position.rotary_angles]
    return [hasattr(each, "__wrapped__") for each in made]


def call():
    return position.rotate(torch.zeros(2, 4), torch.zeros(2))


def test_the_hook_finds_a_wrong_shape_and_users_meet_the_librarys_own_message(request):
    assert all(wrapped())
    with pytest.raises(jaxtyping.TypeCheckError):
        call()
    request.getfixturevalue("as_installed")
    assert not any(wrapped())
    with pytest.raises(InvalidInput):
        call()
