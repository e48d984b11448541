"""``kernelstream monitor``: rows are judged as they come, and the end is always clean."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kernelstream
from kernelstream import KernelMonitor, KernelNovelty, StreamingKernelPCA, load
from kernelstream.cli.app import app
from kernelstream.cli.failures import DATA, MODEL, USAGE
from kernelstream.cli.monitor import MonitorScorer
from kernelstream.serialization import ModelFile

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

NAMES = ["flow", "heat", "load"]


def normal(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2, size=n)
    return np.stack([t, t**2 - 3 * t, 3 * t**2 - t**3], axis=1) + 0.05 * rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A novelty detector."""
    path = tmp_path_factory.mktemp("monitor") / "m.safetensors"
    rows = pd.DataFrame(normal(3000, 0), columns=NAMES)
    KernelNovelty(0.01, basis=60, random_state=0).fit(rows).save(path)
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "kernelstream", "monitor", *map(str, words)]


def judged(*words: object, stdin: bytes, code: int = 0) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["monitor", *map(str, words)], input=stdin)
    assert done.exit_code == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ndjson(X: np.ndarray, **more: object) -> bytes:
    rows = [json.dumps({**dict(zip(NAMES, row, strict=True)), **more}) for row in X.tolist()]
    return "".join(row + "\n" for row in rows).encode()


def test_alarms_with_causes_and_few_false_ones(model: Path) -> None:
    broken = normal(20, 2) + np.array([0.0, 1.5, 0.0])
    lines = judged(
        model, "--keep", "place", stdin=ndjson(np.vstack([normal(500, 1), broken]), place="A")
    )
    alarms = [line["alarm"] for line in lines]
    assert len(lines) == 520 and sum(alarms[:500]) <= 15 and sum(alarms[500:]) == 20
    causes = [line["top"][0]["variable"] for line in lines[500:]]
    assert causes.count("heat") > 10
    last = lines[-1]
    assert last["row"] == 520 and last["place"] == "A" and last["p_value"] <= 0.01


def test_csv_and_arrays_give_the_same_verdicts(model: Path) -> None:
    X = normal(10, 1)
    table = pd.DataFrame(X, columns=NAMES).assign(when=range(10))
    by_csv = judged(model, "--time-column", "when", stdin=table.to_csv(index=False).encode())
    arrays = "".join(json.dumps(row) + "\n" for row in X.tolist()).encode()
    by_array = judged(model, stdin=arrays)
    shuffled = judged(
        model, stdin=table[["load", "when", "flow", "heat"]].to_csv(index=False).encode()
    )
    assert [line["anomaly_score"] for line in by_csv] == [
        line["anomaly_score"] for line in by_array
    ]
    assert [line["anomaly_score"] for line in by_csv] == [
        line["anomaly_score"] for line in shuffled
    ]
    assert [line["time"] for line in by_csv] == list("0123456789")


def test_bad_rows_are_reported_and_it_goes_on(model: Path) -> None:
    lines = [b'{"flow": 1, "heat": "hot", "load": 2}', b"not json", b'{"flow": 1, "heat": -2}']
    stdin = b"\n".join([*lines, b'{"flow": 1, "heat": null, "load": 2}', ndjson(normal(1, 1))])
    found = judged(model, stdin=stdin)
    assert [line.get("error") for line in found] == [
        "column 'heat': 'hot' is not a number",
        "neither a row nor a header with the columns of the model: 'not json'",
        "there is no value for 'load'",
        "column 'heat': the value is missing or infinite",
        None,
    ]
    assert judged(model, "--alarms-only", stdin=ndjson(normal(3, 1))) == []


def line_within(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "no line came"
    return json.loads(process.stdout.readline())


def follow(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, None])
def test_each_row_is_answered_at_once_and_the_end_saves(
    model: Path, tmp_path: Path, end: signal.Signals | None
) -> None:
    output = tmp_path / "learned.safetensors"
    process = follow(model, "--learn", "-o", output)
    assert process.stdin is not None
    rows = normal(4, 5)
    for i in range(4):  # the pipe stays open: an answer must come before the next row is sent
        process.stdin.write(ndjson(rows[i : i + 1]))
        assert line_within(process, 30)["row"] == i + 1
    if end is None:
        process.stdin.close()
    else:
        process.send_signal(end)
    try:
        assert process.wait(30) == 0
    finally:
        process.kill()
    process.stdin.close()
    process.stdout.close()  # type: ignore[union-attr]
    assert load(output).n_samples_seen_ == 3004
    assert load(model).n_samples_seen_ == 3000


