import pytest

from residual_edu.configurable import attention_registry, ffn_registry, norm_registry, position_registry


@pytest.fixture(autouse=True)
def names_of_ones_own(monkeypatch):
    """Forget after each test what it registered."""
    for registry in (attention_registry, ffn_registry, norm_registry, position_registry):
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
