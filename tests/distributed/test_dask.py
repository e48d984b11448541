"""Fit on a cluster: equal to one machine, whatever the chunks, the scheduling and the accidents."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed.diagnostics.plugin import SchedulerPlugin
from sklearn.datasets import load_digits

import kernelstream.distributed.dask as kd
from kernelstream import (
    KernelMonitor,
    KernelNovelty,
    StreamingKernelClassifier,
    StreamingKernelPCA,
    StreamingKernelRidge,
    landmarks,
    metrics,
    papers,
    serialization,
    trackers,
)
from kernelstream import load as load_model
from kernelstream.certificates import sample as audit_module
from kernelstream.distributed.dask import worker
from kernelstream.images import Denoiser
from kernelstream.papers import schedules
from kernelstream.stream.state import Rows

UNEQUAL = (700, 0, 1, 350, 49, 900)  # 2,000 rows


def rows(n: int = 2000, d: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.integers(0, 3, size=(n, 1))


X = rows()
GIVEN = landmarks.Landmarks(X[::50])  # not in one piece: it is after travelling


def estimator(**options: Any) -> StreamingKernelPCA:
    settings: dict[str, Any] = dict(n_components=3, gamma=0.05, basis=GIVEN, random_state=0)
    return StreamingKernelPCA(**{**settings, **options})


def assert_same(ours: StreamingKernelPCA, theirs: StreamingKernelPCA, tol: float = 1e-8) -> None:
    assert ours.n_samples_seen_ == theirs.n_samples_seen_
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=tol)
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=tol
    )
    some = X[::7]
    np.testing.assert_allclose(ours.transform(some), theirs.transform(some), atol=tol)
    np.testing.assert_allclose(
        ours.reconstruction_error(some), theirs.reconstruction_error(some), atol=tol
    )


def with_scaling_of(
    model: Any, single: Any, targets: np.ndarray | None = None, weights: np.ndarray | None = None
) -> Any:
    """A fitted model of one machine, fitted again with the scaling of a model of a cluster.

    A cluster takes it from a sample, as a stream from its first rows.
    """
    stream = single.new_stream(X).calibrated_like(model.stream_)
    single.set_stream(stream.learn_all(Rows(X, weights, targets)))
    return single


def identical(a: StreamingKernelPCA, b: StreamingKernelPCA) -> bool:
    """Bit for bit, as files are."""
    return serialization.to_bytes({"": a.stream_.for_file()}) == serialization.to_bytes(
        {"": b.stream_.for_file()}
    )


@pytest.fixture
def sync() -> Iterator[None]:
    """Dask without a cluster: one chunk after the other, in this process."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# -- without a cluster


