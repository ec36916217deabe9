"""One number of one sample is NaN or infinite: no other sample changes, and a NaN does not vanish."""

import copy

import pytest
import torch

from .outcome import result_of, tensors_in
from .table import CASES

pytestmark = pytest.mark.usefixtures("all_as_installed")
VANISHES = {
    "QKVConditionMixer": "a query that is NaN gets 0 from torch's kernel, as the docstring of fused_attention says",
    "PositionEmbedding": "it reads the shape of x alone",
}
POISONED = [
    (name, key)
    for name, case in CASES.items()
    for key in case.rows
    if case.call[key] is not None and case.call[key].is_floating_point()
]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(("name", "key"), POISONED)
def test_it_stays_in_its_sample_and_stays(name, key, bad):
    case = CASES[name]
    call = copy.deepcopy(case.call)
    clean = tensors_in(result_of(name, case, case.made, call))[0]
    call[key][-1].view(-1)[0] = bad
    found = tensors_in(result_of(name, case, case.made, call))[0]
    torch.testing.assert_close(found[:-1], clean[:-1], rtol=1e-5, atol=1e-6)
    if bad is torch.nan:
        assert found[-1].isnan().any() != (name in VANISHES and key == "x")
