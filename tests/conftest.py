"""Hypothesis profiles, and the registry of part combinations that the invariants run over.

The default profile is the same on every run and keeps ``make test`` short; set
``HYPOTHESIS_PROFILE=thorough`` to draw anew and far more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, settings
from sklearn.utils.fixes import parse_version

from kernelstream import StreamingKernelPCA, landmarks, papers, trackers
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.sample import AuditSample
from kernelstream.papers import schedules
from kernelstream.stream import State
from tests import samples

# Some examples fold thousands of rows: a time limit would only measure the load of the machine.
_COMMON: dict[str, Any] = dict(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("default", max_examples=5, derandomize=True, **_COMMON)
settings.register_profile("no-jit", max_examples=2, derandomize=True, **_COMMON)
settings.register_profile("thorough", max_examples=150, print_blob=True, **_COMMON)
_PLAIN = "no-jit" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "default"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _PLAIN))


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Let processes that a test starts hear SIGINT.

    A shell without job control starts what runs in the background with SIGINT ignored, Python
    leaves it so, and so does every process below: a test that interrupts one would wait in vain.
    A signal with a handler is the default again in a new program.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Chain:
    """A basis and a tracker with small parameters, and a stream that takes them through it all.

    ``n_rows`` reaches past the start buffer and, for the centroids, past several looks for
    better points, one of them after the stream has moved (it jumps at ``jump``).
    """

    name: str
    basis: Callable[[], landmarks.LandmarkStrategy]
    tracker: Callable[..., trackers.Tracker]
    n_rows: int
    jump: int

    def __repr__(self) -> str:
        return self.name

    @property
    def follows_rows(self) -> bool:
        """Decides at block ends: the one basis that depends on the batch size."""
        return isinstance(self.basis(), landmarks.Centroids)

    @property
    def sequential(self) -> bool:
        return self.tracker().kind == "sequential"

    def rows(self, seed: int = 0, n_rows: int | None = None) -> np.ndarray:
        """Rows in the plane that jump to another region."""
        n = self.n_rows if n_rows is None else n_rows
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2)) * [1.0, 0.5]
        X[self.jump :] += [4.0, -3.0]
        return X

    def estimator(self, forgetting: float = 1.0, **options: Any) -> StreamingKernelPCA:
        """A fresh estimator; options replace the registry's."""
        chosen: dict[str, Any] = dict(
            n_components=3,
            kernel="rbf",
            gamma=0.4,
            basis=self.basis(),
            tracker=self.tracker(forgetting=forgetting),
            batch_size=64,
            random_state=3,
        )
        return StreamingKernelPCA(**{**chosen, **options})


def wrongly_checked(estimator: Any) -> dict[str, str]:
    """Checks of scikit-learn that ask for what the estimator's tags rule out, with the reason."""
    old = parse_version(sklearn.__version__) < parse_version("1.7")
    if not old or estimator.scale is None:
        return {}
    check = "check_sample_weight_equivalence_on_sparse_data"
    return {check: "it ignores the tag that says: no sparse rows (scikit-learn #30139)"}


# What every estimator offers that holds a stream, scikit-learn's own methods among them.
HELD_STREAM = [
    *("stream_", "set_stream", "transaction", "report_progress", "clear_buffer", "save", "load"),
    *("from_file", "from_content", "is_between_passes"),
    *("calibrate", "can_fill", "fills", "fill_missing", "check_rows"),
    *("get_params", "set_params", "get_metadata_routing"),
    *("set_fit_request", "set_partial_fit_request"),
]


def public_members(kind: type) -> list[str]:
    """The names that a class offers, sorted."""
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def state_of(model: StreamingKernelPCA) -> Any:
    """What the finished blocks have taught; None before the start."""
    return model.stream_.state


def settled_state(model: StreamingKernelPCA) -> Any:
    """What a query looks at: the rows that wait are folded, the basis is up to date."""
    return model.stream_.settled.state


def ledger_of(state: State) -> Ledger:
    """The ledger of a state with a certificate."""
    assert state.observer is not None
    return state.observer.ledger


def audit_sample(state: State) -> AuditSample | None:
    """The audit sample of a state; None without a certificate."""
    return None if state.observer is None else state.observer.sample


@pytest.fixture(scope="module")
def restless_centroids() -> Iterator[None]:
    """Centroids look for points again and again, however few rows there are to repay it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            landmarks.Centroids,
            "_update_due",
            lambda self, state: self.follows and state.n >= 1.25 * state.updated_at,
        )
        yield


GIVEN = np.random.default_rng(99).normal(size=(6, 2)) * 2.0

# Rows of a stream, and the row at which it jumps. Landmarks that are drawn start after 500 rows.
# Centroids do too; where they are restless, they look for points when the rows have doubled, and
# when the residual has risen after the jump.
ROWS = {
    "centroids": (3850, 2700),
    "coherence": (300, 150),
    "distance": (300, 150),
    "everything": (150, 75),
}
MADE: dict[str, Callable[[], landmarks.LandmarkStrategy]] = {
    name: partial(copy, sample)
    for name, sample in samples.landmark_strategies(8).items()
    if name != "reduced_set"  # compresses at the ends of blocks: other blocks, another model
}
BASES: dict[str, tuple[Callable[[], landmarks.LandmarkStrategy], int, int]] = {
    **{name: (make, *ROWS.get(name, (700, 350))) for name, make in MADE.items()},
    "distance": (lambda: landmarks.Distance(nu=0.2), *ROWS["distance"]),
    "distance-full": (lambda: landmarks.Distance(nu=0.05, max_points=7), *ROWS["distance"]),
    "coherence": (lambda: landmarks.Coherence(delta=0.6), *ROWS["coherence"]),
    "landmarks-given": (lambda: landmarks.Landmarks(GIVEN), 300, 150),
}
TRACKERS: dict[str, Callable[..., trackers.Tracker]] = {
    "covariance": trackers.Covariance,
    "hebbian": lambda **kw: papers.Hebbian(schedules.SearchThenConverge(0.5, 100), **kw),
    "hebbian-automatic": lambda **kw: papers.Hebbian(schedules.AutomaticRate(floor=0.01), **kw),
}
CHAINS = [
    Chain(f"{basis}-{tracker}", make_basis, make_tracker, n_rows, jump)
    for basis, (make_basis, n_rows, jump) in BASES.items()
    for tracker, make_tracker in TRACKERS.items()
]


@pytest.fixture(scope="session", params=CHAINS, ids=repr)
def chain(request: pytest.FixtureRequest) -> Chain:
    """Every basis with every tracker."""
    return request.param
