"""Translation of library error messages: ``n_components`` becomes ``--components``."""

from __future__ import annotations

import re
from collections.abc import Mapping

OPTIONS = {"n_components": "--components", "random_state": "--seed"}  # those with another name


def of_shell(message: str, own: Mapping[str, str] | None = None) -> str:
    """A message in the words of the command line; ``own`` are further parameters and options.

    What is in these words already stays as it is; hints for Python in parentheses are left out.

    Examples
    --------
    >>> of_shell("n_components must be an integer of at least 1; got 0.")
    '--components must be an integer of at least 1; got 0.'
    >>> of_shell("Distance: nu must be a number above 0, got -1.", {"nu": "--nu"})
    '--nu must be a number above 0, got -1.'
    >>> of_shell("Pass over such rows with --on-bad-rows skip (on_bad_rows='skip').")
    'Pass over such rows with --on-bad-rows skip.'
    """
    message = re.sub(r" \((?:on_bad_rows|columns|array|missing)=[^()]*\)", "", message)
    for name, option in (own or {}).items():
        message = replaced(rf"(?:^(?:\w+: )?|(?<=\band )){name}(?!\()", option, message)
    for name in ("n_components", "random_state", "image_shape", "on_bad_rows"):
        message = replaced(rf"(?<![-\w]){name}", option_of(name), message)
    for name in ("kernel", "gamma", "basis", "forgetting"):  # in prose they are no parameters
        message = replaced(rf"(?<![(,]\s)(?<![-(\w.]){name}(?==)", option_of(name), message)
    return message


def replaced(parameter: str, option: str, message: str) -> str:
    """A message with an option in the place of a parameter, and of its value."""

    def put(match: re.Match[str]) -> str:
        value = match[2]
        return option if value in (None, "True") else f"{option} {value}"

    return re.sub(parameter + r"(?:=(['\"]?)([^\s'\",;]+)\1)?", put, message)


def option_of(name: str) -> str:
    """What a parameter is called on the command line.

    Examples
    --------
    >>> option_of("n_components"), option_of("on_bad_rows")
    ('--components', '--on-bad-rows')
    """
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")
