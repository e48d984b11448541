"""What the functions of a model explain, followed along the stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.optimize import linear_sum_assignment

from kernelstream import StreamingKernelPCA


def gamma(sigma: float) -> float:
    """The paper's kernel is exp(−|x − y|²/2σ²)."""
    return 1.0 / (2.0 * sigma**2)


@dataclass(frozen=True)
class Evolution:
    """What the functions of a model explain of all rows, future ones included (eq. 23)."""

    times: np.ndarray
    orders: np.ndarray
    variances: np.ndarray  # (times, r)
    means: np.ndarray  # (times, r)
    span: np.ndarray  # variance in the span of the functions, which need not be orthogonal
    admissions: np.ndarray  # rows at which the dictionary grew, counted from 1


def follow(model: StreamingKernelPCA, X: np.ndarray, times: np.ndarray) -> Evolution:
    """Stream X by once; look at the functions at each time.

    The dictionary only grows, so the kernel matrix of the last one serves for all times.
    """
    snapshots = []
    for start, end in zip(np.append(0, times[:-1]), times, strict=True):
        model.partial_fit(X[start:end])
        snapshots.append((np.array(model.dual_coef_), np.array(model.intercept_)))
    points = np.asarray(model.basis_points_)
    K, M = model.kernel_(X, points), model.kernel_(points, points)
    mean, C = K.mean(axis=0), np.cov(K, rowvar=False, bias=True)
    variances, means, span = [], [], []
    for A, intercept in continued(snapshots, M):
        m = len(A)
        scatter = A.T @ C[:m, :m] @ A
        variances.append(np.diag(scatter))
        means.append(mean[:m] @ A - intercept)
        inner = scipy.linalg.pinvh(A.T @ M[:m, :m] @ A, rtol=1e-12)
        span.append(float(np.sum(inner * scatter)))
    row_of = {row.tobytes(): i for i, row in reversed(list(enumerate(X, 1)))}
    return Evolution(
        times,
        np.array([len(A) for A, _ in snapshots]),
        np.array(variances),
        np.array(means),
        np.array(span),
        np.array([row_of[p.tobytes()] for p in points.astype(X.dtype)]),
    )


def continued(
    snapshots: list[tuple[np.ndarray, np.ndarray]], M: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same functions, each in one place and with one sign from the first time to the last.

    The estimator orders its functions by variance, so two that come near change places.
    """
    kept = [snapshots[-1]]
    for A, intercept in reversed(snapshots[:-1]):
        m, later = len(A), kept[-1][0]
        cosines = A.T @ M[:m, : len(later)] @ later
        _, mine = linear_sum_assignment(-np.abs(cosines).T)
        sign = np.where(np.diag(cosines[mine]) < 0, -1.0, 1.0)
        kept.append((A[:, mine] * sign, intercept[mine] * sign))
    return kept[::-1]
