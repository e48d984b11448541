"""Model comparison: principal angles, captured variance; prequential AUC and false alarm rate.

Two models are compared in feature space, where their components live. A component of ours is
``v = Σ_k a_k φ(d_k)`` over the basis points; one of scikit-learn's is ``Σ_i α_i (φ(x_i) − φ̄)``
over the training points. Inner products of either kind need kernel values only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import pairwise_kernels

from kernelstream.arrays import evenly_spaced, prints_short, to_host

__all__ = [
    "Prequential",
    "captured_variance",
    "direction_cosines",
    "prequential",
    "principal_angles",
]

# A squared norm below this share of the largest one is rounding: the component is zero.
_EPSILON = 1e-14


def direction_cosines(a: Any, b: Any) -> np.ndarray:
    """``|cos|`` of the angle between the i-th component of ``a`` and the i-th of ``b``.

    Where two eigenvalues are nearly equal, their components may turn in the plane they span and
    the cosines are small although the models agree; ``principal_angles`` does not see such turns.

    Parameters
    ----------
    a, b : fitted models
        Ours, or ``sklearn.decomposition.KernelPCA``; the same kernel and number of components.

    Returns
    -------
    cosines : ndarray of shape (n_components,)
        Between 0 and 1. A zero component (beyond the rank of the data) has no direction: 0 against
        a component that is there, NaN where both are zero.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import KernelPCA
    >>> from kernelstream import StreamingKernelPCA, metrics
    >>> X = load_iris().data
    >>> exact = KernelPCA(3, kernel="rbf", gamma=0.2).fit(X)
    >>> ours = StreamingKernelPCA(3, kernel="rbf", gamma=0.2, random_state=0).fit(X)
    >>> bool(metrics.direction_cosines(ours, exact).min() > 0.99)
    True
    """
    K, A, B = _in_common(a, b)
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"the first model has {A.shape[1]} components and the second {B.shape[1]}; fit both "
            "with the same n_components, or compare their spans with principal_angles."
        )
    length_a, length_b = np.sqrt(_energies(A, K)), np.sqrt(_energies(B, K))
    inner = np.abs(np.einsum("ki,ki->i", A, K @ B))
    lengths = length_a * length_b
    cosines = np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)
    cosines[(length_a == 0) & (length_b == 0)] = np.nan
    return np.minimum(cosines, 1.0)


def principal_angles(a: Any, b: Any) -> np.ndarray:
    """Principal angles between the spans of the components of two models.

    Parameters
    ----------
    a, b : fitted models
        Ours, or ``sklearn.decomposition.KernelPCA``; the same kernel. The numbers of components
        may differ.

    Returns
    -------
    angles : ndarray of shape (min(r_a, r_b),)
        Radians, ascending, from 0 (a common direction) to π/2. Zero components are left out of the
        spans. If one model has fewer components, all angles are 0 when its span lies in the other.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import KernelPCA
    >>> from kernelstream import StreamingKernelPCA, metrics
    >>> X = load_iris().data
    >>> exact = KernelPCA(3, kernel="rbf", gamma=0.2).fit(X)
    >>> ours = StreamingKernelPCA(3, kernel="rbf", gamma=0.2, random_state=0).fit(X)
    >>> bool(metrics.principal_angles(ours, exact).max() < 0.2)
    True
    """
    K, A, B = _in_common(a, b)
    A, B = _orthonormal(A, K), _orthonormal(B, K)
    if A.shape[1] < B.shape[1]:
        A, B = B, A
    C = A.T @ K @ B
    cosines = scipy.linalg.svdvals(C)  # descending: the angles ascend
    # arccos is blind below 1e-8. The part R of B outside the span of A has the sines as singular
    # values; what the two models share cancels in the coefficients, before the kernel is applied.
    R = B - A @ C
    sines = np.sqrt(np.maximum(scipy.linalg.eigvalsh(R.T @ K @ R), 0.0)) if R.size else cosines
    return np.where(
        cosines**2 > 0.5, np.arcsin(np.minimum(sines, 1.0)), np.arccos(np.minimum(cosines, 1.0))
    )


def captured_variance(model: Any, X: Any) -> float:
    """The share of the variance that exact kernel PCA of ``X`` would capture.

    The variance of ``model.transform(X)``, summed over the components, over the sum of as many
    first eigenvalues of exact centred kernel PCA on ``X`` with the kernel of the model. At most 1
    (up to rounding): no orthonormal components capture more. Components that are not orthogonal
    (Hebbian rules that have not converged) count by the variance in their span.

    Parameters
    ----------
    model : fitted model
        Ours, or ``sklearn.decomposition.KernelPCA``.
    X : array-like of shape (n, d)
        The rows to judge by. **Memory: a few times n² numbers** (10,000 rows: 0.8 GB each),
        time n² times the number of components: of a long stream, take a few thousand rows.

    Returns
    -------
    share : float

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelstream import StreamingKernelPCA, metrics
    >>> X = load_iris().data
    >>> ours = StreamingKernelPCA(3, kernel="rbf", gamma=0.2, random_state=0).fit(X)
    >>> 0.99 < metrics.captured_variance(ours, X) <= 1.0 + 1e-9
    True
    """
    components = _components(model)
    A, D = components.coefficients, components.points
    rows = np.asarray(to_host(X), dtype=np.float64)
    scores = np.asarray(to_host(model.transform(X)), dtype=np.float64)
    exact = _leading_eigenvalues(components.block(rows, rows), A.shape[1]).sum()
    if exact <= 0:
        raise ValueError("X has no variance in feature space, so there is nothing to capture.")
    scores = scores - scores.mean(axis=0)
    # tr((VᵀV)⁺ Cov(scores)): the plain sum of variances where the components V are orthonormal
    inner = scipy.linalg.pinvh(A.T @ components.block(D, D) @ A, rtol=_EPSILON)
    return float(np.sum(inner * (scores.T @ scores)) / len(rows) / exact)


@prints_short
@dataclass(frozen=True, eq=False)
class Prequential:
    """How a detector did along a stream, each row judged before it was learned.

    Attributes
    ----------
    scores : array of shape (n,)
        How strange each row was; higher is stranger.
    flagged : array of shape (n,), bool
        Whether it was flagged.
    labels : array of shape (n,), bool
        Whether it was an anomaly.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import metrics
    >>> labels = np.array([0, 0, 1, 1, 1, 0, 1, 0], dtype=bool)
    >>> scores = np.array([0.1, 0.3, 0.2, 0.9, 0.8, 0.1, 0.2, 0.1])
    >>> found = metrics.Prequential(scores, scores > 0.5, labels)
    >>> found.auc, found.delays, found.false_alarm_rate
    (0.875, array([ 1., nan]), 0.0)
    """

    scores: np.ndarray
    flagged: np.ndarray
    labels: np.ndarray

    @property
    def auc(self) -> float:
        """Probability that an anomaly is stranger than a normal row; NaN without either kind."""
        if self.labels.all() or not self.labels.any():
            return float("nan")
        # Imported here, as scikit-learn does: it brings many modules.
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.labels, self.scores))

    @property
    def average_precision(self) -> float:
        """Mean precision over the anomalies, by falling score; NaN without anomalies."""
        if not self.labels.any():
            return float("nan")
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(self.labels, self.scores))

    @property
    def false_alarm_rate(self) -> float:
        """Share of normal rows that were flagged; NaN without normal rows."""
        normal = ~self.labels
        return float(self.flagged[normal].mean()) if normal.any() else float("nan")

    @property
    def delays(self) -> np.ndarray:
        """Rows from the beginning of each run of anomalies to its first flag; NaN: not found."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self.labels, [False]])))
        found = []
        for start, stop in edges.reshape(-1, 2):
            hits = np.flatnonzero(self.flagged[start:stop])
            found.append(float(hits[0]) if len(hits) else np.nan)
        return np.array(found)

    def along(self, window: int = 1000) -> dict[str, np.ndarray]:
        """AUC, average precision and false alarms in windows one after the other.

        Parameters
        ----------
        window : int
            Rows in a window; the last one may be shorter.

        Returns
        -------
        dict
            ``end`` (rows at the end of each window), ``auc``, ``average_precision``,
            ``false_alarm_rate``; NaN where a window has rows of one kind only.
        """
        starts = range(0, len(self.labels), window)
        parts = [
            Prequential(self.scores[cut], self.flagged[cut], self.labels[cut])
            for cut in (slice(start, start + window) for start in starts)
        ]
        ends = np.cumsum([len(part.labels) for part in parts])
        names = ("auc", "average_precision", "false_alarm_rate")
        return {"end": ends} | {n: np.array([getattr(p, n) for p in parts]) for n in names}


