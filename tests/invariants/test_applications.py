"""What applications did wrong in version 0.1, by public names alone.

Every test here fails on that version (commit c85bdb3), and can be run on it:

    PYTHONPATH=<its src> pytest --noconftest tests/invariants/test_applications.py

Those of more than a second have shorter brothers in the rooms, and are slow here.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import kernelstream
from kernelstream import KernelMonitor, StreamingKernelPCA, images


def process(n: int, seed: int) -> np.ndarray:
    """Four sensors of a process with two causes."""
    rng = np.random.default_rng(seed)
    mix = np.array([[1.0, 0.5, -0.5, 0.0], [0.0, 1.0, 1.0, -1.0]])
    return rng.normal(size=(n, 2)) @ mix + 0.3 * rng.normal(size=(n, 4))


def monitor_of(X: np.ndarray, **options: Any) -> KernelMonitor:
    given = dict(basis=40, width=10.0, ridge=0.1, whiten=True, random_state=0) | options
    return KernelMonitor(**given).fit(X)


def alarms(monitor: KernelMonitor, X: np.ndarray) -> np.ndarray:
    return monitor.update_many(X).column("alarm")


# -- the monitor


@pytest.mark.slow
def test_a_mode_that_returns_raises_no_alarm() -> None:
    def rows(mode: np.ndarray, seed: int) -> np.ndarray:
        noise = np.random.default_rng(seed).normal(size=(len(mode), 5))
        return noise + np.where(mode, -4.0, 4.0)[:, None]

    learned = rows(np.arange(4000) // 200 % 2 == 1, 0)
    monitor = monitor_of(learned, basis=60, width=3.0, ridge=1e-3, lags=0, memory=400)
    alarms(monitor, rows(np.zeros(2000, dtype=bool), 1))
    assert np.mean(alarms(monitor, rows(np.ones(1000, dtype=bool), 2))) < 0.03


@pytest.mark.slow
def test_a_lasting_shift_of_one_deviation_is_found_soon() -> None:
    """Of one of thirty sensors that know nothing of each other: the hardest case."""

    def rows(n: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, 30))

    fitted, delays = monitor_of(rows(2000, 0), alpha=0.001, lags=0, width=100.0), []
    for sensor in range(0, 30, 6):
        X = rows(350, 100 + sensor)
        X[50:, sensor] += 1.0
        found = alarms(copy.copy(fitted), X)[50:]
        delays.append(int(np.argmax(found)) + 1 if found.any() else len(found))
    assert np.mean(delays) < 45
    assert np.mean(alarms(fitted, rows(4000, 5))) < 0.002


@pytest.mark.slow
def test_adapting_does_not_hide_a_lasting_fault() -> None:
    X = process(5000, 3)
    X[2500:, 3] += 0.7 * X[:, 3].std()
    found = {
        adapt: np.mean(alarms(monitor_of(X[:1500], adapt=adapt, memory=300), X[1500:])[1000:])
        for adapt in ("event", "off")
    }
    assert found["event"] > 0.9 * found["off"] > 0.4


def test_rows_that_remember_are_judged_with_their_past() -> None:
    noise, X = np.random.default_rng(0).normal(size=(800, 3)), np.zeros((800, 3))
    for t in range(1, 800):
        X[t] = 0.95 * X[t - 1] + noise[t]
    assert KernelMonitor(random_state=0, basis=30, width=10.0, ridge=0.1).fit(X).lags_ > 0


@pytest.mark.slow
def test_rows_beside_a_rolled_up_sheet_are_found() -> None:
    def rows(n: int, rng: np.random.Generator, off: float = 0.0) -> np.ndarray:
        turn, along = 1.5 * np.pi * (1 + 2 * rng.random(n)), 10 * rng.random(n)
        X = np.column_stack([(turn + off) * np.cos(turn), along, (turn + off) * np.sin(turn)])
        return X + 0.3 * rng.normal(size=X.shape)

    rng = np.random.default_rng(0)
    monitor = KernelMonitor(smooth=None, random_state=0).fit(rows(2000, rng))
    assert np.mean(monitor.predict(rows(2000, rng)) == -1) < 0.02
    assert np.mean(monitor.predict(rows(2000, rng, 1.6)) == -1) > 0.3


def test_queries_and_the_stream_agree_and_a_record_shows_why() -> None:
    monitor = monitor_of(process(600, 0), adapt="off")
    X = process(300, 1)
    X[100:, 1] += 1.0
    flagged = monitor.predict(X) == -1
    records = monitor.update_many(X)
    np.testing.assert_array_equal(flagged, records.column("alarm"))
    for record in records:
        over = record.index > record.index_limit or record.smoothed > record.limit
        assert record.alarm or not over


def test_limits_are_asked_for_in_events_a_day() -> None:
    monitor = KernelMonitor(
        false_events_per_day=0.01, interval=1.0, basis=30, width=10.0, ridge=0.1, random_state=0
    )
    with pytest.warns(UserWarning, match="Give at least"):
        monitor.fit(process(300, 0))


def test_another_process_from_the_first_row_on_is_no_event() -> None:
    monitor = monitor_of(process(600, 0))
    records = monitor.update_many(process(100, 1) + np.array([0.0, 6.0, 0.0, -3.0]))
    assert records[-1].alarm and not any(record.event for record in records)


def test_of_a_row_without_values_nothing_is_known() -> None:
    monitor = monitor_of(process(600, 0))
    monitor.update_many(process(30, 1))
    assert np.isnan(monitor.update(np.full(4, np.nan)).p_value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dead", "silent"])
def test_a_sensor_out_of_service_stops_nothing_else(kind: str) -> None:
    monitor = monitor_of(process(600, 0), memory=200)
    X = process(700, 1)
    X[30:, 2] = X[30, 2] if kind == "dead" else np.nan
    after = monitor.update_many(X)[100:]
    assert np.mean(after.column("alarm")) < 0.05
    assert np.mean(after.column("learned")) > 0.7


@pytest.mark.slow
def test_an_absent_key_is_a_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    monitor_of(process(600, 0)).save(path)
    rows = [{f"x{j}": value for j, value in enumerate(row)} for row in process(20, 1).tolist()]
    del rows[7]["x2"]
    judged = subprocess.run(
        [sys.executable, "-m", "kernelstream", "monitor", str(path)],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
        check=True,
    )
    records = [json.loads(line) for line in judged.stdout.splitlines()]
    assert len(records) == 20 and records[7]["missing"] == ["x2"]


# -- novelty


def test_there_is_a_detector_of_novelties() -> None:
    X, y = load_digits(return_X_y=True)
    threes, others = X[y == 3], X[y != 3][:300]
    model = kernelstream.KernelNovelty(scale=None, random_state=0).fit(threes[:100])
    judged = np.concatenate([threes[100:], others])
    truth = np.arange(len(judged)) >= len(threes) - 100
    assert roc_auc_score(truth, -model.score_samples(judged)) > 0.95
    assert np.mean(model.predict(threes[100:]) == -1) < 0.2


# -- images


def test_strong_noise_is_taken_out_as_by_the_best_ridge() -> None:
    clean = load_digits().images / 16.0
    noisy = clean + 0.6 * np.random.default_rng(1).normal(size=clean.shape)

    def error(model: images.Denoiser) -> float:
        found = model.fit(noisy[:1400]).transform(noisy[1400:])
        return float(np.mean((found - clean[1400:]) ** 2))

    ridges = (1e-4, 1e-2, 1e-1, 3e-1)
    best = min(error(images.Denoiser(0.36, basis=60, alpha=a, random_state=0)) for a in ridges)
    assert error(images.Denoiser(0.36, basis=60, random_state=0)) < 1.03 * best


def test_missing_pixels_are_filled() -> None:
    X = load_digits().data / 16.0
    rows = X[1400:1450].copy()
    gaps = np.random.default_rng(0).random(rows.shape) < 0.2
    rows[gaps] = np.nan
    filled = StreamingKernelPCA(30, basis=100, random_state=0).fit(X[:1400]).repair(rows)
    mean = np.broadcast_to(X[:1400].mean(axis=0), rows.shape)
    truth = X[1400:1450]
    assert np.mean((filled - truth)[gaps] ** 2) < 0.5 * np.mean((mean - truth)[gaps] ** 2)


def test_what_enlarging_gains_without_learning_can_be_asked() -> None:
    y, x = np.mgrid[:80, :80] / 80
    image = 0.5 + 0.4 * np.sin(25 * x + 12 * y**2)
    low = images.files.resized(image, (40, 40))
    errors = [
        np.mean((found - image) ** 2)
        for found in (images.enlarge(low, 2), images.files.resized(low, image.shape))
    ]
    assert errors[0] < 0.9 * errors[1]
