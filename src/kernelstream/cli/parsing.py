"""Parser for parts on the command line: ``distance(nu=0.1)``, ``rbf + linear``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kernelstream import kernels
from kernelstream.cli import options as opt
from kernelstream.cli.failures import USAGE, CommandError


def parse_part(text: str, names: Mapping[str, Callable[..., Any]], what: str) -> Any:
    """A part by name, with parameters in parentheses: ``distance(nu=0.1, max_points=500)``.

    Examples
    --------
    >>> from kernelstream import landmarks
    >>> parse_part("distance(nu=0.3)", landmarks.NAMES, "basis")
    Distance(nu=0.3)
    >>> parse_part("300", landmarks.NAMES, "basis")
    300
    """
    try:
        part = value_of(ast.parse(text.strip(), mode="eval").body, names, what)
        if isinstance(part, int) or hasattr(part, "get_params"):
            return part
        raise ValueError(f"{text} is no part.")
    except (SyntaxError, ValueError, TypeError) as problem:
        number = "a whole number, " if what == "basis" else ""
        raise CommandError(
            USAGE, f"--{what} {text!r}: write {number}a name, or a name with name(parameter=value)."
        ) from problem


def parse_kernel(text: str) -> kernels.Kernel:
    """A kernel by name, or sums and products of such: ``on('a,b', rbf) + 2 * linear``.

    Examples
    --------
    >>> parse_kernel("on('a,b', rbf(gamma=0.1)) * on('colour', categorical)")
    Product(left=On(columns=['a', 'b'], kernel=RBF(gamma=0.1)),
            right=On(columns=['colour'], kernel=Categorical()))
    """
    kernel = parse_part(text, {**kernels.NAMES, "on": on}, "kernel")
    if not isinstance(kernel, kernels.Kernel):
        raise CommandError(USAGE, f"--kernel {text!r} is no kernel: write rbf, or rbf + linear.")
    return kernel


def on(columns: str | int | list[Any], kernel: kernels.Kernel) -> kernels.On:
    """A kernel of some columns, which are names separated by commas, or numbers."""
    if isinstance(columns, str):
        columns = opt.column_list(columns) or []
    return kernels.On([columns] if isinstance(columns, int) else columns, kernel)


def value_of(tree: ast.expr, names: Mapping[str, Callable[..., Any]], what: str) -> Any:
    """The part or the literal that an expression is; parts may be added and multiplied."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        left, right = value_of(tree.left, names, what), value_of(tree.right, names, what)
        return left + right if isinstance(tree.op, ast.Add) else left * right
    function = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(function, ast.Name):
        return ast.literal_eval(tree)
    name = function.id
    if name not in names:
        raise CommandError(
            USAGE, f"--{what} must be one of {', '.join(sorted(names))}; got {name!r}."
        )
    positional, named = (tree.args, tree.keywords) if isinstance(tree, ast.Call) else ([], [])
    values = [value_of(value, names, what) for value in positional]
    parameters = {str(each.arg): value_of(each.value, names, what) for each in named}
    try:
        return names[name](*values, **parameters)
    except TypeError as problem:
        known = ", ".join(inspect.signature(names[name]).parameters) or "none"
        raise CommandError(USAGE, f"--{what}: the parameters of {name} are {known}.") from problem