def test_a_closed_output_ends_it_cleanly_with_the_model_saved(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "learned.safetensors"
    process = follow(model, "--learn", "-o", output)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(ndjson(normal(1, 5)))
    line_within(process, 30)
    process.stdout.close()
    process.stdin.write(ndjson(normal(3, 6)))
    process.stdin.close()
    assert process.wait(30) == 0
    assert load(output).n_samples_seen_ >= 3001


def test_monitor_of_a_kernel_pca_names_what_to_fit(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    StreamingKernelPCA(2, gamma=1.0).fit(normal(300, 0)).save(path)
    done = CliRunner().invoke(app, ["monitor", str(path)], input=b"")
    message = " ".join(done.stderr.split())
    assert done.exit_code == MODEL and "fit --detector monitor" in message


@pytest.mark.skipif(not hasattr(kernelstream, "KernelMonitor"), reason="needs KernelMonitor")
def test_fit_monitor_makes_a_kernel_monitor(tmp_path: Path) -> None:
    rows, path = tmp_path / "normal.csv", tmp_path / "m.safetensors"
    pd.DataFrame(normal(400, 0), columns=NAMES).to_csv(rows, index=False)
    fit = ["fit", "--detector", "monitor", str(rows), "-o", str(path), "--basis", "50"]
    assert CliRunner().invoke(app, fit).exit_code == 0
    assert "KernelMonitor" in CliRunner().invoke(app, ["info", str(path)]).stdout
    broken = normal(10, 2) + np.array([0.0, 1.5, 0.0])
    lines = judged(path, stdin=ndjson(np.vstack([normal(50, 1), broken])))
    assert sum(line["alarm"] for line in lines[:50]) <= 3
    assert lines[-1]["alarm"] and lines[-1]["event"] == 1
    assert len(lines[-1]["top"]) == 3 and lines[-1]["top"][0]["variable"] in NAMES
    learned = judged(path, "--learn", stdin=ndjson(normal(30, 1)))
    assert any(line["learned"] for line in learned)


@pytest.mark.parametrize("lags", [0, 2])
def test_rows_around_a_bad_one_are_no_neighbours(tmp_path: Path, lags: int) -> None:
    """Passed over, it is still a row of the process: what came before it is the past of none."""
    X = normal(200, 0)
    X[[0, 50, 51, 120, 199]] = np.nan
    table = pd.DataFrame(X, columns=NAMES)
    table.to_csv(tmp_path / "normal.csv", index=False, na_rep="nan")
    path = tmp_path / "m.safetensors"
    fit = ["fit", "--detector", "monitor", tmp_path / "normal.csv", "-o", path, "--basis", "20"]
    done = CliRunner().invoke(
        app, [*map(str, fit), "--set", f"lags={lags}", "--on-bad-rows", "skip", "--json"]
    )
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["bad_rows"]) == (195, 5)
    by_hand = KernelMonitor(lags=lags, basis=20, random_state=0).fit(X)
    assert KernelMonitor.load(path).offset_ == by_hand.offset_


def test_limits_in_events_a_day(tmp_path: Path) -> None:
    path, output = tmp_path / "normal.csv", tmp_path / "m.safetensors"
    pd.DataFrame(normal(400, 0), columns=NAMES).to_csv(path, index=False)
    words = ["fit", path, "-o", output, "--detector", "monitor", "--basis", "20", "--force"]
    rate = ["--set", "false_events_per_day=5", "--set", "interval=120"]
    done = CliRunner().invoke(app, [*map(str, words), *rate])
    assert done.exit_code == 0 and "false events a day" in done.stderr + done.stdout
    monitor = load(output)
    assert monitor.false_events_per_day == 5 and monitor.alpha_ > 5 * 120 / 86_400
    failed = CliRunner().invoke(app, [*map(str, words), *rate[2:]])
    assert failed.exit_code == USAGE and "belong together" in failed.stderr


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KernelMonitor that knows no names."""
    path = tmp_path_factory.mktemp("watcher") / "m.safetensors"
    KernelMonitor(basis=30, width=10.0, ridge=0.01, memory=50, random_state=0).fit(
        normal(400, 0)
    ).save(path)
    return path


WILD = ["1e200", "-1.7976931348623157e308", "1" + "0" * 400, "Infinity"]


@pytest.mark.parametrize("value", [*WILD, "[" * 100_000], ids=[*"abcd", "deep"])
def test_no_row_ends_the_watch(model: Path, watcher: Path, value: str) -> None:
    """Whatever a sensor sends: a line says so, and the next row is judged as if it had not come."""
    good = normal(2, 1)
    stdin = ndjson(good[:1]) + f'{{"flow": 1, "heat": {value}, "load": 2}}\n'.encode()
    for path in (model, watcher):
        lines = judged(path, stdin=stdin + ndjson(good[1:]))
        assert len(lines) == 3 and lines[2]["row"] == 3
        assert "error" in lines[1] or lines[1]["alarm"]
        without = judged(path, stdin=ndjson(good))
        statistics = ("t2", "spe", "smoothed", "anomaly_score", "p_value", "alarm")
        assert all(lines[2].get(name) == without[1].get(name) for name in statistics)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_live_csv_is_read_as_files_are(
    model: Path, watcher: Path, delimiter: str, start: str
) -> None:
    X = normal(3, 1)
    lines = [delimiter.join(NAMES), *(delimiter.join(map(repr, row)) for row in X.tolist())]
    text = (start + "\r\n".join(lines) + "\r\n").encode()
    told = "\\t" if delimiter == "\t" else delimiter
    for path in (model, watcher):
        rows = judged(path, stdin=ndjson(X))
        assert (
            judged(path, stdin=text)
            == judged(path, "--read", f"delimiter={told}", stdin=text)
            == rows
        )
    # cells at the ends of a line may be empty
    gaps = start + "\n".join([lines[0], lines[1], f"{delimiter}1.0{delimiter}", delimiter * 2])
    found = judged(watcher, stdin=gaps.encode())
    assert [line["missing"] for line in found] == [[], ["x0", "x2"], ["x0", "x1", "x2"]]


def test_a_delimiter_is_one_character(watcher: Path, tmp_path: Path) -> None:
    judged(watcher, "--read", "delimiter=;;", stdin=b"", code=USAGE)
    (tmp_path / "a.csv").write_text("1;;2\n")
    output = str(tmp_path / "m.safetensors")
    fit = ["fit", str(tmp_path / "a.csv"), "-o", output, "--read", "delimiter=;;"]
    assert CliRunner().invoke(app, fit).exit_code == USAGE


def test_values_without_known_names_are_not_mistaken(watcher: Path) -> None:
    """A model without names: names of the first row count, and no value is silently left out."""
    flow, heat, load_ = normal(1, 1)[0].tolist()
    named = {"flow": flow, "heat": heat, "load": load_}
    rows = [named, dict(reversed(named.items())), {**named, "t": 7.0}, {"t": 7.0, **named}]
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = judged(watcher, stdin=stdin)
    assert len({line["index"] for line in found}) == 1
    wrong = judged(watcher, stdin=json.dumps(rows[3]).encode(), code=DATA)
    assert "4 values, but the model wants 3" in wrong[0]["error"]
    right = judged(watcher, "--time-column", "t", stdin=json.dumps(rows[3]).encode())
    assert right[0]["index"] == found[0]["index"] and right[0]["time"] == 7.0


def test_sensors_that_stand_still_are_named(watcher: Path) -> None:
    X = normal(40, 1)
    X[:, 1] = X[0, 1]
    found = judged(watcher, stdin=ndjson(X))
    assert found[0]["dead"] == [] and found[-1]["dead"] == ["x1"]


def test_every_line_is_json(watcher: Path) -> None:
    """Also where a contribution is too large to be told."""
    X = normal(6, 1)
    X[3:, 1] = 4e153
    done = CliRunner().invoke(app, ["monitor", str(watcher)], input=ndjson(X))
    assert any(json.loads(line).get("top") for line in done.stdout.splitlines())
    assert "Infinity" not in done.stdout and "NaN" not in done.stdout


@pytest.mark.parametrize("more", [[], ["--alarms-only"]])
def test_learning_is_saved_along_the_way(
    watcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """``--save-every 0s`` is after every row, whether a line is written or not."""
    output, saved = tmp_path / "m.safetensors", []
    monkeypatch.setattr(MonitorScorer, "save", lambda self, path, position: saved.append(path))
    judged(
        watcher, "--learn", "-o", output, "--save-every", "0s", *more, stdin=ndjson(normal(4, 1))
    )
    assert saved == [output] * 5  # and at the end


def test_the_model_is_read_under_the_lock(
    watcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what another process saves meanwhile would be lost."""
    path = tmp_path / "m.safetensors"
    path.write_bytes(watcher.read_bytes())
    held, read = [], ModelFile.read

    def noted(model: Path) -> ModelFile:
        held.append((tmp_path / f".{model.name}.lock").exists())
        return read(model)

    monkeypatch.setattr(ModelFile, "read", noted)
    judged(path, "--learn", stdin=ndjson(normal(2, 1)))
    assert held == [True]  # and once


def test_a_model_is_read_once(model: Path, watcher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice may be of two models, where another process saves one in between."""
    seen, read = [], ModelFile.read

    def noted(path: Path) -> ModelFile:
        seen.append(path)
        return read(path)

    monkeypatch.setattr(ModelFile, "read", noted)
    for path in (model, watcher):
        judged(path, stdin=ndjson(normal(2, 1)))
        assert CliRunner().invoke(app, ["info", str(path)]).exit_code == 0
        assert seen == [path, path]
        seen.clear()


def test_a_watch_that_saw_nothing_is_no_success(model: Path, watcher: Path) -> None:
    for path in (model, watcher):
        (line,) = judged(path, stdin=b"starting sensor daemon\n", code=DATA)
        assert "neither a row nor a header" in line["error"]
        found = judged(path, stdin=b"starting sensor daemon\n" + ndjson(normal(2, 1)))
        assert ["error" in line for line in found] == [True, False, False]
        assert judged(path, stdin=b"") == []


@pytest.fixture
def day(watcher: Path, tmp_path: Path) -> Path:
    """Rows with a time stamp, of which some have an event, in two files."""
    X = normal(160, 1)
    X[60:100, 1] += 1.5
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(0, "t", pd.date_range("2026-01-01", periods=160, freq="s").astype(str))
    table.to_csv(tmp_path / "day.csv", index=False)
    table.to_parquet(tmp_path / "day.parquet")
    return tmp_path


def test_files_are_judged_as_a_pipe_is(model: Path, day: Path) -> None:
    more = ("--time-column", "t")
    piped = judged(model, *more, stdin=(day / "day.csv").read_bytes())
    for name in ("day.csv", "day.parquet"):
        assert judged(model, day / name, *more, stdin=b"") == piped
    assert len(piped) == 160
    assert sum(line["alarm"] for line in piped[60:100]) == 40


def test_a_gap_in_a_file_is_a_missing_value(day: Path) -> None:
    path = day / "m.safetensors"
    rows = pd.DataFrame(normal(400, 0), columns=NAMES)
    KernelMonitor(basis=30, width=10.0, lags=0, random_state=0).fit(rows).save(path)
    table = pd.read_parquet(day / "day.parquet")
    table.loc[3, "load"] = np.nan
    table.to_parquet(day / "gap.parquet")
    found = judged(path, day / "gap.parquet", "--time-column", "t", stdin=b"")
    assert found[3]["missing"] == ["load"] and any(line["event"] for line in found)


def test_addresses_are_for_another_command(watcher: Path) -> None:
    failed = CliRunner().invoke(app, ["monitor", str(watcher), "kafka://broker/topic"])
    assert failed.exit_code == USAGE
    assert "kernelstream plant serve" in " ".join(failed.stderr.split())
