"""The measures of ``budgets.toml``: sizes of the tree and its interfaces, the walk of one row."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import typer.main

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "kernelstream"
PLANT = ROOT / "plant" / "src" / "kernelstream_plant"
# From the outside to the inside; everything else is an application.
CORE = (
    *("estimators", "stream", "certificates", "landmarks", "trackers", "preimages"),
    *("kernels", "serialization", "arrays"),
)
NO_ENTRIES = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
# Namespaces of parts, which users import whole: `kernels.RBF` is a name of theirs.
PARTS = ("kernels", "landmarks", "trackers", "preimages")
LONG = 50  # code lines of a function
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}

# --- sources


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def code_lines(path: Path) -> frozenset[int]:
    """Numbers of the lines that hold code: no blanks, no comments, no docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return frozenset(lines)


def files(root: Path, folders: tuple[str, ...] | None = None) -> list[Path]:
    """Python files below a folder, or below some folders in it."""
    places = [root] if folders is None else [root / folder for folder in folders]
    return sorted(path for place in places for path in place.rglob("*.py"))


def size(paths: list[Path]) -> int:
    return sum(len(code_lines(path)) for path in paths)


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """Every node of the library's syntax trees, with its file."""
    for path in files(LIBRARY):
        for node in ast.walk(tree_of(path)):
            yield path, node


# --- counts


def constants() -> int:
    """Assignments of an upper-case name at the top of a module."""
    return sum(
        any(isinstance(t, ast.Name) and t.id.isupper() and len(t.id) > 1 for t in targets(node))
        for path in files(LIBRARY)
        for node in tree_of(path).body
    )


def targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def long_functions() -> list[str]:
    """Functions of the library with more code lines than a page has."""
    return [
        f"{path.relative_to(LIBRARY)}:{node.lineno} {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(code_lines(path) & set(range(node.lineno, (node.end_lineno or 0) + 1))) > LONG
    ]


def repeated_class_names() -> list[str]:
    counts = Counter(node.name for _, node in nodes() if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in counts.items() if count > 1)


def members(path: str, name: str) -> list[str]:
    """Public names in the body of a class: methods, properties, attributes."""
    body = next(
        node.body
        for node in tree_of(LIBRARY / path).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    found: dict[str, None] = {}
    for node in body:
        names = [node.name] if isinstance(node, ast.FunctionDef) else []
        names += [target.id for target in targets(node) if isinstance(target, ast.Name)]
        found |= dict.fromkeys(name for name in names if not name.startswith("_"))
    return list(found)


def constructor_parameters() -> list[str]:
    from kernelstream import StreamingKernelPCA

    return list(StreamingKernelPCA().get_params(deep=False))


def commands() -> list[str]:
    from kernelstream.cli.app import app

    return list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def options_of_fit() -> list[str]:
    from kernelstream.cli.app import app

    fit = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    return [parameter.name for parameter in fit.params if parameter.param_type_name == "option"]


def words_of_documentation() -> int:
    """Words of ``docs/`` without the proofs; pages that are generated do not count."""
    shown = subprocess.run(
        ["git", "ls-files", "docs/*.md"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    pages = [ROOT / name for name in shown.stdout.split()] or sorted(ROOT.glob("docs/**/*.md"))
    kept = [page for page in pages if page.name != "proofs.md"]
    return sum(len(re.findall(r"\S+", page.read_text())) for page in kept)


# --- imports of the core


def application_files() -> list[Path]:
    """Files outside the core, those of the plant among them."""
    return [
        path
        for path in (*files(LIBRARY), *files(PLANT))
        if path.parent not in (LIBRARY, PLANT) or path.name not in NO_ENTRIES
        if PLANT in path.parents or path.relative_to(LIBRARY).parts[0] not in CORE
    ]


def core_names(path: Path) -> Iterator[tuple[str, str]]:
    """What a file takes from the core: pairs of a package, or of one of its modules, and a name.

    Attributes of a package that was imported whole count as well, except those of ``PARTS``.
    """
    packages: dict[str, str] = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelstream"):
            within = (node.module or "").split(".")[1:]
            for alias in node.names:
                if within and within[0] in CORE:
                    yield ".".join(within), alias.name
                elif not within and alias.name in PARTS:
                    yield "", alias.name
                elif not within and alias.name in CORE:
                    packages[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            yield from ((name[1], "*") for name in names if name[1:2] and name[1] in CORE)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = packages.get(node.value.id)
            yield from () if package is None else ((package, node.attr),)


# --- the walk

WALK = """
import os, sys
import numpy as np
import kernelstream as ks

root, entered = os.path.dirname(ks.__file__) + os.sep, {}

def profile(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(root):
        entered.setdefault(path[len(root):])

X = np.random.default_rng(0).normal(size=(12_000, 8))
model = ks.StreamingKernelPCA(n_components=5, certify=False, random_state=0).partial_fit(X[:7_168])
model.transform(X[:5])  # landmarks that a block made due are updated here, outside the walk
sys.setprofile(profile)
model.partial_fit(X[7_168:7_169])
model.transform(X[:1])
sys.setprofile(None)
print("\\n".join(path for path in entered if not path.startswith("arrays" + os.sep)))
"""


def walk() -> list[str]:
    """Files that one row passes in ``partial_fit``, then ``transform``, in the order of entry.

    Without certificates, and without the array layer.
    """
    process = subprocess.run(
        [sys.executable, "-c", WALK], capture_output=True, text=True, check=True
    )
    return process.stdout.split()


MEASURES: dict[str, Callable[[], int]] = {
    "core_code_lines": lambda: size(files(LIBRARY, CORE)),
    "library_code_lines": lambda: size(files(LIBRARY)),
    "plant_code_lines": lambda: size(files(PLANT)),
    "entries": lambda: sum(path.name not in NO_ENTRIES for path in LIBRARY.iterdir()),
    "module_constants": constants,
    "members_of_landmark_strategy": lambda: len(members("landmarks/base.py", "LandmarkStrategy")),
    "members_of_tracker": lambda: len(members("trackers/base.py", "Tracker")),
    "members_of_kernel": lambda: len(members("kernels/base.py", "Kernel")),
    "files_on_the_walk": lambda: len(walk()),
    "core_names_imported": lambda: len(
        {found for path in application_files() for found in core_names(path)}
    ),
    "long_functions": lambda: len(long_functions()),
    "options_of_fit": lambda: len(options_of_fit()),
    "commands": lambda: len(commands()),
    "repeated_class_names": lambda: len(repeated_class_names()),
    "constructor_parameters": lambda: len(constructor_parameters()),
    "words_of_documentation": words_of_documentation,
}

if __name__ == "__main__":
    for name, measure in MEASURES.items():
        print(f"{measure():7,}  {name}")
