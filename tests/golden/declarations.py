"""What model files may hold: every state, part and estimator with its fields or parameters.

    python -m tests.golden.declarations

writes ``declarations.json`` and the tables of ``docs/model-files.md``. ``test_declarations.py`` in
``tests/serialization`` compares them with the code and says when to run it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import kernelstream
from kernelstream import serialization
from kernelstream.serialization.declarations import is_state
from kernelstream.serialization.part import Part
from tests.golden import write

for application in ("estimators", *kernelstream.STORED_IN):
    import_module(f"kernelstream.{application}")

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "model-files.md"
KEPT = HERE / "declarations.json"
COMMAND = "python -m tests.golden.declarations"

# Code, which no file holds.
NEVER_STORED = {"kernels.FromCallable"}


def classes() -> dict[str, type]:
    """The classes of this library that files may hold."""
    return {
        name: cls
        for name, cls in sorted(serialization.STORED.items())
        if cls.__module__.startswith("kernelstream.") and name not in NEVER_STORED
    }


def declared() -> dict[str, Any]:
    """What files of the present version may hold."""
    ours, fields = classes(), serialization.described()
    return {
        "version": serialization.VERSION,
        "states": {name: fields[name] for name, cls in ours.items() if is_state(cls)},
        "parts": {
            name: list(inspect.signature(cls).parameters)
            for name, cls in ours.items()
            if issubclass(cls, Part)
        },
        "estimators": {
            name: {
                "parameters": list(inspect.signature(cls).parameters),
                "attributes": list(getattr(cls, "_also_saved", ())),
            }
            for name, cls in ours.items()
            if not is_state(cls) and not issubclass(cls, Part)
        },
    }


def changes(kept: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Classes of which files that were written before cannot be read any more, with the reason.

    A class that is new is no such change, nor is a parameter or a field with a default that is new:
    files that were written before do without it.
    """
    found: dict[str, str] = {}
    for kind in ("states", "parts", "estimators"):
        for name in sorted(kept[kind].keys() - now[kind].keys()):
            found[name] = "is not there any more"
    for name, fields in kept["states"].items():
        new = now["states"].get(name, fields)
        changed = [field for field in fields if new.get(field) != fields[field]]
        needed = [field for field in new if field not in fields and not has_default(name, field)]
        if changed or needed:
            found[name] = f"has other fields: {', '.join(changed + needed)}"
    for name, parameters in kept["parts"].items():
        if gone := set(parameters) - set(now["parts"].get(name, parameters)):
            found[name] = f"has lost parameters: {', '.join(sorted(gone))}"
    for name, facts in kept["estimators"].items():
        new = now["estimators"].get(name, facts)
        if gone := {n for key in facts for n in facts[key] if n not in new[key]}:
            found[name] = f"has lost parameters or attributes: {', '.join(sorted(gone))}"
    return found


def has_default(name: str, field: str) -> bool:
    """Whether a file may leave out a field of a state."""
    kinds = {f.name: f for f in dataclasses.fields(serialization.STORED[name])}
    return (
        kinds[field].default is not dataclasses.MISSING
        or kinds[field].default_factory is not dataclasses.MISSING
    )


def cases_with(names: set[str]) -> list[str]:
    """The golden files that hold values of these classes."""
    there = [case for case in write.CASES if write.is_written(write.FOLDER, case)]
    return [
        case
        for case in there
        if names & serialization.ModelFile.read(write.paths(write.FOLDER, case)[0]).names
    ]


def tables() -> dict[str, str]:
    """The tables of the page, by the words that mark their places."""
    what = declared()
    states = "\n\n".join(
        f"**{name}**\n\n| field | what it is |\n|---|---|\n"
        + "\n".join(f"| `{field}` | {text} |" for field, text in fields.items())
        for name, fields in what["states"].items()
    )
    parts = "| part | parameters |\n|---|---|\n" + "\n".join(
        f"| `{name}` | {', '.join(f'`{p}`' for p in names) or '–'} |"
        for name, names in what["parts"].items()
    )
    return {"states": states, "parts": parts}


def with_tables(page: str) -> str:
    """The page with its tables as the code has them now."""
    for name, table in tables().items():
        begin, end = f"<!-- {name} begin -->\n", f"<!-- {name} end -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{table}\n\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    """Write the declarations and the tables of the page."""
    KEPT.write_text(json.dumps(declared(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
