"""``device=``: rows of the host are computed with elsewhere, and the model is the same.

PyTorch's CPU device stands in for a GPU (``make test-torch``); tests marked ``cuda`` run where
there is one.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from kernelstream import StreamingKernelPCA, landmarks, load, papers, trackers
from kernelstream.arrays import devices
from kernelstream.arrays.namespaces import is_foreign, to_host
from kernelstream.papers import KernelHebbianPCA

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
DEVICES = [
    pytest.param("cpu", marks=needs_torch),
    pytest.param("cuda", marks=[needs_torch, pytest.mark.cuda]),
]
BASES: dict[str, Any] = {
    "centroids": landmarks.Centroids(15),
    "everything": landmarks.Everything(),
    "landmarks": landmarks.Landmarks(12),
    "distance": landmarks.Distance(nu=0.1),
}
TRACKERS: dict[str, Any] = {
    "covariance": trackers.Covariance(),
    "hebbian": papers.Hebbian(),
    "rls": papers.RLS(),
    "incremental svd": trackers.IncrementalSVD(),
}


def rows(n: int = 700, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) * [1.0, 0.8, 0.6, 0.4]


def model(device: str | None, basis: str, tracker: str = "covariance", **more: Any) -> Any:
    return StreamingKernelPCA(
        3,
        gamma=0.2,
        basis=BASES[basis],
        tracker=TRACKERS[tracker],
        device=device,
        batch_size=128,
        random_state=0,
        **more,
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("basis", BASES)
def test_the_same_model_elsewhere(basis: str, tracker: str, method: str, device: str) -> None:
    X, new = rows(), rows(50, seed=1)
    here, there = model(None, basis, tracker), model(device, basis, tracker)
    for one in (here, there):
        getattr(one, method)(X)
    assert is_foreign(there.explained_variance_)
    scores = there.transform(new)
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, here.transform(new), rtol=0, atol=1e-7)
    errors = there.reconstruction_error(new)
    np.testing.assert_allclose(errors, here.reconstruction_error(new), rtol=0, atol=1e-7)
    assert isinstance(there.inverse_transform(scores), np.ndarray)
    there.learn_one(new[0])
    assert there.transform_one(new[0]).shape == (3,)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("basis", BASES)
def test_a_model_changes_its_device_in_a_file(
    basis: str, tracker: str, device: str, tmp_path: Path
) -> None:
    """Saved on one device and loaded on another, the stream goes on."""
    X, more = rows(), rows(300, seed=2)
    for first, second in ((device, None), (None, device)):
        path = tmp_path / "model.safetensors"
        model(first, basis, tracker).partial_fit(X).save(path)
        loaded = load(path, device=second)
        assert loaded.device == second
        assert is_foreign(loaded.explained_variance_) == (second is not None)
        scores = loaded.partial_fit(more).transform(more)
        expected = model(None, basis, tracker).partial_fit(np.vstack([X, more])).transform(more)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_the_device_join_rows_of_the_host(device: str) -> None:
    import torch

    X = rows()
    stream = model(device, "landmarks").partial_fit(X[:200])  # 72 rows wait, on the host
    stream.partial_fit(torch.from_numpy(X[200:]).to(device))
    expected = model(None, "landmarks").partial_fit(X)
    np.testing.assert_allclose(
        to_host(stream.explained_variance_), expected.explained_variance_, rtol=1e-10
    )


@needs_torch
def test_standardised_and_certified_rows() -> None:
    X = rows() * 1e3 + 5.0
    here = model(None, "centroids", scale="standard", certify="tight").fit(X)
    there = model("cpu", "centroids", scale="standard", certify="tight").fit(X)
    np.testing.assert_allclose(there.transform(X), here.transform(X), rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        there.certificate_.details.eigenvalue_intervals,
        here.certificate_.details.eigenvalue_intervals,
        rtol=1e-6,
    )


@needs_torch
def test_what_a_device_cannot_do_is_said() -> None:
    with pytest.raises(ValueError, match="sparse rows are computed on the host"):
        model("cpu", "landmarks").fit(scipy.sparse.csr_matrix(rows()))
    with pytest.raises(ValueError, match="device must be None or a device of PyTorch"):
        model("gpu", "landmarks").fit(rows())


class NoTorch:
    """Finds no PyTorch, and says so before anybody else can find it."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NoTorch(), *sys.meta_path])
    with pytest.raises(ValueError, match=r"needs PyTorch: install kernelstream\[torch\]"):
        model("cuda", "landmarks").fit(rows())


def test_lack_of_memory_names_a_block_that_fits() -> None:
    class OutOfMemoryError(RuntimeError):
        """Named like PyTorch's."""

    with (
        pytest.raises(MemoryError, match="batch_size=256"),
        devices.explain_memory(1024),
    ):
        raise OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="something else"), devices.explain_memory(1024):
        raise RuntimeError("something else")


