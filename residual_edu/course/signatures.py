"""A function's signature as a lesson shows it: the names and defaults, and the shapes of arrays as comments below."""

from collections.abc import Sequence
from typing import Any

import libcst as cst

from residual_edu.course.nodes import is_text
from residual_edu.course.shapes import shape_comments

LISTS = ("posonly_params", "params", "kwonly_params")


def plain(function: cst.FunctionDef) -> cst.FunctionDef:
    """Return a function without the layout of its arguments, made for annotations; one with comments in it stays."""
    parameters = function.params
    if "#" in cst.Module([]).code_for_node(parameters):
        return function
    changes: dict[str, Any] = {name: [bare(each) for each in getattr(parameters, name)] for name in LISTS}
    changes |= {name: bare(getattr(parameters, name)) for name in ("star_arg", "star_kwarg", "posonly_ind")}
    params = parameters.with_changes(**changes)
    return function.with_changes(params=params, whitespace_before_params=cst.SimpleWhitespace(""))


def bare(parameter: Any) -> Any:
    """Return a parameter, or a lone star or slash, without the space and comma after it."""
    if isinstance(parameter, cst.Param):
        space = cst.SimpleWhitespace("")
        return parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_param=space)
    return type(parameter)() if isinstance(parameter, cst.ParamStar | cst.ParamSlash) else parameter


def shape_lines(function: cst.FunctionDef, width: int) -> list[str]:
    """Return the comments, each at most ``width`` long, that say the shapes of a function's arrays."""
    text = cst.Module([]).code_for_node
    listed = function.params
    every = [*listed.posonly_params, *listed.params, listed.star_arg, *listed.kwonly_params]
    found = [each for each in every if isinstance(each, cst.Param) and each.annotation]
    arguments = {each.name.value: text(each.annotation.annotation) for each in found if each.annotation}
    return shape_comments(arguments, text(function.returns.annotation) if function.returns else "", width)


def commented(body: cst.BaseSuite, comments: Sequence[str]) -> cst.BaseSuite:
    """Return a body with comments above its first statement, below a docstring."""
    if not comments:
        return body
    lines: Any = body.body
    at = int(len(lines) > 1 and is_text(lines[0]))
    above = [cst.EmptyLine(comment=cst.Comment(line)) for line in comments]
    first = lines[at].with_changes(leading_lines=[*above, *lines[at].leading_lines])
    return cst.IndentedBlock([*lines[:at], first, *lines[at + 1 :]])
