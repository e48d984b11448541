"""Kernels by name, as objects, or as functions; numbers in place of names of columns.

>>> from kernelstream.kernels import RBF, Linear, resolve
>>> resolve("rbf", gamma=0.1)
RBF(gamma=0.1)
>>> 0.5 * RBF(gamma=0.1) + Linear()  # doctest: +NORMALIZE_WHITESPACE
Sum(left=Product(left=Constant(value=0.5), right=RBF(gamma=0.1)),
    right=Linear())
"""

from __future__ import annotations

from kernelstream.kernels.base import Kernel, Smoothness
from kernelstream.kernels.by_columns import Categorical, On, with_numbers
from kernelstream.kernels.composite import (
    Constant,
    Cosine,
    FromCallable,
    Normalised,
    Product,
    Sum,
)
from kernelstream.kernels.distances import squared_distances
from kernelstream.kernels.dot_product import Linear, Polynomial, Sigmoid
from kernelstream.kernels.stationary import RBF, Euclidean, Exponential, Laplacian, Matern

__all__ = [
    "NAMES",
    "RBF",
    "Categorical",
    "Constant",
    "Cosine",
    "Euclidean",
    "Exponential",
    "FromCallable",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalised",
    "On",
    "Polynomial",
    "Product",
    "Sigmoid",
    "Smoothness",
    "Sum",
    "resolve",
    "squared_distances",
    "with_numbers",
]

#: The kernels that can be given by name.
NAMES: dict[str, type[Kernel]] = {
    "rbf": RBF,
    "laplacian": Laplacian,
    "exponential": Exponential,
    "matern": Matern,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "sigmoid": Sigmoid,
    "linear": Linear,
    "cosine": Cosine,
    "categorical": Categorical,
}


def resolve(spec: object, gamma: float | str | None = None) -> Kernel:
    """The kernel that a user means: a name (with its gamma), a kernel object, or a function.

    Parameters
    ----------
    spec : str, Kernel or callable
    gamma : float, str or None, default=None
        Only with a name, and only for kernels that have a gamma. None leaves the kernel's default.

    Examples
    --------
    >>> from kernelstream.kernels import resolve
    >>> resolve("poly", gamma=0.5)
    Polynomial(gamma=0.5)
    """
    if isinstance(spec, type):
        raise ValueError(f"{spec.__name__} is a class: write {spec.__name__}(), with brackets.")
    if callable(spec):
        if gamma is not None:
            raise ValueError(
                f"gamma={gamma!r} was given beside the kernel {spec!r}, but gamma goes with a"
                " kernel's name only: set it in the kernel object, as RBF(gamma=...) or"
                " set_params(kernel__gamma=...)."
            )
        kernel = spec if isinstance(spec, Kernel) else FromCallable(spec)
        kernel.check()
        return kernel
    if not isinstance(spec, str) or spec not in NAMES:
        raise ValueError(
            f"Unknown kernel {spec!r}: give one of {', '.join(map(repr, NAMES))}, a kernel object"
            " such as RBF(), or a function k(X, Y)."
        )
    kernel = NAMES[spec]()
    if gamma is None:
        return kernel
    parameters = kernel.get_params()
    if "gamma" not in parameters:
        raise ValueError(
            f"gamma={gamma!r} was given, but the kernel {spec!r} has none: leave it out. (Its"
            f" parameters are {', '.join(parameters) or 'none'}; those of a kernel object are set"
            " in the object, or with set_params(kernel__length_scale=...) and the like.)"
        )
    kernel.set_params(gamma=gamma)
    kernel.check()
    return kernel
