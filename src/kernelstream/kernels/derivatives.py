"""Gradients of kernels with respect to rows; which kernels are differentiable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelstream import kernels
from kernelstream.arrays.namespaces import Array, like, namespace_of, product, row_norms_squared
from kernelstream.kernels.composite import Constant, Pair

# At most this many numbers are held at once by the one kernel whose gradient is no product.
LARGEST_BLOCK = 4_000_000


def require_differentiable(kernel: Any, method: str) -> None:
    """Raise in words unless the gradient of the kernel is known."""
    if isinstance(kernel, kernels.On):
        require_differentiable(kernel.kernel, method)
        return
    if isinstance(kernel, kernels.Sum | kernels.Product):
        require_differentiable(kernel.left, method)
        require_differentiable(kernel.right, method)
        return
    smooth = isinstance(kernel, kernels.Matern) and (kernel.nu == 0.5 or kernel.nu > 1)
    known = (
        kernels.RBF,
        kernels.Exponential,
        kernels.Laplacian,
        kernels.Linear,
        kernels.Polynomial,
        kernels.Sigmoid,
        kernels.Cosine,
        Constant,
    )
    if not (smooth or isinstance(kernel, known)):
        raise ValueError(
            f"{method} needs a kernel whose gradient is known (all of kernelstream.kernels but "
            f"callables, Matern with nu = 0.5 or above 1) and got {kernel!r}; use "
            "preimages.Ridge(), which works with every kernel."
        )


def is_smooth(kernel: Any) -> bool:
    """Whether the gradient is known and has no cusp where two rows meet."""
    if isinstance(kernel, Pair):
        return is_smooth(kernel.left) and is_smooth(kernel.right)
    if isinstance(kernel, kernels.On):
        return is_smooth(kernel.kernel)
    if isinstance(kernel, kernels.Matern):
        return kernel.nu > 1
    known = kernels.RBF | kernels.Linear | kernels.Polynomial | kernels.Sigmoid | kernels.Cosine
    return isinstance(kernel, known | Constant)


def gradient_of_sum(kernel: Any, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
    """``Σ_k W_ik ∇k(x_i, d_k)`` with respect to x_i, (n, d): matrix products where possible.

    ``block`` is k(X, D), where the caller has it.
    """
    xp = namespace_of(X)
    if isinstance(kernel, Constant):
        return 0 * X
    if isinstance(kernel, kernels.On):
        return _spread(kernel, X, gradient_of_sum(kernel.kernel, kernel.of(X), kernel.of(D), W))
    if isinstance(kernel, kernels.Sum):
        return gradient_of_sum(kernel.left, X, D, W) + gradient_of_sum(kernel.right, X, D, W)
    if isinstance(kernel, kernels.Product):
        left, right = kernel.left.block(X, D), kernel.right.block(X, D)
        return gradient_of_sum(kernel.left, X, D, W * right) + gradient_of_sum(
            kernel.right, X, D, W * left
        )
    if isinstance(kernel, kernels.Laplacian):
        return _laplacian(kernel, X, D, W)
    if isinstance(kernel, kernels.Cosine):
        # ∇ x·d/(|x||d|) = (d/|d| − cos · x/|x|)/|x|
        lengths = _positive(xp.sqrt(row_norms_squared(X)))[:, None]
        unit = D / _positive(xp.sqrt(row_norms_squared(D)))[:, None]
        cosines = xp.sum(W * kernel.block(X, D), axis=1)[:, None]
        return (W @ unit - cosines * X / lengths) / lengths
    if isinstance(kernel, kernels.Linear):
        return W @ D
    if isinstance(kernel, kernels.Polynomial | kernels.Sigmoid):
        return (W * _of_product(kernel, product(X, D))) @ D
    # κ(|x − d|²): ∇ = 2 κ' (x − d)
    block = kernel.block(X, D) if block is None else block
    if isinstance(kernel, kernels.RBF):
        W = W * block
        return (xp.sum(W, axis=1)[:, None] * X - W @ D) * (-2.0 * kernel.gamma)
    W = W * (-2.0 * slope(kernel, block, X, D))
    return xp.sum(W, axis=1)[:, None] * X - W @ D


def gradient_of_diagonal(kernel: Any, X: Array) -> Array:
    """``∇ k(x, x)``, (n, d); zero for kernels with ``k(x, x) = 1``."""
    if isinstance(kernel, kernels.Sum):
        return gradient_of_diagonal(kernel.left, X) + gradient_of_diagonal(kernel.right, X)
    if isinstance(kernel, kernels.Product):
        left, right = kernel.left.diag(X)[:, None], kernel.right.diag(X)[:, None]
        return right * gradient_of_diagonal(kernel.left, X) + left * gradient_of_diagonal(
            kernel.right, X
        )
    if isinstance(kernel, kernels.On):
        return _spread(kernel, X, gradient_of_diagonal(kernel.kernel, kernel.of(X)))
    if isinstance(kernel, kernels.Linear):
        return 2.0 * X
    if isinstance(kernel, kernels.Polynomial | kernels.Sigmoid):
        return 2.0 * _of_product(kernel, row_norms_squared(X))[:, None] * X
    return 0 * X


def _spread(kernel: kernels.On, X: Array, gradient: Array) -> Array:
    """A gradient with respect to some columns as one with respect to all."""
    place = np.zeros((len(kernel.columns), int(X.shape[1])))
    place[np.arange(len(kernel.columns)), list(kernel.columns)] = 1.0
    return gradient @ like(place, gradient, gradient.dtype)


def slope(kernel: Any, k: Array, x: Array, D: Array) -> Array:
    """``−κ'(|x − d|²)`` (n, m), given ``k = κ(|x − d|²)``."""
    if isinstance(kernel, kernels.RBF):
        return kernel.gamma * k
    if getattr(kernel, "nu", None) == np.inf:
        return k * (0.5 / kernel.length_scale**2)
    if getattr(kernel, "nu", None) not in (None, 0.5):
        # With r = |x − d| and a = √(2ν) r/ℓ, (d/da)(a^ν K_ν(a)) = −a^ν K_{ν−1}(a): the slope with
        # respect to r² is ν/(2(ν−1)ℓ²) times a Matérn kernel of order ν − 1 in the same a.
        nu, ell = kernel.nu, kernel.length_scale
        lower = kernels.Matern(nu=nu - 1, length_scale=ell * ((nu - 1) / nu) ** 0.5)
        return lower.block(x, D) * (nu / (2 * (nu - 1) * ell**2))
    # κ = exp(−c r), −κ' = c κ / 2r. It has a cusp at the points themselves, and the weight of a
    # point met exactly is left out as in Weiszfeld's method: the other points pull, and the test
    # of the step decides whether to leave.
    xp = namespace_of(k)
    spread = float(xp.mean(row_norms_squared(D - xp.mean(D, axis=0)))) ** 0.5
    c = kernel.gamma if isinstance(kernel, kernels.Exponential) else 1 / kernel.length_scale
    r = -xp.log(xp.where(k > 0, k, xp.ones_like(k))) / c
    near = xp.where(r > 0, r, xp.ones_like(k))
    return xp.where(r > 1e-6 * spread, 0.5 * c * k / near, 0 * k)


