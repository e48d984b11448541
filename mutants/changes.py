"""The single changes that can be made in a source file, found in its syntax tree.

Left alone are docstrings, annotations, decorators, error messages, ``__repr__``, and what
``UNSEEN`` lists: changes that no result shows.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "kernelstream"

# The core, as paths below the package.
FOLDERS = (
    "kernels",
    "landmarks",
    "trackers",
    "certificates",
    "stream",
    "estimators",
    "serialization",
    "anomaly/monitor/decisions.py",
    "anomaly/monitor/limits.py",
)

# Constants and lines that no result depends on, with the reason. A key is a name, or a path and a
# piece of the line.
UNSEEN = {
    "PASS_ROWS": "rows of a compiled pass at a time: speed",
    "papers/kim_2003/hebbian.py: min(start + PASS_ROWS": "the same",
    "papers/tanaka_2012/subset_hebbian.py: min(start + PASS_ROWS": "the same",
    "QUERY_ROWS": "rows of a query at a time: memory",
    "SUBSPACE_STEPS": "only signs are read off",
    "LARGEST_EMPTY": "what a crafted file may make a reader reserve: any small number",
    "LARGEST_COUNT": "what a crafted file may count up to: any number below 2**63",
    "_WRITERS": "simultaneous writers whose leftovers are looked for",
    "_SMALL": "matters to arrays on a device only, and these tests have none",
    "kernels/distances.py: self.cut_off =": "the same",
    "kernels/distances.py: step = max(1, 2**22": "rows that are compared at a time: memory",
    "estimators/streaming_kernel_pca.py: device=self.device,": (
        "matters to rows that are sent to a device only"
    ),
    "stream/stream.py: if frozen and chain.tracker.kind in": "blocks of a device: speed",
    "stream/components.py: return self.vectors if self.orthonormal": ("both are the same: speed"),
    "certificates/eigenvalues.py: in_threads(strip, tiles(n, n))": "rows of a strip: speed",
    "FAR_AWAY": "any number whose kernel value is zero",
    "VANISHED": "any exponent whose exponential is zero",
    "IMPUTED_AT_ONCE": "rows whose missing values are imputed at a time: memory",
    "LARGEST_BLOCK": "numbers of a gradient that are held at once: memory",
    "papers/tanaka_2012/lms.py: if stop > start": "an empty piece of rows learns nothing",
    "trackers/moments.py: as_dense(targets[:1": "the first row of any number of rows",
    "MOST_LEARNED": "rows from which a model is learned: more make it no better",
    "landmarks/optimized/polish.py: for _ in range(2)": (
        "a third step turns directions hardly further"
    ),
    "landmarks/optimized/strategy.py: means = sums / like(np.where(mass": (
        "of empty cells none is read"
    ),
    "certificates/betting.py: return np.concatenate([[0.0]": "before the first draw all are alike",
    "certificates/betting.py: if best >= level": "sums of logarithms that meet a level exactly",
    "certificates/betting.py: max(initial=0.0) >= level": "the same",
    "stream/choosing.py: exact = exact[exact > NO_VARIANCE": "no variance is at the threshold",
    "papers/honeine_2012/recentred_hebbian.py: if points.shape[0] == points.shape[1]": (
        "both are the same: speed"
    ),
    "papers/tanaka_2012/rls.py: R[j, j] = np.sqrt(pivot) if": "the root of zero is zero",
}

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
EXTREMES = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Mutant:
    """One change: a piece of a source file, and what stands there instead."""

    kind: str
    path: str  # below the package
    start: int  # characters from the beginning of the file
    end: int
    new: str

    def source(self) -> str:
        """The file as it is."""
        return (PACKAGE / self.path).read_text(encoding="utf-8")

    def changed(self) -> str:
        """The file with the change."""
        source = self.source()
        return source[: self.start] + self.new + source[self.end :]

    @property
    def line(self) -> int:
        """Of the change, counted from one."""
        return self.source().count("\n", 0, self.start) + 1

    @property
    def at_top(self) -> bool:
        """Whether it changes a line of the module itself, which other files may import."""
        return not self.changed().splitlines()[self.line - 1].startswith(" ")

    @property
    def name(self) -> str:
        """Place and kind, to be read."""
        return f"{self.path}:{self.line} ({self.kind})"

    def diff(self) -> str:
        """The lines that change, before and after."""
        before, after = self.source().splitlines(), self.changed().splitlines()
        return "\n".join(list(unified_diff(before, after, lineterm="", n=0))[3:])


def all_mutants(folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    """Every change in some folders or files, in the order of the files."""
    defaults = _names_with_defaults()
    found: list[Mutant] = []
    for folder in folders:
        place = PACKAGE / folder
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if path.name != "__init__.py":
                found += _Finder(path, defaults).mutants()
    return found


def chosen(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them, every kind in turn and every line once, in random order."""
    rng = random.Random(seed)
    kinds = sorted({mutant.kind for mutant in mutants})
    by_kind = {kind: [m for m in mutants if m.kind == kind] for kind in kinds}
    for of_kind in by_kind.values():
        rng.shuffle(of_kind)
    taken: list[Mutant] = []
    lines: set[tuple[str, int]] = set()
    while len(taken) < count and any(by_kind.values()):
        for of_kind in by_kind.values():
            while of_kind:
                mutant = of_kind.pop()
                if (mutant.path, mutant.line) not in lines:
                    lines.add((mutant.path, mutant.line))
                    taken.append(mutant)
                    break
    taken = taken[:count]
    rng.shuffle(taken)
    return taken


