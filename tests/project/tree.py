"""Print the tree of both packages: each file with the first line of its docstring.

Run ``python -m tests.project.tree`` in the root of the repository.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.project.measures import LIBRARY, PLANT, files


def descriptions(root: Path) -> Iterator[tuple[str, str]]:
    """Path and first docstring line of every module of a package."""
    for path in files(root):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        yield path.relative_to(root.parent).as_posix(), docstring.partition("\n")[0]


if __name__ == "__main__":
    for package in (LIBRARY, PLANT):
        lines = list(descriptions(package))
        width = max(len(path) for path, _ in lines)
        print(*(f"{path:<{width}}  {line}" for path, line in lines), sep="\n")
