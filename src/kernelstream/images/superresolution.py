"""Super-resolution (upscaling): ridge regression on patch features, bicubic, back-projection."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from kernelstream import kernels
from kernelstream.arrays import generator
from kernelstream.estimators import at_one_moment
from kernelstream.images.base import STRIP, ImageModel, as_list, checked_image
from kernelstream.images.features import PatchFeatures
from kernelstream.images.files import WHITE, as_floats, as_integers, resized
from kernelstream.images.patches import Orientation, overlapped, windows
from kernelstream.regression.base import Regression
from kernelstream.regression.normal_equations import NormalEquations, Prediction
from kernelstream.serialization import check_count, check_number, stored
from kernelstream.stream import Rows, Stream

SIDE = 5  # pixels of a low-resolution patch
TO_YCBCR = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)


@stored
class SuperResolver(ImageModel):
    """Enlarge images with the detail that images of the same kind have, learned in one pass.

    High-resolution images are shrunk; from each 5×5 patch of the small image, ridge regression on
    kernel features (``images.features.PatchFeatures``) learns what bicubic
    interpolation misses on the pixel and its eight neighbours. Patches are first turned, mirrored
    and negated until their gradients point one way, so that an edge is learned once for all its
    orientations, and what is predicted is turned back. Predicted blocks overlap and are averaged.
    The result is corrected so that it shrinks to the image that was given.

    Parameters
    ----------
    scale : int
        By how much images are enlarged.
    basis : int
        Number of centroids of patch directions.
    alpha : float
        Strength of the ridge, as a share of the mean second moment of the features.
    patches_per_image : int or None
        Patches that are drawn from each image; None takes all of them.
    refinements : int
        Corrections ``Z ← Z + up(L − down(Z))`` of the result Z for the given image L.
    verbose : bool
        Show progress on the standard error while an image is enlarged.
    random_state : int, RandomState or None
        Seed of everything that is drawn.

    Attributes
    ----------
    n_images_seen_ : int
        Images learned.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import SuperResolver
    >>> y, x = np.mgrid[:64, :64] / 64
    >>> image = 0.5 + 0.4 * np.sign(np.sin(20 * x + 9 * y**2))
    >>> resolver = SuperResolver(2, basis=20, random_state=0).fit([image])
    >>> resolver.predict(image[::2, ::2]).shape
    (64, 64)
    """

    n_images_seen_: int

    _also_saved = ("n_images_seen_", "_learned_with")

    def __init__(
        self,
        scale: int = 2,
        basis: int = 1000,
        *,
        alpha: float = 1e-8,
        patches_per_image: int | None = 4000,
        refinements: int = 2,
        verbose: bool = False,
        random_state: Any = None,
    ):
        self.scale = scale
        self.basis = basis
        self.alpha = alpha
        self.patches_per_image = patches_per_image
        self.refinements = refinements
        self.verbose = verbose
        self.random_state = random_state

    def _check_restored(self) -> None:
        super()._check_restored()
        n = getattr(self, "n_images_seen_", None)
        if type(n) is not int or n < 1:
            raise ValueError(f"{n!r} images")

    # -- learning

    def fit(self, X: Iterable[Any], y: Any = None) -> Self:
        """Learn from high-resolution images that are all at hand.

        The directions of patches are centroids of patches from all of them.

        Parameters
        ----------
        X : sequence of images
            Each (height, width) or (height, width, 3), of 8 or 16 bits or floats in [0, 1].
        y : ignored

        Returns
        -------
        self
        """
        images = as_list(X)
        with self.transaction() as draft:
            stream = draft.new_stream()
            share = -(-stream.start_rows // len(images))
            first = [draft._patches(stream, image, i, share)[0] for i, image in enumerate(images)]
            # There are no components to show, so nobody asks for their signs.
            stream = stream.start(Rows(np.concatenate(first))).without_signs()
            for number, image in enumerate(images):
                stream = draft._learn_image(stream, image, number)
            draft.set_stream(stream)
            draft.n_images_seen_, draft.n_features_in_ = len(images), stream.n_features
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from one more high-resolution image; a rejected one changes nothing.

        Parameters
        ----------
        X : array of shape (height, width) or (height, width, 3)
            Of 8 or 16 bits, or floats in [0, 1].
        y : ignored

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            number = 0
            if draft.__sklearn_is_fitted__():
                draft._require_same_parameters()
                number = draft.n_images_seen_
            stream = draft.stream_ if number else draft.new_stream()
            draft.set_stream(draft._learn_image(stream, X, number))
            draft.n_images_seen_, draft.n_features_in_ = number + 1, stream.n_features
        return self

    def new_stream(self, X: Any = None) -> Stream:
        """A stream for rows like X with the parameters of this estimator, which are checked.

        Parameters
        ----------
        X : ignored

        Returns
        -------
        Stream
            A stream without rows.
        """
        check_count("SuperResolver", "patches_per_image", self.patches_per_image)
        check_number("SuperResolver", "alpha", self.alpha)
        check_count("SuperResolver", "scale", self.scale, none_allowed=False)
        if int(self.scale) < 2:
            raise ValueError(f"SuperResolver: scale must be 2 or more, got {self.scale!r}.")
        check_refinements(self.refinements)
        self._remember("scale")
        # Features have their own kernel inside; the stream's is not asked.
        return self._blank_stream(kernels.Linear(), PatchFeatures(self.basis), SIDE**2, "float64")

    def _learn_image(self, stream: Stream, image: Any, number: int) -> Stream:
        X, Y = self._patches(stream, image, number, self.patches_per_image)
        return stream.learn(Rows(X, None, Y))

    def _patches(
        self, stream: Stream, image: Any, number: int, count: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Patches of the shrunk image less their means, and what bicubic misses around them."""
        s = int(self.scale)
        high = luma(checked_image(image))
        rows, columns = (length // s for length in high.shape)
        if min(rows, columns) < SIDE + 2:
            raise ValueError(
                f"An image of shape {high.shape} is too small to learn enlarging by {s}: it needs "
                f"at least {(SIDE + 2) * s} pixels in both directions."
            )
        high = high[: rows * s, : columns * s]
        low = resized(high, (rows, columns))
        detail = high - resized(low, high.shape)
        small = windows(low, SIDE)  # the pixel in the middle of [i, j] is [i + 2, j + 2]
        large = windows(detail[s:-s, s:-s], 3 * s, s)
        n = small.shape[0] * small.shape[1]
        rng = generator(stream.chain.seed, "patches", number)
        chosen = np.arange(n) if count is None or count >= n else rng.choice(n, count, False)
        i, j = np.unravel_index(chosen, small.shape[:2])
        X, Y = without_means(small[i, j]), large[i, j]
        orientation = Orientation.of(X)
        X, Y = orientation.upright(X), orientation.upright(Y)
        return X.reshape(len(chosen), -1), Y.reshape(len(chosen), -1)

    @at_one_moment
    def merge(self, other: ImageModel) -> Self:
        """A new model of what both have seen, with the parameters of this one.

        Parameters
        ----------
        other : the same kind of estimator
            Neither of the two is changed.
        """
        model = super().merge(other)
        model.n_images_seen_ = self.n_images_seen_ + other.n_images_seen_
        return model

    # -- queries

    @at_one_moment
    def predict(self, X: Any) -> np.ndarray:
        """Enlarge an image.

        Parameters
        ----------
        X : array of shape (height, width) or (height, width, 3)
            Of 8 or 16 bits, or floats in [0, 1]. Of a colour image the luma is enlarged with what
            was learned and the two colour differences by bicubic interpolation.

        Returns
        -------
        array of shape (scale·height, scale·width) or (scale·height, scale·width, 3)
            In the type of X.
        """
        self._require_same_parameters()
        check_refinements(self.refinements)
        given = checked_image(X)
        image = as_floats(given)
        if image.ndim == 2:
            found = self._enlarge(image)
        else:
            planes = np.moveaxis(image @ TO_YCBCR.T.astype(image.dtype), 2, 0)
            shape = (image.shape[0] * int(self.scale), image.shape[1] * int(self.scale))
            colours = [resized(plane, shape) for plane in planes[1:]]
            whole = np.stack([self._enlarge(planes[0]), *colours], axis=2)
            found = whole @ np.linalg.inv(TO_YCBCR).T.astype(image.dtype)
        if given.dtype in WHITE:
            return as_integers(found, given.dtype)
        return found.astype(image.dtype, copy=False)

    def _enlarge(self, low: np.ndarray) -> np.ndarray:
        s = int(self.scale)
        found = resized(low, (low.shape[0] * s, low.shape[1] * s)) + self._detail(low)
        return back_projected(found, low, int(self.refinements))

    def _detail(self, low: np.ndarray) -> np.ndarray:
        """What bicubic interpolation misses, strip by strip, averaged where blocks overlap."""
        s, regression = int(self.scale), self._solution()
        rows, columns = low.shape
        wider = np.pad(low, SIDE // 2, mode="symmetric")  # the outside is like the inside
        small = windows(wider.astype(np.float32), SIDE)
        total = np.zeros(((rows + 2) * s, (columns + 2) * s), dtype=np.float32)
        height = max(1, STRIP // columns)
        for top in range(0, rows, height):
            strip = small[top : top + height]
            patches = without_means(strip.reshape(-1, SIDE, SIDE))
            orientation = Orientation.of(patches)
            X = orientation.upright(patches).reshape(len(patches), -1)
            Z = regression.basis.coordinates(regression.kernel, regression.basis_state, X)
            # Features of a patch are bounded by its contrast and coefficients are of order ten, so
            # that single precision is enough: 1e-5 of white, at most, on photographs.
            blocks = regression.prediction.of_coordinates(Z).reshape(-1, 3 * s, 3 * s)
            blocks = orientation.as_seen(blocks).reshape(len(strip), columns, 3 * s, 3 * s)
            total[top * s : (top + len(strip) + 2) * s] += overlapped(blocks, s)
            if self.verbose:
                show_progress(min(top + height, rows) / rows)
        inside = (slice(s, -s), slice(s, -s))
        return total[inside] / counts(rows, columns, s)

    def _solution(self) -> Regression:
        check_number("SuperResolver", "alpha", self.alpha)
        stream = self.stream_
        return stream.solved(self.alpha, lambda: solve(stream.settled, self.alpha))


def enlarge(image: np.ndarray, scale: int, refinements: int = 2) -> np.ndarray:
    """Enlarge an image without learning: bicubic interpolation and back-projection.

    What :class:`SuperResolver` gains over this was learned; the rest is not.

    Parameters
    ----------
    image : array of shape (height, width) or (height, width, colours)
        Floats; every colour by itself.
    scale : int
        How many times larger.
    refinements : int
        Corrections by what the enlarged image is off when it is shrunk again.

    Returns
    -------
    array of shape (scale·height, scale·width), with as many colours

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import enlarge
    >>> enlarge(np.ones((6, 8)), 2).shape
    (12, 16)
    """
    if image.ndim == 3:
        colours = [enlarge(image[..., c], scale, refinements) for c in range(image.shape[2])]
        return np.stack(colours, axis=-1)
    shape = (image.shape[0] * scale, image.shape[1] * scale)
    return back_projected(resized(image, shape), image, refinements)


def back_projected(found: np.ndarray, low: np.ndarray, times: int) -> np.ndarray:
    """An enlarged image after corrections: shrunk again, it is to be the image it came from."""
    for _ in range(times):
        found = found + resized(low - resized(found, low.shape), found.shape)
    return found


def solve(stream: Stream, alpha: float) -> Regression:
    """Ridge regression from features of patches to what bicubic interpolation misses."""
    chain, state = stream.chain, stream.begun
    assert state.targets is not None
    scatter = state.tracker.scatter
    equations = NormalEquations.of(state.moments, scatter, state.targets, center=False)
    strength = alpha * float(np.trace(scatter)) / len(scatter)
    prediction = Prediction.of(equations, strength)
    return Regression(chain.kernel, chain.basis, state.basis, prediction, double=True)


def check_refinements(refinements: Any) -> None:
    """Raise unless corrections are counted."""
    if not isinstance(refinements, numbers.Integral) or int(refinements) < 0:
        raise ValueError(
            f"SuperResolver: refinements must be a whole number, 0 or more, got {refinements!r}."
        )


def counts(rows: int, columns: int, scale: int) -> np.ndarray:
    """Blocks that cover each fine pixel: nine, fewer at the border."""
    down, across = (
        np.minimum(np.arange(n), 1) + 1 + np.minimum(np.arange(n)[::-1], 1) for n in (rows, columns)
    )
    return np.kron(np.outer(down, across), np.ones((scale, scale))).astype(np.float32)


def without_means(patches: np.ndarray) -> np.ndarray:
    """Patches (n, side, side) less the mean of each."""
    return patches - patches.mean(axis=(1, 2), keepdims=True)


def luma(image: np.ndarray) -> np.ndarray:
    """Brightness of a grey or colour image, float64 in [0, 1]."""
    pixels = as_floats(image).astype(np.float64)
    return pixels if pixels.ndim == 2 else pixels @ TO_YCBCR[0]


def show_progress(share: float) -> None:
    """A bar on the standard error, ended when all is done."""
    bar = "█" * round(30 * share)
    sys.stderr.write(f"\r{bar:30} {share:4.0%}" + ("\n" if share >= 1 else ""))
    sys.stderr.flush()
