"""A printed certificate is never wrong, against batch kernel PCA in extended precision."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from kernelstream import StreamingKernelPCA, kernels, landmarks, trackers
from kernelstream.certificates.certificate import certify as certified
from kernelstream.certificates.ledger import Ledger
from kernelstream.certificates.observer import CertificateObserver, enter
from kernelstream.landmarks import Clock, Start
from kernelstream.landmarks.base import Measured
from kernelstream.landmarks.nystroem import factorise, transition
from tests import samples
from tests.certificates.reference import (
    BASES,
    KERNELS,
    SHAPES,
    Batch,
    Case,
    cases,
    learned,
    long_kernel,
    random_case,
    rows_of,
    violations,
    wrong,
)


@settings(max_examples=300)
@given(cases())
def test_no_statement_is_wrong(case: Case):
    assert violations(case) == []


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 6000, 500))
def test_no_statement_is_wrong_in_thousands_of_cases(start: int):
    for seed in range(start, start + 500):
        assert violations(random_case(seed)) == [], random_case(seed)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_basis_with_every_kernel(basis: str, kernel: str):
    for seed, shape in enumerate(SHAPES[::3]):
        for certify in ("auto", "tight"):
            case = Case(seed, n=48, shape=shape, kernel=kernel, basis=basis, certify=certify)
            assert violations(case) == []


@pytest.mark.parametrize("basis", BASES)
def test_a_kernel_with_a_kink(basis: str):
    """Where rows nearly coincide, rounding moves such a kernel by 1e-8 and not by 1e-16."""
    for seed, shape in enumerate((*SHAPES, *5 * ["twins"])):
        for certify in ("auto", "tight"):
            case = Case(seed, shape=shape, kernel="exponential", basis=basis, certify=certify)
            assert violations(case) == []


@samples.grid("kernel, forgetting", KERNELS, [1.0, 0.97], together=1)
def test_centroids_that_are_added_while_there_is_room(kernel: str, forgetting: float):
    seeds = itertools.count()
    for weights, certify, mode, m in itertools.product(
        ("none", "tiny"), ("auto", "tight"), ("stream", "fit", "merge"), (5, 60)
    ):
        case = Case(
            next(seeds),
            n=72,
            shape="at rest",
            kernel=kernel,
            basis="centroids",
            m=m,
            weights=weights,
            certify=certify,
            forgetting=forgetting,
            mode=mode,
        )
        assert violations(case) == [], case


def test_the_same_case_gives_the_same_certificate():
    one, two = (learned(random_case(17))[0].certificate_.details for _ in range(2))
    assert str(one) == str(two)
    np.testing.assert_array_equal(one.eigenvalue_intervals, two.eigenvalue_intervals)


@pytest.mark.parametrize("kernel", ["narrow", "exponential"])
@pytest.mark.parametrize("basis", ["landmarks", "distance full", "origin"])
def test_rows_far_from_each_other_and_from_the_points(basis: str, kernel: str):
    """Kernel values of two rows are as wrong as the rows are far: the points do not tell."""
    for seed in range(20):
        case = Case(
            seed, n=60, d=1, shape="far groups", kernel=kernel, basis=basis, m=1, certify="tight"
        )
        assert violations(case) == [], case


@samples.grid(
    "basis, mode",
    ["landmarks", "centroids", "distance full"],
    ["stream", "fit", "merge"],
    together=1,
)
def test_float32_rows_in_tight_groups_far_apart(basis: str, mode: str):
    """Rounding of kernel values grows with the distance, and the factor multiplies it."""
    for seed in range(25):
        options: dict[str, Any] = dict(shape="tight groups", kernel="narrow", dtype="float32")
        case = Case(seed, n=72, d=2, basis=basis, m=8, r=3, mode=mode, **options)
        assert violations(case) == [], case
        assert learned(case)[0].explained_variance_.sum() <= 1.0 + 1e-3, case


# -- the cases are what they are meant to be


def changes(case: Case) -> tuple[int, int]:
    """How often points were looked for, and how often others were found."""
    counts = {"looked": 0, "found": 0}
    original = landmarks.Centroids._update_landmarks

    def counted(*arguments: Any) -> Any:
        state, T = original(*arguments)
        counts["looked"] += 1
        counts["found"] += T is not None
        return state, T

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landmarks.Centroids, "_update_landmarks", counted)
        learned(case)
    return counts["looked"], counts["found"]


def test_centroids_really_look_and_move():
    found = [
        changes(Case(seed, n=90, shape="mean shift", basis="centroids", m=4, batch=8))
        for seed in range(5)
    ]
    assert min(looked for looked, _ in found) >= 3
    assert sum(moved for _, moved in found) >= 5


def test_a_certificate_is_mostly_given():
    """Never wrong is easy for those who say nothing."""
    given_up = [
        seed
        for seed in range(100)
        if not np.isfinite(learned(random_case(seed))[0].certificate_.details.reconstruction_error)
    ]
    assert len(given_up) < 10


def test_everything_is_certified_to_be_exact():
    """The points of an ill-conditioned basis have coefficients of order one: nothing is lost."""
    X = np.random.default_rng(0).normal(size=(120, 3))
    model = StreamingKernelPCA(3, gamma=0.3, basis=landmarks.Everything()).partial_fit(X)
    span = model.stream_.components.span
    assert np.linalg.norm(span.factor, 2) > 1e3
    low, high = model.certificate_.details.eigenvalue_intervals.T
    np.testing.assert_allclose(low, high, rtol=1e-5)
    assert model.certificate_.details.excess_bound < 1e-6


# -- single rules


def missed_too_little(seed: int) -> bool:
    """Whether the ledger of a block that admits points says less than what is missed.

    With a linear kernel the feature space is at hand: κ_k(RᵀR) and κ_k(GᵀG) themselves.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4)) * [1.0, 0.3, 0.3, 0.3] + rng.normal(size=4)
    X[10] *= 3.0
    X[20] *= [0.6, 3.0, 3.0, 3.0]
    X[29] = 4.0 * rng.normal(size=4)
    basis = landmarks.Distance(nu=rng.uniform(1.0, 6.0), max_points=4)
    options: dict[str, Any] = dict(kernel="linear", basis=basis, certify="tight", batch_size=64)
    stream = StreamingKernelPCA(3, **options).partial_fit(X[:1]).stream_
    state, chain = stream.caught_up.begun, stream.chain
    start = chain.basis.begin(chain.kernel, Start(X))
    grown, block = chain.basis.admit(chain.kernel, start, X, None, Clock(0, 0))
    empty = replace(
        state,
        basis=grown,
        moments=trackers.Moments(0.0, np.zeros(0)),
        tracker=chain.tracker.begin(0, 3, X),
    )
    observer = CertificateObserver.begin("tight", 3, sampled=False)
    measured = Measured.of(X, None, None, Clock(0, 0), block, scatter=False)
    ledger = enter(chain.accumulated(empty), observer.ledger, measured)
    D = grown.span.points
    R = X - block.Z @ (grown.span.factor.T @ D)
    missed = np.cumsum(np.linalg.svd(R, compute_uv=False) ** 2)
    stale = np.cumsum(np.linalg.svd(R @ np.linalg.pinv(D) @ D, compute_uv=False) ** 2)
    return bool(
        np.any(missed > ledger.fresh_orders + ledger.stale_orders + 1e-10)
        or np.any(stale > ledger.stale_orders + 1e-10)
    )


