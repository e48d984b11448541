"""Base classes of image models: images or patches as rows of a stream, input checks, merging."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from kernelstream import kernels, landmarks, trackers
from kernelstream.estimators import StreamEstimator, at_one_moment
from kernelstream.images.files import as_floats, real_numbers, require_pixels
from kernelstream.stream import Chain, Scaling, Stream

ROUNDING = 1e-6  # of pixels that were scaled in single precision
STRIP = 4096  # patches or rows that are processed at a time, so that memory stays bounded


class ImageModel(StreamEstimator):
    """An estimator that turns images into rows of a stream, and what it learned into images.

    Rows are folded with the exact covariance, as in
    :class:`~kernelstream.StreamingKernelPCA`: the same images in the same order give the same
    model, bit for bit, however they are cut into calls, and a query changes nothing.
    """

    n_features_in_: int
    random_state: Any

    _also_saved: tuple[str, ...] = ("_learned_with",)

    # Parameters that decide what the rows are, with the values that the model was learned with:
    # with others its queries, and further rows, would mean something else.
    _learned_with: tuple[tuple[str, Any], ...] = ()

    def _check_restored(self) -> None:
        pairs = self._learned_with
        sound = isinstance(pairs, tuple) and all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            for pair in pairs
        )
        if not sound or not {name for name, _ in pairs} <= set(self.get_params(deep=False)):
            raise ValueError(f"parameters that it learned with: {pairs!r}")

    def _remember(self, *names: str) -> None:
        """Note at the start of a stream what must not change under it."""
        self._learned_with = tuple((name, getattr(self, name)) for name in names)

    def _require_same_parameters(self) -> None:
        """Raise in words unless the model is fitted, and means what it was fitted for."""
        self._require_fitted()
        for name, value in self._learned_with:
            now = getattr(self, name)
            if now != value:
                raise ValueError(
                    f"This {type(self).__name__} was learned with {name}={value!r}, and {name} is "
                    f"{now!r} now: call fit again, or set it back."
                )

    def _blank_stream(
        self,
        kernel: kernels.Kernel,
        basis: landmarks.LandmarkStrategy,
        n_features: int,
        dtype: str,
        n_components: int | None = None,
        scaling: Scaling | None = None,
        regress_inputs: bool = False,
    ) -> Stream:
        """A stream that has seen no rows."""
        basis.check()
        kernel.check()
        chain = Chain(
            kernel=kernel,
            basis=basis,
            tracker=trackers.Covariance(),
            center=True,
            n_components=n_components,
            seed=self._seed(),
            certify=False,
            regress_inputs=regress_inputs,
        )
        return Stream.of(
            chain,
            batch_size=1024,
            n_features=n_features,
            dtype=dtype,
            scaling=scaling,
        )

    @at_one_moment
    def merge(self, other: ImageModel) -> Self:
        """A new model of what both have seen, with the parameters of this one.

        Both need the same basis or one that can be merged, and the same measurements of the
        start of their streams.

        Parameters
        ----------
        other : the same kind of estimator
            Neither of the two is changed.
        """
        self._require_same_parameters()
        if type(other) is not type(self):
            raise ValueError(
                f"Only models of one kind merge: this is a {type(self).__name__}, the other a "
                f"{type(other).__name__}."
            )
        other._require_same_parameters()
        for (name, ours), (_, theirs) in zip(self._learned_with, other._learned_with, strict=False):
            if ours != theirs:
                raise ValueError(
                    f"Cannot merge models that were learned with {name}={ours!r} and "
                    f"{name}={theirs!r}."
                )
        model = type(self)(**self.get_params(deep=False))
        model.__dict__.update(self.__dict__)
        model.set_stream(self.stream_.merge(other.stream_))
        return model


def as_list(images: Iterable[Any]) -> list[Any]:
    """Images to learn from as a list; one image stands for itself."""
    if isinstance(images, np.ndarray) and images.ndim == 3 and images.shape[2] == 3:
        return [images]
    found = [images] if isinstance(images, np.ndarray) and images.ndim == 2 else list(images)
    if not found:
        raise ValueError("There is no image to learn from.")
    return found


def as_rows(
    images: Any, pixels: int | None = None, clipped: bool = False, gaps: bool = False
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Images (n, height, width), or rows (n, pixels), as rows of floats, and the shape they had.

    Images of 8 and 16 bits are scaled to [0, 1]; ``clipped`` ones have to be there. Where ``gaps``
    are allowed, NaN is one.
    """
    stack = real_numbers(images)
    if stack.ndim not in (2, 3) or 0 in stack.shape:
        raise ValueError(
            f"Expected images of shape (n, height, width), or rows of shape (n, pixels), got an "
            f"array of shape {stack.shape}. A single image is image[None]."
        )
    if stack.ndim == 3 and stack.shape[2] == 3 and min(stack.shape) < min(stack.shape[:2]):
        raise ValueError(
            f"An array of shape {stack.shape} looks like one photograph in colour, and many small "
            "grey images are learned here: for a photograph see examples/plot_denoise_photo.py."
        )
    rows = stack.reshape(len(stack), -1)
    if pixels is not None and rows.shape[1] != pixels:
        raise ValueError(
            f"The model was learned from images of {pixels} pixels, these have {rows.shape[1]}."
        )
    rows = as_floats(rows)
    fine = ~np.isinf(rows) if gaps else np.isfinite(rows)
    if not np.all(fine):
        raise ValueError("The images contain NaN or infinity; give finite numbers.")
    low, high = float(np.nanmin(rows, initial=1.0)), float(np.nanmax(rows, initial=0.0))
    if clipped and not (low >= -ROUNDING and high <= 1.0 + ROUNDING):
        raise ValueError(
            f"clipped=True says that pixels are in [0, 1], and these are from {low:g} to {high:g}: "
            "scale them, or use clipped=False."
        )
    return rows, stack.shape


def checked_image(image: Any) -> np.ndarray:
    """One image of finite numbers, grey or in colour."""
    image = real_numbers(image)
    fits = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)
    if not fits or 0 in image.shape:
        raise ValueError(
            "Expected one image of shape (height, width) or (height, width, 3), got an array of "
            f"shape {image.shape}."
        )
    require_pixels(image)
    return image
