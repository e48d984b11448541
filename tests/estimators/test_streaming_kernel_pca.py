"""Parameters of the estimator: what they become, and in which words they are refused."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError

from kernelstream import (
    StreamingKernelPCA,
    StreamingKernelRidge,
    kernels,
    landmarks,
    load,
    papers,
    trackers,
)
from kernelstream.estimators import kernel_estimator
from kernelstream.estimators.base import StoredEstimator, class_named
from kernelstream.papers import OnlineKernelPCA, schedules
from kernelstream.stream.scaling import Standard
from kernelstream.stream.stream import Stream
from tests.conftest import ledger_of

X = np.random.default_rng(0).normal(size=(40, 3))


def stream_of(**parameters: Any) -> Stream:
    given: dict[str, Any] = dict(n_components=2, gamma=0.3, basis="everything")
    return StreamingKernelPCA(**(given | parameters)).partial_fit(X).stream_


def test_the_chain_is_made_of_the_parameters() -> None:
    kernel, basis, tracker = kernels.RBF(0.7), landmarks.Distance(0.2), trackers.Covariance(0.9)
    stream = (
        StreamingKernelPCA(
            3,
            kernel=kernel,
            basis=basis,
            tracker=tracker,
            center=False,
            certify="tight",
            random_state=5,
            batch_size=17,
        )
        .partial_fit(X)
        .stream_
    )
    chain = stream.chain
    for held, given in ((chain.kernel, kernel), (chain.basis, basis), (chain.tracker, tracker)):
        assert repr(held) == repr(given) and held is not given
    assert (chain.center, chain.n_components, chain.seed) == (False, 3, 5)
    assert chain.certify == "tight"
    assert (stream.batch_size, stream.n_features, stream.dtype) == (17, 3, "float64")
    assert stream.scaling is None and stream.device is None
    other = stream_of(center=np.True_, certify=False, scale="standard")
    assert other.chain.center is True and other.chain.certify is False
    assert isinstance(other.scaling, Standard)
    single = StreamingKernelPCA(2, basis="everything").partial_fit(X.astype("f4")).stream_
    assert single.dtype == "float32"


@pytest.mark.parametrize(
    ("tracker", "preimage", "learns"),
    [
        ("covariance", "ridge", True),
        ("covariance", "fixed_point", False),
        (papers.Hebbian(), "ridge", False),
    ],
)
def test_ridge_learns_the_way_back_with_a_covariance(
    tracker: str, preimage: str, learns: bool
) -> None:
    stream = stream_of(tracker=tracker, preimage=preimage)
    assert stream.chain.regress_inputs is learns
    assert (stream.settled.begun.targets is not None) == learns


def test_blocks_suit_the_parts() -> None:
    def size(basis: landmarks.LandmarkStrategy, tracker: trackers.Tracker) -> int:
        return kernel_estimator.suitable_batch_size(basis, tracker, X, None)

    sizes: list[tuple[landmarks.LandmarkStrategy, int]] = [
        (landmarks.Everything(), 256),
        (landmarks.Centroids(20), 1024),
        (landmarks.Landmarks(20), 2048),
    ]
    for basis, rows in sizes:
        assert size(basis, trackers.Covariance()) == rows
        assert size(basis, trackers.IncrementalSVD()) == rows
        assert size(basis, papers.Hebbian()) == 256  # row by row: a block is not worth more
    assert stream_of().batch_size == 256


def test_how_many_components_may_be_asked_for() -> None:
    covariance, hebbian = trackers.Covariance(), papers.Hebbian()
    for given in (1, np.int64(7), None, 0.5, 0.999, np.float32(0.25)):
        found = kernel_estimator.checked_n_components(given, covariance)
        assert found == given and type(found) in (int, float, type(None))
    assert type(kernel_estimator.checked_n_components(np.int64(7), hebbian)) is int
    wrong: list[Any] = [0, -1, True, 1.0, 1.5, 0.0, -0.5, np.nan, "two", [2]]
    bad: Any
    for bad in wrong:
        with pytest.raises(ValueError, match="n_components must be an integer of at least 1, a sh"):
            kernel_estimator.checked_n_components(bad, covariance)
    unknown: list[Any] = [None, 0.5, True]
    for bad in unknown:
        with pytest.raises(ValueError, match=r"Hebbian\(\) learns a fixed number of components"):
            kernel_estimator.checked_n_components(bad, hebbian)
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
        kernel_estimator.checked_n_components(0, hebbian)


def test_how_many_rows_a_block_may_have() -> None:
    given = StreamingKernelPCA(2, batch_size=np.int32(3)).new_stream(X)  # type: ignore[arg-type]
    assert given.batch_size == 3 and type(given.batch_size) is int
    for bad in (0, -1, True, 1.0, "8", None):
        model = StreamingKernelPCA(2, batch_size=bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="batch_size must be a positive integer or 'auto', go"):
            model.new_stream(X)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(center="yes"), "center must be True or False; got 'yes'"),
        (
            dict(scale="minmax"),
            "scale must be one of None, 'standard', 'auto' or a Scaling; got 'minmax'",
        ),
        (dict(certify=True), "certify must be one of 'auto', 'tight', False; got True"),
        (dict(random_state=-1), r"random_state must be an integer from 0 to 2\*\*32 - 1"),
    ],
)
def test_parameters_are_refused_in_words(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        stream_of(**parameters)


def test_only_models_merge() -> None:
    one = StreamingKernelPCA(2, gamma=0.3, basis="everything").partial_fit(X)
    with pytest.raises(TypeError, match="Only models of this library merge; got KernelPCA"):
        one.merge(KernelPCA())
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    named = StreamingKernelPCA(2, gamma=0.3, basis="everything").partial_fit(frame)
    both = named.merge(one)
    assert list(both.feature_names_in_) == ["a", "b", "c"] and both.n_features_in_ == 3
    assert not hasattr(one.merge(named), "feature_names_in_")


def test_what_can_be_taken_and_given() -> None:
    tags = StreamingKernelPCA().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not StreamingKernelPCA(scale="standard").__sklearn_tags__().input_tags.sparse


def test_a_single_row_sees_the_finished_blocks_or_all_rows() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 3))
    for tracker, current in (("covariance", False), (papers.Hebbian(), True)):
        model = StreamingKernelPCA(2, gamma=0.3, basis="everything", tracker=tracker, batch_size=16)
        model.partial_fit(rows)
        shown = model.transform_one(rows[0])
        same = bool(np.allclose(shown, model.transform(rows[:1])[0], atol=1e-12))
        assert same == current
        if not current:
            finished = StreamingKernelPCA(2, gamma=0.3, basis="everything", batch_size=16)
            finished.partial_fit(rows[:16])
            np.testing.assert_allclose(shown, finished.transform(rows[:1])[0], atol=1e-12)
    young = StreamingKernelPCA(2, gamma=0.3, basis="everything", batch_size=64).partial_fit(rows)
    np.testing.assert_allclose(young.transform_one(rows[0]), young.transform(rows[:1])[0])


# -- the bounds of Honeine's paper


def test_the_bounds_of_a_dictionary_are_those_of_the_paper() -> None:
    """With energies that differ: ν/κ takes the place of ν."""
    rows = np.random.default_rng(2).normal(size=(60, 2))
    model = OnlineKernelPCA(2, kernel=kernels.Polynomial(2, 0.5, 1.0), nu=0.6, eta0=0.01).fit(rows)
    found = model.bounds(eigenvalues=[0.5, 0.0])
    K = model.kernel_(model.basis_points_)
    energy, m = np.diag(K), len(K)
    assert found.order == m > 2 and energy.max() > 2 * energy.min()
    cosines = np.abs(K) / np.sqrt(np.outer(energy, energy))
    np.fill_diagonal(cosines, 0.0)
    assert found.coherence == pytest.approx(cosines.max())
    share = 0.6 / energy.max()
    plain, sharp = 1 - share / 2, np.sqrt(1 - share)
    assert found.coherence_bound == pytest.approx(plain)
    assert found.coherence_bound_sharp == pytest.approx(sharp)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(K)[::-1], atol=1e-10)
    for bounds, mu in ((found.eigenvalue_bounds, plain), (found.eigenvalue_bounds_sharp, sharp)):
        radius = energy.max() * (m - 1) * mu
        assert bounds == pytest.approx((energy.min() - radius, energy.max() + radius))
    ledger = ledger_of(model.stream_.settled.begun)
    assert found.missed == pytest.approx(ledger.missed / 60)
    tiny = np.finfo(float).tiny
    np.testing.assert_allclose(found.approximation_error, [1.2, 0.6 / tiny])
    np.testing.assert_allclose(
        found.approximation_error_sharp, [found.missed / 0.5, found.missed / tiny]
    )
    estimated = model.bounds().approximation_error
    np.testing.assert_allclose(estimated, 0.6 / model.explained_variance_)


@pytest.mark.filterwarnings("ignore:OnlineKernelPCA. the dictionary has:RuntimeWarning")
def test_a_full_dictionary_proves_nothing() -> None:
    rows = np.random.default_rng(2).normal(size=(60, 2))
    for most, full in ((3, True), (500, False)):
        model = OnlineKernelPCA(1, gamma=1.0, nu=0.3, eta0=0.01, max_points=most).fit(rows)
        bounds = model.bounds(eigenvalues=[1.0])
        assert bool(np.isinf(bounds.approximation_error[0])) == full
        assert np.isfinite(bounds.approximation_error_sharp[0])
    assert bounds.order > 3


def test_the_method_of_the_paper_is_these_parts() -> None:
    model = OnlineKernelPCA(1, gamma=1.0, nu=0.3, eta0=0.2, tau=7.0)
    basis, tracker = model._basis_and_tracker()
    assert isinstance(basis, landmarks.Distance) and (basis.nu, basis.max_points) == (0.3, 2000)
    assert isinstance(tracker, papers.Hebbian)
    assert isinstance(tracker.schedule, schedules.SearchThenConverge)
    assert (tracker.schedule.eta0, tracker.schedule.tau) == (0.2, 7.0)
    with pytest.raises(ValueError, match=r"nu=99.0 is above k\(x, x\) of every row"):
        OnlineKernelPCA(1, gamma=1.0, nu=99.0).fit(X).bounds()


# -- what every estimator with a stream has


def learned(n: int = 40, **parameters: Any) -> StreamingKernelPCA:
    given: dict[str, Any] = dict(gamma=0.3, basis="everything", batch_size=16, random_state=0)
    return StreamingKernelPCA(2, **(given | parameters)).partial_fit(X[:n])


def test_clear_buffer_keeps_completed_blocks() -> None:
    model = learned()
    assert model.clear_buffer() is model and model.n_samples_seen_ == 32
    np.testing.assert_array_equal(model.transform(X), learned(32).transform(X))
    nothing = learned(10).clear_buffer()  # no block was completed
    with pytest.raises(NotFittedError, match="has not seen any rows yet: call fit, partial_fit or"):
        nothing.transform(X)
    one_by_one = learned(16)
    for row in X[16:20]:
        one_by_one.learn_one(row)
    assert one_by_one.n_samples_seen_ == 20
    assert one_by_one.clear_buffer().n_samples_seen_ == 16


def test_before_the_first_row() -> None:
    with pytest.raises(NotFittedError, match="has not seen any rows yet"):
        StreamingKernelPCA().stream_  # noqa: B018
    assert not StreamingKernelPCA().__sklearn_is_fitted__() and learned().__sklearn_is_fitted__()


def test_rows_seen_are_told_to_those_who_ask(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    learned()
    assert not caplog.records
    learned(verbose=True)
    assert "StreamingKernelPCA: 40 rows seen" in caplog.messages


def test_a_file_has_parameters_names_and_what_was_learned(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = StreamingKernelPCA(2, gamma=0.3, random_state=np.random.RandomState(0))
    model.fit(frame).save(tmp_path / "m")
    again: Any = load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["a", "b", "c"] and again.n_features_in_ == 3
    assert again.random_state is None and again.gamma == 0.3  # the seed is part of the stream
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    assert again.device is None
    with pytest.raises(ValueError, match="holds a StreamingKernelPCA, not a OnlineKernelPCA"):
        OnlineKernelPCA.load(tmp_path / "m")
    seeded = learned(random_state=7)
    seeded.save(tmp_path / "seeded")
    assert load(tmp_path / "seeded").random_state == 7
    ridge = StreamingKernelRidge(gamma=0.3).fit(X, X[:, 0])  # attributes beside its stream
    ridge.save(tmp_path / "ridge")
    np.testing.assert_array_equal(load(tmp_path / "ridge").predict(X), ridge.predict(X))
    assert load(tmp_path / "ridge").predict(X).shape == (40,)


def test_names_of_features_are_texts_one_for_each() -> None:
    content = learned()._content()
    named = StoredEstimator.from_content({**content, "feature_names": ("a", "b", "c")})
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    for bad in (("a",), ("a", 1, "b")):
        with pytest.raises(ValueError, match="of 3 features"):
            StoredEstimator.from_content({**content, "feature_names": bad})


def test_which_class_a_file_may_name() -> None:
    assert class_named("StreamingKernelPCA") is StreamingKernelPCA
    assert class_named("Denoiser").__name__ == "Denoiser"
    for bad in ("kernels", "load", "numpy"):
        with pytest.raises((KeyError, AttributeError)):
            class_named(bad)


# -- another number of components, without a new fit


@pytest.mark.parametrize("number", [1, 3, 12, None, 0.6])
def test_another_number_of_components_is_shown_without_a_new_fit(number):
    X = np.random.default_rng(1).normal(size=(600, 4))
    model = StreamingKernelPCA(5, gamma=0.2, basis=30, random_state=0).fit(X)
    points = landmarks.Landmarks(model.basis_points_)
    wanted = StreamingKernelPCA(number, gamma=0.2, basis=points).fit(X)
    before = model.transform(X)
    assert model.set_params(n_components=number) is model
    scores = model.transform(X)
    assert model.n_components == number and scores.shape == (600, wanted.n_components_)
    assert model.get_feature_names_out().shape == (wanted.n_components_,)
    np.testing.assert_allclose(model.explained_variance_, wanted.explained_variance_, rtol=1e-6)
    common = min(5, wanted.n_components_)
    np.testing.assert_allclose(scores[:, :common], before[:, :common], atol=1e-12)
    back = model.inverse_transform(scores)
    assert back.shape == X.shape
    assert model.certificate_.details.eigenvalue_intervals.shape == (wanted.n_components_, 2)
    model.partial_fit(X)  # it goes on, and shows as many
    assert number != 3 or model.transform(X).shape == (600, 3)


def test_what_is_shown_does_not_change_what_is_learned(tmp_path):
    X = np.random.default_rng(1).normal(size=(3000, 4))
    plain, changed = (
        StreamingKernelPCA(5, gamma=0.2, basis=30, random_state=0).partial_fit(X[:2000])
        for _ in range(2)
    )
    changed.set_params(n_components=2)
    changed.save(tmp_path / "model")
    changed = load(tmp_path / "model")
    assert changed.transform(X[:5]).shape == (5, 2)
    changed.partial_fit(X[2000:]).set_params(n_components=5)
    np.testing.assert_array_equal(changed.basis_points_, plain.partial_fit(X[2000:]).basis_points_)
    np.testing.assert_allclose(changed.transform(X), plain.transform(X), atol=1e-12)


@pytest.mark.parametrize(
    "tracker",
    [papers.Hebbian(), papers.RLS(), papers.LMS(), papers.SubsetHebbian(), "incremental_svd"],
)
def test_trackers_show_what_they_have_learned(tracker, tmp_path):
    X = np.random.default_rng(1).normal(size=(300, 4))
    model = StreamingKernelPCA(
        4, gamma=0.2, basis=landmarks.Landmarks(X[:20]), tracker=tracker, random_state=0
    ).partial_fit(X)
    before = model.transform(X)
    model.set_params(n_components=2).save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").transform(X), before[:, :2], atol=1e-12)
    np.testing.assert_array_equal(
        copy.deepcopy(model).set_params(n_components=4).transform(X), before
    )
    with pytest.raises(ValueError, match="has learned 4 components"):
        model.set_params(n_components=5)
    assert model.n_components == 2 and model.transform(X).shape == (300, 2)
    assert model.partial_fit(X).set_params(n_components=4).transform(X).shape == (300, 4)


def test_a_model_shows_another_number_of_components() -> None:
    X = np.random.default_rng(1).normal(size=(300, 4))
    model = StreamingKernelPCA(3, gamma=0.2, basis=30, random_state=0).fit(X)
    before = model.transform(X)
    assert model.set_params(n_components=7).transform(X).shape == (300, 7)
    few = model.set_params(n_components=2).transform(X)
    np.testing.assert_allclose(few, before[:, :2], atol=1e-12)
    with pytest.raises(ValueError, match="n_components must be"):
        model.set_params(n_components=0)
    assert list(model.set_output(transform="pandas").transform(X)) == list(
        model.get_feature_names_out()
    )
    unfitted = clone(model).set_params(n_components=0)  # checked where it is used
    with pytest.raises(ValueError, match="n_components must be"):
        unfitted.fit(X)
