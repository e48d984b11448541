"""Dot-product kernels: linear, polynomial, sigmoid, cosine.

The parameters mean what they mean in ``sklearn.metrics.pairwise``.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from kernelstream.arrays.namespaces import (
    Array,
    cast,
    namespace_of,
    overwrite,
    product,
    row_norms_squared,
)
from kernelstream.kernels.base import (
    Kernel,
    Rounding,
    Smoothness,
    is_number,
    is_positive,
    is_rule,
    require,
    scale_gamma,
    unknown,
)
from kernelstream.kernels.rounding import LinearRounding
from kernelstream.serialization import stored


class DotProduct(Kernel):
    """A kernel that is a function of ``x·y``."""

    isotropic = True

    @property
    def smoothness(self) -> Smoothness:
        """Unknown if the class has no ``derivative``."""
        unknown = type(self).derivative is DotProduct.derivative
        return Smoothness.UNKNOWN if unknown else Smoothness.SMOOTH

    def of_products(self, dot: Array) -> Array:
        """The kernel from inner products, in the memory of ``dot`` where possible."""
        raise NotImplementedError

    def block(self, X: Array, Y: Array) -> Array:
        """The function of all ``x_i·y_j``, which are one matrix product."""
        return self.of_products(product(X, cast(Y, X.dtype)))

    def diag(self, X: Array) -> Array:
        """The function of ``|x_i|²``."""
        return self.of_products(row_norms_squared(X))

    def derivative(self, dot: Array) -> Array:
        """The derivative with respect to ``x·y``, in new memory."""
        raise unknown(self, "derivative with respect to x·y", "`derivative`")

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``∇k = k'(x·d) d``: two matrix products."""
        return (W * self.derivative(product(X, D))) @ D

    def gradient_of_diagonal(self, X: Array) -> Array:
        """``2 k'(|x|²) x``."""
        return 2.0 * self.derivative(row_norms_squared(X))[:, None] * X


@stored
class Linear(DotProduct):
    """The inner product ``x·y``: kernel PCA with it is PCA.

    Examples
    --------
    >>> from kernelstream.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    rounding = LinearRounding(1.0, 3.0)  # a sum of d products

    def of_products(self, dot: Array) -> Array:
        """``x·y`` itself."""
        return dot

    def derivative(self, dot: Array) -> Array:
        """1."""
        return namespace_of(dot).ones_like(dot)

    def gradient_of_sum(self, X: Array, D: Array, W: Array, block: Array | None = None) -> Array:
        """``Σ_j W_j d_j``, without the product of X and D."""
        return W @ D


class Affine(DotProduct):
    """A kernel that is a function of ``gamma x·y + coef0``."""

    gamma: Any  # a float once the kernel is fixed
    coef0: float

    def check(self) -> None:
        """Refuse a gamma that is neither positive nor a rule, and a coef0 that is no number."""
        accepted = is_positive(self.gamma) or is_rule(self.gamma, "scale", None)
        expected = "a positive number such as 0.1, 'scale', or None for 1/n_features"
        require(self, "gamma", accepted, expected)
        require(self, "coef0", is_number(self.coef0), "a finite number such as 1.0")

    def decide(self, rule: str | None, X: Array, weights: np.ndarray) -> float:
        """``1/n_features`` or ``1/(n_features · variance)``."""
        return scale_gamma(X, weights) if rule == "scale" else 1.0 / X.shape[1]

    def of_products(self, dot: Array) -> Array:
        """``gamma x·y + coef0``, for the subclass to go on with."""
        dot *= self.gamma
        dot += self.coef0
        return dot


@stored
class Polynomial(Affine):
    """The polynomial kernel ``(gamma x·y + coef0)^degree``.

    Parameters
    ----------
    degree : int, default=3
    gamma : float, "scale" or None, default=None
        A positive number; None: ``1/n_features``; or ``"scale"``: ``1/(n_features · variance)``,
        as in scikit-learn's SVC.
    coef0 : float, default=1
        With a negative number the kernel is not positive semidefinite.

    Examples
    --------
    >>> from kernelstream.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(
        self, degree: int = 3, gamma: float | str | None = None, coef0: float = 1.0
    ) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def check(self) -> None:
        """Refuse a degree that is no whole number as well."""
        accepted = isinstance(self.degree, Integral) and is_number(self.degree) and self.degree >= 1
        require(self, "degree", accepted, "a whole number, 1 or larger")
        super().check()

    @property
    def psd(self) -> bool:  # type: ignore[override]
        """Not with a negative coef0."""
        # A polynomial of x·y with non-negative coefficients is a sum of products of kernels.
        return self.coef0 >= 0

    @property
    def rounding(self) -> Rounding:
        """The error of the base, ``degree`` times; ``|γ x·y + c| ≤ √(…)(…)`` for c ≥ 0."""
        return LinearRounding(self.degree, 3.0 * self.degree + 4.0)

    def of_products(self, dot: Array) -> Array:
        """``(gamma x·y + coef0)^degree``."""
        return _power(super().of_products(dot), self.degree)

    def derivative(self, dot: Array) -> Array:
        """``gamma degree (gamma x·y + coef0)^(degree − 1)``."""
        return self.gamma * self.degree * (self.gamma * dot + self.coef0) ** (self.degree - 1)


@stored
class Sigmoid(Affine):
    """The sigmoid kernel ``tanh(gamma x·y + coef0)``. It is not positive semidefinite.

    Parameters
    ----------
    gamma : float, "scale" or None, default=None
        A positive number; None: ``1/n_features``; or ``"scale"``: ``1/(n_features · variance)``,
        as in scikit-learn's SVC.
    coef0 : float, default=1

    Examples
    --------
    >>> from kernelstream.kernels import Sigmoid
    >>> Sigmoid(gamma=0.1, coef0=0.0)([[1.0, 2.0]], [[3.0, 4.0]]).round(3)
    array([[0.8]])
    """

    psd = False

    def __init__(self, gamma: float | str | None = None, coef0: float = 1.0) -> None:
        self.gamma = gamma
        self.coef0 = coef0

    def of_products(self, dot: Array) -> Array:
        """``tanh(gamma x·y + coef0)``."""
        return overwrite("tanh", super().of_products(dot))

    def derivative(self, dot: Array) -> Array:
        """``gamma (1 − tanh²)``."""
        return self.gamma * (1.0 - namespace_of(dot).tanh(self.gamma * dot + self.coef0) ** 2)


def _power(x: Array, degree: int) -> Array:
    """``x^degree`` by squaring, from the highest bit of the degree down, in place.

    x³ is two multiplications this way; ``x ** 3`` is a logarithm and an exponential.
    """
    bits = bin(degree)[3:]  # after the leading 1, which stands for x itself
    power = namespace_of(x).asarray(x, copy=True) if "1" in bits else x
    for bit in bits:
        power *= power
        if bit == "1":
            power *= x
    return power