@pytest.mark.usefixtures("sync")
class TestOneProcess:
    @pytest.mark.parametrize(
        "chunks", [(2000,), UNEQUAL, (1,) * 20 + (1980,), (0, 2000, 0)], ids=["one", "un", "1", "0"]
    )
    @pytest.mark.parametrize("scale", [None, "standard"])
    def test_given_basis_equals_one_machine(self, chunks: tuple, scale: str | None) -> None:
        model = kd.fit(estimator(scale=scale), da.from_array(X, chunks=(chunks, 4)))
        single = with_scaling_of(model, estimator(scale=scale).fit(X))
        assert_same(model, single)
        assert model.certificate_.details.excess_bound == pytest.approx(
            single.certificate_.details.excess_bound
        )

    def test_a_scaling_is_that_of_a_sample_of_all_chunks(self) -> None:
        """Columns of different units, in every chunk of its own: the chunks decide together."""
        units = X * [1.0, 100.0, 0.01, 1.0] * np.geomspace(1.0, 5.0, 2000)[:, None]
        for scale in ("standard", "auto"):
            model = kd.fit(estimator(scale=scale), da.from_array(units, chunks=(UNEQUAL, 4)))
            deviation = model.stream_.scaler.deviation
            np.testing.assert_allclose(deviation, units.std(axis=0), rtol=0.15)
        plain = kd.fit(estimator(scale="auto"), da.from_array(X, chunks=(UNEQUAL, 4)))
        assert_same(plain, with_scaling_of(plain, estimator(scale="auto").fit(X)))

    @pytest.mark.parametrize("chunks", [(600, 0, 1, 350, 49, 700), (25,) * 68], ids=["un", "tiny"])
    def test_centroids_are_as_accurate_as_on_one_machine(self, chunks: tuple) -> None:
        digits = load_digits().data[:1700] / 16
        options: dict[str, Any] = dict(n_components=10, gamma=0.05, basis=60)
        chunked = da.from_array(digits, chunks=(chunks, 64))
        single = metrics.captured_variance(estimator(**options).fit(digits), digits)
        model = kd.fit(estimator(**options), chunked)
        assert metrics.captured_variance(model, digits) > single - 0.005
        assert model.certificate_.details.excess_bound < np.inf

    def test_sorted_chunks_lose_nothing(self) -> None:
        """Every chunk sees another corner of the data, so each local basis is wrong."""
        ordered = X[np.argsort(X[:, 0])]
        model = kd.fit(estimator(basis=60), da.from_array(ordered, chunks=(200, 4)))
        single = estimator(basis=60).fit(X)
        ours, theirs = (metrics.captured_variance(m, X) for m in (model, single))
        assert ours > theirs - 0.01

    @pytest.mark.parametrize(
        "basis",
        [
            GIVEN,
            40,
            landmarks.Landmarks(40),
            landmarks.PivotedCholesky(40),
        ],
    )
    def test_two_runs_are_identical(self, basis: Any) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        options: dict[str, Any] = dict(basis=basis, gamma=None, scale="standard")
        first = kd.fit(estimator(**options), chunked)
        with dask.config.set(scheduler="threads", num_workers=4):
            second = kd.fit(estimator(**options), chunked)
        assert identical(first, second)
        other = kd.fit(estimator(**options | dict(random_state=1)), chunked)
        assert basis is GIVEN or not identical(first, other)

    def test_where_arrays_begin_in_memory_does_not_matter(self) -> None:
        """Over the wire they begin at any byte, and NumPy rounds differently there."""
        points = np.array(X[::50])
        odd = np.ndarray(points.shape, points.dtype, np.empty(points.nbytes + 64, np.uint8), 4)
        odd[...] = points
        assert not odd.flags.aligned
        chunked = da.from_array(X, chunks=(500, 4))
        first, second = (
            kd.fit(estimator(basis=landmarks.Landmarks(p)), chunked) for p in (points, odd)
        )
        assert identical(first, second)

    def test_what_travelled_is_aligned_wherever_it_stands(self) -> None:
        odd = np.ndarray((9, 4), float, np.empty(9 * 4 * 8 + 64, np.uint8), 4)
        odd[...] = X[:9]
        block = Rows(odd, odd[:, 0])
        basis, (listed,), rows = worker.align((landmarks.Landmarks(odd), [odd], block))
        for found, given in ((basis.points, odd), (listed, odd), (rows.X, odd)):
            assert found.flags.aligned and np.array_equal(found, given)
        straight = np.array(odd)
        assert worker.align(straight) is straight  # and nothing is copied without need

    def test_a_width_is_the_median_over_all_chunks(self) -> None:
        small = X[:400]  # all of it is in the sample: the very number of one machine
        model = kd.fit(estimator(gamma=None), da.from_array(small, chunks=(90, 4)))
        assert model.kernel_.gamma == estimator(gamma=None).fit(small).kernel_.gamma
        # Each chunk alone has a tiny width; only all of them show the distances between the clouds.
        clouds = np.concatenate([0.01 * X + 100.0 * i for i in range(4)])
        model = kd.fit(estimator(gamma=None), da.from_array(clouds, chunks=(500, 4)))
        single = estimator(gamma=None).fit(clouds)
        assert model.kernel_.gamma == pytest.approx(single.kernel_.gamma, rel=0.2)

    def test_column_chunks_are_joined(self) -> None:
        assert_same(kd.fit(estimator(), da.from_array(X, chunks=(500, 3))), estimator().fit(X))

    def test_float32(self) -> None:
        single = X.astype(np.float32)
        model = kd.fit(estimator(), da.from_array(single, chunks=(UNEQUAL, 4)))
        assert model.stream_.dtype == "float32"
        assert model.basis_points_.dtype == np.float32
        assert_same(model, estimator().fit(single), 2e-4)
        scores = kd.transform(model, da.from_array(single, chunks=(UNEQUAL, 4)))
        assert scores.dtype == scores.compute().dtype == np.float32

    def test_integers_become_float64(self) -> None:
        whole = np.round(10 * X).astype(int)
        chunked = da.from_array(whole, chunks=(500, 4))
        model = kd.fit(estimator(gamma=0.001), chunked)
        assert_same(model, estimator(gamma=0.001).fit(whole))
        assert kd.transform(model, chunked).dtype == np.float64

    def test_weights(self) -> None:
        counts = np.random.default_rng(1).integers(0, 4, size=300)
        counts[100:130] = 0  # a whole chunk without weight
        few, options = X[:300], dict(kernel="poly", gamma=0.1)
        chunked = da.from_array(few, chunks=((100, 30, 170), 4))
        model = kd.fit(
            estimator(**options), chunked, sample_weight=da.from_array(counts, chunks=50)
        )
        single = estimator(**options).fit(few, sample_weight=counts)
        assert_same(model, single, 1e-7)
        again = kd.fit(estimator(**options), chunked, sample_weight=counts)
        assert identical(model, again)

    def test_weights_that_do_not_fit(self) -> None:
        chunked = da.from_array(X, chunks=(500, 4))
        with pytest.raises(ValueError, match="has 1999 entries, X has 2000 rows"):
            kd.fit(estimator(), chunked, sample_weight=np.ones(1999))
        unknown = dd.from_pandas(pd.DataFrame(X), npartitions=4)
        with pytest.raises(ValueError, match="has 1 chunks, X has 4"):
            kd.fit(estimator(), unknown, sample_weight=np.ones(2000))
        negative = np.ones(2000)
        negative[600] = -1
        with pytest.raises(ValueError, match=r"Chunk 1 .*[Nn]egative"):
            kd.fit(estimator(), chunked, sample_weight=negative)

    def test_unknown_chunk_sizes(self) -> None:
        chunked = da.from_array(X, chunks=(500, 4))
        unknown = chunked[chunked[:, 0] > -np.inf]
        assert np.isnan(unknown.shape[0])
        model = kd.fit(estimator(), unknown)
        assert_same(model, estimator().fit(X))
        scores = kd.transform(model, unknown)
        assert np.isnan(scores.shape[0])
        np.testing.assert_allclose(scores.compute(), model.transform(X), atol=1e-12)
        weights = da.from_array(np.arange(2000.0), chunks=500)
        heavy = kd.fit(estimator(), unknown, sample_weight=weights[weights >= 0])
        assert_same(heavy, estimator().fit(X, sample_weight=np.arange(2000.0)))

    def test_dataframes(self) -> None:
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        parts = dd.from_pandas(frame, npartitions=5)
        weights = dd.from_pandas(pd.Series(np.arange(2000.0)), npartitions=5)
        model = kd.fit(estimator(), parts, sample_weight=weights)
        assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
        single = estimator().fit(X, sample_weight=np.arange(2000.0))
        np.testing.assert_allclose(model.transform(frame), single.transform(X), atol=1e-8)
        scores = kd.transform(model, parts)
        assert isinstance(scores, da.Array)
        np.testing.assert_allclose(scores.compute(), model.transform(frame), atol=1e-12)
        with pytest.raises(ValueError, match="feature names"):
            kd.transform(model, parts.rename(columns={"a": "z"}))
        kd.partial_fit(model, parts)
        assert model.n_samples_seen_ == 1999 + 2000
        with pytest.raises(ValueError, match="feature names"):
            kd.partial_fit(model, parts[["b", "a", "c", "d"]])
        empty = parts[parts["a"] > parts["a"].mean() + 1e9]
        with pytest.raises(ValueError, match="nothing to learn from"):
            kd.fit(estimator(), empty)
        assert kd.transform(model, empty).compute().shape == (0, 3)

    def test_sparse_chunks(self) -> None:
        thin = np.where(np.abs(X) > 2, X, 0.0)
        chunked = da.from_array(thin, chunks=(500, 4)).map_blocks(scipy.sparse.csr_matrix)
        for basis in (GIVEN, 40):
            model = kd.fit(estimator(basis=basis, gamma=None), chunked)
            assert model.n_samples_seen_ == 2000
            scores = kd.transform(model, chunked).compute()
            np.testing.assert_allclose(scores, model.transform(thin), atol=1e-10)

    def test_partial_fit_of_blocks_that_arrive(self) -> None:
        model = estimator()
        for start in range(0, 2000, 500):
            block = da.from_array(X[start : start + 500], chunks=(200, 4))
            assert kd.partial_fit(model, block) is model
        assert model.n_samples_seen_ == 2000
        single = estimator().fit(X)
        np.testing.assert_allclose(model.explained_variance_, single.explained_variance_, rtol=1e-8)
        model = estimator(basis=60, gamma=None)
        for start in range(0, 2000, 500):
            kd.partial_fit(model, da.from_array(X[start : start + 500], chunks=(200, 4)))
        single = estimator(basis=60, gamma=model.kernel_.gamma).fit(X)
        assert model.n_samples_seen_ == 2000
        ours, theirs = (metrics.captured_variance(m, X) for m in (model, single))
        assert ours > theirs - 0.03

    def test_partial_fit_goes_on_from_one_machine_and_back(self) -> None:
        model = estimator(basis=40).partial_fit(X[:100])  # too few rows to begin: they wait
        kd.partial_fit(model, da.from_array(X[100:1900], chunks=(450, 4)))
        model.partial_fit(X[1900:])
        assert model.n_samples_seen_ == 2000
        assert metrics.captured_variance(model, X) > 0.9

    def test_stages_leave_a_model_that_is_saved_and_merged(self, tmp_path: Path) -> None:
        model = kd.fit(estimator(basis=40, scale="standard"), da.from_array(X, chunks=(500, 4)))
        model.save(tmp_path / "model")
        loaded = StreamingKernelPCA.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
        assert model.merge(loaded).n_samples_seen_ == 4000

    def test_reconstruction_error(self) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        model = kd.fit(estimator(scale="standard"), chunked)
        errors = kd.reconstruction_error(model, chunked)
        assert errors.chunks == (UNEQUAL,)
        np.testing.assert_allclose(errors.compute(), model.reconstruction_error(X), atol=1e-12)
        assert errors.mean().compute() == pytest.approx(model.reconstruction_error(X).mean())

    def test_queries_are_lazy(self) -> None:
        read = []

        def load(block: np.ndarray) -> np.ndarray:
            read.append(len(block))
            return block

        model = kd.fit(estimator(basis=40), da.from_array(X, chunks=(500, 4)))
        chunked = da.from_array(X, chunks=(500, 4)).map_blocks(load, meta=np.empty((0, 0)))
        scores, errors = kd.transform(model, chunked), kd.reconstruction_error(model, chunked)
        assert (scores.shape, scores.dtype, type(scores._meta)) == ((2000, 3), X.dtype, np.ndarray)
        assert (errors.shape, errors.dtype, errors._meta.ndim) == ((2000,), X.dtype, 1)
        assert read == []
        np.testing.assert_allclose(
            scores[700:800].compute(), model.transform(X[700:800]), atol=1e-12
        )
        assert read == [500]  # the one chunk that was asked for

    def test_each_pass_reads_each_chunk_once(self) -> None:
        read = []

        def load(block: np.ndarray) -> np.ndarray:
            read.append(len(block))
            return block

        chunked = da.from_array(X, chunks=(500, 4)).map_blocks(load, meta=np.empty((0, 0)))
        cases: list[tuple[dict[str, Any], int]] = [
            (dict(), 1),  # given landmarks, given bandwidth: the sums only
            (dict(gamma=None), 2),
            (dict(basis=40), 2),
            (dict(basis=40, gamma=None, scale="standard"), 2),
        ]
        for options, expected in cases:
            read.clear()
            kd.fit(estimator(**options), chunked)
            assert len(read) == 4 * expected, options

    def test_a_chunk_with_nan_is_named(self) -> None:
        bad = X.copy()
        bad[1234, 2] = np.nan
        chunked = da.from_array(bad, chunks=(500, 4))
        for options in (dict(), dict(gamma=None), dict(basis=40)):
            model = estimator(**options)
            with pytest.raises(ValueError, match=r"Chunk 2 \(X.blocks\[2\], rows 1000 to 1499\)"):
                kd.fit(model, chunked)
            assert not hasattr(model, "n_features_in_")
        frame = dd.from_pandas(pd.DataFrame(bad), npartitions=4)
        with pytest.raises(ValueError, match=r"Chunk 2 \(X.partitions\[2\]\).*NaN"):
            kd.fit(estimator(), frame)
        fine = kd.fit(estimator(), da.from_array(X, chunks=(500, 4)))
        before = pickle.dumps(fine.stream_)
        with pytest.raises(ValueError, match=r"Chunk 2 .*NaN"):
            kd.partial_fit(fine, chunked)
        assert pickle.dumps(fine.stream_) == before
        with pytest.raises(ValueError, match=r"Chunk 2 .*NaN"):
            kd.transform(fine, chunked).compute()

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (dict(tracker=papers.Hebbian(schedules.ConstantRate(0.1))), "cannot be merged"),
            (dict(tracker=trackers.Covariance(forgetting=0.99)), "forgets old rows"),
            (dict(basis=landmarks.Distance(nu=0.2)), r"Distance\(nu=0.2\) grows with the rows"),
            (dict(n_components=0), "n_components must be"),
        ],
    )
    def test_what_cannot_work_is_refused_before_any_work(
        self, options: dict, sentence: str
    ) -> None:
        def load(block: np.ndarray) -> np.ndarray:
            raise AssertionError("work was done")

        chunked = da.from_array(X, chunks=(500, 4)).map_blocks(load, meta=np.empty((0, 0)))
        model = estimator(**options)
        with pytest.raises(ValueError, match=sentence):
            kd.fit(model, chunked)
        assert not hasattr(model, "n_features_in_")

    def test_arguments_in_words(self) -> None:
        with pytest.raises(TypeError, match=r"ndarray\(2000, 4\).*model.fit"):
            kd.fit(estimator(), X)
        with pytest.raises(TypeError, match="Dask"):
            kd.transform(kd.fit(estimator(), da.from_array(X)), X)
        with pytest.raises(Exception, match="has not seen any rows"):
            kd.transform(estimator(), da.from_array(X))
        with pytest.raises(ValueError, match="nothing to learn from"):
            kd.fit(estimator(), da.from_array(X), sample_weight=np.zeros(2000))
        with pytest.raises(ValueError, match="3 features"):
            kd.transform(estimator().fit(X), da.from_array(X[:, :3]))
        for other in (KernelMonitor(), Denoiser()):
            for verb in (kd.fit, kd.partial_fit):
                with pytest.raises(TypeError, match=f"{type(other).__name__} .*cluster"):
                    verb(other, da.from_array(X))

    def test_a_missing_value_is_named(self) -> None:
        frame = dd.from_pandas(pd.DataFrame(X).astype("Float64"), npartitions=4)
        assert_same(kd.fit(estimator(), frame), estimator().fit(X))
        missing = pd.DataFrame(X).astype("Float64")
        missing.loc[1234, 2] = pd.NA
        holes = dd.from_pandas(missing, npartitions=4)
        with pytest.raises(ValueError, match=r"Chunk 2 \(X.partitions\[2\]\)"):
            kd.fit(estimator(), holes)
        with pytest.raises(ValueError, match=r"Chunk 2 \(X.partitions\[2\]\)"):
            kd.transform(kd.fit(estimator(), frame), holes).compute()

    @pytest.mark.parametrize("basis", [20, landmarks.Landmarks(20), GIVEN])
    def test_what_travels_does_not_grow_with_the_rows(self, basis: Any) -> None:
        """Pickles of every task's result: a chunk four times as long weighs the same."""
        m, d = 40, 4  # the larger of the numbers of points
        sample = 8 * max(1000, 30 * m) * (d + m)  # its rows and their coordinates
        sample += 8 * audit_module.ROWS * (d + 4)  # rows that judge, with energies and priorities
        bound = sample + 8 * (12 * m * m + 40 * m * d) + 20_000
        begun = estimator(basis=basis).new_stream(X)
        for n in (40_000, 80_000):
            chunk = rows(n)
            one, two = (worker.sample(begun, i, chunk + i, None, None, n_before=0) for i in (0, 1))
            both = worker.join_samples([one, two])
            root = worker.choose_landmarks(begun, both)
            reader = worker.without_sums(root)
            summed = worker.sum_chunk(reader, 0, chunk, None)
            results: list[Any] = [one, both, root, reader, summed]
            results.append(worker.add_sums(reader, [summed, summed]))
            for result in results:
                weight = len(pickle.dumps(result))
                assert weight < bound < chunk.nbytes, (n, type(result))
                assert 0.5 * weight - 10_000 < dask.sizeof.sizeof(result) < 2 * weight + 10_000


