"""Array API helpers for NumPy, PyTorch, CuPy and CSR: casts, weighted Gram matrix, eigenvalues.

Code in ``kernels``, ``landmarks``, ``trackers`` and ``stream`` is written once, against the array
API standard. The few operations that the standard lacks, or that a namespace does much faster in
its own way, live here and nowhere else. SciPy's CSR matrices count as NumPy rows: they may stand
where a block of rows stands (left operand of a product), never where a state or a basis point
stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.sparse

_SHORT_SUM = 256  # rows that a device adds up in their own type
_SHORT_ROW = 32  # columns up to which a call of BLAS for each row takes longer than its arithmetic
_WEAK = 1e-5  # a column with less than this of its own: squared, it is near the rounding of VᵀV

# NumPy takes some microseconds to put a name together.
_NAMES = {np.dtype(name): name for name in ("float64", "float32")}

Array = Any  # an array of any supported namespace; CSR where rows of data are meant


def is_sparse(x: Any) -> bool:
    """Whether ``x`` is a SciPy sparse matrix or array."""
    # a plain array is known by its class: SciPy asks an abstract base class, in ten times the time
    return type(x) is not np.ndarray and scipy.sparse.issparse(x)


def is_foreign(x: Any) -> bool:
    """Whether ``x`` is an array of another namespace than NumPy (PyTorch, CuPy, ...)."""
    return (
        not isinstance(x, np.ndarray | np.generic)
        and not is_sparse(x)
        and array_api_compat.is_array_api_obj(x)
    )


def namespace_of(*arrays: Any) -> Any:
    """The array namespace of the arguments; NumPy for CSR rows and for host values."""
    known = [x for x in arrays if type(x) is not np.ndarray and is_foreign(x)]
    return array_api_compat.array_namespace(*known) if known else array_api_compat.numpy


def on_accelerator(x: Any) -> bool:
    """Whether ``x`` lives on a GPU or the like: launches are dear there, and work is cheap."""
    return is_foreign(x) and "cpu" not in str(array_api_compat.device(x)).lower()


def overwrite(function: str, x: Array, *others: float) -> Array:
    """``xp.function(x, *others)``, in the memory of ``x`` where the namespace can do that."""
    if isinstance(x, np.ndarray):
        return getattr(np, function)(x, *others, out=x)
    if array_api_compat.is_torch_array(x):
        in_place = {"maximum": "clamp_min_", "minimum": "clamp_max_"}.get(function, f"{function}_")
        return getattr(x, in_place)(*others)
    return getattr(namespace_of(x), function)(x, *others)


def as_csr(x: Any) -> Any:
    """A sparse matrix as CSR with sorted columns, each entry once; the argument stays as it was."""
    x = x.tocsr()
    if not x.has_canonical_format:  # a matrix put together from pieces may name an entry twice
        x = x.copy()
        x.sum_duplicates()
    return x


def as_dense(x: Any) -> Array:
    """Rows as a dense array (CSR is written out, anything else is returned as it is)."""
    return x.toarray() if is_sparse(x) else x


def cast(x: Array, dtype: Any) -> Array:
    """``x`` in another dtype of its own namespace, without a copy where none is needed."""
    if isinstance(x, np.ndarray) or is_sparse(x):
        return x.astype(dtype, copy=False)
    return namespace_of(x).astype(x, dtype, copy=False)


def dtype_name(x: Array) -> str:
    """``"float64"``, whatever the namespace calls it (``torch.float64``)."""
    if type(x) is np.ndarray:
        return _NAMES.get(x.dtype) or x.dtype.name
    return str(x.dtype).rsplit(".", 1)[-1]


def to_float64(x: Array) -> Array:
    """``x`` in double precision, the type of every accumulator.

    Parameters
    ----------
    x : array
        Array of any namespace, dense or CSR.

    Returns
    -------
    array
        The array in float64, without a copy if it is float64 already.
    """
    return cast(x, np.float64 if is_sparse(x) else namespace_of(x).float64)


def like(x: Any, reference: Array, dtype: Any = None) -> Array:
    """Host values as an array of the namespace and on the device of ``reference``.

    Parameters
    ----------
    x : array or number
        Values on the host.
    reference : array
        Array whose namespace and device the result has.
    dtype : data type, optional
        Data type of the result; None keeps that of ``x``.

    Returns
    -------
    array
        The values, without a copy where none is needed.
    """
    if isinstance(x, np.ndarray) and isinstance(reference, np.ndarray):
        return x if dtype is None else x.astype(dtype, copy=False)
    xp = namespace_of(reference)
    x = xp.asarray(x, device=None if is_sparse(reference) else array_api_compat.device(reference))
    return x if dtype is None else cast(x, dtype)


def ones(n: int, reference: Array, dtype: Any) -> Array:
    """Ones, ``n`` of them, where ``reference`` lives: nothing is sent there."""
    xp = namespace_of(reference)
    return xp.ones(
        n,
        dtype=dtype,
        device=None if is_sparse(reference) else array_api_compat.device(reference),
    )


def to_host(x: Any) -> np.ndarray:
    """A NumPy copy or view of an array of any namespace (CSR is written out).

    Parameters
    ----------
    x : array
        Array of any namespace, dense or CSR.

    Returns
    -------
    numpy.ndarray
        The values as a dense NumPy array.
    """
    if is_sparse(x):
        return x.toarray()
    if isinstance(x, np.ndarray):
        return x
    if array_api_compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)


def padded(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` with zeros appended up to ``shape``."""
    if tuple(x.shape) == shape:
        return x
    whole = like(np.zeros(shape), x)
    whole[tuple(slice(0, n) for n in x.shape)] = x
    return whole


