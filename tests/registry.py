"""The registry of parts, states and estimators, and the lists that are generated from the code.

    make registry

writes ``registry.json`` of ``kernelstream.serialization`` (what model files may hold, the names of
parts, and all default values) and the lists of parts on the pages of ``docs/api``. Tests in
``tests/serialization/test_registry.py`` compare both with the code; the command line completes
names from the registry.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import kernelstream
from kernelstream import kernels, landmarks, papers, preimages, serialization, trackers
from kernelstream.serialization.declarations import is_state
from kernelstream.serialization.part import Part
from tests.golden import write

for application in ("estimators", *kernelstream.STORED_IN):
    import_module(f"kernelstream.{application}")

ROOT = Path(__file__).parents[1]
REGISTRY = ROOT / "src" / "kernelstream" / "serialization" / "registry.json"
PAGES = ROOT / "docs" / "api"
COMMAND = "make registry"

# The parts that can be given by name, by the page of docs/api that lists them.
LISTED: dict[str, dict[str, Any]] = {
    "kernels": kernels.NAMES,
    "landmarks": landmarks.NAMES,
    "trackers": trackers.NAMES,
    "preimages": preimages.NAMES,
    "papers": papers.TRACKERS | papers.LANDMARKS,
}


def classes() -> dict[str, type]:
    """The classes of this library that files may hold."""
    return {
        name: cls
        for name, cls in sorted(serialization.STORED.items())
        if cls.__module__.startswith("kernelstream.") and cls is not kernels.FromCallable
    }


def parameters(cls: type) -> dict[str, str]:
    """The default of each parameter as Python writes it; an empty text: it has to be given."""
    empty = inspect.Parameter.empty
    return {
        name: "" if parameter.default is empty else repr(parameter.default)
        for name, parameter in inspect.signature(cls).parameters.items()
    }


def registry() -> dict[str, Any]:
    """What files of the present version may hold, and how it is named."""
    ours, fields = classes(), serialization.described()
    parts = {name: cls for name, cls in ours.items() if issubclass(cls, Part)}
    states = {name: fields[name] for name, cls in ours.items() if is_state(cls)}
    return {
        "version": serialization.VERSION,
        "parts": {
            name: {"names": sorted(names_of(cls)), "parameters": parameters(cls)}
            for name, cls in parts.items()
        },
        "states": states,
        "estimators": {
            name: {
                "parameters": parameters(cls),
                "attributes": list(getattr(cls, "_also_saved", ())),
            }
            for name, cls in ours.items()
            if name not in parts and name not in states
        },
    }


def names_of(cls: type) -> Iterator[str]:
    """The names by which a part can be given."""
    for listed in LISTED.values():
        yield from (name for name, named in listed.items() if named is cls)


def changes(written: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Classes of which files that were written before cannot be read any more, with the reason.

    A class that is new is no such change, nor is a parameter or a field with a default that is new:
    files that were written before do without it.
    """
    reasons: dict[str, str] = {}
    for kind in ("states", "parts", "estimators"):
        for name in sorted(written[kind].keys() - now[kind].keys()):
            reasons[name] = "is not there any more"
    for name, fields in written["states"].items():
        new = now["states"].get(name, fields)
        changed = [field for field in fields if new.get(field) != fields[field]]
        needed = [field for field in new if field not in fields and not has_default(name, field)]
        if changed or needed:
            reasons[name] = f"has other fields: {', '.join(changed + needed)}"
    for name, part in written["parts"].items():
        new = now["parts"].get(name, part)
        if gone := set(part["parameters"]) - set(new["parameters"]):
            reasons[name] = f"has lost parameters: {', '.join(sorted(gone))}"
    for name, facts in written["estimators"].items():
        new = now["estimators"].get(name, facts)
        if gone := {n for key in facts for n in facts[key] if n not in new[key]}:
            reasons[name] = f"has lost parameters or attributes: {', '.join(sorted(gone))}"
    return reasons


def has_default(name: str, field: str) -> bool:
    """Whether a file may leave out a field of a state."""
    fields = {f.name: f for f in dataclasses.fields(serialization.STORED[name])}
    return (
        fields[field].default is not dataclasses.MISSING
        or fields[field].default_factory is not dataclasses.MISSING
    )


def cases_with(names: set[str]) -> list[str]:
    """The golden files that hold values of these classes."""
    there = [case for case in write.CASES if write.is_written(write.FOLDER, case)]
    return [
        case
        for case in there
        if names & serialization.ModelFile.read(write.paths(write.FOLDER, case)[0]).names
    ]


def with_list(page: str, family: str) -> str:
    """The page of a family with the list of its parts as the code has them now."""
    listed = "\n".join(f"   {cls.__name__}" for cls in dict.fromkeys(LISTED[family].values()))
    before, rest = page.split("<!-- parts begin -->")
    after = rest.split("<!-- parts end -->")[1]
    return f"""{before}<!-- parts begin -->

```{{eval-rst}}
.. currentmodule:: kernelstream.{family}

.. autosummary::
   :toctree: generated
   :nosignatures:
   :template: autosummary/part.rst

{listed}
```

<!-- parts end -->{after}"""


def generated() -> dict[Path, str]:
    """The files that are generated, with what they have to contain."""
    text = json.dumps(registry(), indent=1, ensure_ascii=False) + "\n"
    pages = {PAGES / f"{family}.md": family for family in LISTED}
    return {REGISTRY: text} | {
        path: with_list(path.read_text(encoding="utf-8"), family) for path, family in pages.items()
    }


def main() -> None:
    """Write the generated files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
