"""Nyström factor: orthonormal coordinates in the span of landmarks, rank, rounding, checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import scipy.linalg

from kernelstream.arrays.namespaces import (
    Array,
    cast,
    dtype_name,
    is_sparse,
    like,
    namespace_of,
    row_norms_squared,
    symmetric_eigen,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.arrays.threads import by_rows
from kernelstream.kernels import Kernel
from kernelstream.serialization import stored

P = ParamSpec("P")
Value = TypeVar("Value")

# Eigenvalues of K(D,D) below this share of the largest are dropped. `eigh` in float64 is good to
# about m·1e-16; rows in float32 make coordinates whose error is 6e-8/√(share).
RANK_FLOOR = {"float64": 1e-10, "float32": 1e-8}
# Coordinates of float32 rows that rounding may move by more than this share of the length of φ(x)
# are computed in float64. What is expected is some four times what is found on real rows.
VISIBLE = 4e-3
FACTOR_ROWS = 64  # of a tile, at least, of a matrix as large as K(D,D) or of a growing block
SAME = 1e-9  # differences of factors, relative to their largest entry, that are rounding
# scikit-learn's measure of a kernel matrix that is not positive semidefinite by more than rounding.
NEGATIVE_SHARE = 1e-5


def once(
    method: Callable[Concatenate[Span, P], Value],
) -> Callable[Concatenate[Span, P], Value]:
    """A method of a span whose value, for the same arguments, is computed once."""

    @wraps(method)
    def known(self: Span, /, *arguments: P.args, **options: P.kwargs) -> Value:
        key = method.__name__, *arguments, *options.items()
        if key not in self.computed:
            self.computed[key] = method(self, *arguments, **options)
        return self.computed[key]

    return known


@stored
@dataclass(frozen=True)
class Span:
    """Points D and the factor F with ``Fᵀ K(D,D) F = I``: coordinates are ``z = Fᵀ k(D, x)``.

    ``points`` has the rows' dtype, ``factor`` is float64, ``projector`` is the factor in the type
    in which coordinates are computed: that of the rows, or float64 where rounding in float32 would
    be seen in them.
    """

    points: Annotated[Array, "float (points, features)"]
    factor: Annotated[Array, "float64 (points, rank)"]
    projector: Annotated[Array, "float (points, rank)"]

    @classmethod
    def of(cls, kernel: Kernel, points: Array, factor: Array, gram: Array) -> Span:
        """Points and a factor of their kernel matrix, which is known then."""
        rough = dtype_name(points) != "float64" and not (
            coordinate_error_in_float32(kernel, points, factor, gram) <= VISIBLE
        )
        span = cls(points, factor, factor if rough else cast(factor, points.dtype))
        span.computed["gram", kernel] = gram
        return span

    @cached_property
    def computed(self) -> dict[Any, Any]:
        """What was computed of the points: no part of the value, and not pickled with it."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return int(self.factor.shape[1])

    @once
    def gram(self, kernel: Kernel) -> Array:
        """K(D,D) in float64: it made the factor, and the certificate looks again."""
        return kernel.gram(to_float64(self.points))

    def own_coordinates(self, kernel: Kernel) -> Array:
        """Coordinates of the points themselves, ``K(D,D) F``, one point a row, in float64."""
        return self.gram(kernel) @ self.factor

    def extent(self, kernel: Kernel, shifted: bool = True) -> float:
        """``kernel.rounding.extent`` of the points: every block asks."""
        return self._extent(kernel, shifted)

    @once
    def _extent(self, kernel: Kernel, shifted: bool) -> float:
        return kernel.rounding.extent(self.points, shifted)

    @once
    def _prepared(self, kernel: Kernel, dtype: str) -> Any:
        return kernel.prepared(cast(self.points, getattr(namespace_of(self.points), dtype)))

    def prepared(self, kernel: Kernel, X: Array) -> Any:
        """The points as ``kernel.block`` takes them against the rows X, of which many blocks come.

        Those that meet CSR rows are prepared block by block: they are not shifted.
        """
        return cast(self.points, X.dtype) if is_sparse(X) else self._prepared(kernel, dtype_name(X))

    def rows(self, X: Array) -> Array:
        """Rows in the type in which their coordinates are computed."""
        return to_float64(X) if dtype_name(self.projector) == "float64" else X

    def coordinates(self, kernel: Kernel, X: Array) -> Array:
        """Coordinates of rows: one kernel block, one product."""
        X = self.rows(X)
        same = dtype_name(X) == dtype_name(self.projector)
        return kernel.block(X, self.prepared(kernel, X)) @ (self.projector if same else self.factor)

    def many_coordinates(self, kernel: Kernel, X: Array) -> Array:
        """Coordinates of a long piece of rows, which threads share."""
        self.prepared(kernel, self.rows(X[:1, :]))  # once, and not by every thread
        return by_rows(lambda rows: self.coordinates(kernel, rows), X, int(self.points.shape[0]))


