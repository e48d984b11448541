"""Conversion of a model to a fitted ``sklearn.decomposition.KernelPCA``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.preprocessing import KernelCenterer

from kernelstream import kernels
from kernelstream.arrays.namespaces import to_host
from kernelstream.kernels import Kernel
from kernelstream.stream.components import Components

# A coordinate so far away that a Gaussian of any width has vanished there, yet whose square is
# still a finite number.
FAR_AWAY = 1e150
VANISHED = 1e4  # exponent at which it has, with room for rows that are far away themselves


def to_sklearn(shown: Components, scaler: Any, n_features: int) -> KernelPCA:
    """A fitted ``KernelPCA`` whose ``transform`` gives our scores ``k(X, D) A − b``.

    scikit-learn centres the kernel between X and its training points, which for coefficient
    columns that sum to zero leaves ``k(X, D) A − c·A`` with the column means c. So append one
    point at which the kernel is constant, far away or zero, give it the coefficient that makes
    the sum zero, and choose c so that ``c·A`` is our intercept.
    """
    if scaler is not None:
        raise ValueError(
            "KernelPCA cannot standardise its input: fit with scale=None and put a StandardScaler "
            "before it in a Pipeline."
        )
    points = to_host(shown.span.points).astype(float)
    dual, intercept = to_host(shown.dual_coef), to_host(shown.intercept)
    parameters, constant_at = _same_kernel(shown.kernel)
    extra = np.zeros((1, n_features))
    extra[0, 0] = constant_at
    A = np.vstack([dual, -dual.sum(axis=0)])
    constant = float(to_host(shown.kernel(np.zeros((1, n_features)), extra))[0, 0])
    # k(x, D) A_D + constant·A_extra − c·A must be k(x, D) A_D − b for all components at once.
    target = constant * A[-1] + intercept
    c = np.linalg.lstsq(A.T, target, rcond=None)[0]

    variances = to_host(shown.variances)
    eigenvalues = variances * shown.weight
    model = KernelPCA(n_components=len(eigenvalues), **parameters)
    model.n_features_in_ = n_features
    model.X_fit_ = np.vstack([points, extra])
    model.eigenvalues_ = eigenvalues
    model.eigenvectors_ = A * np.sqrt(eigenvalues)
    model.gamma_ = parameters.get("gamma")
    centerer = KernelCenterer()
    centerer.K_fit_rows_ = c
    centerer.K_fit_all_ = float(c.mean())
    centerer.n_features_in_ = len(c)
    model._centerer = centerer
    return model


def _same_kernel(kernel: Kernel) -> tuple[dict[str, Any], float]:
    """KernelPCA's parameters for a kernel, and a coordinate where the kernel is constant."""
    params = kernel.get_params(deep=False)
    # Names and parameters of these are the same in scikit-learn.
    name = next((name for name, cls in kernels.NAMES.items() if cls is type(kernel)), "")
    if name not in ("rbf", "poly", "sigmoid", "linear", "cosine"):
        raise ValueError(
            f"KernelPCA has no kernel like {kernel}; it knows RBF, Polynomial, Sigmoid, Linear and "
            "Cosine."
        )
    if name != "rbf":
        return {"kernel": name, **params}, 0.0
    if params["gamma"] * FAR_AWAY**2 < VANISHED:
        raise ValueError(
            f"{kernel} is so wide that it vanishes nowhere within the range of float64, which "
            "KernelPCA would need: scale the data (to unit variance, say) and fit again."
        )
    return {"kernel": "rbf", **params}, FAR_AWAY
