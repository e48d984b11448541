"""KernelMonitor and its peers: Tennessee Eastman, curved processes, drift, causes and cost."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import KernelMonitor
from reproductions.frame import Data, MissingDataError, claim
from reproductions.tennessee_eastman import peers, pictures
from reproductions.tennessee_eastman.experiments import DRIFTS, causes, cost, curved, drift
from reproductions.tennessee_eastman.protocol import (
    SHOWN,
    START,
    Runs,
    by_index,
    by_stream,
    faulty,
    over_limit,
    rates,
    runs_of,
)

SINGLE_TARGETS = dict(zip(SHOWN, (99, 97, 92, 90, 80, 85, 50), strict=True))


def run(data: Data, full: bool, out: Path, tiny: bool = False) -> dict[str, Any]:
    """Everything; without the data, what needs none."""
    results: dict[str, Any] = {"skipped": []}
    results["curved"] = curved(1 if tiny else 10, tiny)
    pictures.ring_picture(60 if tiny else 500, out / "curved.png")
    try:
        runs = runs_of(data.load("tennessee_eastman"))
    except MissingDataError as error:
        results["skipped"].append(f"Tennessee Eastman: {error}")
        rng = np.random.default_rng(0)
        made_up = rng.normal(size=(300 if tiny else 4000, 52)) @ rng.normal(size=(52, 52))
        learned = 200 if tiny else 500
        results["cost"] = cost(made_up[:learned], made_up[learned:], 20 if tiny else 1000)
        return results
    return {**results, **on_runs(runs, full, out, tiny)}


def on_runs(runs: Runs, full: bool, out: Path, tiny: bool = False) -> dict[str, Any]:
    """What needs the Tennessee Eastman runs."""
    normal = np.vstack([X[:START] for X in faulty(runs).values()])
    results: dict[str, Any] = {
        "detection": {f"lags_{lags}": detection(runs, lags, 0) for lags in (0, 2)},
        "folds": folds(runs, 0),
        "peers": peers.compared(runs, tiny),
        "drift": drift(runs, None, 1 if tiny else 3),
        "drift_smoothed": drift(runs, 0.2, 1 if tiny else 3),
        "causes": causes(runs, 300 if tiny else 5),
        "cost": cost(runs["d00"], normal, 20 if tiny else 1000),
    }
    if full:
        results["other_seeds"] = [
            {"lags_2": detection(runs, 2, seed), "folds": folds(runs, seed)} for seed in range(1, 6)
        ]
    pictures.detection_picture(results, out / "detection.png")
    pictures.stream_picture(runs, out / "fault_5.png")
    pictures.causes_picture(runs, out / "causes.png")
    return results


def detection(runs: Runs, lags: int, seed: int) -> dict[str, Any]:
    """Frozen, limits from ``d00_te``: the plain index, the same smoothed, and all of it."""
    monitor = KernelMonitor(lags=lags, adapt="off", random_state=seed)
    monitor.fit(runs["d00"], calibration=runs["d00_te"])
    chosen = {"width": monitor.width_, "ridge": monitor.ridge_, "whiten": monitor.whiten_}
    plain = copy.copy(monitor).set_params(smooth=None)
    index = over_limit(lambda X: -plain.score_samples(X), runs, peers.SMOOTHING)
    return {
        "plain": rates(by_index(monitor), runs),
        "index": rates(index, runs),
        "smoothed": rates(by_stream(monitor), runs),
        "chosen": chosen,
    }


def folds(runs: Runs, seed: int) -> dict[str, Any]:
    """Frozen, limits from folds of ``d00`` alone."""
    monitor = KernelMonitor(lags=2, adapt="off", random_state=seed).fit(runs["d00"])
    at_1 = rates(by_index(monitor), runs)
    return {"at_1": at_1, "at_5": rates(by_index(monitor.set_params(alpha=0.05)), runs)}


# --- the table -----------------------------------------------------------------------------------


def claims(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Every target beside its number."""
    rows = on_curves(results["curved"])
    if "detection" in results:
        rows = [*on_detection(results), *rows, *on_drift(results), *on_causes(results["causes"])]
        rows += on_peers(results)
    return [*rows, on_cost(results["cost"])]


