"""An attempt is an answer with other code, or one that does something else."""

from functools import partial

from torch import nn

from residual_course.checking.session import Attempts, fingerprint


def answer(body, head="def answer(x):"):
    scope = {"nn": nn}
    exec(f"{head}\n    {body}", scope)
    return scope["answer"]


def test_comments_names_of_variables_and_blank_lines_change_nothing():
    one = answer("return x + 1")
    assert fingerprint(one) == fingerprint(answer("# a comment\n\n    return x + 1"))
    assert fingerprint(one) != fingerprint(answer("return x + 2"))
    assert fingerprint(one) != fingerprint(answer("return x - 1"))


def test_inner_functions_classes_and_partials_are_read():
    inner = "f = lambda y: y {} 1\n    return f(x)"
    assert fingerprint(answer(inner.format("+"))) != fingerprint(answer(inner.format("-")))
    head = "class answer(nn.Module):\n  def forward(self, x):"
    assert fingerprint(answer("return x", head)) == fingerprint(answer("return x", head))
    assert fingerprint(answer("return x", head)) != fingerprint(answer("return -x", head))
    assert fingerprint(partial(answer("return x"), y=1)) != fingerprint(partial(answer("return x"), y=2))
    assert fingerprint(nn.ReLU()) == fingerprint(nn.ReLU()) != fingerprint(nn.GELU())


def test_an_answer_with_other_troubles_is_another_attempt():
    counted = Attempts()
    for trouble in ("no", "another", "no"):
        counted.add(answer("return x"), (trouble,), False)
    assert len(counted.failed) == len(counted.ideas) == 2
