"""Exercise on configs: a call to be made later, whose keywords are checked at once."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from torch import nn

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet
from residual_edu.parts import LayerNorm, LayerScale

Config = Callable[..., Any]


class Counted(LayerScale):
    """A module that counts how often it is built."""

    made = 0

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        Counted.made += 1


def lazy_config(target: Config, **keywords: Any) -> Config:
    """Check the keywords against the signature, and return the call as a partial."""
    signature(target).bind_partial(**keywords)
    return partial(target, **keywords)


def by_names(target: Config, **keywords: Any) -> Config:
    """Check the keywords by looking each up among the parameters that can be named."""
    takes = signature(target).parameters.values()
    named = {p.name for p in takes if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in takes) and set(keywords) - named:
        raise ValueError(*set(keywords) - named)
    return lambda *args, **more: target(*args, **keywords | more)


def built(target: Config, **keywords: Any) -> Config:
    """Build at once, and return that module at each call."""
    signature(target).bind_partial(**keywords)
    one = target(**keywords)
    return lambda **more: one


def tried(target: Config, **keywords: Any) -> Config:
    """Build one to see whether it works, and discard it."""
    target(**keywords)
    return partial(target, **keywords)


def checked_by(check: Callable[[Config, dict[str, Any]], Any]) -> Callable[..., Config]:
    """Return a ``lazy_config`` that checks its keywords by ``check``."""

    def describe(target: Config, **keywords: Any) -> Config:
        check(target, keywords)
        return partial(target, **keywords)

    return describe


def forgetful(target: Config, **keywords: Any) -> Config:
    """Check the keywords, and drop them."""
    signature(target).bind_partial(**keywords)
    return target


def sealed(target: Config, **keywords: Any) -> Config:
    """Return a call that takes no further keywords."""
    signature(target).bind_partial(**keywords)
    return lambda: target(**keywords)


def stubborn(target: Config, **keywords: Any) -> Config:
    """Return a call in which the first keywords win."""
    signature(target).bind_partial(**keywords)
    return lambda **more: target(**{**more, **keywords})


def made(f: Any, *, target: Config = LayerScale, **keywords: Any) -> Config:
    """Return an answer's result for a target, or raise ``Unmet`` unless it can be called."""
    described = f(target, **keywords)
    if isinstance(described, nn.Module):
        raise Unmet("it returned a built module, where a call to come was asked for")
    if not callable(described):
        raise Unmet(f"it returned a {type(described).__name__}, where something to call was asked for")
    return described


def _builds(f: Any) -> None:
    module = made(f, dim=3, init_value=0.5)()
    if not isinstance(module, LayerScale) or module.gamma.tolist() != [0.5] * 3:
        raise Unmet("lazy_config(LayerScale, dim=3, init_value=0.5)() is not LayerScale(dim=3, init_value=0.5)")


def _anew(f: Any) -> None:
    described = made(f, dim=3)
    if described() is described():
        raise Unmet("two calls returned the very same module")


def _later(f: Any) -> None:
    module = made(f, init_value=0.5)(dim=2)
    if module.gamma.tolist() != [0.5] * 2:
        raise Unmet("lazy_config(LayerScale, init_value=0.5)(dim=2) has not both")


def _unchanged(f: Any) -> None:
    described = made(f, dim=3)
    described(dim=2)
    if len(described().gamma) != 3:
        raise Unmet("after lazy_config(LayerScale, dim=3) is called with dim=2, the next call without it has not 3")


def _overrides(f: Any) -> None:
    if len(made(f, dim=3)(dim=2).gamma) != 2:
        raise Unmet("lazy_config(LayerScale, dim=3)(dim=2) has not the later width")


def refuses(f: Any, target: Config = LayerNorm, **keywords: Any) -> str:
    """Return the name of the error that a config raises, empty for none."""
    try:
        f(target, **keywords)
    except Exception as error:
        return type(error).__name__
    return ""


def _typo(f: Any) -> None:
    if not refuses(f, dimm=4):
        raise Unmet("lazy_config(LayerNorm, dimm=4) raised nothing")
    for name in ("eps", "gamma", "forward"):
        if not refuses(f, LayerScale, **{name: 1}):
            raise Unmet(f"lazy_config(LayerScale, {name}=1) raised nothing, and LayerScale takes no {name}")