def coordinate_error_in_float32(kernel: Kernel, points: Array, factor: Array, gram: Array) -> float:
    """How far rounding in float32 may well move coordinates, relative to √k(x,x).

    The values k(d, x) are at most √λ₁ long, λ₁ the largest eigenvalue of K(D,D). Each is off by its
    own share, and the factor multiplies an error by the length of its row, 1/√ε with ε what the
    other points miss of this one. Points count by their directions, whatever their energies.
    """
    xp = namespace_of(gram)
    energies = xp.linalg.diagonal(gram)
    lengths = xp.sqrt(xp.where(energies > 0, energies, xp.ones_like(energies)))
    if not lengths.shape[0]:
        return 0.0
    above_first = xp.max(xp.sum(xp.abs(gram) / lengths[None, :], axis=1) / lengths)
    stretched = xp.max(row_norms_squared(factor * lengths[:, None]))
    off = kernel.rounding.in_float32(kernel.rounding.extent(points))
    return off * float(above_first) ** 0.5 * float(stretched) ** 0.5


def factorise(kernel: Kernel, points: Array) -> Span:
    """Orthonormal coordinates in the span of points, from a factor of K(D,D).

    The inverse of the Cholesky factor, ``F = L⁻ᵀ``, where no direction is weak: that takes a
    fraction of the time of eigenvectors. It has |F|² = Σ 1/λ, so that 1/|F|² is below every
    eigenvalue λ. Elsewhere the eigenvectors, ``F = V/√λ``. The kernel matrix is computed in float64
    from the points as they are stored, so rounding of the points is no error at all.
    """
    gram = finite(kernel.gram(to_float64(points)), kernel)
    known = to_host(gram)  # the host is as fast, and gives the same coordinates to every device
    factor = inverse_of_cholesky(known)
    if factor is not None:
        weakest = RANK_FLOOR.get(dtype_name(points), 1e-10) * float(np.trace(known))
        if float(np.linalg.norm(factor)) ** 2 * weakest < 1.0:
            return Span.of(kernel, points, like(np.ascontiguousarray(factor), gram), gram)
    return Span.of(kernel, points, from_eigenvectors(kernel, points, gram), gram)


def inverse_of_cholesky(gram: np.ndarray) -> np.ndarray | None:
    """``L⁻ᵀ`` of ``gram = L Lᵀ``; None where rounding leaves no such factor."""
    try:
        # NumPy's, here and in all that runs along with a stream: SciPy brings a BLAS of its own,
        # whose threads would wait in the way of the others.
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    return inverse_of_lower(lower).T


def inverse_of_lower(L: np.ndarray) -> np.ndarray:
    """The inverse of a lower triangular matrix: of its two halves, and a product of them.

    So nearly all of it is products, which threads share.
    """
    half = len(L) // 2
    if half < FACTOR_ROWS:
        return np.tril(np.linalg.inv(L))
    inverse = np.zeros_like(L)
    inverse[:half, :half] = upper = inverse_of_lower(L[:half, :half])
    inverse[half:, half:] = lower = inverse_of_lower(L[half:, half:])
    inverse[half:, :half] = product_in_tiles(lower, product_in_tiles(-L[half:, :half], upper))
    return inverse


def product_in_tiles(a: Array, b: Array) -> Array:
    """``a b``, rows of a in threads."""
    return by_rows(lambda rows: rows @ b, a, int(b.shape[0]), FACTOR_ROWS)


def from_eigenvectors(kernel: Kernel, points: Array, gram: Array) -> Array:
    """``V/√λ`` without tiny λ, so that duplicated or dependent points cost rank, not accuracy.

    (Cholesky with jitter fails with float32 rows already at 1e-8.)
    """
    xp = namespace_of(points)
    values, vectors = symmetric_eigen(gram)
    largest = float(values[0]) if values.shape[0] else 0.0
    require_semidefinite(kernel, float(values[-1]) if values.shape[0] else 0.0, largest)
    floor = RANK_FLOOR.get(dtype_name(points), 1e-10)
    rank = int(xp.sum(xp.astype(values > floor * largest, xp.int64))) if largest > 0 else 0
    return vectors[:, :rank] / xp.sqrt(values[:rank])[None, :]


def independent(
    kernel: Kernel, points: Array, energies: np.ndarray, share: float
) -> tuple[Span, np.ndarray]:
    """The points that do not depend on the others, and which they are: a pivoted Cholesky factor.

    The point that is worst expressed by those before it comes next, until what is left of every
    point is below ``share`` of its energy. That order keeps the factor as small as it can be.
    """
    # correlations: a point of small norm counts as much as one of large
    scale = 1.0 / np.sqrt(energies)
    gram = to_host(kernel.gram(to_float64(points))) * scale[:, None] * scale[None, :]
    lower, pivots, rank, _ = scipy.linalg.lapack.dpstrf(gram, lower=1, tol=share)
    kept = np.asarray(pivots[:rank]) - 1
    inverse = scipy.linalg.solve_triangular(lower[:rank, :rank], np.eye(rank), lower=True)
    factor = like(scale[kept][:, None] * inverse.T, points, namespace_of(points).float64)
    return Span(take_rows(points, kept), factor, factor), kept


