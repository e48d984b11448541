"""Small hard streams, batch kernel PCA of them in extended precision, and what a certificate says.

``violations(case)`` runs a model over a stream and returns every printed statement that is wrong.
The reference is kernel PCA of the weighted, centred Gram matrix, and the error of the shown
subspace evaluated row by row in feature space. Only the rounding error of the reference itself is
allowed for.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kernelstream import StreamingKernelPCA, landmarks, trackers
from kernelstream.certificates import bounds
from kernelstream.certificates.certificate import GuaranteedBounds, evidence

U = 2.0**-53
Long = np.longdouble


class QuickCentroids(landmarks.Centroids):
    """Centroids that begin, look for points and move after a few rows instead of thousands."""

    def start_rows(self, of_all: bool = False) -> int:
        return super().start_rows(of_all) if of_all else 2 * self.n_points

    def _update_due(self, state: Any) -> bool:
        return bool(self.follows and state.n >= 1.5 * state.updated_at)


SHAPES = (
    "normal",
    "duplicates",
    "rank two",
    "sorted",
    "outliers",
    "column scales",
    "random walk",
    "mean shift",
    "sign flip",
    "clusters",
)
KERNELS = ("narrow", "wide", "linear", "poly2", "poly3", "poly2 homogeneous", "poly3 homogeneous")
BASES = (
    "distance",
    "distance full",
    "coherence",
    "landmarks",
    "centroids",
    "everything",
)


@dataclass(frozen=True)
class Case:
    """A stream and a model; everything follows from these values."""

    seed: int
    n: int = 40
    d: int = 3
    shape: str = "normal"
    scale: float = 1.0
    kernel: str = "wide"
    center: bool = True
    basis: str = "landmarks"
    m: int = 6
    weights: str = "none"
    forgetting: float = 1.0
    r: int = 2
    certify: str = "auto"
    batch: int = 16
    dtype: str = "float64"
    mode: str = "stream"
    pieces: int = field(default=2)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def rows_of(case: Case) -> np.ndarray:
    """The rows, in the type of the stream."""
    rng = np.random.default_rng(case.seed)
    n, d = case.n, case.d
    X = rng.normal(size=(n, d))
    if case.shape == "duplicates":
        X = X[rng.integers(0, max(1, n // 5), size=n)]
    elif case.shape == "twins":
        X = X[rng.integers(0, max(1, n // 5), size=n)] + 1e-9 * X
    elif case.shape == "rank two":
        X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    elif case.shape == "sorted":
        X = X[np.argsort(X[:, 0])]
    elif case.shape == "outliers":
        X[rng.random(n) < 0.1] *= 100.0
    elif case.shape == "column scales":
        X *= np.logspace(0, -4, d)
    elif case.shape == "random walk":
        X = np.cumsum(X, axis=0)
    elif case.shape == "mean shift":
        X[n // 2 :] += 5.0 * rng.normal(size=d)
    elif case.shape == "sign flip":
        X[: n // 2, -1] = -np.abs(X[: n // 2, -1])
        X[n // 2 :, -1] = np.abs(X[n // 2 :, -1])
    elif case.shape == "at rest":  # few different rows at first: centroids are added later
        X[: n // 2] = X[rng.integers(0, 2, size=n // 2)]
    elif case.shape == "far groups":  # much farther apart than each is wide
        X = 0.3 * X + 10.0 ** rng.uniform(2, 8) * rng.choice([-1.0, 1.0], size=(n, 1))
    elif case.shape == "tight groups":  # where float32 has no digits left for what is inside them
        X = 10.0 ** rng.uniform(-4, -1) * X
        X += 10.0 ** rng.uniform(0, 3) * rng.integers(0, 2, size=(n, 1))
    elif case.shape == "clusters":
        X = 4.0 * rng.normal(size=(5, d))[np.sort(rng.integers(0, 5, size=n))] + 0.2 * X
    return (case.scale * X).astype(case.dtype)


def weights_of(case: Case) -> np.ndarray | None:
    """Weights: none, moderate, or some that are nearly zero, and zero."""
    rng = np.random.default_rng([case.seed, 1])
    if case.weights == "none":
        return None
    w = rng.gamma(1.0, size=case.n) + 1e-3
    if case.weights == "tiny":
        w[rng.random(case.n) < 0.3] *= 1e-9
        w[1:][rng.random(case.n - 1) < 0.1] = 0.0
    return w


def kernel_of(case: Case) -> tuple[str, dict[str, Any]]:
    """Kind and numbers of the kernel; widths follow the scale of the data."""
    if case.kernel in ("narrow", "wide"):
        gamma = (2.0 if case.kernel == "narrow" else 0.05) / (case.d * case.scale**2)
        return "rbf", {"gamma": gamma}
    if case.kernel == "linear":
        return "linear", {}
    if case.kernel == "exponential":
        return "exponential", {"gamma": 0.5 / case.scale}
    coef0 = 0.0 if "homogeneous" in case.kernel else 1.0
    gamma = 1.0 / (case.d * case.scale**2)
    return "poly", {"degree": int(case.kernel[4]), "gamma": gamma, "coef0": coef0}


def kernel_object(case: Case) -> Any:
    from kernelstream import kernels

    kind, numbers = kernel_of(case)
    made = {
        "rbf": kernels.RBF,
        "exponential": kernels.Exponential,
        "linear": kernels.Linear,
        "poly": kernels.Polynomial,
    }[kind]
    return made(**numbers)


def long_kernel(case: Case, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """k(x, y) in extended precision."""
    kind, numbers = kernel_of(case)
    X, Y = X.astype(Long), Y.astype(Long)
    if kind in ("rbf", "exponential"):
        squared = np.zeros((len(X), len(Y)), dtype=Long)
        for j in range(X.shape[1]):
            squared += (X[:, None, j] - Y[None, :, j]) ** 2
        t = squared if kind == "rbf" else np.sqrt(squared)
        return np.exp(-Long(numbers["gamma"]) * t)
    dots = X @ Y.T
    if kind == "linear":
        return dots
    return (Long(numbers["gamma"]) * dots + Long(numbers["coef0"])) ** numbers["degree"]


def basis_of(case: Case, X: np.ndarray) -> landmarks.LandmarkStrategy:
    """The basis; thresholds follow the energy of the rows."""
    energy = float(np.median(np.diag(long_kernel(case, X, X)).astype(float)))
    if case.basis == "distance":
        return landmarks.Distance(nu=max(0.1 * energy, 1e-290))
    if case.basis == "distance full":
        return landmarks.Distance(nu=max(1e-3 * energy, 1e-290), max_points=case.m)
    if case.basis == "coherence":
        return landmarks.Coherence(delta=0.7)
    if case.basis == "landmarks":
        rng = np.random.default_rng([case.seed, 2])
        spread = X[rng.integers(0, len(X), size=case.m)]
        return landmarks.Landmarks(spread + (0.1 * case.scale * rng.normal(size=spread.shape)))
    if case.basis == "origin":
        return landmarks.Landmarks(np.zeros((1, X.shape[1])))
    if case.basis == "centroids":
        return QuickCentroids(case.m)
    return landmarks.Everything()


def learned(case: Case) -> tuple[StreamingKernelPCA, np.ndarray, np.ndarray]:
    """The model, and the rows and weights that it is a model of."""
    X, w = rows_of(case), weights_of(case)
    options: dict[str, Any] = dict(
        kernel=kernel_object(case),
        basis=basis_of(case, X),
        tracker=trackers.Covariance(case.forgetting),
        center=case.center,
        certify=case.certify,
        batch_size=case.batch,
        random_state=case.seed % 1000,
    )
    if case.mode == "fit":
        model = StreamingKernelPCA(case.r, **options).fit(X, sample_weight=w)
        return model, X, faded(case, w, len(X))
    if case.mode == "stream":
        model = StreamingKernelPCA(case.r, **options)
        for part in np.array_split(np.arange(len(X)), case.pieces):
            if len(part) and (w is None or w[part].any()):
                model.partial_fit(X[part], sample_weight=None if w is None else w[part])
        return model, X, faded(case, w, len(X))
    # merged: the parts learn apart; the third joins the merged model of the others
    parts = np.array_split(np.arange(len(X)), 3 if case.mode == "merge three" else 2)
    models, weights = [], []
    for i, part in enumerate(parts):
        v = None if w is None else w[part]
        if v is not None and not v.any():
            v = np.ones(len(part))
        options["random_state"] = case.seed % 1000 + i
        models.append(StreamingKernelPCA(case.r, **options).partial_fit(X[part], sample_weight=v))
        weights.append(faded(case, v, len(part)))
    model = models[0]
    for other in models[1:]:
        model = model.merge(other)
    return model, X, np.concatenate(weights)


def faded(case: Case, w: np.ndarray | None, n: int) -> np.ndarray:
    """What forgetting leaves of the weights (rows of weight zero are no rows)."""
    w = np.ones(n) if w is None else w
    left = np.zeros(n)
    kept = np.flatnonzero(w > 0)
    left[kept] = w[kept] * case.forgetting ** np.arange(len(kept) - 1.0, -1.0, -1.0)
    return left


class Batch:
    """Batch kernel PCA of rows with weights."""

    def __init__(self, case: Case, X: np.ndarray, w: np.ndarray):
        keep = w > 0
        self.case, self.X, self.w = case, X[keep], w[keep].astype(Long)
        self.W = self.w.sum()
        self.K = long_kernel(case, self.X, self.X)
        self.share = self.w / self.W
        self.mean_row = self.K @ self.share if case.center else np.zeros(len(self.X), dtype=Long)
        self.square = self.share @ self.mean_row if case.center else Long(0)  # |mean|²
        centred = self.K - self.mean_row[:, None] - self.mean_row[None, :] + self.square
        root = np.sqrt(self.w)
        self.root = root
        scatter = (root[:, None] * centred * root[None, :]).astype(float)
        values, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
        self.values, self.vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        self.total = float(np.trace(scatter))
        # What eigh, and rounding its argument to float64, can be wrong by.
        self.error = 8 * len(self.X) * U * max(self.total, 0.0)
        self.error += 8 * 1e-19 * float(self.w @ np.diag(self.K))

    def value(self, i: int) -> float:
        return float(self.values[i]) if i < len(self.values) else 0.0

    def components(self, r: int) -> np.ndarray:
        """Coefficients over the rows, centring included, of v_1 … v_r."""
        A = self.root[:, None] * self.vectors[:, :r].astype(Long)
        A = A / np.sqrt(self.values[:r].astype(Long))
        return A - self.share[:, None] * A.sum(axis=0) if self.case.center else A

    def error_of(self, points: np.ndarray, dual: np.ndarray, mean: np.ndarray) -> tuple[float, Any]:
        """J of the span of Σ_k dual_k φ(point_k) about Σ_k mean_k φ(point_k), and its scores."""
        case = self.case
        D, A, b = points, dual.astype(Long), mean.astype(Long)
        K_D, K_XD = long_kernel(case, D, D), long_kernel(case, self.X, D)
        distance = np.diag(self.K) - 2 * (K_XD @ b) + b @ K_D @ b
        y = (K_XD - (K_D @ b)[None, :]) @ A
        N = (A.T @ K_D @ A).astype(float)
        inverse = np.linalg.inv(N).astype(Long) if len(N) else N.astype(Long)
        missed = distance - np.einsum("ij,jk,ik->i", y, inverse, y)
        return float(self.share @ missed), float(self.share @ np.abs(distance))


def violations(case: Case) -> list[str]:
    """Every statement of the certificate that is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, X, w = learned(case)
        certificate = model.certificate_.details
    if not np.all(np.isfinite(certificate.eigenvalue_intervals)):
        return []
    return wrong(case, model, certificate, Batch(case, X, w))


