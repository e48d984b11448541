"""A bad row is an error that names row and column, or is passed over: in every stream of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import (
    KernelNovelty,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
)
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=700)
WEIGHTS = RNG.uniform(0.5, 2.0, size=700)
BAD = X.copy()
BAD[[3, 5], 1], BAD[610, 0] = np.nan, np.inf
GOOD = np.isfinite(BAD).all(axis=1)
PLAIN: dict[str, Callable[[], Any]] = {
    "StreamingKernelPCA": lambda: StreamingKernelPCA(2, gamma=0.3, basis=10, random_state=0),
    "KernelNovelty": lambda: KernelNovelty(basis=10, random_state=0),
    "OnlineKernelPCA": lambda: OnlineKernelPCA(2, kernel="rbf", gamma=0.3, max_points=10),
    "AdaptiveKernelPCA": lambda: AdaptiveKernelPCA(2, kernel="rbf", gamma=0.3, max_points=10),
    "IncrementalKernelPCA": lambda: IncrementalKernelPCA(2, kernel="rbf", gamma=0.3),
    "KernelHebbianPCA": lambda: KernelHebbianPCA(2, kernel="rbf", gamma=0.3),
}
PLACE = r"NaN: row 3, column 1 \(both counted from 0\)"


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.filterwarnings("ignore:.*the dictionary has max_points")
def test_rows_of_a_stream(name: str) -> None:
    found, same = PLAIN[name](), PLAIN[name]()
    with pytest.raises(ValueError, match=PLACE):
        found.partial_fit(BAD)
    for rows, good, weights in zip(
        np.array_split(BAD, 2), np.array_split(GOOD, 2), np.array_split(WEIGHTS, 2), strict=True
    ):
        found.partial_fit(rows, sample_weight=weights, on_bad_rows="skip")
        same.partial_fit(rows[good], sample_weight=weights[good])
    assert found.n_samples_seen_ == GOOD.sum()
    query = "transform" if hasattr(found, "transform") else "score_samples"
    assert np.array_equal(getattr(found, query)(X), getattr(same, query)(X))
    with pytest.raises(ValueError, match="on_bad_rows must be one of"):
        found.partial_fit(BAD, on_bad_rows="ignore")


def regression(name: str) -> Any:
    kind = {"ridge": StreamingKernelRidge, "classifier": StreamingKernelClassifier}[name]
    return kind(gamma=0.3, basis=10, random_state=0)


@pytest.mark.parametrize("name", ["ridge", "classifier"])
@pytest.mark.parametrize("framed", [False, True])
def test_targets_go_with_their_rows(name: str, framed: bool) -> None:
    y = Y.copy() if name == "ridge" else (Y > 0).astype(object)
    y[8] = np.nan if name == "ridge" else None
    good = GOOD & (np.arange(700) != 8)
    options = {} if name == "ridge" else {"classes": [0, 1]}
    kept = y[good] if name == "ridge" else y[good].astype(int)
    found, same = regression(name), regression(name)
    rows: Any = BAD
    if framed:  # whose gaps would be filled
        rows = pd.DataFrame(np.nan_to_num(BAD, nan=0.0, posinf=np.inf), columns=list("abc"))
        good = np.isfinite(rows).all(axis=1).to_numpy() & (np.arange(700) != 8)
        kept = y[good] if name == "ridge" else y[good].astype(int)
    found.partial_fit(rows, y, sample_weight=WEIGHTS, on_bad_rows="skip", **options)
    same.partial_fit(rows[good], kept, sample_weight=WEIGHTS[good], **options)
    assert found.n_samples_seen_ == good.sum()
    asked = pd.DataFrame(X, columns=list("abc")) if framed else X
    assert np.array_equal(found.predict(asked), same.predict(asked))
    if not framed:
        found.partial_fit(rows, y, on_bad_rows="skip", **options)
        assert found.n_samples_seen_ == 2 * good.sum()
        with pytest.raises(ValueError, match=PLACE):
            regression(name).partial_fit(rows, np.arange(700) % 2, **options)
    with pytest.raises(ValueError, match="No row has a target"):
        regression(name).partial_fit(X[:2], [None, None], on_bad_rows="skip", **options)
