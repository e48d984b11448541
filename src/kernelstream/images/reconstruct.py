"""Patch reconstruction: image patches replaced by pre-images of their projections (Kim et al.)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from kernelstream import kernels, landmarks, preimages
from kernelstream.arrays import generator
from kernelstream.estimators import at_one_moment
from kernelstream.images.base import PatchModel, as_list, checked_image
from kernelstream.images.patches import Canvas, starts, windows
from kernelstream.images.pixels import as_floats
from kernelstream.serialization import check_count, stored
from kernelstream.stream import Rows, Stream

STRIP = 4096  # patches that are worked on at a time, so that memory stays bounded


@stored
class PatchReconstructor(PatchModel):
    """Kernel PCA of the patches of images, and images rebuilt from their patches' projections.

    An image of poor quality (enlarged by repeating pixels, say) is cut into windows; each is
    projected on the components that were learned from good images, replaced by its pre-image, and
    laid back; where windows overlap the mean is taken. Kim, Franz and Schölkopf use it for
    super-resolution. With ``kernel="linear"`` it is the same with linear PCA.

    Parameters
    ----------
    side : int
        Side of a window, in pixels.
    n_components : int
        Components to project on.
    kernel : str, Kernel or callable
        As in :class:`~kernelstream.StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name, for pixels in [0, 1].
    basis : str, int or LandmarkStrategy
        The points of the model; an integer is a number of centroids.
    step : int or None
        Pixels from one window to the next when an image is rebuilt; None is ``side``, block by
        block without overlap.
    keep_mean : bool
        Whether the brightness of a window is taken out before the projection and put back after.
    patches_per_image : int or None
        Windows that are drawn from each image to learn from; None takes all of them.
    preimage : str or Preimage
        The pre-image method.
    random_state : int, RandomState or None
        Seed of everything that is drawn.

    Attributes
    ----------
    n_images_seen_ : int
        Images learned.

    References
    ----------
    Kim, Franz, Schölkopf, "Kernel Hebbian algorithm for iterative kernel principal component
    analysis", Max Planck Institute for Biological Cybernetics, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.images import PatchReconstructor
    >>> y, x = np.mgrid[:48, :48] / 48
    >>> image = 0.5 + 0.4 * np.sin(20 * x + 9 * y)
    >>> model = PatchReconstructor(6, 8, basis=50, step=3, random_state=0).fit([image])
    >>> noisy = image + 0.2 * np.random.default_rng(0).normal(size=image.shape)
    >>> bool(np.std(model.transform(noisy) - image) < 0.5 * np.std(noisy - image))
    True
    """

    def __init__(
        self,
        side: int = 14,
        n_components: int = 40,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        basis: Any = 500,
        step: int | None = None,
        keep_mean: bool = False,
        patches_per_image: int | None = 2000,
        preimage: Any = "auto",
        random_state: Any = None,
    ):
        self.side = side
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.basis = basis
        self.step = step
        self.keep_mean = keep_mean
        self.patches_per_image = patches_per_image
        self.preimage = preimage
        self.random_state = random_state

    def fit(self, X: Iterable[Any], y: Any = None) -> Self:
        """Learn from good images that are all at hand.

        Parameters
        ----------
        X : sequence of grey images
            Each (height, width), of 8 or 16 bits or floats in [0, 1].
        y : ignored

        Returns
        -------
        self
        """
        images = as_list(X)
        with self.transaction() as draft:
            stream = draft.new_stream()
            rows = [draft._patches(stream, image, i) for i, image in enumerate(images)]
            draft._hold(stream.learn_all(Rows(np.concatenate(rows))), len(images))
        return self

    def _learn_image(self, stream: Stream, image: Any, number: int) -> Stream:
        return stream.learn(Rows(self._patches(stream, image, number)))

    @at_one_moment
    def transform(self, X: Any) -> np.ndarray:
        """An image rebuilt from the projections of its windows.

        Parameters
        ----------
        X : array of shape (height, width)
            Of 8 or 16 bits, or floats in [0, 1]; at least a window in both directions.

        Returns
        -------
        array of shape (height, width)
            Floats.
        """
        self._require_same_parameters()
        self._check_step()
        image = as_floats(checked_image(X, colour=False)).astype(np.float64)
        side = int(self.side)
        step = side if self.step is None else int(self.step)
        tops, lefts = (starts(length, side, step) for length in image.shape)
        places = np.stack(np.meshgrid(tops, lefts, indexing="ij"), axis=-1).reshape(-1, 2)
        every = windows(image, side)
        canvas = Canvas((image.shape[0], image.shape[1]))
        for begin in range(0, len(places), STRIP):
            some = places[begin : begin + STRIP]
            found = self._project(every[some[:, 0], some[:, 1]].reshape(len(some), -1))
            for (top, left), patch in zip(some, found.reshape(-1, side, side), strict=True):
                canvas.add(int(top), int(left), patch)
        return canvas.image()

    def _project(self, rows: np.ndarray) -> np.ndarray:
        """Windows after projection and pre-image."""
        mean = rows.mean(axis=1, keepdims=True) if self.keep_mean else 0.0
        method = preimages.resolve(self.preimage, self.stream_.components.kernel)
        return self.stream_.project(rows - mean, method) + mean

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
        for name in ("side", "n_components"):
            check_count("PatchReconstructor", name, getattr(self, name), none_allowed=False)
        check_count("PatchReconstructor", "patches_per_image", self.patches_per_image)
        self._check_step()
        self._remember("side", "keep_mean")
        kernel = kernels.resolve(self.kernel, self.gamma)
        method = preimages.resolve(self.preimage, kernel)
        return self._blank_stream(
            kernel,
            landmarks.resolve(self.basis),
            int(self.side) ** 2,
            "float64",
            n_components=int(self.n_components),
            regress_inputs=preimages.learns_from_rows(method),
        )

    def _check_step(self) -> None:
        """Windows cover every pixel."""
        check_count("PatchReconstructor", "step", self.step)
        if self.step is not None and self.step > self.side:
            raise ValueError(
                f"PatchReconstructor: step={self.step} would leave pixels out between windows of "
                f"side {self.side}; it is at most that."
            )

    def _patches(self, stream: Stream, image: Any, number: int) -> np.ndarray:
        """Windows at random places of an image, as rows."""
        pixels = as_floats(checked_image(image, colour=False)).astype(np.float64)
        every = windows(pixels, int(self.side))
        n, count = every.shape[0] * every.shape[1], self.patches_per_image
        rng = generator(stream.chain.seed, "patches", number)
        chosen = np.arange(n) if count is None or count >= n else rng.choice(n, count, False)
        i, j = np.unravel_index(chosen, every.shape[:2])
        rows = every[i, j].reshape(len(chosen), -1)
        return rows - rows.mean(axis=1, keepdims=True) if self.keep_mean else rows
