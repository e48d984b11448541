"""Where people run it: fork, spawn, few file descriptors, full and read-only disks, python -O."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA, load, papers
from tests import samples

X = np.random.default_rng(0).normal(size=(300, 3))
TRACKERS = ("covariance", papers.RLS())  # matrix products, and a compiled pass


def model(tracker: str) -> StreamingKernelPCA:
    return StreamingKernelPCA(2, gamma=0.2, basis=10, tracker=tracker, random_state=0)


def scores_after_learning(given: StreamingKernelPCA) -> np.ndarray:
    return given.partial_fit(X[200:]).transform(X[:5])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_model_goes_on_in_another_process(method: str) -> None:
    """Learned here, compiled passes and BLAS in use, it goes on there with the same bits."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    begun = [model(tracker).partial_fit(X[:200]) for tracker in TRACKERS]
    for one in begun:
        one.transform(X[:5])
    with multiprocessing.get_context(method).Pool(1) as pool:
        there = pool.map_async(scores_after_learning, begun).get(timeout=120)
    np.testing.assert_array_equal(there, [scores_after_learning(one) for one in begun])


def python(code: str, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, cwd=cwd
    )


ALL = """
import numpy as np, kernelstream as ks
X = np.random.default_rng(0).normal(size=(300, 3))
for tracker in ("covariance", ks.papers.RLS()):
    m = ks.StreamingKernelPCA(2, gamma=.2, basis=10, tracker=tracker, random_state=0).partial_fit(X)
    m.save("m.st")
    print(ks.load("m.st").transform(X[:2]).tobytes().hex())
try:
    m.partial_fit(X * np.nan)
except ValueError:
    print("refused")
print(ks.KernelMonitor(basis=10, random_state=0).fit(X).update(X[0]).index)
"""


@pytest.mark.slow
def test_python_without_assertions_gives_the_same(tmp_path: Path) -> None:
    plain, optimised = (python(ALL, *options, cwd=tmp_path) for options in ((), ("-O",)))
    assert plain.returncode == 0, plain.stderr
    assert "refused" in plain.stdout and optimised.stdout == plain.stdout


def test_one_file_descriptor_is_enough(tmp_path: Path) -> None:
    """All is imported and compiled by then; files are opened one at a time, and closed."""
    few = """
import resource, os
kept = [os.open(os.devnull, os.O_RDONLY)]
resource.setrlimit(resource.RLIMIT_NOFILE, (kept[0] + 1, kept[0] + 1))
os.close(kept[0])
"""
    warm = python(ALL + few + ALL, cwd=tmp_path)
    assert warm.returncode == 0, warm.stderr
    lines = warm.stdout.splitlines()
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]


def test_a_full_disk_is_an_error_of_save_and_leaves_the_old_file(tmp_path: Path) -> None:
    model("covariance").fit(X).save(tmp_path / "m.st")
    before = (tmp_path / "m.st").read_bytes()
    code = """
import resource, kernelstream as ks
m = ks.load("m.st")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    m.save("m.st")
except OSError as problem:
    print(problem.errno)
"""
    done = python(code, cwd=tmp_path)
    assert done.stdout.split() == [str(errno.EFBIG)], done.stderr
    assert (tmp_path / "m.st").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.st"]


@samples.grid(
    "words, limit",
    ["fit x.csv -o n.st --basis 10", "transform m.st x.csv -o y.csv", "update m.st x.csv"],
    ["FSIZE", "NOFILE"],
    together=1,
)
def test_commands_without_room_or_descriptors_say_so(
    words: str, limit: str, tmp_path: Path
) -> None:
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b,c", comments="")
    model("covariance").fit(X).save(tmp_path / "m.st")
    before = (tmp_path / "m.st").read_bytes()
    # The standard streams, and one more file; imports are done.
    value = "100" if limit == "FSIZE" else "max(map(int, os.listdir('/proc/self/fd')))"
    code = f"""
import os, resource, sys
import sklearn.base, pyarrow.parquet, kernelstream.cli.app
kernelstream.cli.app.application()
from kernelstream.cli import main
ks_limit = {value}
resource.setrlimit(resource.RLIMIT_{limit}, (ks_limit, ks_limit))
sys.argv = ["kernelstream", *{words.split()!r}]
main()
"""
    if limit == "NOFILE" and not os.path.exists("/proc/self/fd"):
        pytest.skip("needs /proc")
    done = python(code, cwd=tmp_path)
    assert done.returncode in (3, 4, 5), done.stderr
    assert "Traceback" not in done.stderr and "Error:" in done.stderr
    assert (tmp_path / "m.st").read_bytes() == before
    assert not (tmp_path / "n.st").exists() and not (tmp_path / "y.csv").exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "m.st"
    model("covariance").fit(X).save(path)
    tmp_path.chmod(0o500)
    try:
        assert load(path).n_samples_seen_ == 300
        with pytest.raises(PermissionError):
            load(path).save(path)
    finally:
        tmp_path.chmod(0o700)