def prequential(
    detector: Any, X: Any, y: Any, first: int = 0, batch_size: int = 100, learn: str = "all"
) -> Prequential:
    """Judge every row of a stream, then learn it: test and train on the same rows, in their order.

    Parameters
    ----------
    detector : estimator
        With ``partial_fit``, ``score_samples`` (higher fits better) and ``predict`` (−1 is
        flagged): :class:`kernelstream.KernelNovelty`, or one of scikit-learn's kind. It has
        learned the stream afterwards.
    X : array of shape (n, d)
        The stream.
    y : array of shape (n,)
        Not zero for anomalies. Nobody tells the detector, unless ``learn="normal"``.
    first : int
        Rows that are learned and not judged; a detector that has learned nothing needs some.
    batch_size : int
        Rows that are judged before they are learned.
    learn : "all" or "normal"
        Whether anomalies are learned too.

    Returns
    -------
    Prequential
        Of the rows after the first.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import KernelNovelty, metrics
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(3000, 3)), np.zeros(3000)
    >>> X[2000:2020] += 6.0
    >>> y[2000:2020] = 1
    >>> found = metrics.prequential(KernelNovelty(random_state=0), X, y, first=500)
    >>> found.auc > 0.99, found.delays
    (True, array([0.]))
    """
    rows = np.asarray(to_host(X))
    labels = np.asarray(y).astype(bool)
    if labels.shape != (len(rows),):
        raise ValueError(f"y has shape {np.shape(y)}; expected ({len(rows)},), one label a row.")
    if learn not in ("all", "normal"):
        raise ValueError(f"learn={learn!r}; expected 'all' or 'normal'.")
    learned = labels == 0 if learn == "normal" else np.ones(len(rows), dtype=bool)
    if first:
        detector.partial_fit(rows[:first][learned[:first]])
    scores, flagged = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for start in range(first, len(rows), batch_size):
        block, kept = rows[start : start + batch_size], learned[start : start + batch_size]
        scores.append(-np.asarray(detector.score_samples(block), dtype=float))
        flagged.append(np.asarray(detector.predict(block)) == -1)
        if kept.any():
            detector.partial_fit(block[kept])
    return Prequential(np.concatenate(scores), np.concatenate(flagged), labels[first:])


