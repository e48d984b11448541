"""Nothing is lost: fits that are killed go on to the same bytes, and writers do not collide."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app
from kernelstream.cli.failures import BUSY, CHANGED, INTERRUPTED, WRITE
from kernelstream.cli.modelfile import read

resource = pytest.importorskip("resource", reason="signals and limits of POSIX")

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

N_ROWS = 60_000
FIT = ["--basis", "100", "--components", "5", "--standardize", "--checkpoint-every", "0s"]


def start(*words: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kernelstream", *map(str, words)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


def here(*words: object, code: int = 0) -> str:
    """The same in this process, which costs no start."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def finish(*words: object, code: int = 0, **options: object) -> str:
    process = start(*words, **options)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err.decode()
    return " ".join((out + err).decode().split())


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two files; with --checkpoint-every 0s there is a checkpoint after each of 16 blocks."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, 6))
    X[N_ROWS // 2 :] += 1.5
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "a.npy", X[:35_000])
    text = "\n".join(",".join(map(repr, row)) for row in X[35_000:].tolist())
    (tmp_path / "data" / "b.csv").write_text("x0,x1,x2,x3,x4,x5\nbroken,1,2,3,4,5\n" + text + "\n")
    return tmp_path / "data"


def ended_before(
    process: subprocess.Popen[bytes], seconds: float, watched: Path, writes: int | None
) -> bool:
    """Wait so long, or for so many checkpoints to be begun; whether the process ended by itself."""
    end = time.monotonic() + seconds
    before = half_written_files(watched)
    begun: set[str] = set()
    while time.monotonic() < end:
        if process.poll() is not None:
            return True
        begun |= half_written_files(watched) - before
        if writes is not None and len(begun) >= writes:
            return False
        time.sleep(0.0005)
    return False


def half_written_files(folder: Path) -> set[str]:
    names = os.listdir(folder)
    return {name for name in names if ".checkpoint." in name and name.endswith(".part")}


def killed_and_resumed(rows: Path, kills: int, seed: int) -> int:
    """Kill so often, at random moments, and compare the end; returns kills during a write."""
    folder = rows.parent
    fit = ["fit", rows, *FIT, "--on-bad-rows", "skip"]
    whole, output = folder / "whole.safetensors", folder / "killed.safetensors"
    began = time.monotonic()
    finish(*fit, "-o", whole, "--rejects", folder / "whole.ndjson")
    duration = time.monotonic() - began
    rng = np.random.default_rng(seed)
    resume = [*fit, "-o", output, "--rejects", folder / "killed.ndjson", "--resume"]
    done = half_written = 0
    while done < kills:
        left = half_written_files(folder)  # by the kill before
        process = start(*resume)
        # Every other time not at a random moment, but while a checkpoint is being written.
        writes = int(rng.integers(1, 6)) if done % 2 else None
        patience = 10 * duration if writes else rng.uniform(0.2, 1.0) * duration
        if ended_before(process, patience, folder, writes):
            process.communicate()
            assert process.returncode == 0 and output.read_bytes() == whole.read_bytes()
            output.unlink()  # and once more from the start
            continue
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done += 1
        half_written += bool(half_written_files(folder) - left)
    finish(*resume)
    assert output.read_bytes() == whole.read_bytes()
    assert (folder / "killed.ndjson").read_bytes() == (folder / "whole.ndjson").read_bytes()
    left = {path.name for path in folder.iterdir()}
    assert left == {"data", "whole.safetensors", "whole.ndjson", output.name, "killed.ndjson"}
    return half_written


def test_a_kill(rows: Path) -> None:
    killed_and_resumed(rows, kills=1, seed=1)


@pytest.mark.slow
def test_thirty_kills(rows: Path) -> None:
    assert killed_and_resumed(rows, kills=30, seed=2) > 0  # some hit a checkpoint half written


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


def rows_in(checkpoint: Path) -> int:
    return read(checkpoint, half_done=True).estimator.n_samples_seen_


