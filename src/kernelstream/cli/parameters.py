"""Parameters as text: parts of the model, durations, lists of columns."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import numpy as np

from kernelstream import StreamingKernelPCA, bases, kernels, trackers
from kernelstream.cli.failures import USAGE, CommandError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def one_character(delimiter: str | None) -> str | None:
    r"""What stands between cells; ``\t``, as a shell hands it on, is a tab."""
    found = "\t" if delimiter == "\\t" else delimiter
    if found is not None and len(found) != 1:
        raise CommandError(USAGE, f"--delimiter must be one character, or \\t; got {delimiter!r}.")
    return found


def seconds(text: str | None) -> float | None:
    """A duration such as ``60s``, ``5m`` or ``1h``.

    Examples
    --------
    >>> seconds("5m")
    300.0
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9.]+)\s*(s|m|min|h|)\s*", text)
    try:
        value = float(found[1]) * _UNITS[found[2]] if found else math.nan
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise CommandError(USAGE, f"{text!r} is no duration: write 60s, 5m or 1h.")
    return value


def column_list(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def kept_columns(text: str | None) -> list[str] | None:
    """Columns to carry through: names, or ``all`` (None) for those that are not learned."""
    return None if text == "all" else column_list(text) or []


def image_shape(text: str | None) -> tuple[int, int] | None:
    """Height and width, ``28x28``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+)\s*[x×]\s*(\d+)\s*", text)
    if not found:
        raise CommandError(
            USAGE, f"{text!r} is no image size: write height x width, such as 28x28."
        )
    return int(found[1]), int(found[2])


def part(text: str, names: dict[str, type], what: str) -> Any:
    """A part by name, with parameters in parentheses: ``distance(nu=0.1, max_points=500)``.

    Examples
    --------
    >>> part("distance(nu=0.3)", bases.NAMES, "basis")
    Distance(nu=0.3)
    >>> part("300", bases.NAMES, "basis")
    300
    """
    if text.strip().isdigit():
        return int(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        name = (call.func if call else tree).id  # type: ignore[union-attr, attr-defined]
        given = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords} if call else {}
        if call and (call.args or any(k.arg is None for k in call.keywords)):
            raise ValueError
    except (SyntaxError, ValueError, AttributeError) as problem:
        raise CommandError(
            USAGE, f"--{what} {text!r}: write a name, or a name with name(parameter=value)."
        ) from problem
    if name not in names:
        raise CommandError(
            USAGE, f"--{what} must be one of {', '.join(sorted(names))}; got {name!r}."
        )
    try:
        return names[name](**given)
    except TypeError as problem:
        known = ", ".join(names[name]().get_params(deep=False)) or "none"
        raise CommandError(
            USAGE, f"--{what} {text!r}: the parameters of {name} are {known}."
        ) from problem


def components(text: str | None) -> int | float | None:
    """A number of components, a share of the variance below 1, or ``all``."""
    if text is None or text == "all":
        return None
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError as problem:
        raise CommandError(
            USAGE, f"--components {text!r}: write a number, a share such as 0.95, or all."
        ) from problem


def estimator(
    n_components: str | None,
    kernel: str,
    gamma: float | None,
    basis: str,
    tracker: str,
    forgetting: float | None,
    standardize: bool,
    preimage: str,
    certify: str,
    seed: int,
) -> StreamingKernelPCA:
    """A fresh estimator; a parameter that makes no sense fails before any row is read."""
    follows = part(tracker, trackers.NAMES, "tracker")
    if forgetting is not None:
        if "forgetting" not in follows.get_params(deep=False):
            raise CommandError(USAGE, f"The tracker {tracker} has no forgetting.")
        follows.set_params(forgetting=forgetting)
    similarity = part(kernel, kernels.NAMES, "kernel")
    if gamma is not None:
        if "gamma" not in similarity.get_params(deep=False):
            raise CommandError(USAGE, f"The kernel {kernel} has no gamma.")
        similarity.set_params(gamma=gamma)
    model = StreamingKernelPCA(
        components(n_components),
        kernel=similarity,
        basis=part(basis, bases.NAMES, "basis"),
        tracker=follows,
        scale="standard" if standardize else None,
        preimage=preimage,
        certify=False if certify == "none" else certify,
        random_state=seed,
    )
    try:
        model._new_model(np.empty((0, 1)))
    except ValueError as problem:
        raise CommandError(USAGE, str(problem)) from problem
    return model
