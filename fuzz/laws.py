"""The two laws: however rows are cut into calls, whatever is asked in between, the same bits.

One model is drawn (basis, tracker, dtype, weights, forgetting) and learns the same rows twice: in
one call, and cut at random with queries, single rows, save and load in between.
"""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from contextlib import redirect_stderr
from typing import Any

import numpy as np

import kernelstream as ks
from tests import samples

BASES = (
    "6",
    "landmarks.Centroids(9, follows=False)",
    "landmarks.Distance(nu=0.2, max_points=12)",
    *(f"landmarks.{strategy!r}" for strategy in samples.landmark_strategies(8).values()),
)
TRACKERS = (
    '"covariance"',
    "trackers.Covariance(forgetting=0.99)",
    '"incremental_svd"',
    '"hebbian"',
    '"lms"',
    '"rls"',
    '"subset_hebbian"',
)
ASKED = ("nothing", "transform", "components", "certificate", "file", "one")

SCRIPT = """\
from fuzz.laws import differs
# {seen}
print(differs({model!r}, rows={rows!r}, cuts={cuts!r}, asked={asked!r}))
"""


def attack(seed: int) -> str | None:
    """Eight models, each with two ways to hand it the same rows; a short way that differs."""
    rng = np.random.default_rng(seed)
    return next(filter(None, (one_model(rng) for _ in range(8))), None)


def one_model(rng: np.random.Generator) -> str | None:
    """A model, and how to see that it breaks a law."""
    basis, tracker = str(rng.choice(BASES)), str(rng.choice(TRACKERS))
    scale = '"standard"' if rng.random() < 0.3 else "None"
    batch = '"auto"' if rng.random() < 0.5 else str(int(rng.integers(1, 200)))
    model = (
        f"StreamingKernelPCA(2, gamma=0.3, basis={basis}, tracker={tracker}, scale={scale}, "
        f"batch_size={batch}, random_state={int(rng.integers(100))})"
    )
    rows: dict[str, Any] = {
        "n": int(rng.choice([5, 40, 300, 700, 2600, 3000])),
        "d": int(rng.integers(1, 5)),
        "dtype": str(rng.choice(["float64", "float32"])),
        "weights": bool(rng.random() < 0.4),
        "seed": int(rng.integers(10**6)),
    }
    if "Everything" in basis:  # a point a row
        rows["n"] = min(rows["n"], 300)
    n = rows["n"]
    cuts = sorted({int(c) for c in rng.integers(0, n + 1, size=int(rng.integers(1, 12)))})
    asked = [str(a) for a in rng.choice(ASKED, size=len(cuts) + 1)]
    seen = differs(model, rows, cuts, asked)
    if seen is None:
        return None
    while len(cuts) > 1:  # fewer calls, as long as they still differ
        for i in range(len(cuts)):
            fewer, said = cuts[:i] + cuts[i + 1 :], asked[:i] + asked[i + 1 :]
            shorter = differs(model, rows, fewer, said)
            if shorter is not None:
                cuts, asked, seen = fewer, said, shorter
                break
        else:
            break
    return SCRIPT.format(seen=seen, model=model, rows=rows, cuts=cuts, asked=asked)


def differs(model: str, rows: dict[str, Any], cuts: list[int], asked: list[str]) -> str | None:
    """What is not the same, in one call and in pieces; errors must be the same too."""
    rng = np.random.default_rng(rows["seed"])
    X = rng.normal(size=(rows["n"], rows["d"])).astype(rows["dtype"])
    w = rng.integers(0, 4, size=len(X)).astype(float) + 0.25 if rows["weights"] else None
    try:
        whole = learned(model, X, w, [], ["nothing"])
        parts = learned(model, X, w, cuts, asked)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    if isinstance(whole, str) or isinstance(parts, str):
        # What is refused depends on where a call ends: it is refused with its whole call.
        return None
    for name, value in whole.items():
        if not np.array_equal(value, parts[name], equal_nan=True):
            return f"{name} differs by {np.max(np.abs(value - parts[name]))}"
    return None


def learned(
    model: str, X: np.ndarray, w: np.ndarray | None, cuts: list[int], asked: list[str]
) -> dict[str, np.ndarray] | str:
    """What a model has learned from pieces of the rows; the message of a refusal."""
    names = {name: getattr(ks, name) for name in ("StreamingKernelPCA", "bases", "trackers")}
    estimator = eval(model, names)
    edges = [0, *cuts, len(X)]
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            for start, stop, question in zip(edges, edges[1:], asked, strict=False):
                piece, weights = X[start:stop], None if w is None else w[start:stop]
                if question == "one" and w is None and len(piece) <= 50:
                    for x in piece:
                        estimator.learn_one(x)
                elif len(piece):
                    estimator.partial_fit(piece, sample_weight=weights)
                estimator = after(estimator, question, X)
            return {
                "transform": estimator.transform(X[:5]),
                "explained_variance_": np.asarray(estimator.explained_variance_),
                "n_samples_seen_": np.asarray(estimator.n_samples_seen_),
            }
        except ValueError as problem:
            return str(problem)


def after(estimator: Any, question: str, X: np.ndarray) -> Any:
    """The estimator after a question that must change nothing, or out of a file."""
    if not hasattr(estimator, "stream_"):
        return estimator
    try:
        if question == "transform":
            estimator.transform(X[:3])
        elif question == "components":
            _ = estimator.explained_variance_ratio_
        elif question == "certificate":
            _ = estimator.certificate_
    except ValueError:
        return estimator  # a question may be refused; it changes nothing then either
    if question == "file":
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            estimator.save(path)
            return ks.load(path)
    return estimator
