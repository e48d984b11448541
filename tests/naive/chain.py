"""Slow, obvious twins of the library, straight from the papers, in dual form and without blocks.

``k(x, y)`` is a function of two vectors. A point of feature space is a vector of coefficients over
the dictionary D, ``Σ_k a_k φ(d_k)``; its inner products are sums over the Gram matrix. Nothing here
knows of orthonormal coordinates, of blocks or of factors that are appended to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

Kernel = Callable[[np.ndarray, np.ndarray], float]

DEPENDENT = 1e-8  # the library never admits a row that misses less than this share of its energy


def rbf(gamma: float) -> Kernel:
    """exp(−γ|x − y|²)."""
    return lambda x, y: float(np.exp(-gamma * np.sum((x - y) ** 2)))


def polynomial(degree: int, gamma: float, coef0: float) -> Kernel:
    """(γ x·y + c)^degree."""
    return lambda x, y: float((gamma * np.dot(x, y) + coef0) ** degree)


def linear(x: np.ndarray, y: np.ndarray) -> float:
    """x·y."""
    return float(np.dot(x, y))


def gram(k: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """k(x_i, y_j), one pair at a time."""
    K = np.empty((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            K[i, j] = k(X[i], Y[j])
    return K


# -- batch kernel PCA


def kernel_pca(
    K: np.ndarray,
    r: int,
    weights: np.ndarray | None = None,
    center: bool = True,
    K_new: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of Σ w φ̃ φ̃ᵀ and scores, from the Gram matrix (Schölkopf, Smola, Müller 1998).

    With φ̃ = φ − Σ w φ / W the centred Gram matrix is K̃ = K − 1 k̄ᵀ − k̄ 1ᵀ + κ̄, and the weighted
    problem has the symmetric matrix √w K̃ √w. Scores are those of ``K_new = k(X_new, X)``.
    """
    w = np.ones(len(K)) if weights is None else weights
    K_new = K if K_new is None else K_new
    if center:
        mean = K @ w / w.sum()  # k̄(x_i) = ⟨φ(x_i), mean⟩
        grand = w @ mean / w.sum()  # |mean|²
        mean_new = K_new @ w / w.sum()
        K_new = K_new - mean_new[:, None] - mean[None, :] + grand
        K = K - mean[:, None] - mean[None, :] + grand
    root = np.sqrt(w)
    values, vectors = np.linalg.eigh(root[:, None] * K * root[None, :])
    values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
    return values, K_new @ (root[:, None] * vectors) / np.sqrt(values)


def forgetting_weights(beta: float, n: int) -> np.ndarray:
    """β^(n−t): what is left of each of n rows after the last."""
    w = np.ones(n)
    for t in range(n):
        w[t] = beta ** (n - 1 - t)
    return w


