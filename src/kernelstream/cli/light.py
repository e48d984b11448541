"""Fast ``--help`` and completion: stand-in modules for heavy imports (NumPy, Arrow, Numba).

Both need the signatures of the commands only. So packages of numbers and tables, and the modules of
kernelstream that use them, are replaced by empty stand-ins. If a command is run all the same (an
option may have the value ``--help``), it is refused here, and the real modules are imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HEAVY = frozenset(
    ("array_api_compat", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "threadpoolctl")
)
OWN = "kernelstream"  # and distributions whose names begin so
COMMANDS = frozenset(("cli", "commands"))  # packages in them that are imported as they are
WORDS = frozenset(("--help", "-h", "--version", "--install-completion", "--show-completion"))
COMPLETION = "_KERNELSTREAM_COMPLETE"

standing_in = False  # whether commands that are imported now could not be run


class WithoutPandas:
    """Imports inside do without pandas; whoever wants it afterwards can have it.

    scikit-learn imports it if it is there, for a function that no command calls, and Arrow looks
    for it once: a seventh of the memory with which a command begins, and of the time.
    """

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *problem: object) -> None:
        arrow = sys.modules.get("pyarrow")
        if arrow is not None:
            with suppress(OSError):  # no file can be opened: whoever needs one will say so
                arrow.array(())  # here it looks
        sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Say that there is no pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas' for now", name=name)


class RunWanted(BaseException):
    """A command is to be run, and only its help was there."""


def is_enough(words: Sequence[str]) -> bool:
    """Whether these words of a command line ask for nothing that takes numbers.

    Examples
    --------
    >>> is_enough(["fit", "--help"]), is_enough(["fit", "x.csv"]), is_enough([])
    (True, False, True)
    """
    return not words or COMPLETION in os.environ or not WORDS.isdisjoint(words)


class _Nothing(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Nothing(metaclass=_Nothing):
    """Stands for any class, function or number that is not there."""

    def __init__(self, *values: object, **named: object):
        pass

    def __call__(self, function: Any = None, *values: object) -> Any:
        """As a decorator: what it was given."""
        return function


class _Hollow(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class StandIns:
    """Finds and loads hollow modules for what is heavy; used as a context.

    The classes that it could derive from bring more modules than all of the help.
    """

    def __enter__(self) -> StandIns:
        global standing_in
        sys.meta_path.insert(0, self)
        standing_in = True
        return self

    def __exit__(self, *problem: object) -> None:
        global standing_in
        sys.meta_path.remove(self)
        standing_in = False
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Hollow) or name.startswith(OWN):
                del sys.modules[name]

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A hollow module for a heavy package, and for rooms of kernelstream but the commands."""
        top, _, rest = name.partition(".")
        own = top.startswith(OWN) and rest and rest.split(".")[0] not in COMMANDS
        spec = ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return spec if own or top in HEAVY else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that holds nothing."""
        return _Hollow(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""
