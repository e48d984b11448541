"""Parser for parts on the command line: ``distance(nu=0.1)``, ``rbf + linear``."""

from __future__ import annotations

import ast
from typing import Any

from kernelstream import kernels
from kernelstream.cli import options as opt
from kernelstream.cli.failures import USAGE, CommandError


def parse_part(text: str, names: dict[str, type], what: str) -> Any:
    """A part by name, with parameters in parentheses: ``distance(nu=0.1, max_points=500)``.

    Examples
    --------
    >>> from kernelstream import landmarks
    >>> parse_part("distance(nu=0.3)", landmarks.NAMES, "basis")
    Distance(nu=0.3)
    >>> parse_part("300", landmarks.NAMES, "basis")
    300
    """
    number = opt.literal(text)
    if type(number) is int:
        return number
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        name = (call.func if call else tree).id  # type: ignore[attr-defined]
        values = [ast.literal_eval(value) for value in call.args] if call else []
        given = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords} if call else {}
    except (SyntaxError, ValueError, AttributeError) as problem:
        number = "a whole number, " if what == "basis" else ""
        raise CommandError(
            USAGE, f"--{what} {text!r}: write {number}a name, or a name with name(parameter=value)."
        ) from problem
    if name not in names:
        raise CommandError(
            USAGE, f"--{what} must be one of {', '.join(sorted(names))}; got {name!r}."
        )
    try:
        return names[name](*values, **given)
    except TypeError as problem:
        known = ", ".join(names[name]().get_params(deep=False)) or "none"
        raise CommandError(
            USAGE, f"--{what} {text!r}: the parameters of {name} are {known}."
        ) from problem


def parse_kernel(text: str) -> kernels.Kernel:
    """A kernel by name, or sums and products of such: ``on('a,b', rbf) + 2 * linear``.

    Examples
    --------
    >>> parse_kernel("on('a,b', rbf(gamma=0.1)) * on('colour', categorical)")
    Product(left=On(columns=['a', 'b'], kernel=RBF(gamma=0.1)),
            right=On(columns=['colour'], kernel=Categorical()))
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return parse_part(text, kernels.NAMES, "kernel")  # says what is wrong
    kernel = _kernel(tree)
    if isinstance(kernel, int | float):
        raise CommandError(USAGE, f"--kernel {text!r} is no kernel: write rbf, or rbf + linear.")
    return kernel


def _kernel(tree: ast.expr) -> Any:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        left, right = _factor(tree.left), _factor(tree.right)
        return left + right if isinstance(tree.op, ast.Add) else left * right
    call = tree if isinstance(tree, ast.Call) else None
    if call is not None and isinstance(call.func, ast.Name) and call.func.id == "on":
        try:
            columns, kernel = call.args
            names = ast.literal_eval(columns)
        except ValueError as problem:
            raise CommandError(
                USAGE, "--kernel: write on('a,b', rbf), with names or numbers of columns."
            ) from problem
        if isinstance(names, str):
            names = opt.column_list(names)
        return kernels.On([names] if isinstance(names, int) else names, _kernel(kernel))
    return parse_part(ast.unparse(tree), kernels.NAMES, "kernel")


def _factor(tree: ast.expr) -> Any:
    number = isinstance(tree, ast.Constant) and isinstance(tree.value, int | float)
    return tree.value if number else _kernel(tree)  # type: ignore[attr-defined]