def take_columns(X: Array, columns: Sequence[int]) -> Array:
    """Some columns, in a given order."""
    if isinstance(X, np.ndarray) or is_sparse(X):
        return X[:, list(columns)]
    xp = namespace_of(X)
    index = xp.asarray(list(columns), dtype=xp.int64, device=array_api_compat.device(X))
    return xp.take(X, index, axis=1)


def take_rows(x: Array, index: Any) -> Array:
    """The rows ``index`` (integers, of the host or where x is) of ``x``: a copy, never a view."""
    if not is_foreign(index):
        index = np.asarray(index, dtype=np.intp)
    if is_sparse(x):
        return x[index]
    return namespace_of(x).take(x, like(index, x), axis=0)


def concatenate_rows(blocks: list[Array]) -> Array:
    """Blocks of rows one below the other; CSR beside dense becomes dense, host goes to device."""
    if len(blocks) == 1:
        return blocks[0]
    if all(is_sparse(b) for b in blocks):
        return scipy.sparse.vstack(blocks, format="csr")
    blocks = [as_dense(b) for b in blocks]
    elsewhere = next((b for b in blocks if is_foreign(b)), None)
    if elsewhere is not None:
        blocks = [b if is_foreign(b) else like(b, elsewhere) for b in blocks]
    return namespace_of(*blocks).concat(blocks, axis=0)


def row_norms_squared(x: Array) -> Array:
    """``|x_i|²`` of every row."""
    if is_sparse(x):
        return np.asarray(x.multiply(x).sum(axis=1)).ravel()
    if isinstance(x, np.ndarray):
        if x.dtype == np.float32 and x.shape[1] <= _SHORT_ROW:
            return np.einsum("ij,ij->i", x, x)
        # A product of BLAS for each row: of long ones three times as fast, and rounded as those of
        # rows with points are, which kernels with a kink at zero distance would notice.
        return np.vecdot(x, x)
    xp = namespace_of(x)
    if array_api_compat.is_torch_array(x):
        lengths = xp.linalg.vector_norm(x, axis=1)  # one pass, no x² in memory
        return lengths * lengths
    return xp.sum(x * x, axis=1)


def product(x: Array, y: Array, bias: Array | None = None) -> Array:
    """``x yᵀ``, plus a number for each column: rows against points; ``x`` may be CSR."""
    if bias is not None and array_api_compat.is_torch_array(x):
        import torch

        return torch.addmm(bias, x, y.T)  # added while the product is written
    xy = np.asarray(x @ y.T) if is_sparse(x) else x @ namespace_of(y).matrix_transpose(y)
    if bias is not None:
        xy += bias[None, :]
    return xy


def weighted_gram(z: Array, weights: Array | None) -> Array:
    """``Σ w z zᵀ`` in float64; the product itself runs in the type of ``z``."""
    xp = namespace_of(z)
    if weights is None:
        return to_float64(xp.matrix_transpose(z) @ z)
    w, unit = in_units(weights, z.dtype)
    return to_float64(xp.matrix_transpose(z * w[:, None]) @ z) * unit


def in_units(weights: Array, dtype: Any) -> tuple[Array, Array]:
    """Weights as numbers up to 2 of another type, and the power of two that is their unit.

    Weights of 1e-50 or 1e40 are no numbers in float32, and only their ratios matter.
    """
    xp = namespace_of(weights)
    weights = to_float64(weights)
    largest = xp.clip(xp.max(weights), min=float(xp.finfo(xp.float64).smallest_normal))
    unit = 2.0 ** xp.floor(xp.log2(largest))
    return cast(weights / unit, dtype), unit


