"""Kernels by name, as objects, or as functions; numbers in place of names of columns.

>>> from kernelstream.kernels import RBF, Linear, resolve
>>> resolve("rbf", gamma=0.1)
RBF(gamma=0.1)
>>> 0.5 * RBF(gamma=0.1) + Linear()  # doctest: +NORMALIZE_WHITESPACE
Sum(left=Product(left=Constant(value=0.5), right=RBF(gamma=0.1)),
    right=Linear())
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelstream.kernels.base import Kernel, Smoothness
from kernelstream.kernels.by_columns import Categorical, On
from kernelstream.kernels.composite import Constant, FromCallable, Normalised, Product, Sum
from kernelstream.kernels.distances import squared_distances
from kernelstream.kernels.dot_product import Cosine, Linear, Polynomial, Sigmoid
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
    "needs_names",
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
    if isinstance(spec, type) and issubclass(spec, Kernel):
        raise ValueError(f"{spec.__name__} is a class: write {spec.__name__}(), with brackets.")
    if isinstance(spec, Kernel) or (callable(spec) and not isinstance(spec, str)):
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
    if gamma is None:
        return NAMES[spec]()
    if spec == "matern":
        raise ValueError(
            f"gamma={gamma!r} was given, but the kernel 'matern' has none: use"
            " Matern(length_scale=...), or set_params(kernel__length_scale=...) with the object."
        )
    if "gamma" not in NAMES[spec]().get_params():
        raise ValueError(
            f"gamma={gamma!r} was given, but the kernel {spec!r} has none: leave it out. (The"
            " parameters of a kernel object are set with kernel__gamma and the like.)"
        )
    kernel = NAMES[spec](gamma=gamma)
    kernel.check()
    return kernel


def needs_names(kernel: Kernel) -> bool:
    """Whether a kernel, or a kernel inside of it, selects columns by name.

    Parameters
    ----------
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, On, needs_names
    >>> needs_names(RBF() + On("pressure", RBF())), needs_names(On([0], RBF()))
    (True, False)
    """
    if isinstance(kernel, On) and kernel.has_names:
        return True
    values = kernel.get_params(deep=False).values()
    return any(isinstance(value, Kernel) and needs_names(value) for value in values)


def with_numbers(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """The kernel with the numbers of columns in place of their names.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    names : sequence of str or None
        Names of the columns; None: they have none.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, On, with_numbers
    >>> with_numbers(2.0 * On("t_*", RBF()), ["p", "t_1", "t_2"])
    Product(left=Constant(value=2.0),
            right=On(columns=(1, 2), kernel=RBF()))
    """
    params = kernel.get_params(deep=False)
    inside = {
        name: with_numbers(value, names)
        for name, value in params.items()
        if isinstance(value, Kernel) and needs_names(value)
    }
    kernel = type(kernel)(**(params | inside)) if inside else kernel
    return kernel.numbered(names) if isinstance(kernel, On) and kernel.has_names else kernel
