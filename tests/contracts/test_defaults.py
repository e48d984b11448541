"""What parameters are unless they are given: a promise to those who do not give them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import kernelstream
from kernelstream import kernels, landmarks, papers, preimages, trackers
from kernelstream.papers import schedules
from kernelstream.serialization.part import Part

DEFAULTS: dict[str, dict[str, Any]] = {
    "kernels.RBF": {"gamma": "median"},
    "kernels.Categorical": {"gamma": "median"},
    "kernels.Constant": {"value": 1.0},
    "kernels.Exponential": {"gamma": "median"},
    "kernels.Laplacian": {"gamma": "median"},
    "kernels.Matern": {"nu": 1.5, "length_scale": "median"},
    "kernels.Polynomial": {"degree": 3, "gamma": None, "coef0": 1.0},
    "kernels.Sigmoid": {"gamma": None, "coef0": 1.0},
    "landmarks.Centroids": {"n_points": 256, "follows": True},
    "landmarks.Coherence": {
        "delta": 0.95,
        "max_points": 2000,
        "first": 1,
        "exchange": None,
        "cosines": True,
    },
    "landmarks.Distance": {"nu": 0.1, "max_points": 2000, "exchange": None},
    "papers.IteratedPreimages": {"n_preimages": 3, "sharing": "second pass"},
    "landmarks.Everything": {"start": None},
    "landmarks.Landmarks": {"points": 256},
    "landmarks.PivotedCholesky": {"n_landmarks": 256},
    "landmarks.ReducedSet": {"n_points": 256},
    "papers.LMS": {"eta": 0.02, "weights": None, "forgetting": 1.0, "guard": True},
    "papers.RLS": {"forgetting": 0.98, "weights": None, "guard": True},
    "trackers.Covariance": {"forgetting": 1.0},
    "papers.Hebbian": {"schedule": "auto", "forgetting": 1.0, "spread": False, "guard": True},
    "papers.RecentredHebbian": {"schedule": "auto", "guard": True},
    "trackers.IncrementalSVD": {"forgetting": 1.0, "reorthogonalise": "exact"},
    "trackers.Window": {"n": 1000},
    "papers.SubsetHebbian": {"eta": 0.02, "weights": None, "forgetting": 1.0, "guard": True},
    "schedules.Automatic": {"floor": 0.0, "period": None},
    "schedules.Constant": {"eta": 0.05},
    "schedules.EigenvalueAnnealed": {"eta0": 0.5, "tau": 1000.0, "floor": 0.0},
    "schedules.InverseTime": {"eta0": 1.0, "floor": 0.0},
    "schedules.SearchThenConverge": {"eta0": 0.5, "tau": 1000.0, "floor": 0.0},
    "preimages.Conformal": {"eta": 0.0},
    "preimages.FixedPoint": {"max_iter": 100, "tol": 1e-06, "n_starts": 3},
    "preimages.Gradient": {
        "max_iter": 200,
        "tol": 1e-06,
        "non_negative": False,
        "step": None,
        "n_starts": 1,
    },
    "preimages.Neighbours": {"n_neighbours": 10},
    "preimages.NeighboursThenGradient": {"n_neighbours": 10, "max_iter": 200, "tol": 1e-06},
    "preimages.Ridge": {"alpha": 0.01, "source": "rows"},
    "papers.AdaptiveKernelPCA": {
        "n_components": 2,
        "kernel": "rbf",
        "gamma": None,
        "delta": 0.95,
        "coherence": "cosine",
        "max_points": 2000,
        "exchange": None,
        "guard": True,
        "preimage": "auto",
        "method": "rls",
        "eta": 0.02,
        "beta": 0.98,
        "weights": None,
        "center": False,
        "random_state": None,
    },
    "papers.IncrementalKernelPCA": {
        "n_components": None,
        "kernel": "rbf",
        "gamma": None,
        "n_points": None,
        "n_preimages": None,
        "sharing": "second pass",
        "preimage": "auto",
        "batch_size": 30,
        "center": True,
        "random_state": None,
    },
    "KernelPCA": {
        "n_components": None,
        "kernel": "linear",
        "gamma": None,
        "degree": 3,
        "coef0": 1,
        "kernel_params": None,
        "alpha": 1.0,
        "fit_inverse_transform": False,
        "eigen_solver": "auto",
        "tol": 0,
        "max_iter": None,
        "iterated_power": "auto",
        "remove_zero_eig": False,
        "random_state": None,
        "copy_X": True,
        "n_jobs": None,
        "basis": 1000,
    },
    "papers.KernelHebbianPCA": {
        "n_components": 2,
        "kernel": "rbf",
        "gamma": None,
        "schedule": "auto",
        "n_epochs": 100,
        "tol": 1e-06,
        "center": True,
        "update": "sample",
        "init": "rows",
        "guard": True,
        "ritz": True,
        "preimage": "auto",
        "batch_size": "auto",
        "cache_bytes": 1073741824,
        "random_state": None,
        "verbose": False,
    },
    "KernelMonitor": {
        "alpha": 0.01,
        "false_events_per_day": None,
        "interval": None,
        "lags": "auto",
        "width": "auto",
        "basis": 200,
        "ridge": "auto",
        "whiten": "auto",
        "floor": 0.001,
        "smooth": 0.1,
        "adapt": "event",
        "memory": 1000,
        "folds": "auto",
        "quarantine": 20,
        "random_state": None,
    },
    "papers.OnlineKernelPCA": {
        "n_components": 2,
        "kernel": "rbf",
        "gamma": None,
        "nu": 0.1,
        "eta0": 0.5,
        "tau": 1000,
        "max_points": 2000,
        "exchange": None,
        "guard": True,
        "preimage": "auto",
        "center": True,
        "average": False,
        "random_state": None,
    },
    "StreamingKernelClassifier": {
        "alpha": "gcv",
        "kernel": "rbf",
        "gamma": None,
        "basis": "centroids",
        "fit_intercept": True,
        "forgetting": 1.0,
        "scale": None,
        "batch_size": "auto",
        "random_state": None,
        "verbose": False,
    },
    "KernelNovelty": {
        "alpha": 0.05,
        "n_components": None,
        "kernel": "rbf",
        "gamma": None,
        "basis": "centroids",
        "forgetting": 1.0,
        "scale": "standard",
        "batch_size": "auto",
        "random_state": None,
        "verbose": False,
    },
    "StreamingKernelPCA": {
        "n_components": None,
        "kernel": "rbf",
        "gamma": None,
        "basis": "centroids",
        "tracker": "covariance",
        "center": True,
        "scale": None,
        "preimage": "auto",
        "certify": "auto",
        "batch_size": "auto",
        "device": None,
        "robust": False,
        "random_state": None,
        "verbose": False,
    },
    "StreamingKernelRidge": {
        "alpha": "gcv",
        "kernel": "rbf",
        "gamma": None,
        "basis": "centroids",
        "fit_intercept": True,
        "forgetting": 1.0,
        "scale": None,
        "batch_size": "auto",
        "random_state": None,
        "verbose": False,
    },
}

ROOMS = {
    "kernels": kernels,
    "landmarks": landmarks,
    "papers": papers,
    "preimages": preimages,
    "schedules": schedules,
    "trackers": trackers,
}


def public_classes() -> dict[str, type]:
    """Parts by room and name, estimators by name."""
    found = {
        f"{room}.{name}": getattr(module, name)
        for room, module in ROOMS.items()
        for name in module.__all__
    }
    found |= {name: getattr(kernelstream, name) for name in kernelstream.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type)
        and hasattr(kind, "get_params")
        and not (inspect.isabstract(kind) and issubclass(kind, Part))
    }


def defaults_of(kind: type) -> dict[str, Any]:
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_that_were_promised(name: str) -> None:
    found = defaults_of(public_classes()[name])
    assert found == DEFAULTS[name]
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in DEFAULTS[name].items()}


def test_every_default_is_in_the_list() -> None:
    missing = {name for name, kind in public_classes().items() if defaults_of(kind)}
    assert missing == set(DEFAULTS)


def test_what_parts_say_of_themselves() -> None:
    """Strategies declare when landmarks change, trackers which blocks and values they need."""
    kinds = {name: strategy().kind for name, strategy in landmarks.NAMES.items()}
    assert kinds == {
        "centroids": "adaptive",
        "coherence": "growing",
        "distance": "growing",
        "everything": "growing",
        "landmarks": "fixed",
        "pivoted_cholesky": "fixed",
        "reduced_set": "reduced",
    }
    assert landmarks.Centroids(follows=False).kind == "fixed"
    of_trackers = {
        t.__name__: (t.sequential, t.any_blocks, getattr(t, "needs_points", False))
        for t in (
            *(papers.LMS, papers.RLS, papers.Hebbian, papers.SubsetHebbian),
            *(trackers.Covariance, trackers.IncrementalSVD),
        )
    }
    assert of_trackers == {
        "LMS": (True, False, True),
        "RLS": (True, False, False),
        "Covariance": (False, True, False),
        "Hebbian": (True, False, False),
        "IncrementalSVD": (False, False, False),
        "SubsetHebbian": (True, False, False),
    }
