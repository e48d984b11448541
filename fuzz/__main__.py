"""Run the attacks in turn, each seed in a process with limits, until the time is over."""

from __future__ import annotations

import argparse
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import fuzz

SECONDS = 60  # that one seed may take
GIBIBYTES = 4  # that one seed may take
_ONE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({bytes}, {bytes}))
from fuzz.{name} import attack
found = attack({seed})
if found is not None:
    print(found)
    sys.exit(1)
"""


def names() -> list[str]:
    """The attacks in this folder."""
    modules = (module.name for module in pkgutil.iter_modules(fuzz.__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def one(name: str, seed: int, seconds: float = SECONDS) -> str | None:
    """Attack with one seed in a process of its own; what was seen where something failed."""
    code = _ONE.format(name=name, seed=seed, bytes=GIBIBYTES << 30)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=environment,
            cwd=Path(fuzz.__file__).parents[1],
        )
    except subprocess.TimeoutExpired:
        return f"It took more than {seconds:g} seconds."
    if done.returncode == 0:
        return None
    said = (done.stdout + "\n" + done.stderr[-4000:]).strip()
    if done.returncode < 0:
        said = f"It ended by {signal.Signals(-done.returncode).name}.\n{said}"
    return said


def main() -> int:
    """Attack until the minutes are over; the number of kinds of failure is the exit code's."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="first seed; by default that of the clock")
    parser.add_argument("--only", choices=names(), action="append", help="may be repeated")
    parser.add_argument("--once", action="store_true", help="one seed an attack, to see it again")
    given = parser.parse_args()
    attacks = given.only or names()
    seed = time.time_ns() % 10**9 if given.seed is None else given.seed
    end = time.monotonic() + 60 * given.minutes
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    while True:
        for name in attacks:
            found = one(name, seed)
            tried[name] += 1
            if found is not None:
                failed[name] += 1
                print(f"\n=== {name}: python -m fuzz --only {name} --seed {seed} --once\n{found}")
        seed += 1
        if given.once or time.monotonic() > end:
            break
    for name in attacks:
        print(f"{name}: {tried[name]} seeds, {failed[name]} failed")
    return min(1, sum(failed.values()))


if __name__ == "__main__":
    sys.exit(main())
