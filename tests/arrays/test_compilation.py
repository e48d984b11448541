"""Compiled passes run wherever people run them: without a cache, on a full disk, without Numba."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelstream

PACKAGE = Path(kernelstream.__file__).parent

# Every compiled pass; prints numbers that depend on each.
_EVERY_PASS = """
import numpy as np
import kernelstream as ks
X = np.random.default_rng(0).normal(size=(60, 3))
for rule in ("Hebbian", "SubsetHebbian", "LMS", "RLS"):
    tracker = getattr(ks.papers, rule)()
    model = ks.StreamingKernelPCA(2, gamma=.2, basis=8, tracker=tracker, random_state=0)
    print(np.abs(model.partial_fit(X).transform(X[:3])).sum())
monitor = ks.KernelMonitor(basis=8, random_state=0).fit(X)
print(monitor.update(X[0]).index)
"""

# The same as on a machine where nothing that Numba tries may be written, whoever runs the test.
_NO_PLACE = """
import tempfile
def refused(*a, **k):
    raise PermissionError(13, "Permission denied")
tempfile.TemporaryFile = refused
"""
# Files may be opened and hold no byte: a disk that is full.
_NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""
_NO_NUMBA = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def run(code: str, cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": str(PACKAGE.parent),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, env=environment
    )


def numbers(result: subprocess.CompletedProcess[str]) -> np.ndarray:
    assert result.returncode == 0, result.stderr
    return np.array(result.stdout.split(), dtype=float)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def expected(cache: Path) -> np.ndarray:
    values = numbers(run(_EVERY_PASS, cache))
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        assert list(cache.rglob("*.nbc"))  # where a cache can be written, it is
    return values


@pytest.mark.parametrize(
    "place",
    [_NO_PLACE, pytest.param(_NO_ROOM, marks=pytest.mark.slow)],
    ids=["no place", "no room"],
)
def test_passes_run_where_no_cache_can_be_written(
    place: str, expected: np.ndarray, tmp_path: Path
) -> None:
    result = run(place + _EVERY_PASS, tmp_path, "-W", "error::RuntimeWarning")
    np.testing.assert_array_equal(numbers(result), expected)
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.slow
def test_passes_run_where_the_cache_is_damaged(
    cache: Path, expected: np.ndarray, tmp_path: Path
) -> None:
    for file in (f for f in cache.rglob("*") if f.suffix in (".nbi", ".nbc")):
        whole = file.read_bytes()
        copy = tmp_path / file.relative_to(cache)
        copy.parent.mkdir(exist_ok=True)
        # Every kind of leftover: an empty index, half of one, half of the machine code.
        kept = {".nbc": len(whole) // 2}.get(file.suffix, len(whole) // 2 * (len(file.name) % 2))
        copy.write_bytes(whole[:kept])
    np.testing.assert_array_equal(numbers(run(_EVERY_PASS, tmp_path)), expected)


def test_passes_run_without_numba_and_one_warning_says_what_is_lost(
    expected: np.ndarray, tmp_path: Path
) -> None:
    result = run(_NO_NUMBA + _EVERY_PASS, tmp_path, "-W", "always")
    np.testing.assert_allclose(numbers(result), expected, rtol=1e-9)
    said = [line for line in result.stderr.splitlines() if "RuntimeWarning" in line]
    assert len(said) == 1
    assert re.search(r"No module named 'numba'.*rls.*slower.*pip install numba", said[0])


def test_models_without_sequential_passes_do_not_ask_for_numba(tmp_path: Path) -> None:
    code = "import numpy as np, kernelstream as ks; ks.StreamingKernelPCA(2).fit(np.eye(9))"
    result = run(_NO_NUMBA + code, tmp_path, "-W", "error")
    assert result.returncode == 0, result.stderr


def test_there_is_one_door() -> None:
    others = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"import numba|from numba|njit\(", path.read_text())
    ]
    assert others == ["arrays/compilation.py"]
