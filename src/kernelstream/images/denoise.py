"""Image denoising from noisy images only: Stein's unbiased risk estimate, ridge, fit, transform."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin, clone

from kernelstream import kernels, landmarks, preimages
from kernelstream.arrays import Array, cores, generator, in_threads
from kernelstream.estimators import at_one_moment, check_rows
from kernelstream.images.base import ImageModel, as_rows
from kernelstream.images.noise import LEFT_ON_BLACK, undo_clipping
from kernelstream.images.wiener import Wiener, WienerMap
from kernelstream.regression.base import Regression, is_rough
from kernelstream.regression.normal_equations import NOTHING, NormalEquations, Prediction
from kernelstream.serialization import check_choice, check_count, check_number, stored
from kernelstream.stream import HeldBack, Stream

STRENGTHS = np.geomspace(1e-7, 1.0, 22)  # that "sure" chooses from: three a decade


@stored
class Denoiser(TransformerMixin, ImageModel):
    """Remove noise from images of one kind, learned from noisy images alone, in one pass.

    ``method="stein"`` regresses the clean image on kernel features of the noisy one without ever
    seeing a clean image. Rows are first mapped to ``a = P(x − mean)``, principal directions with
    Wiener weights; features are ``k_j = exp(−|a − d_j|²/2σ²)`` for m centroids ``d_j``. What ridge
    regression needs is ``E[k cᵀ]`` with the unseen clean image c, and for normal noise of variance
    v Stein's identity gives it from noisy images:

        ``E[k cᵀ] = E[k xᵀ] − (v/σ²) (diag(E k) D − E[k aᵀ]) Pᵀ``.

    ``method="project"`` is the classical way: project on ``n_components`` of kernel PCA and take
    the pre-image.

    Parameters
    ----------
    noise_variance : float or None
        Variance of the noise on each pixel (before clipping); None measures it in the lower half of
        the spectrum of the images. Where half of the spectrum has detail above the noise (weak
        noise, small patches of photographs), that is too much: give it then.
    clipped : bool
        Whether noisy pixels were clipped to [0, 1]. The mean of a clipped pixel is not the clean
        one; that is undone, and results are in [0, 1].
    basis : int, str or LandmarkStrategy
        The points of the features; an integer is a number of centroids, which stay where the first
        images (in ``fit``: a sample of all) put them. ``"stein"`` learns streams with points that
        stay only.
    method : "stein" or "project"
        See above.
    width : float or None
        The σ of the Gaussian kernel. None: a multiple of the median distance of the first rows.
    alpha : float or "sure"
        Strength of the ridge, as a share of the largest eigenvalue of the second moments of the
        features in orthonormal coordinates (``"stein"``). ``"sure"`` takes the one with the least
        error by Stein's unbiased estimate of it on noisy images that are held back: one in twenty,
        of few a quarter, and at most about 100. With a number all images are learned.
    n_directions : int
        Principal directions for the features (``"stein"``).
    n_components : int
        Components to project on (``"project"``).
    preimage : str or Preimage
        The pre-image method (``"project"``).
    random_state : int, RandomState or None
        Seed of everything that is drawn.

    Attributes
    ----------
    noise_variance_ : float
        Variance of the noise before clipping, as it was given or measured.
    alpha_ : float
        The strength in use (``"stein"``).

    Notes
    -----
    The identity holds for normal noise that is independent of the image. Noise that was clipped
    is neither; on black pixels v = 0.341 of the variance is left of it, and that works well where
    most pixels are dark.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from kernelstream.images import Denoiser
    >>> clean = load_digits().images / 16.0
    >>> noisy = clean + 0.3 * np.random.default_rng(0).normal(size=clean.shape)
    >>> denoiser = Denoiser(noise_variance=0.09, basis=150, random_state=0).fit(noisy)
    >>> found = denoiser.transform(noisy)
    >>> bool(np.mean((found - clean) ** 2) < 0.35 * np.mean((noisy - clean) ** 2))
    True
    """

    #: Images that were not learned; None where the strength is given.
    _held_back: HeldBack | None = None

    def __init__(
        self,
        noise_variance: float | None = None,
        clipped: bool = False,
        basis: Any = 1000,
        *,
        method: str = "stein",
        width: float | None = None,
        alpha: float | str = "sure",
        n_directions: int = 120,
        n_components: int = 90,
        preimage: Any = "auto",
        random_state: Any = None,
    ):
        self.noise_variance = noise_variance
        self.clipped = clipped
        self.basis = basis
        self.method = method
        self.width = width
        self.alpha = alpha
        self.n_directions = n_directions
        self.n_components = n_components
        self.preimage = preimage
        self.random_state = random_state

    # -- learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from noisy images that are all at hand, forgetting what was learned before.

        Parameters
        ----------
        X : array of shape (n, height, width) or (n, pixels)
            Noisy images; those of 8 and 16 bits are scaled to [0, 1].
        y : ignored

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            draft._check()
            rows, _ = as_rows(X, clipped=draft.clipped)
            stream = draft.new_stream(rows)
            to_learn = check_rows(stream, rows)
            draft._held_back = None
            if draft._holds_back():
                to_learn, draft._held_back = HeldBack.split(
                    stream, None, to_learn, True, HeldBack.IMAGES
                )
            draft.set_stream(draft._with_means(stream, to_learn.X).learn_all(to_learn))
            draft.n_features_in_ = rows.shape[1]
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from the next noisy images; what is rejected changes nothing.

        Parameters
        ----------
        X : array of shape (n, height, width) or (n, pixels)
            The next images, any number of them.
        y : ignored

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            first = not draft.__sklearn_is_fitted__()
            if first:
                draft._check()
            else:
                draft._require_same_parameters()
            rows, _ = as_rows(X, None if first else draft.n_features_in_, draft.clipped)
            stream = draft.new_stream(rows) if first else draft.stream_
            draft._require_points_that_stay(stream.chain.basis)
            to_learn = check_rows(stream, rows)
            if draft._holds_back() if first else draft._held_back is not None:
                before = None if first else draft._held_back
                to_learn, draft._held_back = HeldBack.split(
                    stream, before, to_learn, share=HeldBack.IMAGES
                )
            draft.set_stream(stream.learn(to_learn) if len(to_learn) else stream)
            draft.n_features_in_ = rows.shape[1]
        return self

    def _holds_back(self) -> bool:
        """Whether the strength is to be chosen by images that are not learned."""
        return self.method == "stein" and self.alpha == "sure"

    def _check(self) -> None:
        """Raise in words where a parameter makes no sense."""
        check_choice("method", self.method, ("stein", "project"))
        check_alpha(self.alpha)
        check_count("Denoiser", "n_components", self.n_components, none_allowed=False)
        for name in ("noise_variance", "width"):
            if getattr(self, name) is not None:
                check_number("Denoiser", name, getattr(self, name))
        self._require_noise_variance()

    def _require_noise_variance(self) -> None:
        """Raise in words where clipping cannot be undone."""
        if self.method == "project" and self.clipped and self.noise_variance is None:
            raise ValueError(
                "Denoiser(method='project') does not measure the noise, which clipped=True has to "
                "know: give noise_variance."
            )

    def new_stream(self, rows: np.ndarray) -> Stream:
        """A stream for rows like these with the parameters of this estimator, which are checked.

        Parameters
        ----------
        rows : array of shape (n, d)
            Patches, one per row, that determine the number of columns and the data type.

        Returns
        -------
        Stream
            A stream without rows.
        """
        self._remember("method", *(("noise_variance",) if self.method == "stein" else ()))
        gamma = "median" if self.width is None else 0.5 / float(self.width) ** 2
        kernel, basis = kernels.RBF(gamma=gamma), self._points()
        size, dtype = rows.shape[1], str(rows.dtype)
        if self.method == "project":
            method = preimages.resolve(self.preimage, kernel)
            return self._blank_stream(
                kernel,
                basis,
                size,
                dtype,
                n_components=int(self.n_components),
                regress_inputs=preimages.learns_from_rows(method),
            )
        given = self.noise_variance
        left = None if given is None else given * (LEFT_ON_BLACK if self.clipped else 1.0)
        scaling = Wiener(self.n_directions, left)
        scaling.check()
        return self._blank_stream(kernel, basis, size, dtype, scaling=scaling, regress_inputs=True)

    def _points(self) -> landmarks.LandmarkStrategy:
        """The landmarks; those given by number or name stay fixed where a weak ridge learns."""
        basis = landmarks.resolve(self.basis)
        if self._chooses_landmarks(basis) and self.method == "stein":
            return landmarks.resolve(clone(basis).set_params(follows=False))
        return basis

    def _chooses_landmarks(self, basis: landmarks.LandmarkStrategy) -> bool:
        """Whether a number or a name was given that leaves the kind of landmarks to the method."""
        given = isinstance(self.basis, landmarks.LandmarkStrategy)
        return isinstance(basis, landmarks.Centroids) and not given

    def _with_means(self, stream: Stream, rows: Array) -> Stream:
        """The stream with means of all images as landmarks, if they are left to ``"project"``.

        A mean of many images has lost noise that no component could remove from the pre-image.
        """
        basis = stream.chain.basis
        if self.method != "project" or not self._chooses_landmarks(basis):
            return stream
        rng = generator(stream.chain.seed, "means")
        means = landmarks.kmeans(rows, basis.size, 10, rng)  # 5 steps lose 0.02 dB on digits
        return stream.with_chain(basis=landmarks.Landmarks(means))

    def _require_points_that_stay(self, basis: landmarks.LandmarkStrategy) -> None:
        """Raise in words where a stream would carry Stein's moments into another basis."""
        if self.method == "stein" and isinstance(basis, landmarks.Centroids) and basis.follows:
            raise ValueError(
                f"Denoiser(method='stein') cannot learn a stream with points that move, {basis}: "
                "what was learned before a move would be lost. Give the number of points, or "
                "landmarks.Centroids(m, follows=False), or use fit."
            )

    # -- queries

    @at_one_moment
    def transform(self, X: Any, mask: Any = None, loss: str = "squared") -> np.ndarray:
        """Denoised images, with their gaps filled.

        Parameters
        ----------
        X : array of shape (n, height, width) or (n, pixels)
            Noisy images of the size that was learned. NaN is a gap.
        mask : array of the shape of X or of one image, bool, optional
            True where a pixel is missing: scratches, text, what stands before the image.
        loss : "squared" or "robust"
            ``"robust"`` also replaces pixels that are far from what most others of their image
            say (salt and pepper, things in the way): up to about a third of them.

        Returns
        -------
        array of the shape of X
        """
        self._require_same_parameters()
        self._require_noise_variance()
        rows, shape = as_rows(X, self.n_features_in_, self.clipped, gaps=True)
        clean = self._project if self.method == "project" else self._regress
        if mask is None and loss == "squared" and not np.isnan(rows).any():
            found = clean(rows)
        else:
            found = self._repaired(rows, shape, mask, loss, clean)
        if self.clipped:
            found = undo_clipping(found, self.noise_variance_)
        return found.reshape(shape)

    @property
    @at_one_moment
    def noise_variance_(self) -> float:
        """Variance of the noise before clipping, as it was given or measured."""
        if self.noise_variance is not None:
            return float(self.noise_variance)
        self._require_same_parameters()
        known = self.stream_.settled.scaler
        if not isinstance(known, WienerMap):
            raise AttributeError(
                "Denoiser(method='project') does not measure the noise: give noise_variance."
            )
        return known.noise_variance / (LEFT_ON_BLACK if self.clipped else 1.0)

    def _repaired(
        self,
        rows: np.ndarray,
        shape: tuple[int, ...],
        mask: Any,
        loss: str,
        clean: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """What the denoiser makes of images whose gaps it has filled."""
        if mask is not None:
            mask = np.asarray(mask)
            if mask.shape not in (shape, shape[1:]):
                raise ValueError(
                    f"mask must be of shape {shape} or {shape[1:]}, True where a pixel is missing; "
                    f"got an array of shape {mask.shape}."
                )
            mask = mask.reshape(-1, rows.shape[1]) if mask.ndim == len(shape) else mask.ravel()
        stream = self.stream_
        points, scaler = stream.components.points.astype(float), stream.settled.scaler
        if isinstance(scaler, WienerMap):
            points = scaler.mean + points @ np.linalg.pinv(scaler.matrix)

        def project(Z: np.ndarray) -> np.ndarray:
            return clean(Z.astype(rows.dtype)).astype(float)

        found = preimages.repair(rows.astype(float), project, points, mask, loss).model
        return found.astype(rows.dtype)

    def _project(self, rows: np.ndarray) -> np.ndarray:
        """The classical way: scores and back."""
        method = preimages.resolve(self.preimage, self.stream_.components.kernel)
        return self.stream_.project(rows, method)

    def _regress(self, rows: np.ndarray) -> np.ndarray:
        regression, standard = self._solution()
        found = np.empty_like(rows)  # predictions are in double precision: a piece at a time

        def write(at: slice) -> None:
            found[at] = regression.predict(standard.apply(rows[at]))

        with cores():
            in_threads(write, [slice(i, i + 1024) for i in range(0, len(rows), 1024)])
        return found

    def _solution(self) -> tuple[Regression, WienerMap]:
        """Ridge regression with the cross moments that clean images would have had."""
        check_alpha(self.alpha)
        stream, held = self.stream_, self._held_back
        if self.alpha != "sure":
            return stream.solved(self.alpha, lambda: solve(stream.settled, float(self.alpha)))
        if held is None or not len(held):
            raise ValueError(
                "alpha='sure' needs noisy images that were held back, and there are none: call fit "
                "again with it (on five images or more), or give alpha as a number."
            )
        wanted = ("sure", held.n_seen)
        return stream.solved(wanted, lambda: solve(stream.settled, None, held.X))

    @property
    @at_one_moment
    def alpha_(self) -> float:
        """The strength in use: as given, or as it was chosen."""
        self._require_same_parameters()
        if self.method != "stein":
            raise AttributeError("Denoiser(method='project') has no ridge.")
        scatter = self.stream_.settled.begun.tracker.scatter
        return self._solution()[0].prediction.alpha / float(np.linalg.eigvalsh(scatter)[-1])

    # -- files and neighbours

    @at_one_moment
    def merge(self, other: ImageModel) -> Self:
        """A new model of what both have seen, with the parameters of this one.

        Parameters
        ----------
        other : Denoiser
            Neither of the two is changed.
        """
        model = super().merge(other)
        assert isinstance(other, Denoiser)
        ours, theirs = self._held_back, other._held_back
        if ours is not None and theirs is not None:
            ours = ours.join(theirs).thin(0.0, math.inf, HeldBack.IMAGES)
        model._held_back = theirs if ours is None else ours
        return model

    def _learned_content(self) -> dict[str, Any]:
        content = super()._learned_content()
        return content if self._held_back is None else content | {"held_back": self._held_back}

    def _restore(self, content: dict[str, Any], device: Any) -> None:
        self._held_back = content.get("held_back")
        super()._restore(content, device)

    def _check_restored(self) -> None:
        super()._check_restored()
        held = self._held_back
        if held is not None and not isinstance(held, HeldBack):
            raise ValueError("images held back that are none")
        if held is not None and held.X.shape[1] != self.n_features_in_:
            raise ValueError(f"images of {held.X.shape[1]} pixels that were held back")


def check_alpha(alpha: Any) -> None:
    """Raise in words unless a strength is a number, or to be chosen."""
    if not (isinstance(alpha, str) and alpha == "sure"):
        check_number("Denoiser", "alpha", alpha)


def solve(
    stream: Stream, alpha: float | None, judged: np.ndarray | None = None
) -> tuple[Regression, WienerMap]:
    """Ridge regression with what Stein's identity says of clean images, and the map of its rows.

    Without a strength, that of least estimated error on the images that ``judged`` has.
    """
    chain, state, linear_map = stream.chain, stream.begun, stream.scaler
    assert state.targets is not None and isinstance(linear_map, WienerMap)
    scatter = state.tracker.scatter
    equations = NormalEquations.of(state.moments, scatter, state.targets, center=True)
    due = equations.vectors.T @ noise_moments(stream, linear_map)
    equations = replace(equations, moments=equations.moments - due)
    unit = float(np.linalg.eigvalsh(scatter)[-1])
    if alpha is None:
        assert judged is not None
        strengths = STRENGTHS * unit
        risks = estimated_errors(stream, equations, linear_map, judged.astype(float), strengths)
        alpha = float(STRENGTHS[np.argmin(risks)])
    prediction = Prediction.of(equations, alpha * unit)
    regression = Regression(chain.kernel, chain.basis, state.basis, prediction, double=True)
    return replace(regression, double=is_rough(stream, regression, equations)), linear_map


def estimated_errors(
    stream: Stream,
    equations: NormalEquations,
    standard: WienerMap,
    X: np.ndarray,
    strengths: np.ndarray,
) -> np.ndarray:
    """Stein's unbiased estimate of the mean squared error of a pixel, for each strength.

    For noise of variance v and a map f that has not seen x, ``E|f(x) − c|² = E|f(x) − x|² +
    2v E[div f(x)] − d v``. With ``f = Σ_j k_j C_j``, ``k_j = exp(−γ|a − d_j|²)`` and
    a = P(x − mean), ``div f = −2γ Σ_j k_j (a − d_j)·(P C_j)``.
    """
    chain, state = stream.chain, stream.begun
    kernel: Any = chain.kernel
    span = state.basis.span
    points, v = span.points.astype(np.float64), standard.noise_variance
    A = standard.apply(X)
    K = kernel.block(A, points)
    V = (K @ span.factor - equations.mean[None, :]) @ equations.vectors
    directions, mapped = span.factor @ equations.vectors, equations.moments @ standard.matrix
    kept = equations.values > NOTHING * float(equations.values[0])
    risks = []
    for strength in strengths:
        shrink = np.where(kept, 1.0, 0.0) / (equations.values + strength / equations.weight)
        residual = equations.target_mean + (V * shrink) @ equations.moments - X
        G = directions @ (shrink[:, None] * mapped)  # P C_j for each point, (m, directions)
        divergence = np.sum((K @ G) * A, axis=1) - K @ np.sum(points * G, axis=1)
        error = np.mean(residual**2) - 4.0 * kernel.gamma * v * np.mean(divergence) / X.shape[1]
        risks.append(error - v)
    return np.array(risks)


def noise_moments(stream: Stream, standard: WienerMap) -> np.ndarray:
    """E[z nᵀ] (q, d), the part of the cross moments that the noise n made, by Stein's identity.

    For normal noise ``E[n g(x)] = v E[∇g(x)]``. With ``k_j = exp(−γ|a − d_j|²)``, a = P(x − mean),
    ``E[k_j nᵀ] = 2γv (E[k_j] d_jᵀ − E[k_j aᵀ]) Pᵀ``; and z = Fᵀk with FᵀKF = I, so that
    ``E k = K F E z`` and ``Fᵀ E[k aᵀ] = E[z aᵀ]``.
    """
    chain, state = stream.chain, stream.begun
    assert state.targets is not None
    kernel: Any = chain.kernel
    span = state.basis.span
    moments, targets = state.moments, state.targets
    about_mean = targets.about(standard.mean, moments.weight, moments.total)
    with_a = about_mean.cross / moments.weight @ standard.matrix
    points = span.points.astype(np.float64)
    mean_k = kernel.gram(points) @ (span.factor @ moments.mean)
    slope = span.factor.T @ (mean_k[:, None] * points) - with_a
    return 2.0 * kernel.gamma * standard.noise_variance * slope @ standard.matrix.T