def wrong(
    case: Case, model: StreamingKernelPCA, certificate: GuaranteedBounds, batch: Batch
) -> list[str]:
    found: list[str] = []
    r, W = len(certificate.eigenvalue_intervals), float(batch.W)
    tau = float(batch.share @ np.diag(batch.K))

    def check(what: str, low: float, value: float, high: float, error: float) -> None:
        if not low - error <= value <= high + error:
            found.append(f"{what}: {value!r} not in [{low!r}, {high!r}] (±{error:.1e})")

    for i, (low, high) in enumerate(certificate.eigenvalue_intervals):
        check(f"eigenvalue {i + 1}", low, batch.value(i), high, batch.error)

    state = model.stream_.caught_up.begun
    assert state.observer is not None
    known = evidence(model.stream_.chain.accumulated(state), state.observer.ledger)
    check("weight", known.weight, W, known.weight, 1e-9 * W)
    leading = float(batch.values[:r].sum())
    low, high = bounds.leading_sum(known, r)
    check("leading sum", low, leading / W, high, batch.error / W)
    low, high = bounds.total_variance(known)
    check("total variance", low, batch.total / W, high, batch.error / W)
    if batch.total > 1e-12 * W * tau:
        low, high = certificate.best_explained_variance_ratio_interval
        error = 2 * batch.error / batch.total
        check("explained variance ratio", low, leading / batch.total, high, error)

    best = float(batch.values[r:].sum()) / W
    lower = certificate.reconstruction_error_lower_bound
    check("best error", lower, best, np.inf, batch.error / W)

    seen = model.stream_.components
    V = np.linalg.norm(seen.vectors, axis=0) > 0.5
    dual, points = np.asarray(seen.dual_coef)[:, V], np.asarray(seen.points)
    J, size = batch.error_of(points, dual, np.asarray(seen.mean_coef))
    # extended precision, with coefficients that may be large
    error = 1e-18 * (1 + np.abs(dual).sum(axis=0).max(initial=0.0) ** 2) * size + 1e-14 * size
    check("own error", -np.inf, J, certificate.reconstruction_error, error)
    check("excess", 0.0, max(J - best, 0.0), certificate.excess_bound, error + batch.error / W)

    certain = batch.value(r - 1) - batch.value(r)
    if certificate.angle_bound is not None and certain > 100 * batch.error:
        exact = batch.components(r)
        M = exact.T @ long_kernel(case, batch.X, points) @ dual.astype(Long)
        N = dual.astype(Long).T @ long_kernel(case, points, points) @ dual.astype(Long)
        squared = float(r - np.trace(np.linalg.inv(N.astype(float)) @ (M.T @ M)))
        error = np.sqrt(1e-14 * r + 4 * batch.error / batch.value(r - 1)) + batch.error / certain
        sine = np.sqrt(max(squared, 0.0))
        check("angle", 0.0, sine, float(np.sin(certificate.angle_bound)), float(error))

    F = np.asarray(seen.span.factor).astype(Long)
    K_DX = long_kernel(case, points, batch.X)
    K_D = long_kernel(case, points, points)
    for i, bound in enumerate(certificate.component_bounds):
        if batch.value(i) > 1e4 * batch.error and bound < 1:
            c = K_DX @ batch.components(i + 1)[:, i]
            inside = F.T @ c
            # |P v|² = inᵀ(FᵀKF)⁻¹ in, to first order about FᵀKF = I
            defect = F.T @ (K_D @ (F @ inside)) - inside
            outside = 1 - float(inside @ inside - inside @ defect)
            error = 1e-13 + 2 * batch.error / batch.value(i) + 10 * float(defect @ defect)
            check(f"component {i + 1}", -np.inf, outside, bound, error)
    return found


