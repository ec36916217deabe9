"""How often this session has failed an exercise; the same failing answer twice counts once."""

import inspect
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any


@dataclass
class Attempts:
    """The failing answers to one exercise: all of them, and those whose trouble was more than mechanical."""

    failed: list[Hashable] = field(default_factory=list)
    ideas: list[Hashable] = field(default_factory=list)

    def add(self, answer: Any, troubles: tuple[str, ...], mechanical: bool) -> None:
        """Count an answer with what was seen of it, unless both were there before."""
        mark = (fingerprint(answer), troubles)
        for seen in [self.failed] if mechanical else [self.failed, self.ideas]:
            if mark not in seen:
                seen.append(mark)


ATTEMPTS: dict[str, Attempts] = {}  # by the exercise's name, until the kernel restarts


def attempts(name: str) -> Attempts:
    """Return what this session has counted for an exercise."""
    return ATTEMPTS.setdefault(name, Attempts())


def fingerprint(answer: Any) -> Hashable:
    """Return what is the same for two answers with the same code: comments, blank lines and names do not count."""
    if isinstance(answer, CodeType):
        return answer.co_code, answer.co_names, tuple(map(fingerprint, answer.co_consts))
    if isinstance(answer, type):
        return tuple((name, fingerprint(value)) for name, value in sorted(vars(answer).items()) if callable(value))
    if isinstance(answer, partial):
        return fingerprint(answer.func), repr(answer.args), repr(answer.keywords)
    code = getattr(inspect.unwrap(answer), "__code__", None) if callable(answer) else None
    return fingerprint(code) if code else (type(answer).__qualname__, repr(answer))