@dataclass(frozen=True)
class _Components:
    """Components as ``Σ_k a_ki φ(d_k)``: points (m, d), coefficients (m, r), both float64."""

    points: np.ndarray
    coefficients: np.ndarray
    block: Callable[[np.ndarray, np.ndarray], np.ndarray]  # the kernel, k(X, Y)
    kernel: str  # the kernel in words, for messages


def _components(model: Any) -> _Components:
    if isinstance(model, KernelPCA):
        return _of_scikit_learn(model)
    for name in ("kernel_", "basis_points_", "dual_coef_"):
        if not hasattr(model, name):
            raise ValueError(
                f"{type(model).__name__} has no {name}; metrics compare fitted models whose "
                "components are combinations of points, ours or scikit-learn's KernelPCA."
            )
    points = np.asarray(to_host(model.basis_points_), dtype=np.float64)
    stream: Any = getattr(model, "stream_", None)
    kernel, scaled = model.kernel_, stream is not None and stream.caught_up.scaler is not None
    block = kernel.block
    if scaled:
        # Points in the units of the data: models that standardise differently have different
        # kernels there.
        points = stream.in_data_units(points)

        def block(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
            return kernel.block(stream.in_units(X), stream.in_units(Y))

    return _Components(
        points=points,
        coefficients=np.asarray(to_host(model.dual_coef_), dtype=np.float64),
        block=block,
        kernel=f"{kernel!r} of standardised rows" if scaled else repr(kernel),
    )


def _of_scikit_learn(model: KernelPCA) -> _Components:
    if not hasattr(model, "eigenvectors_"):
        raise ValueError("this KernelPCA has not been fitted; call fit first.")
    if model.kernel == "precomputed":
        raise ValueError(
            'KernelPCA(kernel="precomputed") knows no points to compare with; fit it on the rows '
            "with the kernel by name or as a callable."
        )
    # scikit-learn keeps unit eigenvectors of the centred Gram matrix; the component of unit
    # length has α = u/√λ, and α = 0 where λ = 0.
    lam = model.eigenvalues_
    alpha = np.zeros_like(model.eigenvectors_)
    alpha[:, lam > 0] = model.eigenvectors_[:, lam > 0] / np.sqrt(lam[lam > 0])
    if callable(model.kernel):
        parameters = model.kernel_params or {}
    else:
        parameters = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}

    def block(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return pairwise_kernels(X, Y, metric=model.kernel, filter_params=True, **parameters)

    return _Components(
        points=np.asarray(to_host(model.X_fit_), dtype=np.float64),
        # Σ α_i (φ(x_i) − φ̄) = Σ (α_i − ᾱ) φ(x_i)
        coefficients=alpha - alpha.mean(axis=0),
        block=block,
        kernel=f"scikit-learn's {model.kernel!r} with {parameters}",
    )


def _in_common(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both models over the union of their points: the Gram matrix and the two coefficients."""
    a, b = _components(a), _components(b)
    if a.points.shape[1] != b.points.shape[1]:
        raise ValueError(
            f"the first model was fitted on {a.points.shape[1]} features and the second on "
            f"{b.points.shape[1]}; only models of the same features can be compared."
        )
    # Points that both have are joined, so that equal models cancel to the last digit.
    points, where = np.unique(np.concatenate([a.points, b.points]), axis=0, return_inverse=True)
    where = where.ravel()
    A = np.zeros((len(points), a.coefficients.shape[1]))
    B = np.zeros((len(points), b.coefficients.shape[1]))
    np.add.at(A, where[: len(a.points)], a.coefficients)
    np.add.at(B, where[len(a.points) :], b.coefficients)
    _check_same_kernel(a, b, points)
    K = a.block(points, points)
    return (K + K.T) / 2, A, B


def _check_same_kernel(a: _Components, b: _Components, points: np.ndarray) -> None:
    """Kernels are compared by value on some points: they may be of two libraries, or callables."""
    some = points[evenly_spaced(len(points), 50)]
    of_a, of_b = a.block(some, some), b.block(some, some)
    if not np.allclose(of_a, of_b, rtol=1e-6, atol=1e-9 * np.abs(of_a).max()):
        raise ValueError(
            f"the models have different kernels ({a.kernel}; {b.kernel}), so their components "
            "live in different spaces; fit both with the same kernel and the same numbers."
        )


def _energies(A: np.ndarray, K: np.ndarray) -> np.ndarray:
    """``|v_i|²`` of every component, rounding set to zero."""
    energies = np.einsum("ki,ki->i", A, K @ A)
    return np.where(energies > _EPSILON * energies.max(initial=0.0), energies, 0.0)


def _orthonormal(A: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Coefficients of an orthonormal basis of the span of the components, zero ones left out."""
    lam, U = scipy.linalg.eigh(A.T @ K @ A)
    kept = lam > _EPSILON * lam.max(initial=0.0)
    return A @ (U[:, kept] / np.sqrt(lam[kept]))


def _leading_eigenvalues(K: np.ndarray, r: int) -> np.ndarray:
    """The first ``r`` eigenvalues of the centred covariance ``H K H / n``."""
    n = len(K)
    r = min(r, n)
    means = K.mean(axis=0)
    K = K - means[None, :]
    K -= means[:, None]
    K += means.mean()
    if 5 * r < n:
        # A start drawn at random with a fixed seed: a constant one lies in the null space of H.
        start = np.random.default_rng(0).normal(size=n)
        lam = scipy.sparse.linalg.eigsh(K, k=r, v0=start, return_eigenvectors=False)
    else:
        lam = scipy.linalg.eigvalsh(K, overwrite_a=True, subset_by_index=(n - r, n - 1))
    return np.maximum(lam, 0.0) / n