def test_an_interrupted_fit_leaves_a_checkpoint(rows: Path) -> None:
    """Ctrl-C; then another writer, a changed source, another option, and the end."""
    output = rows.parent / "m.safetensors"
    first, last = rows / "a.npy", rows / "z.csv"
    fit = ["fit", first, last, "-o", output, *FIT]
    os.mkfifo(last)  # the fit waits here until somebody writes
    process = start(*fit)
    checkpoint = rows.parent / "m.safetensors.checkpoint"
    wait_for(checkpoint, process)
    busy = here(*fit, code=BUSY)
    assert "Another process is writing" in busy
    while rows_in(checkpoint) < 35_000:  # until the first file is learned
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert b"--resume goes on from" in b" ".join(err.split())
    assert not output.exists() and checkpoint.exists()
    assert rows_in(checkpoint) == 35_000

    fewer = here("fit", first, "-o", output, *FIT, "--resume", code=CHANGED)
    assert "The sources are not those of the checkpoint" in fewer
    text = ",".join(["0.5"] * 6) + "\n"
    last.unlink()
    last.write_text(text)
    assert "changed since the checkpoint" in here(*fit, "--resume", code=CHANGED)
    other = here(*fit, "--gamma", "0.5", "--resume", code=CHANGED)
    assert "was made with --gamma=nothing, now it is 0.5" in other
    assert checkpoint.exists()
    here(*fit)
    assert output.exists() and not checkpoint.exists()


def opened_by_a_reader(pipe: Path, process: subprocess.Popen[bytes]) -> int:
    """The other end of a pipe, as soon as a process reads from it."""
    while True:
        with contextlib.suppress(OSError):  # nobody does yet
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_query_that_is_ended_leaves_nothing(rows: Path, end: signal.Signals) -> None:
    folder = rows.parent
    model, output = folder / "m.safetensors", folder / "o.csv"
    here("fit", rows / "a.npy", "-o", model, "--basis", "5", "--limit", "2000")
    waiting = rows / "z.csv"
    os.mkfifo(waiting)  # the query waits here until somebody writes
    process = start("transform", model, rows / "a.npy", waiting, "-o", output)
    writer = opened_by_a_reader(waiting, process)
    assert list(folder.glob(".o.csv.*"))
    process.send_signal(end)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(writer)
    assert process.returncode == INTERRUPTED
    assert {path.name for path in folder.iterdir()} == {"data", "m.safetensors"}


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_has_gone_is_no_error(rows: Path, more: list[str]) -> None:
    """As in ``kernelstream info m.safetensors | head -1``."""
    model = rows.parent / "m.safetensors"
    here("fit", rows / "a.npy", "-o", model, "--basis", "5", "--limit", "2000")
    end, beginning = os.pipe()
    os.close(end)
    process = subprocess.run(
        [sys.executable, "-m", "kernelstream", "info", str(model), *more],
        stdout=beginning,
        stderr=subprocess.PIPE,
    )
    os.close(beginning)
    assert (process.returncode, process.stderr) == (0, b"")


def test_a_model_that_does_not_fit_on_the_disk(rows: Path) -> None:
    """A limit on the size of files stands in for a full disk: the system refuses the write."""
    output = rows.parent / "m.safetensors"
    fit = ["fit", rows / "a.npy", "-o", output, "--components", "2", "--limit", "2000", "--force"]
    here(*fit, "--basis", "5")
    before = output.read_bytes()

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), len(before)))

    told = finish(*fit, "--basis", "200", code=WRITE, preexec_fn=small_files)
    assert "there is no room to write" in told
    assert output.read_bytes() == before
    assert {path.name for path in rows.parent.iterdir()} == {"data", "m.safetensors"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(rows: Path) -> None:
    folder = rows.parent / "locked"
    folder.mkdir(mode=0o500)
    told = finish("fit", rows, "-o", folder / "m.safetensors", code=WRITE)
    assert "Permission denied" in told
