import re

import pytest
import torch
from torch import nn

from residual_edu import errors
from residual_edu.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("as_installed")


def test_what_a_scan_reads():
    x, dt, A, B = torch.zeros(2, 5, 3, 4), torch.zeros(2, 5, 3), torch.zeros(3), torch.zeros(2, 5, 7)
    errors.check_scan(x, dt, A, B, B, None)
    errors.check_scan(x, dt, A, B, B, A)
    with pytest.raises(InvalidInput, match=f"^{re.escape('C must have shape (2, 5, 7), got (2, 5, 6)')}$"):
        errors.check_scan(x, dt, A, B, B[..., 1:], None)


def test_two_modules_apart():
    first = nn.Linear(2, 2)
    errors.check_apart("layer_cfg", first, nn.Linear(2, 2))
    message = "layer_cfg must build 2 modules, got the same Linear twice; give what builds a new one"
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        errors.check_apart("layer_cfg", first, first)