def test_missed_parts_of_rows_in_several_bases():
    """In a block that admits points, rows are expressed in different spans: R is not Φ − PΦ."""
    assert not any(map(missed_too_little, range(100)))


def lost_too_little(seed: int) -> bool:
    """Whether the ledger of rows that change their basis says less than what is missed then.

    Features are columns of Φ, in a space of four dimensions: κ_k(RᵀR) and κ_k(GᵀG) themselves.
    """
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(4, 9)) * [[2.0], [1.0], [0.5], [0.5]]
    U, U_new = (np.linalg.qr(rng.normal(size=(4, rank)))[0] for rank in rng.integers(1, 4, size=2))
    held = U @ (U.T @ Phi)
    carried = U_new @ (U_new.T @ held)

    def orders(M: np.ndarray) -> np.ndarray:
        """κ_1 … κ_4, the last of which is the trace."""
        return np.cumsum(np.linalg.svd(M, compute_uv=False) ** 2)

    missed, lost = orders(Phi - held), orders(held - carried)
    ledger = Ledger(fresh_orders=np.zeros(4), stale_orders=np.zeros(4))
    ledger = ledger.fold(float((Phi**2).sum()), missed[-1], missed).rebase(9.0, lost[-1], lost)
    R = Phi - carried
    missed, stale = orders(R), orders(U_new @ (U_new.T @ R))
    return bool(
        np.any(missed > ledger.fresh_orders + ledger.stale_orders + 1e-10)
        or np.any(stale > ledger.stale_orders + 1e-10)
        or missed[-1] > ledger.missed + 1e-10
        or stale[-1] > ledger.stale + 1e-10
    )


