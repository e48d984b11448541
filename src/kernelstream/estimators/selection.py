"""Model selection (``suggest``): bandwidth, number of components and landmarks, held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from kernelstream import kernels
from kernelstream.arrays.draws import evenly_spaced, generator
from kernelstream.arrays.printing import prints_short
from kernelstream.estimators import inputs
from kernelstream.estimators.streaming_kernel_pca import StreamingKernelPCA
from kernelstream.serialization.part import check_choice, checked_seed
from kernelstream.stream import choosing
from kernelstream.stream.scaling import START_ROWS, Standard
from kernelstream.stream.state import Rows

FOLDS, FEWER_FOLDS = 10, 5  # in which each row is held back once, where there is a target
FEW = 500  # rows up to which there are so many: each class may have only a few
TRIED = (5, 10, 20, 40)  # numbers of components, where there is a target
NEIGHBOURS = 5
RIDGE = 1e-2  # of the linear probe, in units of the variance of a score


@prints_short
@dataclass(frozen=True)
class Suggestion:
    """What ``suggest`` found.

    Attributes
    ----------
    kernel : str
        As it was given.
    gamma : float
        Width of the kernel.
    n_components, n_points : int
        Numbers of components and of points.
    scale : None or "standard"
        As it was given.
    criterion : str
        What the curve shows.
    curve : list of dict
        A line for each width (and number of components) that was tried.
    """

    kernel: str
    gamma: float
    n_components: int
    n_points: int
    scale: str | None
    criterion: str
    curve: list[dict[str, Any]]

    def estimator(self, **options: Any) -> StreamingKernelPCA:
        """An estimator with these numbers, not fitted.

        Parameters
        ----------
        **options : dict
            Further parameters of ``StreamingKernelPCA``.
        """
        chosen: dict[str, Any] = dict(
            n_components=self.n_components,
            kernel=self.kernel,
            gamma=self.gamma,
            basis=self.n_points,
            scale=self.scale,
        )
        return StreamingKernelPCA(**chosen | options)

    def __str__(self) -> str:
        names = list(self.curve[0])
        cells = [names, *([f"{line[name]:.4g}" for name in names] for line in self.curve)]
        lines = ["".join(f"{cell:>14}" for cell in row) for row in cells]
        chosen = f"gamma={self.gamma:.4g}, n_components={self.n_components}, basis={self.n_points}"
        return "\n".join([chosen, self.criterion, *lines])


def suggest(
    X: Any,
    y: Any = None,
    *,
    kernel: str = "rbf",
    probe: str = "linear",
    scale: str | None = None,
    random_state: Any = None,
) -> Suggestion:
    """Suggest a width, a number of components and a number of points.

    Without targets the width is that from whose scores rows that were held back are reconstructed
    best in input space, and the number of components that of parallel analysis. With targets the
    width lies amid those, and the number of components is the largest, with which a probe of the
    scores does as well on rows held back as with the best.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; at most 1,500 of them, spread over all, are looked at.
    y : array of shape (n,), optional
        Classes, or numbers to be predicted.
    kernel : str
        ``"rbf"``, ``"laplacian"`` or ``"exponential"``.
    probe : "linear" or "neighbours"
        What the scores are for: a linear model, or the five nearest neighbours.
    scale : None or "standard"
        As in ``StreamingKernelPCA``.
    random_state : int, RandomState or None
        Seed of all that is drawn.

    Returns
    -------
    Suggestion
        The numbers, the curve, and ``estimator()``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelstream import suggest
    >>> X, y = load_iris(return_X_y=True)
    >>> found = suggest(X, y, random_state=0)
    >>> scores = found.estimator(random_state=0).fit_transform(X)
    >>> scores.shape == (150, found.n_components)
    True
    """
    inputs.require_numbers(X, "suggest")
    rows = check_array(X, dtype=np.float64, ensure_min_samples=10)
    check_choice("probe", probe, ("linear", "neighbours"))
    check_choice("scale", scale, (None, "standard"))
    rng = generator(checked_seed(random_state), "suggest")
    if scale == "standard":
        rows = Standard().measure(Rows(rows)).apply(rows)
    fixed = kernels.resolve(kernel).fix(rows[evenly_spaced(len(rows), 2 * START_ROWS)])
    if not (isinstance(kernel, str) and fixed.stationary and hasattr(fixed, "gamma")):
        raise ValueError(
            "suggest compares widths of a kernel of the distance, given by its name: 'rbf', "
            f"'laplacian' or 'exponential'; got {kernel!r}."
        )
    if y is None:
        r, criterion, curve, gamma = by_reconstruction(fixed, rows, rng)
    else:
        check_consistent_length(rows, y)
        r, criterion, curve, gamma = by_target(fixed, rows, y, probe, rng)
    chosen = fixed.copy().set_params(gamma=gamma)
    n_points = choosing.enough_points(chosen, rows, r, rng)
    return Suggestion(kernel, gamma, r, n_points, scale, criterion, curve)


Found = tuple[int, str, list[dict[str, Any]], float]


def by_reconstruction(kernel: Any, rows: np.ndarray, rng: np.random.Generator) -> Found:
    """Parallel analysis, and the reconstruction of rows held back."""
    usual = min(choosing.USUAL_COMPONENTS, len(rows) // 4)
    compared = choosing.compare_widths(kernel, rows, usual, rng)
    chosen = kernel.copy().set_params(gamma=compared.gamma)
    r, _, _ = choosing.parallel_analysis(chosen, rows, True, rng)
    curve = [
        {"gamma": float(gamma), "error": float(error)}
        for gamma, error in zip(compared.gammas, compared.errors, strict=True)
    ]
    criterion = f"error: share of the variance of inputs that {usual} scores do not reconstruct"
    return r, criterion, curve, compared.gamma


def by_target(kernel: Any, rows: np.ndarray, y: Any, probe: str, rng: np.random.Generator) -> Found:
    """How well scores tell a target, on rows held back."""
    index = evenly_spaced(len(rows), 1500)
    rows, targets, classes = rows[index], *encoded(column_or_1d(y)[index])
    around = max(float(np.mean((targets - targets.mean()) ** 2)), np.finfo(float).tiny)

    def judged(told: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Of each row, whether its class is right; or its share of R²."""
        if classes:
            return told.argmax(axis=1) == targets[back].argmax(axis=1)
        return 1.0 - ((told - targets[back]) ** 2)[:, 0] / around

    numbers = [r for r in TRIED if r < len(rows) // 3] or [1]
    order = rng.permutation(len(rows))
    method = linear_probe if probe == "linear" else neighbours_probe

    def success_of(gamma: float) -> np.ndarray:
        success = np.zeros((len(numbers), len(rows)))
        chosen = kernel.copy().set_params(gamma=gamma)
        for back in np.array_split(order, FOLDS if len(rows) <= FEW else FEWER_FOLDS):
            seen = np.setdiff1d(order, back)
            S, B = choosing.scores_of(chosen, rows[seen], rows[back], numbers[-1])
            for j, r in enumerate(numbers):
                success[j, back] = judged(method(S[:, :r], targets[seen], B[:, :r]), back)
        return success

    def best(success: np.ndarray) -> int:
        return int(success[:, as_good_as_the_best(success)[1]].mean(axis=1).argmax())

    gammas, success = choosing.on_widened_grid(kernel.gamma, success_of, best)
    i, j = as_good_as_the_best(success)
    score = success.mean(axis=2)
    curve = [
        {"gamma": float(gammas[a]), "n_components": numbers[b], "score": float(score[a, b])}
        for a in range(len(gammas))
        for b in range(len(numbers))
    ]
    what = "share of rows held back that are told right" if classes else "R² on rows held back"
    by = "a linear model" if probe == "linear" else f"{NEIGHBOURS} nearest neighbours"
    return numbers[j], f"score: {what}, by {by}", curve, float(gammas[i])


def encoded(y: np.ndarray) -> tuple[np.ndarray, bool]:
    """Targets as columns: one for each class, or the numbers themselves."""
    if type_of_target(y) == "continuous":
        return np.asarray(y, dtype=np.float64)[:, None], False
    _, labels = np.unique(y, return_inverse=True)
    return np.eye(labels.max() + 1)[labels], True


def linear_probe(S: np.ndarray, targets: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Ridge regression on standardised scores."""
    mean, scale = S.mean(axis=0), S.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    Z, about = (S - mean) / scale, targets.mean(axis=0)
    normal = Z.T @ Z + RIDGE * len(Z) * np.eye(Z.shape[1])
    return about + (of - mean) / scale @ np.linalg.solve(normal, Z.T @ (targets - about))


def neighbours_probe(S: np.ndarray, targets: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The mean of the targets of the nearest rows."""
    k = min(NEIGHBOURS, len(S))
    apart = choosing.squared_distances(of, S)
    return np.asarray(targets[np.argpartition(apart, k - 1, axis=1)[:, :k]].mean(axis=1))


def as_good_as_the_best(success: np.ndarray) -> tuple[int, int]:
    """Which width and number of components to take, given how well each does for each row.

    On a sample many do about as well as the best, which is one of them by chance. So it is the
    largest number of components with which a width is within a standard error of the best: what a
    component too many holds can be passed over, what one too few misses is lost. And of the widths
    it is the mean, each weighted by how likely it is to be as good with so many components:
    ``exp(-z²/2)``, where it is z standard errors below the best of them.
    """
    z = errors_below_the_best(success)
    j = int(np.flatnonzero((z <= 1.0).any(axis=0))[-1])
    z = errors_below_the_best(success[:, j])
    return round(float(np.average(np.arange(len(z)), weights=np.exp(-0.5 * z**2)))), j


def errors_below_the_best(success: np.ndarray) -> np.ndarray:
    """How many standard errors the means over rows (the last axis) are below the largest of them.

    All are judged by the same rows, and the standard error is that of their differences.
    """
    mean = success.mean(axis=-1)
    below = success[np.unravel_index(np.argmax(mean), mean.shape)] - success
    error = below.std(axis=-1) / np.sqrt(below.shape[-1])
    found: np.ndarray = below.mean(axis=-1) / np.maximum(error, np.finfo(float).tiny)
    return found