# -- regression and classification

Y = np.stack([np.sin(X[:, 0]) + X[:, 1], 100.0 + X[:, 2] * X[:, 3]], axis=1)
LABELS = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-1.0, 2.0])]


def ridge(**options: Any) -> StreamingKernelRidge:
    settings: dict[str, Any] = dict(alpha="gcv", gamma=0.05, basis=GIVEN, random_state=0)
    return StreamingKernelRidge(**{**settings, **options})


def classifier(**options: Any) -> StreamingKernelClassifier:
    settings: dict[str, Any] = dict(gamma=0.05, basis=GIVEN, random_state=0)
    return StreamingKernelClassifier(**{**settings, **options})


@pytest.mark.usefixtures("sync")
class TestRegression:
    @pytest.mark.parametrize("chunks", [(2000,), UNEQUAL, (0, 2000, 0)], ids=["one", "un", "0"])
    @pytest.mark.parametrize("scale", [None, "standard"])
    @pytest.mark.parametrize("targets", [Y, Y[:, 1]], ids=["two", "flat"])
    def test_given_basis_equals_one_machine(
        self, chunks: tuple, scale: str | None, targets: np.ndarray
    ) -> None:
        chunked = da.from_array(X, chunks=(chunks, 4))
        y = da.from_array(targets, chunks=(chunks, *targets.shape[1:]))
        model = kd.fit(ridge(scale=scale), chunked, y)
        columns = targets.reshape(2000, -1)
        single = with_scaling_of(model, ridge(scale=scale).fit(X, targets), columns)
        assert model.alpha_ == pytest.approx(single.alpha_)
        found = kd.predict(model, chunked)
        assert found.shape == targets.shape and found.chunks[0] == chunks
        np.testing.assert_allclose(found.compute(), single.predict(X), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.predict(X), single.predict(X), rtol=1e-8, atol=1e-8)
        ours, theirs = (each.stream_.components for each in (model, single))
        np.testing.assert_allclose(ours.variances, theirs.variances, rtol=1e-8)
        np.testing.assert_allclose(ours.scores(X), theirs.scores(X), atol=1e-8)

    def test_targets_of_every_kind(self) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        single = ridge().fit(X, Y)
        elsewhere = da.from_array(Y, chunks=(333, 1))  # cut anew to fit
        for y in (Y, elsewhere):
            np.testing.assert_allclose(
                kd.fit(ridge(), chunked, y).predict(X), single.predict(X), atol=1e-8
            )
        parts = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=5)
        frame = pd.DataFrame(X, columns=list("abcd"))
        for targets, kind in ((Y, pd.DataFrame), (Y[:, 0], pd.Series)):
            model = kd.fit(ridge(), parts, dd.from_pandas(kind(targets), npartitions=5))
            expected = ridge().fit(X, targets).predict(X)
            np.testing.assert_allclose(model.predict(frame), expected, atol=1e-8)
            np.testing.assert_allclose(
                kd.predict(model, parts).compute(), model.predict(frame), atol=1e-10
            )

    @pytest.mark.parametrize("basis", [40, landmarks.Centroids(40)])
    def test_bases_that_are_looked_for(self, basis: Any) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        model = kd.fit(ridge(basis=basis), chunked, Y)
        single = ridge(basis=basis).fit(X, Y)
        assert model.score(X, Y) > single.score(X, Y) - 0.02
        assert model.stream_.chain.basis.get_params() == single.stream_.chain.basis.get_params()
        # The sums are those of the rows in the basis that was found.
        again = ridge(basis=landmarks.Landmarks(model.basis_points_)).fit(X, Y)
        np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-6, atol=1e-6)

    def test_weights(self) -> None:
        counts = np.random.default_rng(1).integers(0, 4, size=2000)
        counts[700:1051] = 0  # whole chunks without weight
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        model = kd.fit(ridge(), chunked, Y, sample_weight=counts)
        single = ridge().fit(X, Y, sample_weight=counts)
        np.testing.assert_allclose(model.predict(X), single.predict(X), atol=1e-8)

    def test_partial_fit_goes_on(self, tmp_path: Path) -> None:
        for basis in (GIVEN, 40):
            model = ridge(basis=basis)
            for start in (0, 1200):
                block = slice(start, start + 1200)
                rows = da.from_array(X[block], chunks=(350, 4))
                assert kd.partial_fit(model, rows, Y[block]) is model
            assert model.n_samples_seen_ == 2000
            again = ridge(basis=landmarks.Landmarks(model.basis_points_)).fit(X, Y)
            np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-6, atol=1e-6)
        kd.partial_fit(ridge(basis=40).partial_fit(X[:90], Y[:90]), rows, Y[block])
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))
        model.partial_fit(X, Y)
        with pytest.raises(ValueError, match="y has 1 columns"):
            kd.partial_fit(model, rows, Y[block, 0])

    def test_two_runs_are_identical(self) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        first = kd.fit(ridge(basis=40, gamma=None), chunked, Y)
        with dask.config.set(scheduler="threads", num_workers=4):
            second = kd.fit(ridge(basis=40, gamma=None), chunked, Y)
        assert identical(first, second)

    def test_classifier(self) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        labels = da.from_array(LABELS, chunks=(UNEQUAL,))
        single = classifier().fit(X, LABELS)
        model = kd.fit(classifier(), chunked, labels)
        np.testing.assert_array_equal(model.classes_, ["high", "low", "middle"])
        found = kd.predict(model, chunked)
        assert found.dtype == LABELS.dtype and found.chunks == (UNEQUAL,)
        np.testing.assert_array_equal(found.compute(), single.predict(X))
        np.testing.assert_allclose(
            model.decision_function(X), single.decision_function(X), atol=1e-8
        )
        stream = classifier()
        with pytest.raises(ValueError, match="classes must be passed on the first call"):
            kd.partial_fit(stream, chunked, labels)
        for _ in range(2):
            kd.partial_fit(stream, chunked, labels, classes=["low", "middle", "high"])
        np.testing.assert_array_equal(stream.predict(X), single.predict(X))
        with pytest.raises(ValueError, match=r"Chunk 3 .*not announced"):
            kd.partial_fit(stream, chunked, np.where(np.arange(2000) == 705, "huge", LABELS))
        with pytest.raises(ValueError, match="at least two"):
            kd.fit(classifier(), chunked, np.zeros(2000, dtype=int))

    def test_targets_that_do_not_fit(self) -> None:
        chunked = da.from_array(X, chunks=(500, 4))
        model = ridge()
        cases: list[tuple[Any, str]] = [
            (None, "requires y to be passed"),
            (Y[:1999], "y has 1999 entries, X has 2000 rows"),
            (np.ones((2000, 2, 2)), "y has 3 dimensions"),
            (np.where(np.arange(2000) == 1234, np.nan, Y[:, 0]), r"Chunk 2 .*NaN"),
            (np.full(2000, 1e200), r"Chunk \d .*overflows: scale the targets"),
        ]
        for y, words in cases:
            with pytest.raises(ValueError, match=words):
                kd.fit(model, chunked, y)
            assert not hasattr(model, "n_features_in_") and not hasattr(model, "_flat")
        unknown = dd.from_pandas(pd.DataFrame(X), npartitions=4)
        with pytest.raises(ValueError, match="y has 5 chunks, X has 4"):
            kd.fit(model, unknown, dd.from_pandas(pd.Series(Y[:, 0]), npartitions=5))
        other = dd.from_pandas(pd.Series(Y[:1600, 0]), npartitions=4)
        with pytest.raises(ValueError, match=r"Chunk \d .*y has 400 entries here, X has 500 rows"):
            kd.fit(model, unknown, other)
        # a filter that was put on the rows and forgotten on what comes with them
        filtered = unknown[unknown[0] > np.inf]
        series = dd.from_pandas(pd.Series(Y[:, 0]), npartitions=4)
        with pytest.raises(ValueError, match=r"Chunk \d .*y has 500 entries here, X has 0 rows"):
            kd.fit(model, filtered, series)
        with pytest.raises(ValueError, match=r"Chunk \d .*sample_weight has 500 .*X has 0 rows"):
            kd.fit(model, filtered, series[series > np.inf], sample_weight=abs(series))
        with pytest.raises(ValueError, match="2 dimensions"):
            kd.fit(classifier(), chunked, Y)
        with pytest.raises(ValueError, match="learns from rows alone"):
            kd.fit(estimator(), chunked, Y)
        with pytest.raises(TypeError, match="predicts nothing"):
            kd.predict(kd.fit(estimator(), chunked), chunked)
        with pytest.raises(Exception, match="has not seen any rows"):
            kd.predict(model, chunked)

    def test_a_task_takes_no_learned_model_along(self) -> None:
        """What makes numbers of targets goes with every task, and must stay small."""
        model = classifier(basis=40).fit(X, LABELS)
        assert len(pickle.dumps(kd.chunks._encoder(model))) < 3000 < len(pickle.dumps(model))

    def test_predictions_are_lazy(self) -> None:
        read = []

        def load(block: np.ndarray) -> np.ndarray:
            read.append(len(block))
            return block

        model = ridge().fit(X, Y)
        chunked = da.from_array(X, chunks=(500, 4)).map_blocks(load, meta=np.empty((0, 0)))
        found = kd.predict(model, chunked)
        assert (found.shape, found.dtype, read) == ((2000, 2), X.dtype, [])
        np.testing.assert_allclose(found[700:800].compute(), model.predict(X[700:800]), atol=1e-10)
        assert read == [500]