def on_detection(results: dict[str, Any]) -> list[dict[str, Any]]:
    none, two = results["detection"]["lags_0"]["plain"], results["detection"]["lags_2"]["plain"]
    smoothed, at_1, at_5 = (
        results["detection"]["lags_2"]["smoothed"],
        results["folds"]["at_1"],
        results["folds"]["at_5"],
    )
    rows = [
        claim(
            text,
            f"FDR ≥ {least} at FAR ≤ {most}",
            shown(found),
            found["fdr"] >= least and found["far"] <= most,
        )
        for text, least, most, found in (
            ("18 faults, limits from `d00_te`, 1 %: single rows, no lag", 90.5, 1.3, none),
            ("… single rows, 2 lags", 93.0, 1.3, two),
            ("… as it is: 2 lags, any of index, smoothed and lasting", 96.5, 1.5, smoothed),
        )
    ]
    singles = [two["by_fault"][str(fault)] for fault in SHOWN]
    rows.append(
        claim(
            f"single faults, 2 lags: {', '.join(map(str, SHOWN))}",
            "≥ " + ", ".join(map(str, SINGLE_TARGETS.values())),
            ", ".join(f"{value:.0f}" for value in singles),
            all(v >= t for v, t in zip(singles, SINGLE_TARGETS.values(), strict=True)),
        )
    )
    rows.append(
        claim(
            "`d00` only (folds), single rows, 2 lags, at 1 % / 5 %",
            "FAR ≤ 1.3 / 3–6, FDR ≥ 92.5 / ≥ 95",
            f"{shown(at_1)} / {shown(at_5)}",
            0.2 <= at_1["far"] <= 1.3
            and 3 <= at_5["far"] <= 6
            and at_1["fdr"] >= 92.5
            and at_5["fdr"] >= 95,
        )
    )
    rows += [
        claim(
            f"delay over the 18 faults, 2 lags{words}",
            "mean ≤ 28, median ≤ 8, none missed",
            f"mean {found['delay_mean']:.1f}, median {found['delay_median']:.1f}, "
            f"{found['missed']} missed",
            found["delay_mean"] <= 28 and found["delay_median"] <= 8 and not found["missed"],
        )
        for words, found in ((", single rows", two), (", as it is", smoothed))
    ]
    return rows


def on_curves(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        claim(
            text,
            f"FDR ≥ {least}",
            f"FDR {found[name]['fdr']:.1f} at FAR {found[name]['far']:.2f} (linear Mahalanobis "
            f"{found[name]['linear']:.1f}; worst seed {found[name]['fdr_worst_seed']:.1f})",
            found[name]["fdr"] >= least,
        )
        for name, text, least in (
            ("lee", "Lee's process, step fault, 1 %, mean over seeds", 55),
            ("ring", "a fault inside the ring, 1 %, mean over seeds", 70),
        )
    ]


def on_drift(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for name, words in (("drift", "single rows"), ("drift_smoothed", "all, EWMA 0.2")):
        found = results[name]
        kinds = [found[kind] for kind in DRIFTS]
        frozen = ", ".join(f"{found[f'{kind}_frozen']:.1f}" for kind in DRIFTS)
        rows.append(
            claim(
                f"adapting, alarms by {words}, drift {' / '.join(DRIFTS)}",
                "FAR each 0.3–1.5; FDR ≥ 88 without drift",
                " / ".join(f"{value:.2f}" for value in kinds)
                + f"; FDR {found['undrifted']['fdr']:.1f}",
                all(0.3 <= value <= 1.5 for value in kinds) and found["undrifted"]["fdr"] >= 88,
                f"frozen: {frozen}",
            )
        )
    return rows


def on_causes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        claim(
            f"the stepped variable is first, {words}",
            f"≥ {least} %",
            f"{found[name]['top_1']:.1f} % (among three: {found[name]['top_3']:.1f} %)",
            found[name]["top_1"] >= least,
        )
        for name, words, least in (
            ("2", "one row, 2σ", 53),
            ("3", "one row, 3σ", 79),
            ("5", "one row, 5σ", 98),
            ("2_ten_rows", "ten rows, 2σ", 90),
        )
    ]


def on_peers(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Peers claim nothing here: they are measured on the same runs, for comparison."""
    ours = {
        "no lag": results["detection"]["lags_0"]["plain"],
        "2 lags": results["detection"]["lags_2"]["plain"],
        "2 lags, EWMA 0.1": results["detection"]["lags_2"]["index"],
    }
    rows = []
    for name, found in {**results["peers"], "KernelMonitor, the index alone": ours}.items():
        ways = "; ".join(f"{way}: {shown(one)}" for way, one in found.items())
        last = list(found.values())[-1]
        rows.append(claim(f"beside: {name}", "–", f"{ways}, delay {last['delay_mean']:.0f}", None))
    return rows


def on_cost(found: dict[str, Any]) -> dict[str, Any]:
    return claim(
        "cost, m = 200, 52 variables, 2 lags, adapting, one core",
        "≤ 0.2 ms a row in blocks, ≤ 1 ms one at a time",
        f"{found['blocks_ms']:.3f} ms, {found['single_ms']:.2f} ms",
        found["blocks_ms"] <= 0.2 and found["single_ms"] <= 1.0,
    )


def shown(found: dict[str, Any]) -> str:
    return f"FDR {found['fdr']:.1f}, FAR {found['far']:.2f}"