def anything(*sizes: int, **options: int) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the arguments: a function that takes every keyword."""
    return sizes, options


def by_place(size: int, /, factor: int = 1) -> int:
    """Return size * factor; ``size`` cannot be named."""
    return size * factor


def _functions(f: Any) -> None:
    for target, name in ((by_place, "factr"), (by_place, "size"), (print, "sepp")):
        if not refuses(f, target, **{name: 1}):
            raise Unmet(f"lazy_config({target.__name__}, {name}=1) raised nothing, and {name} cannot be named there")
    if refuses(f, anything, colour=1) or f(anything, colour=1)() != ((), {"colour": 1}):
        raise Unmet("a function with **options takes every keyword, and this one was refused or lost")


def _by_place(f: Any) -> None:
    if f(by_place, factor=3)(2) != 6:
        raise Unmet("for `def by_place(size, /, factor=1)`, lazy_config(by_place, factor=3)(2) has not both")


def _builds_nothing(f: Any) -> None:
    before = Counted.made
    f(Counted, dim=3)
    if Counted.made != before:
        raise Unmet("it built a module before the call was made; compare the names with the signature")


def observe(f: Any) -> Any:
    """Return an answer's results with and without a misspelt keyword, early and late."""
    described = made(f, dim=3)
    seen: list[Any] = [described() is described(), refuses(f, dimm=4) != "", refuses(f, eps=0.1) != ""]
    seen += [refuses(f, by_place, **{name: 1}) != "" for name in ("factr", "size")] + [
        refuses(f, anything, colour=1) != ""
    ]
    before = Counted.made
    f(Counted, dim=3)
    seen.append(Counted.made - before)
    for first, then in (({"dim": 3}, {"dim": 2}), ({"init_value": 0.5}, {"dim": 2}), ({"dim": 3}, {})):
        try:
            seen.append(f(LayerScale, **first)(**then).gamma.detach())
        except Exception as error:
            seen.append(type(error).__name__)
    try:
        f(LayerNorm, dimm=4)(dim=4)
    except Exception as error:
        seen.append(type(error).__name__)
    return seen


LAZY_CONFIG = Exercise(
    reference=lazy_config,
    also_right=(by_names,),
    observe=observe,
    properties=(
        Property("calling it builds the module with its keywords", _builds),
        Property("every call builds a new one", _anew),
        Property("what is missing can be filled in by the call", _later),
        Property("a keyword given by the call wins", _overrides),
        Property("but not beyond that call", _unchanged),
        Property("a typo raises an error where it is written, before anything is built", _typo),
        Property("nothing is built before the call, not even on trial", _builds_nothing, hints=()),
        Property("functions too, with **options or with arguments that cannot be named", _functions),
        Property("an argument that is missing may come without its name", _by_place, hints=()),
    ),
    mistakes=(
        Mistake(
            lambda target, **keywords: target(**keywords),
            "the module itself",
            "Return a call, not its result: partial.",
        ),
        Mistake(built, "one module for all calls", "Build nothing yet: `return partial(target, **keywords)`."),
        Mistake(
            checked_by(lambda target, keywords: None),
            "a typo that waits until the module is built, as partial alone does",
            "Ask `inspect.signature(target)` before you return.",
        ),
        Mistake(
            tried,
            "a module built to see whether it can be, which fails where a keyword is still to come",
            "Compare names with the signature; build nothing.",
        ),
        Mistake(
            checked_by(lambda target, keywords: signature(target).bind(**keywords)),
            "a check that demands every argument at once",
            "`bind_partial` lets arguments be filled in later.",
        ),
        Mistake(forgetful, "keywords that were checked and then lost", "Return `partial(target, **keywords)`."),
        Mistake(sealed, "a call that takes nothing more", "`partial` lets the caller add keywords; a bare lambda not."),
        Mistake(stubborn, "first keywords that cannot be overridden", "Put the later ones last: `keywords | more`."),
    ),
    hints=(
        "Which function of the standard library is a call that has not happened yet? And which one knows what a "
        "function takes?",
        "A signature has the methods `bind` and `bind_partial`: which of the two lets arguments be missing?",
    ),
)

EXERCISES = {"lazy_config": LAZY_CONFIG}