# -- with a cluster of two processes


class Watch(SchedulerPlugin):
    """What results weigh, the heaviest by the kind of task."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.bytes: dict[str, int] = {}

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        task = self.scheduler.tasks.get(key)
        if finish == "memory" and task is not None:
            name = distributed.utils.key_split(key)
            self.bytes[name] = max(self.bytes.get(name, 0), task.get_nbytes())


def load(block: np.ndarray, n: int) -> np.ndarray:
    return rows(n, seed=int(block[0, 0]))


def made_on_workers(n_chunks: int, n: int) -> da.Array:
    """Chunks that exist on workers only, while they are needed."""
    numbers = da.arange(n_chunks, chunks=1)[:, None]
    return numbers.map_blocks(
        load, n=n, chunks=((n,) * n_chunks, (4,)), meta=np.empty((0, 0)), name="load-" + str(n)
    )


class TestCluster:
    def test_equal_to_one_machine_and_to_no_cluster(self, client: Any) -> None:
        chunked = da.from_array(X, chunks=(UNEQUAL, 4))
        for options in (dict(), dict(gamma=None, basis=40), dict(basis=landmarks.Landmarks(30))):
            on_cluster = kd.fit(estimator(**options), chunked)  # the current client
            with dask.config.set(scheduler="synchronous"):
                here = kd.fit(estimator(**options), chunked)
                elsewhere = kd.fit(estimator(**options), chunked, client=client)
            assert identical(on_cluster, here)
            assert identical(on_cluster, elsewhere)
        assert_same(kd.fit(estimator(), chunked), estimator().fit(X))
        scores = kd.transform(on_cluster, chunked).compute()
        np.testing.assert_allclose(scores, on_cluster.transform(X), atol=1e-12)

    def test_regression_equals_one_machine(self, client: Any) -> None:
        chunked, y = da.from_array(X, chunks=(UNEQUAL, 4)), da.from_array(Y, chunks=(UNEQUAL, 2))
        model = kd.fit(ridge(), chunked, y, client=client)
        single = ridge().fit(X, Y)
        np.testing.assert_allclose(
            kd.predict(model, chunked).compute(), single.predict(X), atol=1e-8
        )
        with dask.config.set(scheduler="synchronous"):
            here = kd.fit(ridge(basis=40, gamma=None), chunked, y)
        assert identical(kd.fit(ridge(basis=40, gamma=None), chunked, y), here)
        labelled = kd.fit(classifier(), chunked, da.from_array(LABELS, chunks=(UNEQUAL,)))
        found = kd.predict(labelled, chunked).compute()
        np.testing.assert_array_equal(found, classifier().fit(X, LABELS).predict(X))
        with pytest.raises(TypeError, match="name the argument: client="):
            kd.fit(ridge(), chunked, client)

    def test_partial_fit_and_dataframes(self, client: Any) -> None:
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        model = estimator()
        for start in range(0, 2000, 1000):
            part = dd.from_pandas(frame[start : start + 1000], npartitions=3)
            kd.partial_fit(model, part, client=client)
        assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
        single = estimator().fit(frame)
        np.testing.assert_allclose(model.transform(frame), single.transform(frame), atol=1e-8)

    def test_a_chunk_with_nan_is_named(self, client: Any) -> None:
        bad = X.copy()
        bad[1234, 2] = np.nan
        with pytest.raises(ValueError, match=r"Chunk 2 .*NaN"):
            kd.fit(estimator(basis=40, gamma=None), da.from_array(bad, chunks=(500, 4)))

    @pytest.mark.parametrize(
        "deadly_visits",
        [
            pytest.param((1, 3), id="both passes"),
            pytest.param((2,), marks=pytest.mark.slow, id="landmarks"),
        ],
    )
    def test_a_worker_is_killed(self, client: Any, tmp_path: Path, deadly_visits: tuple) -> None:
        """Chunk 5 takes its worker along, with all results that lay there.

        Visits are for the sample and for the sums; the second may find the landmarks lost.
        """

        def load(block: np.ndarray, block_info: Any = None) -> np.ndarray:
            if block_info[0]["chunk-location"][0] == 5:
                with (tmp_path / "visits").open("a") as visits:
                    visits.write(".")
                if (tmp_path / "visits").stat().st_size in deadly_visits:
                    os.kill(os.getpid(), signal.SIGKILL)
            return block

        chunked = da.from_array(X, chunks=(125, 4)).map_blocks(load, meta=np.empty((0, 0)))
        pids = set(client.run(os.getpid).values())
        model = kd.fit(estimator(basis=40, gamma=None), chunked)
        assert (tmp_path / "visits").stat().st_size > max(deadly_visits)
        client.wait_for_workers(2, timeout=30)
        assert set(client.run(os.getpid).values()) != pids
        with dask.config.set(scheduler="synchronous"):
            quiet = kd.fit(estimator(basis=40, gamma=None), da.from_array(X, chunks=(125, 4)))
        assert identical(model, quiet)

    def test_what_is_held_and_moved(self, client: Any) -> None:
        """Results weigh O(m (m + d)), with 30 m rows; no chunk leaves the task that made it."""
        m, d, n = 30, 4, 60_000
        watch = Watch(client.cluster.scheduler)
        client.cluster.scheduler.add_plugin(watch, name="watch")
        try:
            model = kd.fit(estimator(basis=m, gamma=None), made_on_workers(6, n))
        finally:
            client.cluster.scheduler.remove_plugin("watch")
        assert model.n_samples_seen_ == 6 * n
        kinds = {"sample", "join_samples", "without_sums", "sum_chunk", "add_sums"}
        assert kinds <= watch.bytes.keys()
        sample = 8 * 1000 * (d + m)  # its rows and their coordinates, of two models on the way
        bound = (
            2 * (sample + 8 * audit_module.ROWS * (d + 4)) + 8 * (12 * m * m + 40 * m * d) + 20_000
        )
        assert max(watch.bytes.values()) < bound < n * d * 8, watch.bytes


@pytest.mark.slow
def test_spilled_memory() -> None:
    """Persisted chunks of four times the worker's budget: they go to disk and come back."""
    limits = {
        "distributed.worker.memory.target": 0.02,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    with (
        dask.config.set(limits),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="400MiB", dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        chunked = made_on_workers(20, 50_000).persist()  # 32 MB against 8 MB
        distributed.wait(chunked)
        spilled = client.run(lambda dask_worker: len(dask_worker.data.slow))
        assert sum(spilled.values()) > 10
        model = kd.fit(estimator(), chunked)
    with dask.config.set(scheduler="synchronous"):
        quiet = kd.fit(estimator(), made_on_workers(20, 50_000))
    assert identical(model, quiet)


@pytest.mark.slow
def test_the_model_does_not_know_how_many_threads_blas_had() -> None:
    """Workers of a cluster have one, the schedulers of one machine all: other bits, once."""
    program = """
import hashlib
import dask.array as da
import numpy as np
import kernelstream.distributed.dask
from kernelstream import StreamingKernelPCA, serialization

X = da.from_array(np.random.default_rng(0).normal(size=(6000, 60)), chunks=(2000, 60))
model = StreamingKernelPCA(4, gamma=0.02, basis=100, random_state=0)
for learn in (kernelstream.distributed.dask.fit, kernelstream.distributed.dask.partial_fit):
    learn(model, X)
    print(hashlib.sha256(serialization.to_bytes({"model": model.stream_.for_file()})).hexdigest())
"""

    def bits(threads: str) -> str:
        chosen = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=os.environ | chosen, capture_output=True, text=True, check=True
        ).stdout

    assert bits("3") == bits("1")


# --- detectors of novelty


def detector(**options: Any) -> KernelNovelty:
    settings: dict[str, Any] = dict(alpha=0.05, gamma=0.05, basis=GIVEN, scale=None, random_state=0)
    return KernelNovelty(**{**settings, **options})


@pytest.mark.parametrize("weights", [None, np.tile([1.0, 2.0, 0.0, 1.0], 500)])
def test_a_detector_learns_all_but_what_it_holds_back(weights: np.ndarray | None) -> None:
    """The sums of a cluster are those of one machine over the rows that are not held back."""
    chunks = da.from_array(X, chunks=(UNEQUAL, -1))
    model = kd.fit(detector(), chunks, sample_weight=weights)
    held = model._held_back
    assert held is not None
    seen = 2000 if weights is None else 1500
    assert model.n_samples_seen_ == seen and len(held) == pytest.approx(0.1 * seen, rel=0.1)
    assert model.stream_.n_rows == seen - len(held)
    is_held = (X[:, None, 0] == held.X[None, :, 0]).any(axis=1)
    w = np.ones(2000) if weights is None else weights
    due = estimator(n_components=None).fit(X[~is_held], sample_weight=w[~is_held])
    variances = model.stream_.components.variances
    np.testing.assert_allclose(variances, due.explained_variance_, rtol=1e-8)
    scores = kd.score_samples(model, chunks).compute()
    np.testing.assert_allclose(scores, model.score_samples(X), atol=1e-12)
    np.testing.assert_array_equal(kd.predict(model, chunks).compute(), model.predict(X))
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.05, abs=0.04)


def test_a_detector_goes_on_with_further_chunks() -> None:
    whole = da.from_array(X, chunks=(500, -1))
    model = kd.partial_fit(kd.partial_fit(detector(), whole[:1000]), whole[1000:])
    assert model.n_samples_seen_ == 2000
    assert model.stream_.n_rows + model.n_held_back_ == 2000
    again = kd.partial_fit(kd.partial_fit(detector(), whole[:1000]), whole[1000:])
    np.testing.assert_array_equal(model.p_values(X), again.p_values(X))
    with pytest.raises(TypeError, match="no detector"):
        kd.score_samples(estimator().fit(X), whole)
