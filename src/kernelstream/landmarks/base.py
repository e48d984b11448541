"""Landmark strategy base class: Nyström factor, coordinates, squared residual, compatibility."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import numpy as np
import scipy.linalg

from kernelstream.arrays.namespaces import (
    Array,
    as_dense,
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
    weighted_gram,
    weighted_sum,
)
from kernelstream.arrays.threads import by_rows, cut, in_threads, in_turn
from kernelstream.kernels import Kernel
from kernelstream.serialization import stored
from kernelstream.serialization.part import Part

S = TypeVar("S")  # the state of a basis
P = ParamSpec("P")
Value = TypeVar("Value")

# Eigenvalues of K(D,D) below this share of the largest are dropped. `eigh` in float64 is good to
# about m·1e-16; rows in float32 make coordinates whose error is 6e-8/√(share).
RANK_FLOOR = {"float64": 1e-10, "float32": 1e-8}
# Coordinates of float32 rows that rounding may move by more than this share of the length of φ(x)
# are computed in float64. What is expected is some four times what is found on real rows.
VISIBLE = 4e-3
FACTOR_ROWS = 64  # of a tile of a matrix as large as K(D,D), at least
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

    @once
    def error_in_float32(self, kernel: Kernel) -> float:
        """How far rounding in float32 may well move coordinates, relative to √k(x,x)."""
        return coordinate_error_in_float32(kernel, self.points, self.factor, self.gram(kernel))


@dataclass(frozen=True)
class Clock:
    """Where in the stream a block stands: the seed, its first row, and what forgetting leaves.

    ``decay`` is the factor by which the weight of everything older shrinks over the block;
    ``log_forgetting`` is log β per row.
    """

    seed: int
    row: int
    decay: float = 1.0
    log_forgetting: float = 0.0

    def fading(self, n: int) -> np.ndarray:
        """What forgetting leaves at the end of a block of the weight of each of its n rows.

        Never zero: a weight that underflows would look like a row that never was.
        """
        left = np.exp(self.log_forgetting * np.arange(n - 1.0, -1.0, -1.0))
        return np.maximum(left, np.finfo(float).tiny)


@dataclass(frozen=True)
class Projection:
    """A block in coordinates.

    ``energy`` is k(x,x) of each row. Rows before
    ``fresh_from`` were expressed before the last point was admitted; ``admitted`` are the rows of
    the block that became points, in order. It may end before the block does, when the basis must be
    revised before it can go on. ``extent`` is that of other rows than the points with which the
    kernel was taken on the way: it tells how far values were rounded.
    """

    Z: Array
    energy: Array
    missed: Array | None = None  # what is known of the residual; None: all that Z has not
    fresh_from: int = 0
    admitted: tuple[int, ...] = ()
    extent: float = 0.0

    @cached_property
    def residual(self) -> Array:
        """What is missed of each row, where somebody asks: most want the sum alone."""
        return residual_energy(self.energy, self.Z) if self.missed is None else self.missed


@dataclass(frozen=True)
class Measured:
    """What a block says about itself in a basis: a function of basis and rows alone."""

    X: Array
    weights: np.ndarray | None  # as they were given; None: all 1
    left: np.ndarray | None  # what forgetting leaves of them at the end of the block
    clock: Clock
    block: Projection
    weight: float  # Σ w
    total: Array  # Σ w z
    scatter: Array | None  # Σ w z zᵀ, where it is wanted
    # The sums below, of no dimension, where the rows are: a device is asked for them once the host
    # has nothing else to do.
    energies: Array
    residuals: Array

    @cached_property
    def energy(self) -> float:
        """Σ w k(x,x)."""
        return float(self.energies)

    @cached_property
    def missed(self) -> float:
        """Σ w ε, of which rounding may leave less than nothing."""
        missed = float(self.residuals)
        return 0.0 if missed < 0.0 else missed  # and what is no number stays none

    @classmethod
    def of(
        cls,
        X: Array,
        weights: np.ndarray | None,
        left: np.ndarray | None,
        clock: Clock,
        block: Projection,
        scatter: bool,
    ) -> Measured:
        """Add up a block."""
        w = None if left is None else like(left, block.Z)
        energies = sum_of(block.energy, w)
        moments = weighted_gram(block.Z, w) if scatter else None
        if moments is None or block.missed is not None:
            residuals = sum_of(block.residual, w)
        else:  # Σ w (k(x,x) − |z|²)
            xp = namespace_of(moments)
            residuals = energies - xp.sum(xp.linalg.diagonal(moments))
        return cls(
            X,
            weights,
            left,
            clock,
            block,
            float(X.shape[0]) if left is None else float(left.sum()),
            weighted_sum(block.Z, w),
            moments,
            energies,
            residuals,
        )

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True)
class Correction:
    """A sample of all rows that shows what was lost by folding them in older bases.

    Sums over the sample, in which each row stands for a weight of mean 1 (None: all alike).
    """

    rows: Array
    folded: Array  # the coordinates c that the rows had when they were folded, float64
    present: Array  # the coordinates z that they have in the present basis, float64
    stands_for: np.ndarray | None

    def moments(self, weight: float) -> tuple[Array, Array]:
        """Σ(zzᵀ − ccᵀ) and Σ(z − c), for rows that weigh so much together."""
        Z, C = self.present, self.folded
        w = None if self.stands_for is None else like(self.stands_for, Z)

        def part(at: slice) -> Array:
            some = None if w is None else w[at]
            return weighted_gram(Z[at, :], some) - weighted_gram(C[at, :], some)

        first, *others = in_threads(part, cut(Z, int(Z.shape[1])))
        scatter, share = in_turn(first, others), weight / int(Z.shape[0])
        return scatter * share, (weighted_sum(Z, w) - weighted_sum(C, w)) * share

    def cross(self, origin: Array, weight: float) -> Array:
        """Mean of (z − c)(x − o)ᵀ over rows of such weight, for the moments of z with rows x."""
        step = self.present - self.folded
        if self.stands_for is not None:
            step = step * like(self.stands_for, step)[:, None]
        xp = namespace_of(step)
        cross = xp.matrix_transpose(step) @ (to_float64(as_dense(self.rows)) - origin[None, :])
        return cross / int(step.shape[0])


@stored
@dataclass(frozen=True)
class KeptCorrection:
    """A correction as sums, of a model that has given up its sample."""

    scatter: Annotated[Array, "float64 (rank, rank)"]
    total: Annotated[Array, "float64 (rank)"]
    # with the rows, about an origin, where a regression wants it
    products: Annotated[Array | None, "float64 (rank, targets)"] = None
    origin: Annotated[Array | None, "float64 (targets)"] = None

    @classmethod
    def of(
        cls, given: Correction | KeptCorrection, weight: float, T: Array, origin: Array | None
    ) -> KeptCorrection:
        """What corrects the moments of rows of such weight, in a basis into which T carries."""
        scatter, total = given.moments(weight)
        turned = namespace_of(T).matrix_transpose(T)
        products = None if origin is None else T @ given.cross(origin, weight) * weight
        return cls(T @ scatter @ turned, T @ total, products, origin)

    def moments(self, weight: float) -> tuple[Array, Array]:
        """The sums, whatever came later: rows folded since need no correction."""
        return self.scatter, self.total

    def cross(self, origin: Array, weight: float) -> Array:
        """The products about another origin, over rows of such weight."""
        assert self.products is not None and self.origin is not None
        return (self.products + self.total[:, None] * (self.origin - origin)[None, :]) / weight

    def decay(self, factor: float) -> KeptCorrection:
        """Old rows lose weight, and what corrects them with them."""
        products = None if self.products is None else self.products * factor
        return KeptCorrection(self.scatter * factor, self.total * factor, products, self.origin)


class Basis(Part, Generic[S]):
    """Which m points span the model.

    A basis is told the start of the stream (``begin``), turns every block into coordinates
    (``express``) and learns it (``enter``), and may change its points at the end of a block
    (``revise``). Where rows become points while a block is read, ``project`` does both. A basis
    keeps no state of its own: each verb returns the new state, of the type S.
    """

    _family = "landmarks"
    #: Whether the state after all rows depends on what an early basis missed, so that ``fit``
    #: gains from a second pass.
    settles_late = True
    #: Whether ``fit`` may show the rows in random order when it looks for points.
    order_free = False
    #: Whether the vectors that a tracker holds are compressed at the end of a block (``compress``).
    compresses_vectors = False
    #: Whether points, once they are there, never change.
    stays = False
    #: Whether ``begin`` gives no points, and rows become some as they come.
    starts_empty = False
    #: Rows a block has unless the user says otherwise.
    preferred_batch = 1024
    #: The same on a GPU, which has little to do in a small block; None: as many as fit.
    preferred_on_device: int | None = 1024

    def start_rows(self) -> int:
        """How many rows ``begin`` wants to see."""
        return 1

    @property
    def size(self) -> int:
        """Number of points, or a guess at it: for the choice of the block size."""
        return 1024

    def suits(self, kernel: Kernel, n_features: int) -> None:
        """Raise ``ValueError`` in one sentence when kernel or width of the rows do not fit."""

    def in_units(self, scaled: Callable[[Array], Array]) -> Self:
        """The basis with points that were given in the units of the data in those of the kernel."""
        return self

    @abstractmethod
    def begin(
        self, kernel: Kernel, X: Array, weights: np.ndarray | None, seed: int, wanted: int = 0
    ) -> S:
        """Return the state at the start of the stream; the rows X are folded afterwards.

        ``wanted`` is the number of components that will be asked for; 0: not known.
        """

    def draw(self, X: Array, weights: np.ndarray | None, clock: Clock) -> Any:
        """A sample of rows that are all at hand, for ``survey``; None where it is not enough."""
        return None

    def survey(
        self,
        kernel: Kernel,
        sample: Any,
        n: int,
        clock: Clock,
        wanted: int,
    ) -> S:
        """Return the state for one pass over n rows that are all at hand, from their sample."""
        raise NotImplementedError

    def express(self, kernel: Kernel, state: S, X: Array) -> Projection:
        """Express a block in the coordinates of a basis that does not change."""
        Z = self.coordinates(kernel, state, X)
        energy = kernel.diag(cast(X, Z.dtype))
        return Projection(Z, energy)

    def measures(self, state: S) -> bool:
        """Whether blocks can be expressed before their turn comes; else ``project`` reads them."""
        return True

    def enter(self, kernel: Kernel, state: S, blocks: Sequence[Measured]) -> tuple[S, int]:
        """Learn blocks that were expressed, up to one after which points may change.

        Returns the state and the number of blocks that it has learned.
        """
        return state, len(blocks)

    def draws(self, state: S | None) -> bool:
        """Whether a pass that only looks for points needs no more than some of its rows.

        None is a state that is still to be.
        """
        return False

    def keep_some(
        self, state: S, blocks: Sequence[tuple[Array, np.ndarray | None]], clock: Clock
    ) -> S:
        """Keep some rows of blocks, the first at ``clock``, and learn nothing else of them."""
        raise NotImplementedError

    def look_back(self, kernel: Kernel, state: S) -> S:
        """The state that knows the rows which were kept, after a pass that only looked."""
        return state

    def next_change(self, state: S) -> float:
        """The number of rows at which points are likely to change next: a guess, for the speed."""
        return math.inf

    def project(
        self, kernel: Kernel, state: S, X: Array, weights: np.ndarray | None, clock: Clock
    ) -> tuple[S, Projection]:
        """Read a block whose rows may become points on the way, and learn it."""
        raise NotImplementedError

    def span(self, state: Any) -> Span:
        """Landmarks and factor of the state."""
        span: Span = state.span
        return span

    def rank(self, state: S) -> int:
        """Number of coordinates."""
        return self.span(state).rank

    def coordinates(self, kernel: Kernel, state: S, X: Array) -> Array:
        """Coordinates of rows, without learning."""
        return self.span(state).coordinates(kernel, X)

    def revise(self, kernel: Kernel, state: S, clock: Clock) -> tuple[S, Array | None] | None:
        """At the end of a block: the new state and ``T = F'ᵀ K(D',D) F``, or None for no change.

        T is None where the coordinates stay as they are.
        """
        return None

    def compress(self, kernel: Kernel, state: S, vectors: Array) -> tuple[S, Array] | None:
        """At the end of a block, given what the model holds: as ``revise``.

        ``vectors`` are the components, as the tracker has them, and the mean, in coordinates.
        """
        return None

    def settle(self, kernel: Kernel, state: S, clock: Clock) -> tuple[S, Array | None] | None:
        """Make a last revision before a query, worked on a copy."""
        return None

    def finish(self, kernel: Kernel, state: S, clock: Clock) -> S:
        """Return the state for a second pass: all rows will be expressed in its basis."""
        return state

    def sampled(self, state: S) -> Array | None:
        """A uniform sample of the rows so far; None where the basis keeps none."""
        return None

    def correction(self, kernel: Kernel, state: S) -> Correction | KeptCorrection | None:
        """A sample of rows that were folded in older bases; None where there are no older bases."""
        return None

    def merge(self, kernel: Kernel, a: S, b: S, seed: int) -> tuple[S, Array | None, Array | None]:
        """One basis for two states, and the matrices that carry each into it (None: unchanged)."""
        raise ValueError(f"Models with the basis {self} cannot be merged.")


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
    if lowest < -NEGATIVE_SHARE * max(highest, 0.0) or (highest <= 0.0 and lowest < 0.0):
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
