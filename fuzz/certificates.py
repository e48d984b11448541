"""Certificates against batch kernel PCA in extended precision, on random hard streams.

``attack(seed)`` makes a stream and a model of it, and compares every statement of the certificate
with the truth: eigenvalues, shares of the variance, errors, angles, single components. Only public
attributes of the model are read. Where a statement is wrong, or anything but a ``ValueError`` is
raised, it returns the failure with a script that shows it on as few rows as were found.

    python -m fuzz.certificates 1000 2000    # seeds from, to
"""

from __future__ import annotations

import math
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream import StreamingKernelPCA, kernels, landmarks, load, trackers

Long = np.longdouble
U = 2.0**-53
MOST_TRIALS = 60  # models that are made while a failure is looked for in fewer rows

SHAPES = [
    "normal",
    "duplicates",
    "near-duplicates",
    "offset",
    "two-clusters",
    "tight-clusters",
    "sorted",
    "constant",
    "exploding",
    "outlier",
    "grid",
    "whole",
    "low-rank",
    "mixed-norms",
    "tiny",
    "huge",
    "walk",
    "heavy",
    "far-half",
    "far-groups",
    "zeros",
    "binary",
    "one-far",
    "unequal-clusters",
]
MODES = ["stream", "stream", "stream", "fit", "merge", "merge of merges", "merge, go on", "saved"]


@dataclass(frozen=True)
class Case:
    """A stream and a model; ``kernel`` and ``basis`` are Python, in which P are the points."""

    X: np.ndarray
    weights: np.ndarray | None
    P: np.ndarray
    kernel: str
    basis: str
    r: int
    beta: float
    center: bool
    certify: str
    batch: int | str
    mode: str
    cuts: tuple[float, ...]  # where calls end, as shares of the rows
    shape: str

    def model(self) -> StreamingKernelPCA:
        """The estimator before its first row."""
        return StreamingKernelPCA(
            self.r,
            kernel=eval(self.kernel, {"kernels": kernels, "math": math}),
            basis=eval(self.basis, {"bases": landmarks, "P": self.P}),
            tracker=trackers.Covariance(self.beta),
            center=self.center,
            certify=self.certify,
            batch_size=self.batch,
            random_state=0,
        )


# -- drawing


def drawn(seed: int) -> Case:
    """The case that belongs to a number."""
    rng = np.random.default_rng([77, seed])

    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    long = rng.random() < 0.1
    n = int(rng.integers(501, 900)) if long else int(rng.integers(1, 100))
    d = int(pick([1, 1, 2, 3, 5, 20]))
    shape, X = rows(rng, n, min(d, 3) if long else d)
    X = np.clip(X, -1e18, 1e18).astype(pick(["f8", "f8", "f4"]))
    inner = np.median(np.abs(X - np.median(X, axis=0)).astype(float))
    size = float(inner) or float(np.abs(X).max()) or 1.0
    kernel = kernel_of(rng, pick, size * math.sqrt(X.shape[1]))
    fixed = eval(kernel, {"kernels": kernels, "math": math})
    with np.errstate(all="ignore"):
        energy = float(np.median(fixed.diag(X.astype(float))))
    basis, P = basis_of(rng, pick, X.astype(float), energy if 0 < energy < math.inf else 1.0)
    return Case(
        X=X,
        weights=weights_of(rng, pick, n),
        P=P,
        kernel=kernel,
        basis=basis,
        r=int(rng.integers(1, 8)),
        beta=pick([1.0, 1.0, 1.0, 0.999, 0.9, 0.5]),
        center=bool(rng.random() < 0.75),
        certify=pick(["auto", "tight"]),
        batch=pick([1, 3, 16, 64, "auto"]),
        mode=pick(MODES),
        cuts=tuple(np.sort(rng.random(int(rng.integers(0, 3)))).tolist()),
        shape=shape,
    )


