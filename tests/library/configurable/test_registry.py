import re

import pytest
from torch import nn

from residual_edu import InvalidInput, Registry

pytestmark = pytest.mark.usefixtures("as_installed")


class A(nn.Module):
    pass


class B(nn.Module):
    pass


@pytest.fixture
def registry():
    made = Registry("attention", aliases={"long": "b", "gone": "z"})
    made.register("b", B)
    return made


def test_both_forms_register_and_return_the_class(registry):
    @registry.register("mine")
    class Mine(nn.Module):
        pass

    assert registry.register("a", A) is A and registry.get("a") is A
    assert isinstance(Mine, type) and registry.get("mine") is Mine
    assert registry.keys() == ["a", "b", "long", "mine"]
    assert "a" in registry and "c" not in registry and 3 not in registry
    assert repr(registry) == "Registry(attention: a, b, long, mine)"


def test_an_alias_is_another_spelling_until_a_class_takes_it(registry):
    assert registry.get("long") is B and "long" in registry
    registry.register("long", A)
    assert registry.get("long") is A and registry.get("b") is B
    assert "gone" not in registry and "gone" not in list(registry)


def from_a_cell(name="Window"):
    return type(name, (nn.Module,), {"__module__": "__main__"})


def test_a_cell_can_be_run_again(registry):
    registry.register("window", from_a_cell())
    registry.register("window", again := from_a_cell())
    assert registry.get("window") is again
    with pytest.raises(InvalidInput, match="^attention 'window' is taken"):
        registry.register("window", from_a_cell("Other"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.register("b")(A), "attention 'b' is taken, choose another name"),
        (lambda r: r.get("bb"), "attention must be one of 'b', 'long', got 'bb'; did you mean 'b'?"),
    ],
)
def test_what_is_refused(registry, call, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        call(registry)
    assert registry.entries == {"b": B}
