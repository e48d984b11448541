"""What files of the present version hold: every state, part and estimator with its fields.

    python -m tests.golden.declarations

writes ``declarations_<version>.json`` beside this file, and the tables of ``docs/model-files.md``.
Run it once the migrations do what has become necessary;
``tests/serialization/test_declarations.py`` says what that is.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

import kernelstream
from kernelstream import images, serialization
from kernelstream.serialization.part import Part

ROOMS = "dask images kernel_hebbian monitor novelty preimages regression schedules"
for room in ROOMS.split():
    importlib.import_module(f"kernelstream.{room}")

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "model-files.md"
KEPT = HERE / f"declarations_{serialization.VERSION}.json"


def estimators() -> dict[str, type]:
    """The estimators that files may hold."""
    public = [getattr(home, name) for home in (kernelstream, images) for name in home.__all__]
    kinds = [kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)]
    return {kind.__name__: kind for kind in kinds if hasattr(kind, "save")}


def parameters(kind: type) -> list[str]:
    return list(inspect.signature(kind).parameters)


def declared() -> dict[str, Any]:
    """All that a file may hold, with the names of what is in it."""
    parts = {name: kind for name, kind in serialization.STORED.items() if issubclass(kind, Part)}
    return {
        "states": {
            name: fields
            for name, fields in serialization.described().items()
            if serialization.STORED[name].__module__.startswith("kernelstream.")
        },
        "parts": {name: parameters(kind) for name, kind in sorted(parts.items())},
        "estimators": {
            name: {
                "parameters": parameters(kind),
                "attributes": list(getattr(kind, "_also_saved", ())),
            }
            for name, kind in sorted(estimators().items())
        },
    }


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
        if name != "kernels.FromCallable"  # code, which no file holds
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
    KEPT.write_text(json.dumps(declared(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