def rows(rng: np.random.Generator, n: int, d: int) -> tuple[str, np.ndarray]:
    """Rows of one of the shapes."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    X = rng.normal(size=(n, d))
    few = rng.integers(0, max(1, n // 6), size=n)
    half = rng.integers(0, 2, size=(n, 1))
    made: dict[str, Callable[[], np.ndarray]] = {
        "normal": lambda: X,
        "duplicates": lambda: X[few],
        "near-duplicates": lambda: X[few] + 10.0 ** rng.uniform(-12, -3) * X,
        "offset": lambda: X + 10.0 ** rng.uniform(1, 8) * rng.normal(size=d),
        "two-clusters": lambda: X + 10.0 ** rng.uniform(1, 8) * half * rng.normal(size=d),
        "tight-clusters": lambda: 10.0 ** rng.uniform(-4, 0) * X + 10.0 ** rng.uniform(0, 3) * half,
        "unequal-clusters": lambda: X + 10.0 ** rng.uniform(1, 4) * (rng.random((n, 1)) < 0.05),
        "sorted": lambda: X[np.argsort(X[:, 0])],
        "constant": lambda: np.tile(X[:1], (n, 1)),
        "exploding": lambda: X * np.logspace(-3, rng.uniform(0, 5), n)[:, None],
        "outlier": lambda: np.vstack([X[:-1], X[-1:] * 10.0 ** rng.uniform(1, 6)]),
        "grid": lambda: np.linspace(-1, 1, n)[:, None] * np.ones(d),
        "whole": lambda: np.round(3 * X),
        "low-rank": lambda: X[:, :1] * rng.normal(size=(1, d)),
        "mixed-norms": lambda: X * 10.0 ** rng.uniform(-8, 4, size=(n, 1)),
        "tiny": lambda: X * 10.0 ** rng.uniform(-100, -6),
        "huge": lambda: X * 10.0 ** rng.uniform(3, 17),
        "walk": lambda: np.cumsum(X, axis=0),
        "heavy": lambda: rng.standard_cauchy(size=(n, d)),
        "far-half": lambda: X + 10.0 ** rng.uniform(2, 9) * (np.arange(n) < n // 2)[:, None],
        "far-groups": lambda: 0.3 * X + 10.0 ** rng.uniform(2, 8) * (2 * half - 1),
        "zeros": lambda: X * (rng.random((n, 1)) < 0.5),
        "binary": lambda: (X > 0.3).astype(float),
        "one-far": lambda: X + 1e7 * (np.arange(n) == n // 3)[:, None],
    }
    return shape, made[shape]()


def kernel_of(rng: np.random.Generator, pick: Any, size: float) -> str:
    """A kernel, or two combined, as Python; widths follow the size of the rows."""

    def simple() -> str:
        g = 10.0 ** (rng.uniform(-3, 2) if rng.random() < 0.7 else rng.uniform(-8, 8))
        degree, coef0 = int(rng.integers(1, 6)), pick([0.0, 1.0, 1.0, 1e-4, 1e4])
        scale = max(1 / size**2, 1e-300) if size > 1e-150 else 1e300
        return pick(
            [
                f"kernels.RBF({min(max(g * scale, 1e-300), 1e300)!r})",
                f"kernels.RBF({min(max(g * scale, 1e-300), 1e300)!r})",
                f"kernels.Laplacian({max(g / size, 1e-300)!r})",
                f"kernels.Exponential({min(max(g / size, 1e-150), 1e150)!r})",
                f"kernels.Matern({pick(['0.5', '1.5', '2.5', 'math.inf'])}, {size / g**0.5!r})",
                f"kernels.Polynomial({degree}, {scale!r}, {coef0!r})",
                "kernels.Linear()",
                "kernels.Cosine()",
            ]
        )

    kernel, what = simple(), rng.random()
    if what < 0.1:
        return f"{kernel} + {simple()}"
    if what < 0.2:
        return f"{kernel} * {simple()}"
    return f"{10.0 ** rng.uniform(-12, 12)!r} * {kernel}" if what < 0.25 else kernel


def basis_of(
    rng: np.random.Generator, pick: Any, X: np.ndarray, energy: float
) -> tuple[str, np.ndarray]:
    """A basis as Python, and the points in it."""
    m, n = int(rng.integers(1, 14)), len(X)
    nu = max(energy * 10.0 ** rng.uniform(-6, -0.1), 1e-290)
    P = X[rng.integers(0, n, size=m)]
    far = rng.normal(size=P.shape) * np.abs(X).max() + X[:1]
    points = pick([P, P, np.vstack([P, P, P[:1]]), far, 0.0 * P[:1]])
    basis = pick(
        [
            "landmarks.Landmarks(P)",
            "landmarks.Landmarks(P)",
            "landmarks.Landmarks(P)",
            f"landmarks.Landmarks({m})",
            f"landmarks.Centroids({m})",
            f"landmarks.Centroids({m})",
            f"landmarks.Distance({nu!r})",
            f"landmarks.Distance({nu!r}, {m})",
            f"landmarks.Coherence({rng.uniform(0.2, 0.95):.3f})",
            "landmarks.Everything()",
            f"landmarks.ReducedSet({m})",
        ]
    )
    return basis, points


def weights_of(rng: np.random.Generator, pick: Any, n: int) -> np.ndarray | None:
    """No weights as a rule; or moderate, wild, one huge, some zero, all of an odd size."""
    kind = pick(["none", "none", "none", "moderate", "wild", "one", "zeros", "unit"])
    if kind == "none":
        return None
    w = rng.gamma(1.0, size=n) + 1e-3
    if kind == "wild":
        w = 10.0 ** rng.uniform(-12, 12, size=n)
    elif kind == "one":
        w[int(rng.integers(n))] = 1e12
    elif kind == "zeros":
        w[1:] *= rng.random(n - 1) < 0.6
    elif kind == "unit":
        w *= 10.0 ** pick([-200, -50, -45, 30, 40, 200])
    return w


# -- learning


def learned(case: Case) -> tuple[StreamingKernelPCA, np.ndarray]:
    """The model, and the weights that its rows have left."""
    n = len(case.X)
    w = np.ones(n) if case.weights is None else case.weights
    if case.mode == "fit":
        return case.model().fit(case.X, sample_weight=case.weights), faded(case.beta, w)
    parts = {"merge": 2, "merge of merges": 4, "merge, go on": 3}.get(case.mode, 1)
    if n < 2 * parts or not all(p.any() for p in np.array_split(w, parts)):
        parts = 1
    if parts == 1:
        halfway = n // 2 if case.mode == "saved" else 0
        model = case.model()
        if halfway and w[:halfway].any():
            told(case, model, 0, halfway)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                model.save(path)
                model = load(path)
        else:
            halfway = 0
        told(case, model, halfway, n)
        return model, faded(case.beta, w)
    ends = np.cumsum([0, *(len(p) for p in np.array_split(w, parts))])
    spans = list(pairwise(ends.tolist()))
    left = [faded(case.beta, w[a:b]) for a, b in spans]
    alone = [told(case, case.model(), a, b) for a, b in (spans if parts != 3 else spans[:2])]
    joint = alone[0].merge(alone[1])
    if parts == 4:
        joint = joint.merge(alone[2].merge(alone[3]))
    if parts == 3:
        told(case, joint, *spans[2])
        rows_since = int((w[spans[2][0] :] > 0).sum())
        left[:2] = [v * case.beta**rows_since for v in left[:2]]
    return joint, np.concatenate(left)


def told(case: Case, model: StreamingKernelPCA, start: int, stop: int) -> StreamingKernelPCA:
    """The model, after some rows in one or more calls."""
    cuts = [start, *(start + int(c * (stop - start)) for c in case.cuts), stop]
    w = case.weights
    for a, b in pairwise(cuts):
        if b > a and (w is None or w[a:b].any()):
            model.partial_fit(case.X[a:b], sample_weight=None if w is None else w[a:b])
    return model


def faded(beta: float, w: np.ndarray) -> np.ndarray:
    """What forgetting leaves of the weights (rows of weight zero are no rows)."""
    left, kept = np.zeros(len(w)), np.flatnonzero(w > 0)
    left[kept] = w[kept] * beta ** np.arange(len(kept) - 1.0, -1.0, -1.0)
    return left


# -- the truth


def exact(kernel: Any, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """A kernel with plain numbers in extended precision, read by its parameters only."""
    kind = type(kernel)

    def summed(f: Callable[[Any, Any], Any]) -> np.ndarray:
        return sum(
            (f(X[:, None, j], Y[None, :, j]) for j in range(X.shape[1])),
            np.zeros((len(X), len(Y)), dtype=Long),
        )

    if kind is kernels.Sum:
        return exact(kernel.left, X, Y) + exact(kernel.right, X, Y)
    if kind is kernels.Product:
        return exact(kernel.left, X, Y) * exact(kernel.right, X, Y)
    if kind is kernels.Constant:
        return np.full((len(X), len(Y)), Long(kernel.value))
    if kind is kernels.Laplacian:
        return np.exp(-Long(kernel.gamma) * summed(lambda x, y: np.abs(x - y)))
    if kind is kernels.Cosine:
        (X, a), (Y, b) = unit_rows(X), unit_rows(Y)
        return summed(np.multiply) / a[:, None] / b[None, :]
    if kind in (kernels.Linear, kernels.Polynomial):
        dots = summed(np.multiply)
        if kind is kernels.Linear:
            return dots
        return (Long(kernel.gamma) * dots + Long(kernel.coef0)) ** int(kernel.degree)
    squared = summed(lambda x, y: (x - y) ** 2)
    if kind is kernels.RBF:
        return np.exp(-Long(kernel.gamma) * squared)
    if kind is kernels.Exponential:
        return np.exp(-Long(kernel.gamma) * np.sqrt(squared))
    assert kind is kernels.Matern
    if kernel.nu == math.inf:
        return np.exp(-squared / (2 * Long(kernel.length_scale) ** 2))
    t = np.sqrt(2 * Long(kernel.nu)) * np.sqrt(squared) / Long(kernel.length_scale)
    factor = {0.5: 1.0, 1.5: 1 + t, 2.5: 1 + t + t * t / 3}[kernel.nu]
    return factor * np.exp(-t)


def unit_rows(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a largest entry of 1, and their lengths (1 for a row of zeros)."""
    largest = np.abs(A).max(axis=1)
    A = A / np.where(largest > 0, largest, 1)[:, None]
    lengths = np.sqrt((A * A).sum(axis=1))
    return A, np.where(lengths > 0, lengths, 1)