def test_missed_parts_after_a_change_of_basis():
    """What was missed and what is lost may point the same way: squares do not just add."""
    assert not any(map(lost_too_little, range(200)))


def shown_is_wrong(seed: int) -> bool:
    """Whether error or angle of a subspace and a mean in another span are bounded too low.

    Centroids show a refreshed basis with corrected moments; here the shown basis is anything.
    """
    variant, kernel = seed % 3, "wide" if seed % 3 == 2 else "narrow"
    case = Case(seed, n=30, kernel=kernel, basis="landmarks", m=3 + seed % 8, r=1, certify="tight")
    model, X, w = learned(case)
    state, chain = model.stream_.caught_up.begun, model.stream_.chain
    span = factorise(chain.kernel, X)
    batch = Batch(case, X, w)
    mapped = span.factor.T @ long_kernel(case, span.points, batch.X).astype(float)
    # The exact component and mean, with the part outside of the model's span turned round: what
    # the model knows looks as good as before. Or another component altogether.
    T = transition(chain.kernel, state.basis.span, span)
    inside, turned = T @ T.T, 2 * T @ T.T - np.eye(span.rank)
    mean = (inside if variant else turned) @ mapped @ batch.share.astype(float)
    v = turned @ mapped @ batch.components(1).astype(float)
    if variant == 2:
        v += np.random.default_rng(seed).normal(size=v.shape)
    v /= np.linalg.norm(v)
    assert state.observer is not None
    found = certified(chain.accumulated(state), state.observer.ledger, v, mean, span)
    J, _ = batch.error_of(span.points, span.factor @ v, span.factor @ mean)
    wrong_angle = False
    if found.angle_bound is not None:
        cosine = float((mapped @ batch.components(1).astype(float))[:, 0] @ v[:, 0])
        wrong_angle = np.sqrt(max(0.0, 1 - cosine**2)) > np.sin(found.angle_bound) + 1e-7
    return wrong_angle or found.reconstruction_error + 1e-12 < J


def test_components_in_another_basis():
    assert not any(map(shown_is_wrong, range(100)))


def test_a_dependent_row_that_becomes_stale_is_not_exact():
    """Its missed part is below rounding and enters under a root when the next point comes."""
    for seed in range(30):
        case = Case(seed, n=40, d=1, kernel="wide", basis="everything", r=3, shape="sorted")
        assert violations(case) == []


def test_energies_that_underflow_are_not_certified():
    case = Case(3, kernel="poly3 homogeneous", basis="landmarks")
    X = rows_of(case) * 1e-103
    kernel = kernels.Polynomial(degree=3, gamma=1.0, coef0=0.0)
    model = StreamingKernelPCA(2, kernel=kernel, basis=landmarks.Landmarks(X[:4])).partial_fit(X)
    assert "underflow" in str(model.certificate_)


@pytest.mark.slow
def test_the_real_policy_of_the_centroids():
    """Without the shortened waits: refreshes and a move among 1,700 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 2)) * [1.0, 0.5]
    X[900:] += [4.0, -3.0]
    case = Case(0, kernel="wide", d=2, r=3, basis="centroids", m=8)
    for certify in ("auto", "tight"):
        for n in (600, 1100, 1700):
            model = StreamingKernelPCA(
                3,
                kernel=kernels.RBF(gamma=0.05 / 2),
                basis=landmarks.Centroids(8),
                certify=certify,
                batch_size=64,
                random_state=1,
            ).partial_fit(X[:n])
            batch = Batch(case, X[:n], np.ones(n))
            assert wrong(case, model, model.certificate_.details, batch) == []
