"""What ``help`` and Shift+Tab show of a class: names of types, no addresses, nothing spelled out at length."""

import inspect
import pydoc
import re

import pytest

import residual_edu

pytestmark = pytest.mark.usefixtures("all_as_installed")

CLASSES = [name for name in residual_edu.__all__ if inspect.isclass(getattr(residual_edu, name))]
CLASSES.remove("InvalidInput")  # an exception has no signature
OTHERS = re.compile(r"(?:inherited|overridden) from (?:torch|builtins|typing|collections|functools)\.")
LONG = re.compile(r"(?:[^|\s,(]+ \| ){2}[^|,=]+ \| ")  # four or more of a union


def helped(kind):
    """The text of ``help(kind)`` in one line, up to what other packages say in it."""
    text = re.sub(r"^ \| ?", "", pydoc.render_doc(kind, renderer=pydoc.plaintext), flags=re.M)
    return " ".join(OTHERS.split(text)[0].split())


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_spelled_out(name):
    kind = getattr(residual_edu, name)
    for text in (str(inspect.signature(kind)), helped(kind)):
        found = [word for word in ("0x", "Annotated") if word in text]
        assert found + LONG.findall(text) == []