def _names_with_defaults() -> dict[str, dict[str, ast.expr]]:
    """Arguments that may be left out, and their defaults, wherever a name is defined."""
    found: dict[str, list[dict[str, ast.expr]]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(_optional(node.args))
            elif isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(_optional_fields(node))
    return {
        name: {k: v for k, v in of_name[0].items() if all(k in other for other in of_name)}
        for name, of_name in found.items()
    }


def _optional(arguments: ast.arguments) -> dict[str, ast.expr]:
    plain = arguments.posonlyargs + arguments.args
    with_defaults = plain[len(plain) - len(arguments.defaults) :]
    found = {a.arg: default for a, default in zip(with_defaults, arguments.defaults, strict=True)}
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {a.arg: default for a, default in pairs if default is not None}


def _optional_fields(node: ast.ClassDef) -> dict[str, ast.expr]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return _optional(item.args)
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return {
        item.target.id: item.value
        for item in fields
        if isinstance(item.target, ast.Name) and item.value is not None
    }


def _same_constant(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are one number, text or truth value."""
    if not isinstance(one, ast.Constant) or not isinstance(other, ast.Constant):
        return False
    return bool(one.value == other.value)


class _Finder:
    """The changes in one file."""

    def __init__(self, path: Path, defaults: dict[str, dict[str, ast.expr]]):
        self.path = path.relative_to(PACKAGE).as_posix()
        self.source = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.defaults = defaults
        self.bytes = [line.encode() for line in self.source.splitlines(keepends=True)]
        self.starts = [0]
        for line in self.bytes:
            self.starts.append(self.starts[-1] + len(line.decode()))
        self.floats = {
            target.id
            for node in self.tree.body
            if isinstance(node, ast.Assign) and _is_float(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def mutants(self) -> list[Mutant]:
        found: list[Mutant] = []
        for node in self.tree.body:
            found += self._constants(node)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found += self._inside(node)
        return [mutant for mutant in found if not self._unseen(mutant)]

    def _unseen(self, mutant: Mutant) -> bool:
        line = self.source.splitlines()[mutant.line - 1]
        if mutant.kind == "constant" and line.split("=")[0].split(":")[0].strip() in UNSEEN:
            return True
        return any(f"{mutant.path}: " in key and key.split(": ", 1)[1] in line for key in UNSEEN)

    # --- places ---

    def _at(self, line: int, column: int) -> int:
        """Characters from the beginning; the tree counts bytes of a line."""
        return self.starts[line - 1] + len(self.bytes[line - 1][:column].decode())

    def _start(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        return self._at(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def _mutant(self, kind: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(kind, self.path, start, end, new)

    def _replaced(self, kind: str, node: ast.expr, new: str) -> Mutant:
        return self._mutant(kind, self._start(node), self._end(node), new)

    def _text(self, node: ast.expr) -> str:
        return self.source[self._start(node) : self._end(node)]

    # --- kinds ---

    def _constants(self, node: ast.stmt) -> Iterator[Mutant]:
        """Numbers at the top of a module, a hundred times larger and smaller."""
        if not isinstance(node, ast.Assign):
            return
        names = [name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)]
        if not all(_CONSTANT.fullmatch(name) for name in names):
            return
        value = node.value
        if isinstance(value, ast.Tuple):
            parts = value.elts
        elif isinstance(value, ast.Dict):
            parts = value.values
        else:
            parts = [value]
        for part in parts:
            text = self._text(part)
            if isinstance(part, ast.Constant) and type(part.value) is int:
                yield self._replaced("constant", part, str(part.value * 100))
                yield self._replaced("constant", part, str(max(part.value // 100, 1)))
            elif _is_number(part):
                yield self._replaced("constant", part, f"100 * ({text})")
                yield self._replaced("constant", part, f"({text}) / 100")

    def _inside(self, node: ast.AST) -> Iterator[Mutant]:
        """All changes below a node."""
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
            return
        if isinstance(node, ast.Call) and _name_of(node.func) in ("warn", "cast", "TypeVar"):
            return
        if isinstance(node, ast.expr | ast.stmt):
            yield from self._here(node)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._inside(child)

    def _here(self, node: ast.expr | ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                yield from self._comparisons(node)
            case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node):
                yield from self._operator(
                    "arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)]
                )
            case ast.AugAssign() if type(node.op) in ARITHMETIC and not _is_text(node.value):
                old, new = ARITHMETIC[type(node.op)]
                yield from self._operator("arithmetic", node.target, node.value, old, new)
            case ast.UnaryOp(op=ast.Not()):
                yield self._replaced("not removed", node, self._text(node.operand))
            case ast.Constant() if type(node.value) is int:
                yield self._replaced("literal", node, str(node.value + 1))
            case ast.Constant() if type(node.value) is float:
                yield self._replaced("literal", node, str(2 * node.value or 1.0))
            case ast.Call():
                yield from self._calls(node)
            case ast.If() | ast.IfExp() if not isinstance(node.test, ast.Constant):
                yield self._replaced("condition", node.test, "False")
            case _:
                return

    def _comparisons(self, node: ast.Compare) -> Iterator[Mutant]:
        sides = [node.left, *node.comparators]
        for op, (left, right) in zip(node.ops, pairwise(sides), strict=True):
            if type(op) not in COMPARISONS:
                continue
            # Real numbers are never exactly at a threshold that somebody wrote down.
            real = any(self._is_real(part) for side in (left, right) for part in ast.walk(side))
            if real and not isinstance(op, ast.Eq | ast.NotEq):
                continue
            yield from self._operator("comparison", left, right, *COMPARISONS[type(op)])

    def _is_real(self, node: ast.AST) -> bool:
        return isinstance(node, ast.expr) and (_is_float(node) or _name_of(node) in self.floats)

    def _operator(
        self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str
    ) -> Iterator[Mutant]:
        """An operator, which stands between its sides."""
        begin = self._end(left)
        between = self.source[begin : self._start(right)]
        if between.count(old) == 1:
            at = begin + between.index(old)
            yield self._mutant(kind, at, at + len(old), new)

    def _calls(self, node: ast.Call) -> Iterator[Mutant]:
        name = _name_of(node.func)
        if name in EXTREMES:
            end = self._end(node.func)
            yield self._mutant("extreme", end - len(name), end, EXTREMES[name])
        for keyword in node.keywords:
            default = self.defaults.get(name, {}).get(keyword.arg or "")
            if keyword.arg is None or (default is None and name != "replace"):
                continue
            if default is not None and _same_constant(default, keyword.value):
                continue  # left out, it would be the same
            kind = "field not replaced" if name == "replace" else "argument left out"
            start, end = self._start(keyword), self._end(keyword)
            before = self.source[:start].rstrip()
            if before.endswith(","):
                yield self._mutant(kind, len(before) - 1, end, "")
            else:
                behind = re.match(r"\s*,\s*", self.source[end:])
                yield self._mutant(kind, start, end + (behind.end() if behind else 0), "")


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_float(node: ast.expr) -> bool:
    """Whether a number was written down that is no integer, nor a zero that stands for one."""
    if isinstance(node, ast.UnaryOp):
        return _is_float(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value != 0


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is made of numbers."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Call):
        return _name_of(node.func) == "float"
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_text(node: ast.expr) -> bool:
    """Whether strings or sequences are joined, not numbers added."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)
