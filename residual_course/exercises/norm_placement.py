"""Exercise on other people's blocks: find the placement of the norm in the code, then by calling the block."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from residual_course.checking.exercise import Exercise, Mistake, Property, Unmet, draw, unchanged, value_of

Map = Callable[[Tensor], Tensor]
Judge = Callable[[Map, Tensor], Any]


# Four snippets: A and D are pre-norm, C is post-norm; B norms its own skip: it is neither, and a stack of it post-norm


def words(f: Callable[[], Any]) -> list[str]:
    """Return the words of an answer."""
    value = f()
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return value_of(lambda: text, str).replace(",", " ").split()


def _four_words(f: Callable[[], Any]) -> None:
    got = words(f)
    if len(got) != 4 or set(got) - {"pre", "post", "neither"}:
        raise Unmet("it returned something else than four words out of pre, post and neither")


def _right(f: Callable[[], Any], *places: int) -> None:
    got, right = words(f), [{"pre"}, {"neither", "post"}, {"post"}, {"pre"}]
    if any(got[place] not in right[place] for place in places):
        raise Unmet("it names another wiring")


def say(text: str) -> Callable[[], str]:
    """Return a function that returns ``text``."""
    return lambda: text


LIAR = "A docstring is not run: read which of x and norm(x) the sublayer of A is handed."
CUT = "In B the name x is given a new value before the sum; which x does the skip carry?"
SUM = "In C the norm is called on the sum."

WHICH_PLACEMENT = Exercise(
    reference=say("pre neither post pre"),
    also_right=(
        say("Pre, neither, post, pre"),
        lambda: ["pre", "neither", "post", "pre"],
        say("pre post post pre"),
    ),
    observe=words,
    properties=(
        Property("four words out of pre, post and neither", _four_words),
        Property("C and D are named", lambda f: _right(f, 2, 3)),
        Property("A is named, whatever its docstring says", lambda f: _right(f, 0)),
        Property("B is named", lambda f: _right(f, 1)),
    ),
    mistakes=(
        Mistake(say("post neither post pre"), "A's docstring, believed", LIAR),
        Mistake(say("post post post pre"), "A's docstring, believed, and B read as a stack", LIAR),
        Mistake(say("pre pre post pre"), "three pre-norms, B among them", CUT),
        Mistake(say("post pre post pre"), "A's docstring, believed, and B taken for pre-norm", f"{LIAR} {CUT}"),
        Mistake(say("pre neither pre pre"), "C taken for pre-norm", SUM),
        Mistake(
            say("pre neither post neither"),
            "D taken for neither",
            "D keeps x under another name, `skip`, before it norms.",
        ),
        Mistake(
            say("post neither pre post"), "the two words exchanged", "Pre-norm is the one whose norm comes before f."
        ),
        Mistake(say("pre pre pre pre"), "four pre-norms", f"Not all four. {SUM} {CUT}"),
    ),
    hints=(
        "For each: which x is added, and is the sum the last thing that happens?",
        "Run each in your head with f(x) = 0: what is left of x? Read the code, not the docstring.",
    ),
)


# Without reading: call the block, and examine its output


def norm(x: Tensor) -> Tensor:
    """Normalise each row with a tiny eps, so that the laws hold to float64's precision."""
    return layer_norm(x, x.shape[-1:], eps=1e-14)


def bend(x: Tensor) -> Tensor:
    """Return the output of a branch with a bias."""
    return torch.tanh(x @ draw(6, 6, seed=2)) + draw(6, seed=3)


def mix(x: Tensor) -> Tensor:
    """Return the output of a linear branch without a bias."""
    return x @ draw(6, 6, seed=4)


BLOCKS: dict[str, Map] = {
    "x + f(norm(x))": lambda x: x + bend(norm(x)),
    "norm(x + f(x))": lambda x: norm(x + bend(x)),
    "norm(x) + f(norm(x))": lambda x: norm(x) + bend(norm(x)),
    "x + f(x)": lambda x: x + bend(x),
    "x + norm(f(x))": lambda x: x + norm(mix(x)),
    "x + f(x - mean(x))": lambda x: x + bend(x - x.mean(-1, keepdim=True)),
    "signs of x + f(x)": lambda x: (x + bend(x)).sign(),
    "a sum that is centred but not scaled": lambda x: x + bend(x) - (x + bend(x)).mean(-1, keepdim=True),
    "a norm over all rows together": lambda x: ((s := x + bend(x)) - s.mean()) / s.std(correction=0),
}
RIGHT = dict.fromkeys(BLOCKS, "neither") | {"x + f(norm(x))": "pre", "norm(x + f(x))": "post"}
TOKENS = 2 * draw(5, 6, seed=1) + 1


def judged(f: Judge, name: str) -> str:
    """Return an answer's word for one block."""
    return word(f, name, TOKENS.clone())