class Truth:
    """Batch kernel PCA of rows with weights."""

    def __init__(self, kernel: Any, X: np.ndarray, w: np.ndarray, center: bool) -> None:
        self.kernel, self.center = kernel, center
        self.X, w = X[w > 0].astype(Long), w[w > 0].astype(Long)
        self.K = exact(kernel, self.X, self.X)
        self.weight = float(w.sum())
        self.share, self.root = w / w.sum(), np.sqrt(w)
        mean = self.K @ self.share if center else 0 * w
        centred = self.K - mean[:, None] - mean[None, :] + (self.share @ mean if center else 0)
        S = self.root[:, None] * centred * self.root[None, :]
        self.total, self.energy = float(np.trace(S)), float(w @ np.diag(self.K))
        values, vectors = np.linalg.eigh(((S + S.T) / 2).astype(float))
        self.values, self.vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        # what eigh, and rounding its argument to float64, can be wrong by
        self.error = 8 * len(w) * U * max(self.total, 0.0) + 1e-18 * self.energy * len(w)

    def value(self, i: int) -> float:
        return float(self.values[i]) if i < len(self.values) else 0.0

    def components(self, r: int) -> np.ndarray:
        """Coefficients over the rows of the first r, centring included."""
        A = self.root[:, None] * self.vectors[:, :r].astype(Long)
        A = A / np.sqrt(self.values[:r].astype(Long))
        return A - self.share[:, None] * A.sum(axis=0) if self.center else A


