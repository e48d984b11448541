"""Translation of library error messages: parameter names into options, class names into values.

Messages of the library name parameters and classes. On the command line a parameter is an option,
and a class is a value of it: ``n_components`` becomes ``--components``, ``Distance(nu=0.1)``
becomes ``distance(nu=0.1)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

OPTIONS = {
    "n_components": "--components",
    "random_state": "--seed",
    "image_shape": "--image-shape",
    "on_bad_rows": "--on-bad-rows",
}
# Of an estimator, said as name='value'.
GIVEN = ("kernel", "gamma", "basis", "forgetting")
PHRASES = (
    (r"\bfit\(until=\.\.\.\)", "--until"),
    (r", or None for all components", ", or all"),
    (r" components?\b([^.;]*: give n_components[^.]*?), got None", r" components\1, got all"),
    (r", a RandomState or None", ""),
    (r" or an? (?:preimages|kernel|basis|tracker) object(?: such as [\w.]+\([^()]*\))?", ""),
    (r", a kernel object such as RBF\(\), or a function k\(X, Y\)", ""),
    (r"(at least 1|integer) or None\b", r"\1"),
    (r"2\*\*32 - 1", "4294967295"),
    (r"^(?:Kernel\w+|Streaming\w+|\w+KernelPCA): ", ""),
)
PLAIN = (
    (r"(?<==)True\b", "true"),
    (r"\ban integer\b", "a whole number"),
    (r"\binteger\b", "whole number"),
    (r"(?<=got )None\b|(?<= and )None\b", "nothing"),
)
VALUE = r"(?:=(['\"]?)([^\s'\",;]+)\1)?"


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
    for pattern, words in PHRASES:
        message = re.sub(pattern, words, message)
    for name, option in (own or {}).items():
        message = re.sub(rf"(?:^(?:\w+: )?|(?<=\band )){name}{VALUE}(?!\()", _put(option), message)
    for name, option in OPTIONS.items():
        message = re.sub(rf"(?<![-\w]){name}{VALUE}", _put(option), message)
    for name in GIVEN:
        message = re.sub(rf"(?<![(,]\s)(?<![-(\w.]){name}(?==){VALUE}", _put(f"--{name}"), message)
    for kind, name in parts().items():
        message = re.sub(rf"\b(?:\w+s\.)?{kind}\(\)", name, message)
        message = re.sub(rf"\b(?:\w+s\.){kind}\b|\b{kind}(?=[(:])", name, message)
    for pattern, words in PLAIN:
        message = re.sub(pattern, words, message)
    return message


def of_source(message: str) -> str:
    """A message about files, which says it both ways: the one for Python is left out.

    Examples
    --------
    >>> of_source("Pass over such rows with --on-bad-rows skip (on_bad_rows='skip').")
    'Pass over such rows with --on-bad-rows skip.'
    """
    message = re.sub(r" \((?:on_bad_rows|columns|array|missing)=[^()]*\)", "", message)
    return message


def option_of(name: str) -> str:
    """What a parameter is called on the command line.

    Examples
    --------
    >>> option_of("n_components"), option_of("on_bad_rows")
    ('--components', '--on-bad-rows')
    """
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def _put(option: str) -> Callable[[re.Match[str]], str]:
    """An option in the place of a parameter, with the value that was given for it."""

    def put(found: re.Match[str]) -> str:
        value = found[2]
        return option if value in (None, "True") else f"{option} {value}"

    return put