# -- drawing cases


@st.composite
def cases(draw: Any, /, **fixed: Any) -> Case:
    """Any stream with any model; arguments that are given are not drawn."""
    options = dict(
        seed=st.integers(0, 2**32 - 1),
        n=st.integers(2, 90),
        d=st.integers(1, 8),
        shape=st.sampled_from(SHAPES),
        scale=st.sampled_from([1.0, 1.0, 1e3, 1e-3, 1e6, 1e-6]),
        kernel=st.sampled_from(KERNELS),
        center=st.booleans(),
        basis=st.sampled_from(BASES),
        m=st.integers(1, 12),
        weights=st.sampled_from(["none", "none", "moderate", "tiny"]),
        forgetting=st.sampled_from([1.0, 1.0, 0.97, 0.8]),
        r=st.integers(1, 6),
        certify=st.sampled_from(["auto", "tight"]),
        batch=st.sampled_from([1, 5, 16, 64]),
        dtype=st.just("float64"),
        mode=st.sampled_from(["stream", "stream", "stream", "fit", "merge", "merge three"]),
        pieces=st.integers(1, 3),
    )
    drawn = {name: draw(s) for name, s in options.items() if name not in fixed}
    return tidied(Case(**{**drawn, **fixed}))


def random_case(seed: int, **fixed: Any) -> Case:
    """The same distribution from a number, for long searches."""
    rng = np.random.default_rng(seed)

    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    drawn = dict(
        seed=seed,
        n=int(rng.integers(2, 91)),
        d=int(rng.integers(1, 9)),
        shape=pick(SHAPES),
        scale=pick([1.0, 1.0, 1e3, 1e-3, 1e6, 1e-6]),
        kernel=pick(KERNELS),
        center=bool(rng.random() < 0.7),
        basis=pick(BASES),
        m=int(rng.integers(1, 13)),
        weights=pick(["none", "none", "moderate", "tiny"]),
        forgetting=pick([1.0, 1.0, 0.97, 0.8]),
        r=int(rng.integers(1, 7)),
        certify=pick(["auto", "tight"]),
        batch=pick([1, 5, 16, 64]),
        dtype="float64",
        mode=pick(["stream", "stream", "stream", "fit", "merge", "merge three"]),
        pieces=int(rng.integers(1, 4)),
    )
    return tidied(Case(**{**drawn, **fixed}))


def tidied(case: Case) -> Case:
    """Enough rows for the parts of a merged model, and for centroids that move."""
    from dataclasses import replace

    if case.basis == "centroids":
        case = replace(case, m=min(case.m, 8), n=max(case.n, 6 * case.m), batch=min(case.batch, 16))
    if "merge" in case.mode:
        case = replace(case, n=max(case.n, 9))
    return case