def inside(K: np.ndarray, c: np.ndarray) -> float:
    """Squared length of the projection on points with the kernel matrix K, given products c."""
    K, c, found = K.copy(), c.copy(), Long(0)
    scale = np.diag(K).max(initial=0)
    for _ in range(len(K)):
        i = int(np.argmax(np.diag(K)))
        if not K[i, i] > 1e-17 * scale:
            break
        found, row, pivot = found + c[i] ** 2 / K[i, i], K[i].copy(), K[i, i]
        c = c - row * (c[i] / pivot)
        K = K - np.outer(row, row) / pivot
    return float(found)


def wrong(model: StreamingKernelPCA, X: np.ndarray, w: np.ndarray, center: bool) -> list[str]:
    """Every statement of the certificate that is not true of these rows."""
    certificate = model.certificate_.details
    intervals = np.asarray(certificate.eigenvalue_intervals)
    if not np.all(np.isfinite(intervals)):
        return []  # it says that it says nothing
    kernel = model.kernel_
    truth = Truth(kernel, X, w, center)
    if not math.isfinite(truth.energy):
        return []
    W, r, found = truth.weight, len(intervals), []

    def check(what: str, low: float, value: float, high: float, error: float) -> None:
        if not low - error <= value <= high + error:
            found.append(f"{what}: {value!r} not in [{low!r}, {high!r}] (±{error:.1e})")

    for i, (low, high) in enumerate(intervals):
        check(f"eigenvalue {i + 1}", float(low), truth.value(i), float(high), truth.error)
    if truth.total > 1e-11 * truth.energy:
        low, high = certificate.best_explained_variance_ratio_interval
        leading = float(truth.values[:r].sum()) / truth.total
        check("share of the variance", low, leading, high, 4 * truth.error / truth.total + 1e-13)
    best = float(truth.values[r:].sum()) / W
    lower = certificate.reconstruction_error_lower_bound
    check("best error", lower, best, math.inf, truth.error / W)

    D, A, b = (
        np.asarray(x).astype(Long)
        for x in (model.basis_points_, model.dual_coef_, model.mean_coef_)
    )
    K_D, K_XD = exact(kernel, D, D), exact(kernel, truth.X, D)
    A = A[:, np.array([float(a @ K_D @ a) > 0.25 for a in A.T], dtype=bool)]
    distance = np.diag(truth.K) - 2 * (K_XD @ b) + b @ K_D @ b
    y = (K_XD - (K_D @ b)[None, :]) @ A
    N = (A.T @ K_D @ A).astype(float)
    J = float(truth.share @ (distance - np.einsum("ij,jk,ik->i", y, np.linalg.inv(N), y)))
    large = 1 + float(np.abs(A).sum(axis=0).max(initial=0)) ** 2 + float(np.abs(b).sum()) ** 2
    error = 4e-19 * large * len(D) * float(np.abs(K_D).max(initial=0))
    error += 1e-13 * float(truth.share @ np.abs(distance))
    check("own error", -math.inf, J, certificate.reconstruction_error, error)
    check("excess", -math.inf, J - best, certificate.excess_bound, error + truth.error / W)

    gap = truth.value(r - 1) - truth.value(r)
    if certificate.angle_bound is not None and gap > 1e3 * truth.error and A.shape[1] >= r:
        E = truth.components(r)
        own = np.linalg.cholesky((E.T @ truth.K @ E).astype(float))
        cosines = np.linalg.solve(own, (E.T @ K_XD @ A).astype(float))
        cosines = cosines @ np.linalg.inv(np.linalg.cholesky(N)).T
        smallest = min(float(np.linalg.svd(cosines, compute_uv=False).min()), 1.0)
        error = math.sqrt(1e-13 * r + 8 * truth.error / truth.value(r - 1)) + 4 * truth.error / gap
        bound = math.sin(certificate.angle_bound)
        check("angle", 0.0, math.sqrt(max(0.0, 1 - smallest**2)), bound, error)
    for i, bound in enumerate(np.asarray(certificate.component_bounds)):
        if truth.value(i) > 1e5 * truth.error and bound < 1:
            outside = 1 - inside(K_D, K_XD.T @ truth.components(i + 1)[:, i])
            error = 1e-12 + 4 * truth.error / truth.value(i)
            check(f"component {i + 1}", -math.inf, outside, float(bound), error)
    return found