def _of_product(kernel: Any, dot: Array) -> Array:
    """Derivative of a kernel of x·y with respect to x·y."""
    base = kernel.gamma * dot + kernel.coef0
    if isinstance(kernel, kernels.Sigmoid):
        return kernel.gamma * (1.0 - namespace_of(dot).tanh(base) ** 2)
    return kernel.gamma * kernel.degree * base ** (kernel.degree - 1)


def _laplacian(kernel: Any, X: Array, D: Array, W: Array) -> Array:
    """``−γ Σ_k W_k k(x, d_k) sign(x − d_k)``: no matrix product, so row by row in blocks."""
    xp = namespace_of(X)
    W = W * kernel.block(X, D)
    size = max(1, LARGEST_BLOCK // max(1, math.prod(D.shape)))
    parts = []
    for start in range(0, int(X.shape[0]), size):
        stop = min(start + size, int(X.shape[0]))
        signs = xp.sign(X[start:stop, None, :] - D[None, :, :])
        parts.append(-kernel.gamma * xp.sum(W[start:stop, :, None] * signs, axis=1))
    return xp.concat(parts, axis=0) if parts else 0 * X


def _positive(lengths: Array) -> Array:
    """Lengths with 1 in place of 0."""
    xp = namespace_of(lengths)
    return xp.where(lengths > 0, lengths, xp.ones_like(lengths))
