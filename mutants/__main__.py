"""Try single changes in the core against the tests nearest to them, and print those that survive.

First the tests run on the unchanged code: those that fail here (a package is missing) are left
out, and the times tell which fit into the time of one change: of a file that takes too long, the
quickest. Then every change runs in a copy of the package, until the first test fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from mutants.changes import FOLDERS, PACKAGE, ROOT, Mutant, all_mutants, chosen
from mutants.named import named

# Folders of tests that are tried after those of the changed file, in this order.
EVERYWHERE = ("invariants", "stream", "certificates", "estimators", "contracts", "golden")
# All folders of tests that are tried; those of applications take long.
TRIED = {*EVERYWHERE, *(folder.split("/")[0] for folder in FOLDERS)}
SECONDS = 240.0  # that the tests of one change may take
UNCHANGED_SHARE = 0.4  # of that, at most, for the tests of one change on the unchanged code
LONGEST_FILE = 600.0  # seconds that a test file may take on the unchanged code, once
PART_SHARE = 0.5  # of the time that is left, for a part of a file that takes longer
UNFINISHED = "the end of the time"


def nearest(path: str) -> list[list[str]]:
    """Test files for a file of the package: its own, its folder's, its users', all others."""
    tests = ROOT / "tests"
    folder, name = path.split("/")[0], Path(path).stem
    names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in _names_of(path)))
    uses = [
        test
        for test in sorted(tests.glob("*/test_*.py"))
        if test.parent.name in TRIED and names.search(test.read_text(encoding="utf-8"))
    ]
    groups = [
        [tests / folder / f"test_{name}.py", PACKAGE / path],  # the second for its examples
        sorted((tests / folder).glob("test_*.py")),
        uses,
        [test for other in EVERYWHERE for test in sorted((tests / other).glob("test_*.py"))],
    ]
    seen: set[Path] = set()
    found = []
    for group in groups:
        new = [test for test in dict.fromkeys(group) if test.exists() and test not in seen]
        seen |= set(new)
        found.append([test.relative_to(ROOT).as_posix() for test in new])
    return found


def _names_of(path: str) -> list[str]:
    """The module, and the public classes in it, which tests know by their names."""
    module = "kernelstream." + path.removesuffix(".py").replace("/", ".")
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [module, *(name for name in classes if not name.startswith("_"))]


@dataclass
class Unchanged:
    """What the tests do without a change."""

    seconds: dict[str, float] = field(default_factory=dict)  # of files that can be run
    tests: dict[str, dict[str, float]] = field(default_factory=dict)  # of each test in them
    failing: list[str] = field(default_factory=list)  # single tests

    def fitting(
        self, groups: Iterable[Iterable[str]], seconds: float
    ) -> tuple[list[str], list[str]]:
        """Of each group, the quickest first, the test files that fit into the time together.

        Of a file that does not fit as a whole the quickest tests. Also the tests that are left out.
        """
        taken: list[str] = []
        left_out = list(self.failing)
        for group in groups:
            runnable = [test for test in group if test in self.seconds]
            for test in sorted(runnable, key=self.seconds.__getitem__):
                if self.seconds[test] <= seconds:
                    taken.append(test)
                    seconds -= self.seconds[test]
                    continue
                quick, took = self._quickest(test, PART_SHARE * seconds)
                if quick:
                    taken.append(test)
                    left_out += [name for name in self.tests[test] if name not in quick]
                    seconds -= took
        return taken, left_out

    def _quickest(self, file: str, seconds: float) -> tuple[set[str], float]:
        """The quickest tests of a file, and the time that they take with what comes before them."""
        single = self.tests.get(file, {})
        took = max(self.seconds[file] - sum(single.values()), 0.0)
        quick: set[str] = set()
        for name in sorted(single, key=single.__getitem__):
            if took + single[name] > seconds:
                break
            quick.add(name)
            took += single[name]
        return quick, took


class Worker:
    """A copy of the package, and a cache of compiled passes that belongs to it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.package = folder / "src" / "kernelstream"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.outcomes = folder / "outcomes.json"

    def run(
        self, tests: list[str], seconds: float, cache: str, *words: str
    ) -> dict[str, Any] | None:
        """Run pytest; None where it took longer than it may."""
        self.outcomes.unlink(missing_ok=True)
        left_out = self.folder / "left_out.json"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [str(self.package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "NUMBA_CACHE_DIR": str(self.folder / cache),
            "MUTANTS_OUTCOMES": str(self.outcomes),
            "TMPDIR": str(self.folder),
        }
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        if left_out.exists():
            environment["MUTANTS_LEFT_OUT"] = str(left_out)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
        command += ["-p", "mutants.outcomes", "-m", "not slow and not cuda", *words]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        # Examples are those of the copy.
        command += [str(self.folder / test) if test.startswith("src/") else test for test in tests]
        with (self.folder / "output.txt").open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(max(seconds, 0.0))
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        for left in self.folder.glob("pytest-of-*"):
            shutil.rmtree(left, ignore_errors=True)
        if not self.outcomes.exists():  # a crash of the interpreter, or nothing could be imported
            return {"failed": [f"pytest ended with {code}"], "broken": [], "seconds": 0.0}
        outcome: dict[str, Any] = json.loads(self.outcomes.read_text(encoding="utf-8"))
        if code not in (0, 5) and not outcome["failed"] + outcome["broken"]:
            outcome["failed"] = [f"pytest ended with {code}"]
        return outcome

    def unchanged(self, test: str, seconds: float) -> dict[str, Any] | None:
        """Run one test file on the code as it is."""
        return self.run([test], seconds, "cache")

    def tried(
        self,
        index: int,
        mutant: Mutant,
        tests: list[str],
        left_out: list[str],
        limit: float,
        left: float,
    ) -> str | None:
        """Make the change and run the tests; who noticed it, or None."""
        (self.folder / "left_out.json").write_text(json.dumps(left_out), encoding="utf-8")
        path = self.package / mutant.path
        path.write_text(mutant.changed(), encoding="utf-8")
        # Byte code is kept by time and size of its source, and both may be those of another change.
        os.utime(path, (1e9 + index, 1e9 + index))
        # Numba's cache does not notice that a constant or a pass has changed in another file.
        cache = "fresh" if mutant.at_top or "@compiled" in mutant.source() else "cache"
        try:
            outcome = self.run(tests, min(limit, left), cache, "-x")
        finally:
            shutil.copy2(PACKAGE / mutant.path, path)
            shutil.rmtree(self.folder / "fresh", ignore_errors=True)
        if outcome is None:
            return f"more than {limit:.0f} seconds" if limit < left else UNFINISHED
        return next(iter(outcome["failed"] + outcome["broken"]), None)


def run_unchanged(tests: list[str], pool: Pool, report: Report) -> Unchanged:
    """The tests on the code as it is."""
    found = Unchanged()

    def one(worker: Worker, test: str) -> dict[str, Any] | None:
        return worker.unchanged(test, min(LONGEST_FILE, pool.left()))

    # The last in the list are those of all folders, and take longest: they begin.
    for test, outcome, _ in pool.each(one, reversed(tests)):
        wrong_example = outcome is not None and test.startswith("src/") and outcome["failed"]
        if outcome is None or outcome["broken"] or not outcome["seconds"] or wrong_example:
            why = "it takes too long" if outcome is None else "it cannot be run here"
            report.say(f"left out {test}: {why}")
            continue
        found.seconds[test], found.tests[test] = outcome["seconds"], outcome["tests"]
        for name in outcome["failed"]:
            report.say(f"left out {name}: it fails without a change")
            found.failing.append(name)
    return found


class Pool:
    """Workers, and the time that all of it may take."""

    def __init__(self, folder: Path, workers: int, seconds: float):
        self.folder, self.end = folder, time.monotonic() + seconds
        self.free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self.executor = ThreadPoolExecutor(workers)
        for number in range(workers):
            self.free.put(Worker(folder / str(number)))

    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def each(self, act: Callable[[Worker, Any], Any], things: Iterable[Any]) -> Iterator[Any]:
        """Thing, what became of it, and seconds, as they come; nothing when the time is over."""

        def one(thing: Any) -> Any:
            if self.left() <= 0:
                return None
            worker, began = self.free.get(), time.monotonic()
            try:
                return thing, act(worker, thing), time.monotonic() - began
            finally:
                self.free.put(worker)

        for done in as_completed([self.executor.submit(one, thing) for thing in things]):
            result = done.result()
            if result is not None:
                yield result


class Report:
    """What became of the changes, printed as it comes."""

    def __init__(self, out: TextIO):
        self.out = out
        self.became: Counter[str] = Counter()
        self.by_kind: Counter[tuple[str, str]] = Counter()
        self.survivors: list[Mutant] = []

    def say(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self.out, flush=True)

    def add(self, mutant: Mutant, by: str | None, took: float) -> None:
        if by == UNFINISHED:
            return
        became = "SURVIVED" if by is None else "killed"
        self.became[became] += 1
        self.by_kind[mutant.kind, became] += 1
        self.say(f"{became} {mutant.name}, {took:.0f} s" + (f", by {by}" if by else ""))
        if by is None:
            self.survivors.append(mutant)
            self.say(mutant.diff())

    def close(self, count: int) -> None:
        killed, alive = self.became["killed"], self.became["SURVIVED"]
        self.say("\nSurvivors, in the order of the files:")
        for mutant in sorted(self.survivors, key=lambda m: (m.path, m.start)):
            self.say(f"{mutant.name}\n{mutant.diff()}")
        self.say("")
        for kind in sorted({kind for kind, _ in self.by_kind}):
            dead, alive_too = self.by_kind[kind, "killed"], self.by_kind[kind, "SURVIVED"]
            self.say(f"{kind}: {dead} of {dead + alive_too} killed")
        finished = killed + alive
        share = 100 * killed / max(finished, 1)
        self.say(f"{killed} of {finished} killed, {share:.1f} %; {count - finished} not finished")


def try_all(
    mutants: list[Mutant], pool: Pool, limit: float, near_only: bool, report: Report
) -> None:
    """Run the tests, make the changes, and say what became of them."""
    paths = dict.fromkeys(mutant.path for mutant in mutants)
    near = {path: nearest(path)[: 3 if near_only else 4] for path in paths}
    tests = list(dict.fromkeys(test for groups in near.values() for test in chain(*groups)))
    most = UNCHANGED_SHARE * limit
    unchanged = run_unchanged(tests, pool, report)
    took = sum(unchanged.seconds.values())
    report.say(f"{len(unchanged.seconds)} test files take {took:.0f} seconds without a change")

    def one(worker: Worker, numbered: tuple[int, Mutant]) -> str | None:
        number, mutant = numbered
        tests, left_out = unchanged.fitting(near[mutant.path], most)
        return worker.tried(number, mutant, tests, left_out, limit, pool.left())

    for (_, mutant), by, took in pool.each(one, enumerate(mutants)):
        report.add(mutant, by, took)
    report.close(len(mutants))


def main() -> int:
    """Make changes, run tests, print the share that was noticed."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="for all of it")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds for one change")
    parser.add_argument("--out", type=Path, help="a file for what is printed")
    parser.add_argument("--only", action="append", help="a path below the package; repeatable")
    parser.add_argument(
        "--near",
        action="store_true",
        help="only tests of the same folder and tests that name the module",
    )
    parser.add_argument("--named", action="store_true", help="the list in named.py instead")
    parser.add_argument("--list", action="store_true", help="print the changes, run nothing")
    given = parser.parse_args()
    # In the background of a shell it is ignored, by the tests that send it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folders = tuple(given.only or FOLDERS)
    mutants = named() if given.named else chosen(all_mutants(folders), given.count, given.seed)
    if given.named and given.only:
        mutants = [mutant for mutant in mutants if mutant.path.startswith(folders)]
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name}\n{mutant.diff()}")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="mutants") as folder,
        open(given.out or os.devnull, "w", encoding="utf-8") as out,
    ):
        pool = Pool(Path(folder), given.workers, given.seconds)
        try_all(mutants, pool, given.limit, given.near, Report(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
