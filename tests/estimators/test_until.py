"""``fit(until=…)``: as many rows as are needed, and what is then said of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from benchmarks import until as check
from kernelstream import KernelPCA, StreamingKernelPCA, landmarks, load, trackers
from kernelstream.estimators import until
from kernelstream.papers import (
    AdaptiveKernelPCA,
    IncrementalKernelPCA,
    KernelHebbianPCA,
    OnlineKernelPCA,
)
from tests import samples

OPTIONS: dict[str, Any] = {"gamma": 0.3, "basis": 12, "random_state": 0}


@pytest.fixture
def small() -> Iterator[None]:
    with check.small():
        yield


@pytest.mark.parametrize("first", range(0, 9, 3))
def test_what_is_said_of_rows_that_were_not_read_is_true(first: int) -> None:
    """``python -m benchmarks.until --populations 1000`` is the long version."""
    found = [check.outcome(seed) for seed in range(first, first + 3)]
    assert any(said is not None for said in found)
    assert not [problems for _, problems in filter(None, found) if problems]


@pytest.mark.usefixtures("small")
def test_it_stops_early_and_says_so() -> None:
    X = samples.rows(3000, 2)
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    said = model.certificate_.statistical
    assert model.n_samples_seen_ == said.n_sampled // 2 < 1000
    assert said.n_rows == 3000 and said.shortfall_bound <= 0.6 and said.confidence == 0.99
    assert "drawn from 3,000" in str(model.certificate_)
    assert model.certificate_.bounds == said and model.certificate_.kind == "99% confidence"
    sure = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6, confidence=0.8)
    assert sure.n_samples_seen_ < model.n_samples_seen_
    assert "80% confidence" in sure.certificate_.statistical.kind


@pytest.mark.usefixtures("small")
def test_where_more_is_asked_than_draws_can_tell_all_rows_are_learned() -> None:
    X = samples.rows(3000, 2)
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.001)
    plain = StreamingKernelPCA(2, **OPTIONS).fit(X)
    assert model.n_samples_seen_ == 3000 and model.certificate_.statistical.n_rows == 0
    assert np.array_equal(model.transform(X[:5]), plain.transform(X[:5]))


@pytest.mark.usefixtures("small")
def test_a_model_that_changes_is_not_the_one_that_was_judged(tmp_path: Path) -> None:
    X = samples.rows(3000, 2)
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    told = model.certificate_.statistical
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.certificate_.statistical == told
    assert again.set_params(n_components=1).certificate_.statistical.n_rows == 0
    assert again.set_params(n_components=2).certificate_.statistical == told
    assert model.compress(6).certificate_.statistical.n_rows == 0
    other = StreamingKernelPCA(2, **OPTIONS | {"random_state": 1}).fit(X[:500])
    assert model.merge(other).certificate_.statistical.n_rows == 0
    again.partial_fit(X[:100])
    assert again.certificate_.statistical.n_rows == 0
    fixed = StreamingKernelPCA(2, gamma=0.3, basis=landmarks.Landmarks(X[:12]), random_state=0)
    fixed.fit(X, until=0.6)
    learned = check.drawing.Population.of(X, None).draw(0, "learned", slice(0, 128))
    fixed.remove(learned[:50]).partial_fit(learned[:50])
    assert fixed.certificate_.statistical.n_rows == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["memory map", "csr", "frame", "dask", "list", "float32"])
def test_rows_that_can_be_had_by_their_number(kind: str, tmp_path: Path) -> None:
    X = samples.rows(3000, 2)
    expected = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
    given: object = X
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "csr":
        given = scipy.sparse.csr_array(X)
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    elif kind == "dask":
        given = pytest.importorskip("dask.array").from_array(X, chunks=(700, 2))
    elif kind == "list":
        given = X.tolist()
    else:
        given = X.astype(np.float32)
    model = StreamingKernelPCA(2, **OPTIONS).fit(given, until=0.6)
    one, two = model.certificate_.statistical, expected.certificate_.statistical
    assert one.n_sampled == two.n_sampled and one.n_rows == 3000
    assert one.shortfall_bound == pytest.approx(two.shortfall_bound, abs=0.02)


def test_all_rows_of_a_dask_array_are_read_chunk_by_chunk() -> None:
    X = samples.rows(700, 2)
    lazy = pytest.importorskip("dask.array").from_array(X, chunks=(300, 1))
    points = landmarks.Landmarks(X[:12])
    model = StreamingKernelPCA(2, gamma=0.3, basis=points).fit(lazy)
    plain = StreamingKernelPCA(2, gamma=0.3, basis=points).fit(X)
    assert model.n_samples_seen_ == 700
    assert model.explained_variance_ == pytest.approx(plain.explained_variance_)


@pytest.mark.usefixtures("small")
def test_rows_are_drawn_by_their_weight() -> None:
    X = np.concatenate([samples.rows(1500, 2), samples.rows(1500, 2) + 9.0])
    weights = np.repeat([0.0, 1.0], 1500)
    model = StreamingKernelPCA(2, **OPTIONS).fit(X, sample_weight=weights, until=0.6)
    assert model.certificate_.statistical.n_rows == 3000
    assert np.all(np.asarray(model.basis_points_) > 4.0)
    with pytest.raises(ValueError, match="All rows have weight zero"):
        StreamingKernelPCA(2, **OPTIONS).fit(X, sample_weight=0 * weights, until=0.6)


@pytest.mark.usefixtures("small")
def test_the_statement_does_not_hang_on_the_number_of_threads() -> None:
    X = samples.rows(3000, 2)
    said = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            model = StreamingKernelPCA(2, **OPTIONS).fit(X, until=0.6)
            said.append(model.certificate_.statistical)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("options", "X", "until", "words"),
    [
        ({"kernel": "linear"}, samples.rows(3000, 2), 0.6, "for kernels with a bound"),
        ({"tracker": trackers.Covariance(0.99)}, samples.rows(3000, 2), 0.6, "without forgetting"),
        ({"robust": True}, samples.rows(3000, 2), 0.6, "robust=True"),
        ({"certify": False}, samples.rows(3000, 2), 0.6, "there is none"),
        ({}, iter([samples.rows(3000, 2)]), 0.6, "come one after the other"),
        ({}, lambda: iter([samples.rows(3000, 2)]), 0.6, "come one after the other"),
        ({}, samples.rows(3000, 2), 1, "share between 0 and 1"),
        ({}, samples.rows(3000, 2), 1.5, "share between 0 and 1"),
        ({}, samples.rows(3000, 2), True, "share between 0 and 1"),
    ],
)
@pytest.mark.usefixtures("small")
def test_what_cannot_be_said_is_refused(
    options: dict[str, Any], X: object, until: Any, words: str
) -> None:
    model = StreamingKernelPCA(2, **{"basis": 12, "random_state": 0} | options)
    with pytest.raises(ValueError, match=words):
        model.fit(X, until=until)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.usefixtures("small")
def test_no_more_rows_are_learned_than_make_a_model_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(until, "MOST_LEARNED", 100)
    model = StreamingKernelPCA(2, **OPTIONS).fit(samples.rows(3000, 2), until=0.6)
    assert model.n_samples_seen_ == 100 < model.certificate_.statistical.n_sampled // 2


# -- other estimators


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "model",
    [
        OnlineKernelPCA(2, gamma=0.3, nu=0.3),
        AdaptiveKernelPCA(2, gamma=0.3, method="lms", delta=0.5),
        IncrementalKernelPCA(2, gamma=0.3, n_points=12),
        KernelPCA(2, kernel="rbf", gamma=0.3, basis=12),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_by_other_names_draw_as_well(model: Any) -> None:
    model.set_params(random_state=0).fit(samples.rows(3000, 2), until=0.9)
    said = model.certificate_.statistical
    assert said.n_rows == 3000 and said.shortfall_bound <= 0.9
    assert model.n_components_ == 2


@pytest.mark.usefixtures("small")
def test_what_no_statement_is_made_of_says_so() -> None:
    with pytest.raises(ValueError, match="passes over all rows again and again"):
        KernelHebbianPCA(2).fit(samples.rows(3000, 2), until=0.1)
    with pytest.raises(ValueError, match="without forgetting"):
        AdaptiveKernelPCA(2, gamma=0.3).fit(samples.rows(3000, 2), until=0.9)