def nystroem_pca(
    K_mm: np.ndarray,
    K_nm: np.ndarray,
    r: int,
    center: bool = True,
    weights: np.ndarray | None = None,
    K_new: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel PCA restricted to the span of m points, as one generalised eigenproblem.

    A component is Σ_k a_k φ(d_k). Its scatter is aᵀ K_mn H K_nm a and its squared norm aᵀ K_mm a,
    so the components solve ``K_mn H K_nm a = λ K_mm a``.
    """
    w = np.ones(len(K_nm)) if weights is None else weights
    K_new = K_nm if K_new is None else K_new
    mean = w @ K_nm / w.sum() if center else np.zeros(K_nm.shape[1])
    scatter = (K_nm - mean).T @ (w[:, None] * (K_nm - mean))
    values, vectors = scipy.linalg.eigh(scatter, K_mm)
    values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
    return values, (K_new - mean) @ vectors


# -- dictionaries


@dataclass
class Dictionary:
    """Points admitted so far, with everything recomputed from scratch for each row."""

    k: Kernel
    points: list[np.ndarray] = field(default_factory=list)

    def gram(self) -> np.ndarray:
        return gram(self.k, np.array(self.points), np.array(self.points))

    def expand(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """β = K⁻¹κ and the squared distance ε = k(x,x) − κᵀβ (Honeine, eqs. 10–11)."""
        if not self.points:
            return np.zeros(0), self.k(x, x)
        kappa = np.array([self.k(d, x) for d in self.points])
        beta = np.linalg.solve(self.gram(), kappa)
        return beta, self.k(x, x) - float(kappa @ beta)


Criterion = Callable[[Dictionary, np.ndarray, float], bool]


def distance_criterion(nu: float) -> Criterion:
    """Admit when the squared distance to the span exceeds ν (Honeine, Table 2)."""
    return lambda dictionary, x, eps: eps > nu


def coherence_criterion(delta: float) -> Criterion:
    """Admit when no normalised kernel value to a point exceeds δ (Richard, Bermudez, Honeine)."""

    def admits(dictionary: Dictionary, x: np.ndarray, eps: float) -> bool:
        k = dictionary.k
        for d in dictionary.points:
            if abs(k(x, d)) / np.sqrt(k(x, x) * k(d, d)) > delta:
                return False
        return k(x, x) > 0

    return admits


def everything_criterion(dictionary: Dictionary, x: np.ndarray, eps: float) -> bool:
    """Admit whatever adds a direction."""
    return True


def admits(
    dictionary: Dictionary,
    x: np.ndarray,
    eps: float,
    criterion: Criterion,
    max_points: int | None,
) -> bool:
    """The criterion, less what the library rules out for every criterion."""
    room = max_points is None or len(dictionary.points) < max_points
    new = eps > DEPENDENT * dictionary.k(x, x)
    return room and new and criterion(dictionary, x, eps)


def dictionary_of(
    k: Kernel, X: np.ndarray, criterion: Criterion, max_points: int | None = None
) -> np.ndarray:
    """The points that a criterion admits, row by row."""
    dictionary = Dictionary(k)
    for x in X:
        _, eps = dictionary.expand(x)
        if admits(dictionary, x, eps, criterion, max_points):
            dictionary.points.append(x)
    return np.array(dictionary.points)


# -- Honeine's online kernel PCA


@dataclass
class Honeine:
    """What the online algorithm knows after the last row."""

    points: np.ndarray  # (m, d)
    A: np.ndarray  # (m, r) raw coefficients of the components
    mean: np.ndarray  # (m,) coefficients of the running mean
    variances: np.ndarray  # (r,) running variances of the outputs
    n_shortened: int

    def components(self, k: Kernel, X: np.ndarray) -> np.ndarray:
        """⟨v_i, φ(x)⟩ of the raw components, a function on input space."""
        return gram(k, X, self.points) @ self.A

    def scores(self, k: Kernel, X: np.ndarray) -> np.ndarray:
        """Outputs of unit components in the order of their variances."""
        K = gram(k, self.points, self.points)
        norms = np.sqrt(np.array([a @ K @ a for a in self.A.T]))
        order = np.argsort(-self.variances, kind="stable")
        shown = (self.A / norms)[:, order]
        return gram(k, X, self.points) @ shown - (self.mean @ K @ shown)[None, :]


def honeine(
    k: Kernel,
    X: np.ndarray,
    r: int,
    steps: Callable[[int], float],
    criterion: Criterion,
    *,
    max_points: int | None = None,
    center: bool = True,
    weights: np.ndarray | None = None,
    forgetting: float = 1.0,
) -> Honeine:
    """Sanger's rule on dual coefficients (Honeine 2012, eqs. 10–19), one row after the other.

    ``A ← A + η (β yᵀ − A UT[y yᵀ])``, ``y = Aᵀ κ`` (eq. 19 with its shapes mended: A is m × r).
    Centred rows are ``β − mean``, the mean of the coefficients of all rows up to this one. The
    library's choices beside the paper:

    - component i starts as the direction that the i-th admitted row adds, (φ(x) − Σβφ(d))/√ε;
    - a step is never longer than 1/max(|φ̂|², |y|²): beyond it the rule overshoots.
    """
    dictionary = Dictionary(k)
    A, total, W = np.zeros((0, r)), np.zeros(0), 0.0
    variances, n_shortened = np.zeros(r), 0
    for t, x in enumerate(X):
        w = 1.0 if weights is None else weights[t]
        beta, eps = dictionary.expand(x)
        m = len(beta)
        if admits(dictionary, x, eps, criterion, max_points):
            A, total = np.vstack([A, np.zeros(r)]), np.append(total, 0.0)
            if m < r:
                A[:, m] = np.append(-beta, 1.0) / np.sqrt(eps)
            dictionary.points.append(x)
            beta = np.append(np.zeros(m), 1.0)
        total, W = forgetting * total + w * beta, forgetting * W + w
        if len(beta) == 0:
            variances += (0.0 - variances) * 2.0 / (t + 2.0)
            continue
        if center:
            beta = beta - total / W
        kappa = dictionary.gram() @ beta  # ⟨φ(d), φ̂(x) − mean⟩
        y = A.T @ kappa
        variances = variances + (y**2 - variances) * 2.0 / (t + 2.0)
        limit = max(float(beta @ kappa), float(y @ y))
        longest = 1.0 / limit if limit > 0 else np.inf
        old, cut = A.copy(), False
        for j in range(r):
            eta = steps(t + 1) * w
            if eta > longest:
                eta, cut = longest, True
            deflated = beta - sum(y[i] * old[:, i] for i in range(j + 1))
            A[:, j] = old[:, j] + eta * y[j] * deflated
        n_shortened += cut
    mean = total / W if center else 0.0 * total
    return Honeine(np.array(dictionary.points), A, mean, variances, n_shortened)


# -- the account of missed energy


@dataclass
class Account:
    """Energies of a stream whose basis only grows."""

    energy: float = 0.0
    fresh: float = 0.0
    stale: float = 0.0
    stale_weight: float = 0.0


def account(
    k: Kernel,
    X: np.ndarray,
    criterion: Criterion,
    max_points: int | None = None,
    weights: np.ndarray | None = None,
    forgetting: float = 1.0,
) -> Account:
    """Σ w k(x,x), what the basis misses of it, and how much of that predates the last point."""
    dictionary, book, W = Dictionary(k), Account(), 0.0
    for t, x in enumerate(X):
        w = 1.0 if weights is None else weights[t]
        for name in ("energy", "fresh", "stale", "stale_weight"):
            setattr(book, name, forgetting * getattr(book, name))
        W *= forgetting
        _, eps = dictionary.expand(x)
        if admits(dictionary, x, eps, criterion, max_points):
            dictionary.points.append(x)
            book.stale, book.fresh, book.stale_weight = book.stale + book.fresh, 0.0, W
            eps = 0.0
        book.energy += w * k(x, x)
        book.fresh += w * max(eps, 0.0)
        W += w
    return book


def missed_energies(k: Kernel, points: np.ndarray, X: np.ndarray) -> np.ndarray:
    """ε(x) = min_β |φ(x) − Σ β φ(d)|² of each row, by least squares in feature space."""
    K = gram(k, points, points)
    missed = []
    for x in X:
        kappa = np.array([k(d, x) for d in points])
        beta = np.linalg.lstsq(K, kappa, rcond=1e-10)[0]
        missed.append(k(x, x) - 2 * beta @ kappa + beta @ K @ beta)
    return np.array(missed)


# --- k-means


def lloyd_step(
    X: np.ndarray, weights: np.ndarray | None, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each point at the mean of the rows that are nearest to it (or where it was), and masses."""
    w = np.ones(len(X)) if weights is None else weights
    cells: list[list[int]] = [[] for _ in points]
    for i, x in enumerate(X):
        cells[int(np.argmin([np.sum((x - p) ** 2) for p in points]))].append(i)
    means = [
        np.average(X[cell], axis=0, weights=w[cell]) if cell else point
        for cell, point in zip(cells, points, strict=True)
    ]
    return np.array(means), np.array([w[cell].sum() for cell in cells])