# -- attack


def failure(case: Case) -> str | None:
    """What is wrong with a case, in words."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model, w = learned(case)
            found = wrong(model, case.X, w, case.center)
        except (ValueError, np.linalg.LinAlgError) as refused:
            unforeseen = isinstance(refused, np.linalg.LinAlgError)
            return traceback.format_exc() if unforeseen else None  # refusals are in words
        except Exception:
            return traceback.format_exc()
    return "\n".join(found) or None


def attack(seed: int) -> str | None:
    """None, or what is wrong with the case of this seed and a script that shows it."""
    case = drawn(seed)
    words = failure(case)
    if words is None:
        return None
    case = smaller(case)
    return f"seed {seed} ({case.shape}):\n{failure(case) or words}\n\n{script(case)}"


def smaller(case: Case) -> Case:
    """The case without rows that are not needed to fail."""
    trials, length = 0, len(case.X) // 2
    while length and trials < MOST_TRIALS:
        for start in range(0, len(case.X), length):
            kept = np.r_[0:start, min(start + length, len(case.X)) : len(case.X)]
            if len(kept) == 0 or trials >= MOST_TRIALS:
                continue
            w = None if case.weights is None else case.weights[kept]
            fewer, trials = replace(case, X=case.X[kept], weights=w), trials + 1
            if (w is None or w.any()) and failure(fewer) is not None:
                case = fewer
                break
        else:
            length //= 2
    return case


def script(case: Case) -> str:
    """Python that makes this case."""

    def written(x: np.ndarray | None) -> str:
        return "None" if x is None else f"np.array({x.tolist()!r}, dtype={x.dtype.str!r})"

    return "\n".join(
        [
            "import numpy as np",
            "from fuzz.certificates import Case, failure",
            "case = Case(",
            f"    X={written(case.X)},",
            f"    weights={written(case.weights)},",
            f"    P={written(case.P)},",
            f"    kernel={case.kernel!r}, basis={case.basis!r}, r={case.r}, beta={case.beta},",
            f"    center={case.center}, certify={case.certify!r}, batch={case.batch!r},",
            f"    mode={case.mode!r}, cuts={case.cuts!r}, shape={case.shape!r},",
            ")",
            "print(failure(case))",
        ]
    )


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    outcomes: Counter[str] = Counter()
    for number in range(first, last):
        text = attack(number)
        outcomes["fine" if text is None else "WRONG"] += 1
        if text is not None:
            print(text, flush=True)
    print(dict(outcomes))
