"""Model of normal operation: lagged rows, ZCA whitening, T², SPE, combined index, adaptation.

*Whitening.* On standardised variables every method stalls: neighbouring variables carry the same
noise, and a fault that breaks their agreement is small in each of them. So rows are whitened first.
The matrix is ``diag(1/σ) P^{-1/2}`` with σ the deviations and P the correlations (ZCA): unlike
principal axes it moves continuously when the covariance moves, and a change of scale alone leaves
the whitened rows as they were. So the points of the kernel model may stay where they are while the
process drifts.

*The index.* How far a row is from normal operation, in one number that never saturates early. With
``z`` the coordinates of a row in the span of the points, μ and S mean and covariance of normal rows
there, and ε = ridge · tr S / D,

    M(x) = (z − μ)ᵀ (S + εI)⁻¹ (z − μ) + (k(x,x) − |z|²)/ε
         = Σ_i y_i²/(λ_i + ε) + (what the span misses)/ε.

There is no number of components to choose. The first term alone, T², can be blind to large faults:
far from the data all kernel values vanish, z tends to 0 and T² to the constant μᵀ(S+εI)⁻¹μ, which
for a narrow kernel is below its limit. The second term, SPE, grows there to k(x,x).

*Products.* A record must not depend on how the caller cuts the stream into calls. BLAS takes other
roads for one row than for many, and rounds differently on each. In ``rows_times`` and ``row_dots``
the order in which an entry is summed depends on the inner length alone, whatever the number of
rows; a tile of rows shares what is read of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy.linalg import solve_triangular

from kernelstream import kernels, landmarks, trackers
from kernelstream.anomaly.monitor.lasting import clip_residuals, residual_weights
from kernelstream.arrays import compiled, symmetric_eigen
from kernelstream.serialization import stored
from kernelstream.stream import Chain, Rows, Stream

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
NEGLIGIBLE = 1e-12  # variance: of a column in reference units, of a feature where k(x, x) = 1
TINIEST = 1e-300  # scores may be exactly zero, and limits are of logarithms
FLOOR = 1e-3  # eigenvalues of correlations below it (their mean is 1) are raised to it
REACH = 2.0  # squared radius, in units of D, inside which gradients are taken as they are


def rows_times(X: np.ndarray, A: np.ndarray) -> np.ndarray:
    """``X @ A``, each row as if it were alone.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(9, 5)), rng.normal(size=(5, 4))
    >>> bool(np.allclose(rows_times(X, A), X @ A))
    True
    >>> bool((rows_times(X, A)[3] == rows_times(X[3:4], A)[0]).all())
    True
    """
    return _rows_times(np.ascontiguousarray(X), np.ascontiguousarray(A))


def row_dots(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """``Σ_j X_ij Y_ij`` for each row i, each row as if it were alone.

    Examples
    --------
    >>> import numpy as np
    >>> row_dots(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([3., 6.])
    """
    return _row_dots(np.ascontiguousarray(X), np.ascontiguousarray(Y))


def lag_rows(before: np.ndarray, Z: np.ndarray, lags: int) -> np.ndarray:
    """Each row followed by the ``lags`` rows before it: ``[z_t, z_{t-1}, …]``.

    ``before`` holds the rows that came earlier, the latest last; where there are none, the first
    row of ``Z`` stands in for them.

    Examples
    --------
    >>> import numpy as np
    >>> lag_rows(np.empty((0, 1)), np.array([[1.0], [2.0], [3.0]]), 1)
    array([[1., 1.],
           [2., 1.],
           [3., 2.]])
    """
    if lags == 0:
        return np.ascontiguousarray(Z)
    first = before[:1] if len(before) else Z[:1]
    filled = np.repeat(first, max(lags - len(before), 0), axis=0)
    P = np.vstack([filled, before[-lags:], Z])
    return np.hstack([P[lags - lag : lags - lag + len(Z)] for lag in range(lags + 1)])


@stored
@dataclass(frozen=True)
class RowMoments:
    """Weight, mean and covariance of rows, with forgetting."""

    weight: Annotated[float, "positive"]
    squares: Annotated[float, "positive"]  # Σ w²
    mean: Annotated[np.ndarray, "float64 (.values)"]
    covariance: Annotated[np.ndarray, "float64 (.values, .values)"]

    @classmethod
    def of(cls, rows: np.ndarray) -> RowMoments:
        """The moments of a set of rows."""
        n, mean = float(len(rows)), rows.mean(axis=0)
        apart = rows - mean
        return cls(n, n, mean, apart.T @ apart / n)

    def learn(self, rows: np.ndarray, forgetting: float) -> RowMoments:
        """Add rows; the weight of older ones shrinks by the factor ``forgetting`` with each row."""
        w = forgetting ** np.arange(len(rows) - 1.0, -1.0, -1.0)
        kept = forgetting ** len(rows)
        old, weight = kept * self.weight, kept * self.weight + float(w.sum())
        mean = (old * self.mean + w @ rows) / weight
        shift, apart = self.mean - mean, rows - mean
        scatter = old * (self.covariance + np.outer(shift, shift)) + (w[:, None] * apart).T @ apart
        C = scatter / weight
        squares = kept**2 * self.squares + float(w @ w)
        return RowMoments(weight, squares, mean, (C + C.T) / 2)

    @property
    def n_effective(self) -> float:
        """Number of rows of equal weight that determine the moments as well, (Σw)²/Σw² (Kish)."""
        return self.weight**2 / self.squares


@stored
@dataclass(frozen=True)
class Whitening:
    """``u = (r − mean) W``: the map from lagged rows to the rows that the kernel is evaluated on.

    ``axes`` are the leading directions of the correlations (those above the average eigenvalue),
    kept to compare a later subspace with.
    """

    mean: Annotated[np.ndarray, "float64 (features)"]
    deviation: Annotated[np.ndarray, "float64 (features), positive"]
    whitener: Annotated[np.ndarray, "float64 (features, features)"]  # diag(1/σ) P^{-1/2}
    axes: Annotated[np.ndarray, "float64 (features, ?)"]

    @classmethod
    def of(cls, moments: RowMoments, whiten: bool) -> Whitening:
        """Whitening from moments."""
        variance = np.diag(moments.covariance)
        deviation = np.sqrt(np.where(variance > NEGLIGIBLE, variance, 1.0))
        P = moments.covariance / np.outer(deviation, deviation)
        np.fill_diagonal(P, 1.0)  # a constant column keeps its unit
        values, vectors = symmetric_eigen(P)
        axes = vectors[:, values > 1.0]
        root = np.eye(len(values))
        if whiten:
            root = (vectors / np.sqrt(np.maximum(values, FLOOR))) @ vectors.T
        whitener = np.ascontiguousarray(root / deviation[:, None])
        return cls(moments.mean, deviation, whitener, np.ascontiguousarray(axes))

    def apply(self, R: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """Whitened rows."""
        return product(R - self.mean, self.whitener)


@dataclass(frozen=True)
class Scores:
    """The index of rows and its two terms: ``index = t2 + spe/ε``."""

    index: np.ndarray
    t2: np.ndarray
    spe: np.ndarray

    @property
    def log_index(self) -> np.ndarray:
        """Logarithm of the index, which is what limits and averages are made of."""
        return np.log(np.maximum(self.index, TINIEST))


@stored
@dataclass(frozen=True)
class Index:
    """M of whitened rows: a kernel, a span, and the moments of normal rows in it."""

    kernel: kernels.RBF
    span: landmarks.Span
    mean: Annotated[np.ndarray, "float64 (rank)"]  # μ
    root: Annotated[np.ndarray, "float64 (rank, rank)"]  # H with H Hᵀ = (S + εI)⁻¹
    epsilon: Annotated[float, "positive"]

    @classmethod
    def of(
        cls, kernel: kernels.RBF, span: landmarks.Span, coordinates: RowMoments, ridge: float
    ) -> Index:
        """The index from the moments of coordinates."""
        S = coordinates.covariance
        width = int(span.points.shape[1])
        epsilon = max(ridge * float(np.trace(S)) / width, NEGLIGIBLE)
        L = np.linalg.cholesky(S + epsilon * np.eye(len(S)))
        root = solve_triangular(L, np.eye(len(S)), lower=True).T
        return cls(kernel, span, coordinates.mean, np.ascontiguousarray(root), epsilon)

    def kernel_rows(self, U: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """``k(u, D)``, by a product of the given kind (the kernel's own block uses BLAS)."""
        P = self.span.points
        squared = -2.0 * product(U, P.T)
        squared += row_dots(U, U)[:, None]
        squared += row_dots(P, P)[None, :]
        scaled = self.kernel.distance_scale * np.maximum(squared, 0.0)
        return self.kernel.of_scaled_distances(scaled)

    def coordinates(self, U: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """``z = Fᵀ k(D, u)``."""
        return product(self.kernel_rows(U, product), self.span.factor)

    def score(self, U: np.ndarray, product: Product = rows_times) -> Scores:
        """M, T² and SPE of whitened rows."""
        Z = self.coordinates(U, product)
        Y = product(Z - self.mean, self.root)
        t2 = row_dots(Y, Y)
        spe = np.maximum(1.0 - row_dots(Z, Z), 0.0)  # k(x, x) = 1
        return Scores(t2 + spe / self.epsilon, t2, spe)

    @property
    def far_away(self) -> float:
        """M where every kernel value has vanished: the largest number the index can tell."""
        y = self.mean @ self.root
        return float(y @ y) + 1.0 / self.epsilon

    def gradient(
        self, U: np.ndarray, product: Product = rows_times
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂M/∂u of each row, and by how much the row was drawn back before it was taken.

        ∂M/∂u = −2γ Σ_i b_i k_i (u − d_i) with b = F (2 (S+εI)⁻¹(z − μ) − 2 z/ε). Where all kernel
        values vanish so does the gradient, though the direction is plain: rows far outside the
        cloud of normal rows (whose squared radius is D) are first drawn back towards the centre,
        ``u/stretch``, to where M is still nearly quadratic.
        """
        reach = math.sqrt(REACH * U.shape[1])
        stretch = np.maximum(np.sqrt(row_dots(U, U)) / reach, 1.0)
        U = U / stretch[:, None]
        K = self.kernel_rows(U, product)
        Z = product(K, self.span.factor)
        slope = 2.0 * product(product(Z - self.mean, self.root), self.root.T)
        slope -= (2.0 / self.epsilon) * Z
        B = product(slope, self.span.factor.T)
        inward = product(B * K, self.span.points)
        return -2.0 * self.kernel.gamma * (row_dots(B, K)[:, None] * U - inward), stretch

    def curvature(self, U: np.ndarray) -> np.ndarray:
        """The mean of ∂²M/∂u∂uᵀ over rows, (D, D).

        With J = ∂z/∂u the first part is 2 Jᵀ((S+εI)⁻¹ − I/ε)J; the second comes from the bend of
        the kernel itself, Σ_i b_i ∂²k_i.
        """
        gamma, points, factor = self.kernel.gamma, self.span.points, self.span.factor
        width = U.shape[1]
        total = np.zeros((width, width))
        K = self.kernel_rows(U, np.matmul)
        Z = K @ factor
        slope = 2.0 * ((Z - self.mean) @ self.root) @ self.root.T - (2.0 / self.epsilon) * Z
        B = (slope @ factor.T) * K
        for u, k, b in zip(U, K, B, strict=True):
            apart = u - points
            J = factor.T @ (-2.0 * gamma * k[:, None] * apart)
            Y = self.root.T @ J
            total += 2.0 * (Y.T @ Y) - (2.0 / self.epsilon) * (J.T @ J)
            total += 4.0 * gamma**2 * (apart.T * b) @ apart
            total -= 2.0 * gamma * float(b.sum()) * np.eye(width)
        return total / len(U)


@stored
@dataclass(frozen=True)
class Setting:
    """What is chosen before normal operation is learned."""

    whiten: bool
    width: Annotated[float, "positive"]  # c in exp(−|u − v|²/(c·D))
    ridge: Annotated[float, "positive"]  # e in ε = e · tr S / D
    basis: landmarks.LandmarkStrategy
    seed: int
    lags: int = 0


@stored
@dataclass(frozen=True)
class Normal:
    """Normal operation: moments of lagged rows, moments of coordinates, and what follows."""

    setting: Setting
    rows: RowMoments  # of lagged rows
    coordinates: RowMoments  # of their coordinates in the span of the landmarks
    whitening: Whitening
    index: Index

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless the rows are those that are whitened, and each has its lags."""
        if (len(self.rows.mean), len(self.coordinates.mean)) != (sizes["features"], sizes["rank"]):
            raise ValueError("moments of rows of another width")
        if sizes["features"] % (self.setting.lags + 1):
            raise ValueError(f"rows of {sizes['features']} values with {self.setting.lags} lags")
        if not self.index.kernel.fixed:
            raise ValueError("a kernel without its width")

    @property
    def n_features(self) -> int:
        """Variables of a row; of a lagged row the present values come first."""
        return len(self.rows.mean) // (self.setting.lags + 1)

    def score(self, R: np.ndarray, product: Product = rows_times) -> Scores:
        """M, T² and SPE of lagged rows."""
        return self.index.score(self.whitening.apply(R, product), product)

    @property
    def points(self) -> np.ndarray:
        """The landmarks of the model as lagged rows, (m, D)."""
        offsets = np.linalg.solve(self.whitening.whitener.T, self.index.span.points.T).T
        return self.whitening.mean + offsets

    @cached_property
    def _residual_weights(self) -> np.ndarray:
        return residual_weights(self.rows.covariance, self.n_features, FLOOR)

    def residuals(self, R: np.ndarray, product: Product = rows_times) -> np.ndarray:
        """Standardized prediction errors of rows given the rows before them (see ``lasting``)."""
        return clip_residuals(product(R - self.whitening.mean, self._residual_weights))

    def adapt(self, R: np.ndarray, forgetting: float) -> Normal:
        """Normal operation after more rows.

        Their coordinates are those of the present whitening, by which they were scored.
        """
        Z = self.index.coordinates(self.whitening.apply(R, np.matmul), np.matmul)
        return self._with(self.rows.learn(R, forgetting), self.coordinates.learn(Z, forgetting))

    def recentre(self, R: np.ndarray) -> Normal:
        """Normal operation about the mean of the given rows."""
        return self._with(replace(self.rows, mean=R.mean(axis=0)), self.coordinates)

    def _with(self, rows: RowMoments, coordinates: RowMoments) -> Normal:
        s = self.setting
        return replace(
            self,
            rows=rows,
            coordinates=coordinates,
            whitening=Whitening.of(rows, s.whiten),
            index=Index.of(self.index.kernel, self.index.span, coordinates, s.ridge),
        )


def learn_normal(R: np.ndarray, setting: Setting, like: Normal | None = None) -> Normal:
    """Learn normal operation from lagged rows in reference units.

    ``like`` is a model of the same rows with the same whitening, which is taken over.
    """
    rows = RowMoments.of(R) if like is None else like.rows
    whitening = Whitening.of(rows, setting.whiten) if like is None else like.whitening
    U = whitening.apply(R, np.matmul)
    kernel = kernels.RBF(gamma=1.0 / (setting.width * U.shape[1]))
    chain = Chain(
        kernel, setting.basis, trackers.Covariance(), True, None, setting.seed, certify=False
    )
    state = Stream.of(chain, 1024, U.shape[1]).learn_all(Rows(U)).begun
    n, mean = state.moments.weight, state.moments.mean
    covariance = state.tracker.scatter / n - np.outer(mean, mean)
    coordinates = RowMoments(n, n, mean, covariance)
    index = Index.of(kernel, state.basis.span, coordinates, setting.ridge)
    return Normal(setting, rows, coordinates, whitening, index)


@compiled
def _rows_times(X: Any, A: Any) -> Any:
    n, inner = X.shape
    m = A.shape[1]
    out = np.zeros((n, m))
    for start in range(0, n, 8):
        stop = min(start + 8, n)
        for i in range(inner):
            for row in range(start, stop):
                x = X[row, i]
                for j in range(m):
                    out[row, j] += x * A[i, j]
    return out


@compiled
def _row_dots(X: Any, Y: Any) -> Any:
    n, d = X.shape
    out = np.zeros(n)
    for row in range(n):
        total = 0.0
        for j in range(d):
            total += X[row, j] * Y[row, j]
        out[row] = total
    return out