@pytest.mark.cuda
@needs_torch
@pytest.mark.parametrize("n", [20, 128, 500], ids=["they wait", "a block", "both"])
@pytest.mark.parametrize("begun", [False, True], ids=["first rows", "later rows"])
def test_bad_rows_on_a_gpu(n: int, begun: bool) -> None:
    import torch

    X = torch.from_numpy(rows()).cuda()
    stream = model(None, "landmarks")
    if begun:
        stream.partial_fit(X)
        before = stream.explained_variance_
    for value, words in ((float("nan"), "NaN or infinity"), (1e200, "overflows")):
        bad = torch.from_numpy(rows(n, seed=3)).cuda()
        bad[-1, 1] = value
        with pytest.raises(ValueError, match=words):
            stream.partial_fit(bad)
    if begun:
        assert stream.n_samples_seen_ == 700
        assert bool((stream.explained_variance_ == before).all())


@pytest.mark.cuda
@needs_torch
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_a_gpu_agrees_with_the_host(dtype: str, tolerance: float) -> None:
    import torch

    X = np.random.default_rng(0).random((20000, 50)).astype(dtype)
    settings: dict[str, Any] = dict(gamma=0.05, basis=landmarks.Landmarks(X[:200]))
    here = StreamingKernelPCA(10, **settings).fit(X)
    there = StreamingKernelPCA(10, **settings).fit(torch.from_numpy(X).cuda())
    assert there.explained_variance_.is_cuda
    np.testing.assert_allclose(
        to_host(there.eigenvalues_), here.eigenvalues_, rtol=tolerance, atol=0
    )


@needs_torch
@pytest.mark.parametrize("offset", [0.0, 50.0], ids=["not shifted", "shifted"])
def test_points_that_change_in_place_are_looked_at_again(offset: float) -> None:
    """What is remembered of points on a device must not outlive a change of their numbers."""
    import torch

    from kernelstream import kernels

    kernel = kernels.RBF(0.5)
    X, Y = torch.from_numpy(rows(30)), torch.from_numpy(rows(20, seed=1))
    kernel.block(X, Y)  # remembered
    Y += offset + 1e3  # far away: distances now need a shift by the mean of the points
    moved = X + offset + 1e3
    exact = np.exp(-0.5 * ((to_host(moved)[:, None] - to_host(Y)[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(to_host(kernel.block(moved, Y)), exact, rtol=0, atol=1e-9)


@pytest.mark.cuda
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("schedule", ["auto", 0.02], ids=str)
@pytest.mark.parametrize("cache_bytes", [0, 2**30])
def test_an_epoch_on_a_gpu_is_that_of_the_host(
    center: bool, schedule: Any, cache_bytes: int
) -> None:
    import torch

    X = np.random.default_rng(0).normal(size=(700, 5))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=700)
    settings: dict[str, Any] = dict(
        gamma=0.1, center=center, schedule=schedule, cache_bytes=cache_bytes, batch_size=100
    )
    settings |= dict(n_epochs=7, tol=1e-9, random_state=0)
    here = KernelHebbianPCA(4, **settings).fit(X, sample_weight=weights)
    there = KernelHebbianPCA(4, **settings).fit(torch.from_numpy(X).cuda(), sample_weight=weights)
    np.testing.assert_allclose(there.eigenvalues_.cpu().numpy(), here.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        there.transform(torch.from_numpy(X).cuda()).cpu().numpy(), here.transform(X), atol=1e-8
    )
    assert there.n_epochs_ == here.n_epochs_


@pytest.mark.cuda
def test_steps_that_were_too_long_are_counted_once_on_a_gpu() -> None:
    import torch

    X = np.random.default_rng(0).normal(size=(700, 5))
    said = []
    for rows in (X, torch.from_numpy(X).cuda()):
        model = KernelHebbianPCA(4, gamma=0.1, schedule=3.0, n_epochs=3, tol=0.0, random_state=0)
        with pytest.warns(RuntimeWarning, match="step was too long") as caught:
            model.fit(rows)
        said.append([str(warning.message) for warning in caught])
    assert said[0] == said[1]


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("basis", BASES)
def test_what_lives_on_the_host_stays_there(
    basis: str, tracker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PyTorch: what would be sent to a device is marked instead."""
    sent: list[int] = []

    def mark(x: Any, device: str | None) -> Any:
        sent.append(id(x))
        return x

    monkeypatch.setattr(devices, "place", mark)
    state: Any = model(None, basis, tracker).partial_fit(rows()).stream_.state
    devices.move_to_device(state, "a device")
    assert id(state.moments.total) in sent
    for value in (
        state,
        state.observer,
        state.basis,
        state.tracker,
        getattr(state.basis, "sample", None),
    ):
        for name in getattr(value, "ON_HOST", ()):
            assert id(getattr(value, name)) not in sent, name
    assert not {id(array) for array in vars(state.observer.ledger).values()} & set(sent)
