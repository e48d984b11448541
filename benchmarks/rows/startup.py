"""What a new process pays before it works: the import, and the first call of each compiled pass."""

from __future__ import annotations

import json

from benchmarks.measuring import Outcome, Side
from benchmarks.processes import fresh_python
from benchmarks.run import Run

_TIMED = """
import json, sys, time
start = time.perf_counter()
exec(sys.argv[1])
print(json.dumps([time.perf_counter() - start, "numba" in sys.modules]))
"""
IMPORT = "import kernelstream"
FIRST = "from kernelstream import StreamingKernelPCA; StreamingKernelPCA()"
_PEER = "import sklearn.base"

_TWICE = """
import json, operator, sys, time
import numpy as np
import kernelstream
from kernelstream import StreamingKernelPCA
tracker, rows = operator.attrgetter(sys.argv[1])(kernelstream)(), int(sys.argv[2])
X = np.random.default_rng(0).normal(size=(rows, 16))
def learn():
    start = time.perf_counter()
    StreamingKernelPCA(5, gamma=0.05, basis=32, tracker=tracker, random_state=0).partial_fit(X)
    return time.perf_counter() - start
print(json.dumps([learn(), learn()]))
"""


def first_calls(run: Run) -> list[Outcome]:
    """Imports beside scikit-learn's base alone; the same partial_fit twice in a new process.

    The package imports its parts when they are used: the first model pays for them.
    """
    names = {IMPORT: "import kernelstream", FIRST: "import, first model", _PEER: _PEER}
    sides = {code: Side(name) for code, name in names.items()}
    compilers = dict.fromkeys(names, False)
    for _ in range(run.repeats):
        for code, side in sides.items():
            seconds, numba = json.loads(fresh_python(_TIMED, code))
            side.seconds.append(seconds)
            compilers[code] |= numba
    outcomes = []
    for code, title in ((IMPORT, "import of the package"), (FIRST, "import and first model")):
        note = "Numba is imported" if compilers[code] else "Numba is not imported"
        # a package that imports the compiler does not reach the limit, however fast it is
        value = float("inf") if compilers[code] else sides[code].best
        ours, theirs = sides[code], sides[_PEER]
        outcomes.append(Outcome("startup", title, ours, theirs, value, 1.0, "below", "s", note))
    for tracker in run.sizes.startup_trackers:
        arguments = (tracker, str(run.sizes.startup_rows))
        fresh_python(_TWICE, *arguments)  # fills the cache of compiled passes
        first, second = Side("first partial_fit"), Side("second partial_fit")
        for _ in range(run.repeats):
            one, two = json.loads(fresh_python(_TWICE, *arguments))
            first.seconds.append(one)
            second.seconds.append(two)
        title = f"first call in a new process, {tracker}, warm cache"
        more = first.best - second.best
        outcomes.append(Outcome("startup", title, first, second, more, 0.5, "below", "s"))
    return outcomes
