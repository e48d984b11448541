"""What the image models share: a stream of rows that come from images, as one value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from kernelstream.bases import Basis
from kernelstream.kernels import Kernel
from kernelstream.merge import merged
from kernelstream.model import Model, Parts
from kernelstream.persistence import OnStream
from kernelstream.trackers import Covariance
from kernelstream.validation import checked_seed, real_numbers
from kernelstream.wiener import Wiener


class ImageModel(OnStream):
    """An estimator that turns images into rows of a stream, and what it learned into images.

    Rows are folded with the exact covariance, as in
    :class:`~kernelstream.StreamingKernelPCA`: the same images in the same order give the same
    model, bit for bit, however they are cut into calls, and a query changes nothing.
    """

    n_features_in_: int
    n_images_seen_: int  # where images are cut into patches
    random_state: Any

    def _stream(
        self,
        kernel: Kernel,
        basis: Basis,
        n_features: int,
        dtype: str,
        n_components: int | None = None,
        reduction: Wiener | None = None,
        regress_inputs: bool = False,
    ) -> Model:
        """A stream that has seen no rows."""
        basis.check()
        kernel.check()
        return Model(
            parts=Parts(
                kernel=kernel,
                basis=basis,
                tracker=Covariance(),
                center=True,
                n_components=n_components,
                seed=checked_seed(self.random_state),
                certify=False,
                regress_inputs=regress_inputs,
            ),
            batch_size=1024,
            n_features=n_features,
            dtype=dtype,
            reduction=reduction,
        )

    def merge(self, other: ImageModel) -> Self:
        """A new model of what both have seen, with the parameters of this one.

        Both need the same basis or one that can be merged, and the same measurements of the
        start of their streams.

        Parameters
        ----------
        other : the same kind of estimator
            Neither of the two is changed.
        """
        self._view_exists()
        other._view_exists()
        model = type(self)(**self.get_params(deep=False))
        model.__dict__.update(self.__dict__)
        model._model = merged(self._model, other._model)
        if hasattr(self, "n_images_seen_"):
            model.n_images_seen_ = self.n_images_seen_ + other.n_images_seen_
        return model


def as_list(images: Iterable[Any]) -> list[Any]:
    """Images to learn from as a list; one grey image stands for itself."""
    found = [images] if isinstance(images, np.ndarray) and images.ndim == 2 else list(images)
    if not found:
        raise ValueError("There is no image to learn from.")
    return found


def as_rows(images: Any, pixels: int | None = None) -> tuple[np.ndarray, tuple[int, ...]]:
    """Images (n, height, width), or rows (n, pixels), as rows of floats, and the shape they had.

    8-bit images are scaled to [0, 1].
    """
    stack = real_numbers(images)
    if stack.ndim not in (2, 3) or 0 in stack.shape:
        raise ValueError(
            f"Expected images of shape (n, height, width), or rows of shape (n, pixels), got an "
            f"array of shape {stack.shape}. A single image is image[None]."
        )
    rows = stack.reshape(len(stack), -1)
    if pixels is not None and rows.shape[1] != pixels:
        raise ValueError(
            f"The model was learned from images of {pixels} pixels, these have {rows.shape[1]}."
        )
    rows = as_floats(rows)
    if not np.all(np.isfinite(rows)):
        raise ValueError("The images contain NaN or infinity; give finite numbers.")
    return rows, stack.shape


def as_floats(pixels: np.ndarray) -> np.ndarray:
    """Pixels as floats: 8-bit ones in [0, 1], floats as they are."""
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)
    if pixels.dtype in (np.float32, np.float64):
        return pixels
    return pixels.astype(np.float64)


def checked_image(image: Any, colour: bool = True) -> np.ndarray:
    """One image of finite numbers, grey or, where that is allowed, in colour."""
    image = real_numbers(image)
    fits = image.ndim == 2 or (colour and image.ndim == 3 and image.shape[2] == 3)
    if not fits or 0 in image.shape:
        raise ValueError(
            f"Expected one image of shape (height, width){' or (height, width, 3)' * colour}, got "
            f"an array of shape {image.shape}."
        )
    if not np.all(np.isfinite(image)):
        raise ValueError("The image contains NaN or infinity; give finite numbers.")
    return image
