"""Translation of library error messages: parameter names into options, class names into values.

Messages of the library name parameters and classes. On the command line a parameter is an option,
and a class is a value of it: ``n_components`` becomes ``--components``, ``Distance(nu=0.1)``
becomes ``distance(nu=0.1)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

OPTIONS = {"n_components": "--components", "random_state": "--seed"}  # those with another name
PHRASES = {  # what only Python needs
    r"None for all components": "all",
    r"(n_components as an integer, got )None": r"\1all",
    r", a RandomState or None| or an? (?:preimages|kernel|basis|tracker) object": "",
    r"(at least 1|integer) or None\b": r"\1",
    r"^(?:Kernel\w+|Streaming\w+|\w+KernelPCA): ": "",
    r"(?<==)True\b": "true",
    r"\bNone\b": "nothing",
    r"\ban integer\b": "a whole number",
    r"\binteger\b": "whole number",
}


@cache
def parts() -> dict[str, str]:
    """What classes of parts are called on the command line."""
    from kernelstream import kernels, landmarks, papers, preimages, trackers

    called = {kind.__name__: name for name, kind in kernels.NAMES.items()}
    registries = (landmarks.NAMES, papers.LANDMARKS, trackers.NAMES, papers.TRACKERS)
    for registry in (*registries, papers.SCHEDULES):
        called |= {kind.__name__: name for name, kind in registry.items()}
    for name, kind in preimages.NAMES.items():
        called.setdefault(kind.__name__, name)
    return {**called, "On": "on", "Polynomial": "poly"}


def of_shell(message: str, own: Mapping[str, str] | None = None) -> str:
    """A message in the words of the command line; ``own`` are further parameters and options.

    What is in these words already stays as it is.

    Examples
    --------
    >>> of_shell("n_components must be an integer of at least 1; got 0.")
    '--components must be a whole number of at least 1; got 0.'
    >>> of_shell("Distance: nu must be a number above 0, got -1.")
    'distance: nu must be a number above 0, got -1.'
    >>> of_shell("Distance: nu must be a number above 0, got -1.", {"nu": "--nu"})
    '--nu must be a number above 0, got -1.'
    """
    message = of_source(message)
    for pattern, words in PHRASES.items():
        message = re.sub(pattern, words, message)
    for name, option in (own or {}).items():
        message = replaced(rf"(?:^(?:\w+: )?|(?<=\band )){name}(?!\()", option, message)
    for name in ("n_components", "random_state", "image_shape", "on_bad_rows"):
        message = replaced(rf"(?<![-\w]){name}", option_of(name), message)
    for name in ("kernel", "gamma", "basis", "forgetting"):  # in prose they are no parameters
        message = replaced(rf"(?<![(,]\s)(?<![-(\w.]){name}(?==)", option_of(name), message)
    for kind, name in parts().items():
        message = re.sub(rf"\b(?:\w+s\.)?{kind}\(\)", name, message)
        message = re.sub(rf"\b(?:\w+s\.){kind}\b|\b{kind}(?=[(:])", name, message)
    return message


def replaced(parameter: str, option: str, message: str) -> str:
    """A message with an option in the place of a parameter, and of its value."""

    def put(match: re.Match[str]) -> str:
        value = match[2]
        return option if value in (None, "true") else f"{option} {value}"

    return re.sub(parameter + r"(?:=(['\"]?)([^\s'\",;]+)\1)?", put, message)


def of_source(message: str) -> str:
    """A message about files, which says it both ways: the one for Python is left out.

    Examples
    --------
    >>> of_source("Pass over such rows with --on-bad-rows skip (on_bad_rows='skip').")
    'Pass over such rows with --on-bad-rows skip.'
    """
    return re.sub(r" \((?:on_bad_rows|columns|array|missing)=[^()]*\)", "", message)


def option_of(name: str) -> str:
    """What a parameter is called on the command line.

    Examples
    --------
    >>> option_of("n_components"), option_of("on_bad_rows")
    ('--components', '--on-bad-rows')
    """
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")