def weighted_sum(z: Array, weights: Array | None) -> Array:
    """``Σ w z`` over the rows, in float64; as the Gram matrix, it is computed in the type of z."""
    xp = namespace_of(z)
    if is_sparse(z):
        w = np.ones(z.shape[0]) if weights is None else weights
        return np.asarray(z.T @ w, dtype=np.float64).ravel()
    if isinstance(z, np.ndarray):
        if weights is None:
            return to_float64(np.ones(z.shape[0], z.dtype) @ z)
        w, unit = in_units(weights, z.dtype)
        return to_float64(w @ z) * unit
    if weights is not None:
        return xp.sum(to_float64(z) * weights[:, None], axis=0)
    if on_accelerator(z):
        # A sum in float64 would write all of z in float64 first: short sums in its own type, and
        # those in float64.
        whole = int(z.shape[0]) // _SHORT_SUM * _SHORT_SUM
        short = xp.reshape(z[:whole, :], (-1, _SHORT_SUM, int(z.shape[1])))
        sums = xp.sum(to_float64(xp.sum(short, axis=1)), axis=0)
        return sums + xp.sum(to_float64(z[whole:, :]), axis=0)
    return xp.sum(z, axis=0, dtype=xp.float64)


def sum_by_label(
    x: Array, labels: np.ndarray, n_labels: int, weights: np.ndarray | None = None
) -> Array:
    """``Σ w x`` of the rows of each label, float64: one product with a sparse indicator matrix.

    Without weights a few rows of a block are added in their own type (half the time for float32);
    sums over blocks are the caller's, in float64.
    """
    n = len(labels)
    dtype = np.float64 if weights is not None or is_foreign(x) else x.dtype
    w = np.ones(n, dtype) if weights is None else np.asarray(weights, dtype=np.float64)
    if is_foreign(x):
        # A product again: scattered additions on a device come in no fixed order.
        xp = namespace_of(x)
        cells = like(np.arange(n_labels), x)
        indicator = cast(cells[:, None] == like(labels, x)[None, :], x.dtype)
        if weights is None:
            return xp.astype(indicator @ x, xp.float64)
        w, unit = in_units(like(w, x), x.dtype)
        return xp.astype((indicator * w[None, :]) @ x, xp.float64) * unit
    # one entry a column: the rows are read in order and added where they belong
    indicator = scipy.sparse.csc_array((w, labels, np.arange(n + 1)), shape=(n_labels, n))
    return np.asarray(as_dense(indicator @ x), dtype=np.float64)


def largest_entry(x: Array) -> float:
    """The largest magnitude in ``x``."""
    if is_sparse(x):
        x = x.data
        return float(max(x.max(initial=0.0), -x.min(initial=0.0)))
    xp = namespace_of(x)
    return max(float(xp.max(x)), -float(xp.min(x)))


def all_finite(x: Array) -> bool:
    """Whether every number is finite (one pass; a sum that overflows is looked at again)."""
    if is_sparse(x):
        x = x.data
    xp = namespace_of(x)
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(xp.sum(x))
    return bool(np.isfinite(total)) or bool(xp.all(xp.isfinite(x)))


def canonical_signs(vectors: Array) -> Array:
    """+1 or −1 for each column: its largest entry becomes positive, the same for every run."""
    xp = namespace_of(vectors)
    if vectors.shape[0] == 0:
        return like(np.ones(vectors.shape[1]), vectors)
    largest = xp.max(vectors, axis=0)
    smallest = xp.min(vectors, axis=0)
    return xp.where(largest >= -smallest, xp.ones_like(largest), -xp.ones_like(largest))


def orthonormal(V: Array) -> Array:
    """Orthonormal columns of the same span, by a Cholesky factor of VᵀV where that is sound.

    For a few columns that takes a quarter of the time of Householder's reflections. Its error is
    that of VᵀV, whose condition the diagonal of the factor shows.
    """
    if isinstance(V, np.ndarray):
        try:
            lower = np.linalg.cholesky(V.T @ V)
        except np.linalg.LinAlgError:
            pass
        else:
            lengths = np.diagonal(lower)
            if lengths.min(initial=np.inf) > _WEAK * lengths.max(initial=0.0):
                return V @ np.linalg.inv(lower).T
    return namespace_of(V).linalg.qr(V)[0]


def symmetric_eigen(a: Array) -> tuple[Array, Array]:
    """Eigenvalues in descending order and eigenvectors of a symmetric float64 matrix.

    The largest entry of each vector is positive: libraries differ in the sign.

    Parameters
    ----------
    a : array of shape (n, n)
        Symmetric matrix in float64.

    Returns
    -------
    values : array of shape (n,)
        Eigenvalues in descending order.
    vectors : array of shape (n, n)
        Eigenvectors as columns.
    """
    xp = namespace_of(a)
    a = (a + xp.matrix_transpose(a)) / 2
    values, vectors = xp.linalg.eigh(a)
    vectors = vectors * canonical_signs(vectors)[None, :]
    return xp.flip(values, axis=0), xp.flip(vectors, axis=1)