def word(f: Judge, name: str, x: Tensor) -> str:
    """Return an answer's word for one block and these tokens, or raise ``Unmet`` where it changes them."""
    with unchanged(x=x):
        return str(value_of(lambda: f(BLOCKS[name], x), str))


def _judges(f: Judge, *names: str) -> None:
    for name in names:
        if (got := judged(f, name)) != RIGHT[name]:
            raise Unmet(f"it calls {name} {got!r}")


def _judges_one(f: Judge, *names: str) -> None:
    for name in names:
        if (got := word(f, name, TOKENS[:1].clone())) != RIGHT[name]:
            raise Unmet(f"for a single token it calls {name} {got!r}")


def normalised(block: Map, x: Tensor) -> bool:
    """Whether each row of the output has mean 0 and standard deviation 1."""
    return torch.allclose(block(x), norm(block(x)), atol=1e-4)


def branch(block: Map, x: Tensor) -> Tensor:
    """Return what a block adds."""
    return block(x) - x


def invariant(block: Map, x: Tensor, scale: float = 2.0, shift: float = 3.0) -> bool:
    """Whether what a block adds stays the same when x is scaled and shifted."""
    return torch.allclose(branch(block, scale * x + shift), branch(block, x), atol=1e-4)


def placement_of(block: Map, x: Tensor) -> str:
    """Return "pre", "post" or "neither"."""
    if normalised(block, x):
        return "post"
    return "pre" if invariant(block, x) else "neither"


def judge(post: Callable[[Map, Tensor], bool], pre: Callable[[Map, Tensor], bool]) -> Judge:
    """Return an answer that tests ``post`` first, then ``pre``."""
    return lambda block, x: "post" if post(block, x) else "pre" if pre(block, x) else "neither"


def _always(block: Map, x: Tensor) -> bool:
    return True


PLACEMENT_OF = Exercise(
    reference=placement_of,
    also_right=(judge(normalised, lambda block, x: invariant(block, x, 7, 0) and invariant(block, x, 1, -2)),),
    observe=lambda f: [judged(f, name) for name in BLOCKS],
    properties=(
        Property("x + f(norm(x)) is pre", lambda f: _judges(f, "x + f(norm(x))")),
        Property("norm(x + f(x)) is post", lambda f: _judges(f, "norm(x + f(x))")),
        Property(
            "neither: a norm on the skip, or none at all", lambda f: _judges(f, "norm(x) + f(norm(x))", "x + f(x)")
        ),
        Property("neither: a norm on the branch's output", lambda f: _judges(f, "x + norm(f(x))")),
        Property("neither: half a norm, or one over all rows", lambda f: _judges(f, *list(BLOCKS)[5:])),
        Property("a single token", lambda f: _judges_one(f, *list(BLOCKS)[:6])),
    ),
    mistakes=(
        Mistake(
            judge(normalised, _always),
            "pre for all that is not post",
            "Test for pre too, and return neither where both tests fail.",
        ),
        Mistake(
            judge(lambda block, x: not invariant(block, x), _always),
            "post for all that is not pre",
            "Test for post too: what do the rows that leave sum to?",
        ),
        Mistake(
            judge(normalised, lambda block, x: invariant(block, x, 2, 0)),
            "a test that only stretches x",
            "Some branches do not depend on the scale of x either; shift x as well, by the same number along a row.",
        ),
        Mistake(
            judge(lambda block, x: bool(block(x).mean(-1).abs().max() < 1e-6), invariant),
            "a test of the mean alone",
            "A centred row is not yet normalised: check its spread, too.",
        ),
        Mistake(
            judge(
                lambda block, x: bool(block(x).mean().abs() < 1e-6 and (block(x).std(correction=0) - 1).abs() < 1e-3),
                invariant,
            ),
            "mean and spread of all rows together",
            "Each row has its own: take them over `dim=-1`.",
        ),
        Mistake(
            judge(invariant, normalised),
            "the two words exchanged",
            "Pre-norm is the one whose branch does not depend on the scale of x.",
        ),
        Mistake(
            judge(normalised, lambda block, x: torch.allclose(block(2 * x), 2 * block(x))),
            "a block that is asked to be linear",
            "Look at what is added, block(x) - x: that is what stays the same.",
        ),
        Mistake(
            judge(normalised, lambda block, x: torch.allclose(block(2 * x + 3), block(x), atol=1e-4)),
            "an output that is asked to stay, where only the branch does",
            "Subtract x first: block(2 * x) - 2 * x against block(x) - x.",
        ),
    ),
    hints=(
        "Which of the two leaves every row with mean 0 and spread 1? And on what of x does a norm before f not depend?",
        "post: is `layer_norm(y)` still y? pre: is what is added, block(x) - x, the same for x and for 2 * x + 3?",
    ),
)

EXERCISES = {"which_placement": WHICH_PLACEMENT, "placement_of": PLACEMENT_OF}