def transition(kernel: Kernel, old: Span, new: Span) -> Array:
    """``T = F'ᵀ K(D',D) F``: every change of basis is this one matrix."""
    xp = namespace_of(old.factor)
    cross = kernel.block(to_float64(new.points), to_float64(old.points))
    return xp.matrix_transpose(new.factor) @ (cross @ old.factor)


def same_points(a: Span, b: Span) -> bool:
    """Whether two spans have the same points in the same order."""
    xp = namespace_of(a.points)
    return a.points.shape == b.points.shape and bool(xp.all(a.points == b.points))


def onto(kernel: Kernel, old: Span, new: Span) -> Array | None:
    """``transition`` between two spans of the same points; None where the coordinates agree.

    Factors of the same points differ where one was computed on another device or by another
    library. What rounding makes of a factor counts as the same.
    """
    ours, theirs = to_host(new.factor), to_host(old.factor)
    largest = float(np.abs(ours).max(initial=0.0))
    if ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=0.0, atol=SAME * largest):
        return None
    return transition(kernel, old, new)


def residual_energy(energy: Array, Z: Array) -> Array:
    """ε = k(x,x) − |z|², zero where it is negative: that is rounding.

    A product with 0 or 1 instead of a limit: it leaves a mark where something is not finite (∞·0),
    which the sum over the block will show. Looking here would make a device wait.
    """
    missed = energy - row_norms_squared(Z)
    with np.errstate(invalid="ignore"):
        return missed * cast(missed > 0.0, missed.dtype)


def sum_of(values: Array, weights: Array | None) -> Array:
    """Σ w v, in float64, where the values are."""
    xp = namespace_of(values)
    if weights is None:
        return xp.sum(values, dtype=xp.float64)
    return xp.sum(to_float64(values) * weights)


def weighted_total(values: Array, weights: Array | None) -> float:
    """The same as a number: a device hands over sums, not rows."""
    return float(sum_of(values, weights))


def finite(K: Array, kernel: Kernel) -> Array:
    """Return ``K``, or raise: a kernel value that is not finite poisons everything after it.

    Parameters
    ----------
    K : array
        Kernel values.
    kernel : Kernel
        The kernel, for the error message.

    Returns
    -------
    array
        The same kernel values.
    """
    xp = namespace_of(K)
    with np.errstate(over="ignore", invalid="ignore"):
        fine = bool(xp.all(xp.isfinite(K)))
    if not fine:
        raise ValueError(
            f"The kernel {kernel} gave values that are not finite on these rows. "
            "Scale the data (for example with scale='standard') or choose other kernel parameters."
        )
    return K


def require_semidefinite(
    kernel: Kernel, lowest: float, highest: float, cure: str = "Use a narrower kernel."
) -> None:
    """Raise if a kernel matrix has eigenvalues that are negative by more than rounding.

    A kernel that is known to be positive semidefinite has them by rounding only, and the rows may
    have been buffered by an earlier call: that is a warning.

    Parameters
    ----------
    kernel : Kernel
        The kernel, for the error message.
    lowest : float
        Smallest eigenvalue.
    highest : float
        Largest eigenvalue.
    cure : str, optional
        Advice for the error message when rounding, and not the kernel, is the cause.
    """
    if is_semidefinite(lowest, highest):
        return
    if kernel.psd:
        warnings.warn(
            f"With the kernel {kernel} these rows are so nearly dependent that rounding "
            f"spoiled the landmarks (a squared distance came out as {lowest:.3g}). {cure}",
            stacklevel=2,
        )
        return
    raise ValueError(
        f"The kernel {kernel} is not positive semidefinite on these rows: its matrix has the "
        f"eigenvalue {lowest:.3g} beside {highest:.3g}. Kernel PCA needs a positive "
        "semidefinite kernel; choose other parameters or another kernel."
    )


def is_semidefinite(lowest: float, highest: float) -> bool:
    """Whether a matrix with these eigenvalues is positive semidefinite, up to rounding."""
    if highest <= 0.0:
        return lowest >= 0.0
    return lowest >= -NEGATIVE_SHARE * highest


def distinct_rows(X: Array, most: int) -> np.ndarray | None:
    """Indices of the different rows if there are at most ``most`` of them, else None."""
    if is_sparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        keys: Any = (
            (X.indices[a:b].tobytes(), X.data[a:b].tobytes())
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        )
    else:
        # −0.0 and 0.0 are the same number; rows are looked at until there are too many
        keys = ((row + 0.0).tobytes() for row in to_host(X))
    first: dict[Any, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
        if len(first) > most:
            return None
    return np.fromiter(first.values(), dtype=np.intp)
