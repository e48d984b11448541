"""Whole-image reconstruction (faces): kernel Hebbian algorithm and pre-images (Kim et al.)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kernelstream import preimages
from kernelstream.estimators import at_one_moment
from kernelstream.images.base import ImageModel, as_rows
from kernelstream.papers import KernelHebbianPCA
from kernelstream.serialization import stored


@stored
class ImageReconstructor(ImageModel):
    """Kernel PCA of whole images by the kernel Hebbian algorithm, and images rebuilt from it.

    Images of one size and alike in content (faces, say) are learned as they are; an image of poor
    quality, enlarged by repeating pixels for example, is projected on their components and replaced
    by its pre-image. Kim, Franz and Schölkopf use it for the super-resolution of faces. For images
    that are not alike, cut them into windows: :class:`PatchReconstructor`.

    Parameters
    ----------
    n_components : int
        Components to project on.
    kernel : str, Kernel or callable
        As in :class:`~kernelstream.StreamingKernelPCA`.
    gamma : float, str or None
        Width of a kernel given by name, for pixels in [0, 1].
    schedule, n_epochs, tol : object
        Of :class:`~kernelstream.papers.KernelHebbianPCA`.
    preimage : str or Preimage
        The pre-image method. The paper's is ``"neighbours_then_gradient"``.
    random_state : int, RandomState or None
        Seed of everything that is drawn.

    Attributes
    ----------
    n_epochs_ : int
        Passes that ``fit`` made.
    converged_ : bool
        Whether the components were found (:class:`~kernelstream.papers.KernelHebbianPCA`).

    References
    ----------
    Kim, Franz, Schölkopf, "Kernel Hebbian algorithm for iterative kernel principal component
    analysis", Max Planck Institute for Biological Cybernetics, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from kernelstream.images import ImageReconstructor
    >>> digits = load_digits().images / 16
    >>> model = ImageReconstructor(20, gamma=0.02, random_state=0).fit(digits[:400])
    >>> noisy = digits[400:450] + 0.3 * np.random.default_rng(0).normal(size=(50, 8, 8))
    >>> rebuilt = model.transform(noisy)
    >>> bool(np.std(rebuilt - digits[400:450]) < 0.8 * np.std(noisy - digits[400:450]))
    True
    """

    _also_saved = ("n_epochs_", "converged_", "_learned_with")

    def __init__(
        self,
        n_components: int = 100,
        *,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        schedule: Any = "auto",
        n_epochs: int = 100,
        tol: float = 1e-6,
        preimage: Any = "neighbours_then_gradient",
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.schedule = schedule
        self.n_epochs = n_epochs
        self.tol = tol
        self.preimage = preimage
        self.random_state = random_state

    def _check_restored(self) -> None:
        super()._check_restored()
        n, converged = getattr(self, "n_epochs_", None), getattr(self, "converged_", None)
        if type(n) is not int or n < 1 or type(converged) is not bool:
            raise ValueError(f"n_epochs_={n!r}, converged_={converged!r}")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from good images that are all at hand.

        Parameters
        ----------
        X : array of shape (n, height, width), or (n, pixels)
            Of 8 or 16 bits, or floats in [0, 1].
        y : ignored

        Returns
        -------
        self
        """
        rows, _ = as_rows(X)
        with self.transaction() as draft:
            model = KernelHebbianPCA(
                draft.n_components,
                kernel=draft.kernel,
                gamma=draft.gamma,
                schedule=draft.schedule,
                n_epochs=draft.n_epochs,
                tol=draft.tol,
                preimage=draft.preimage,
                random_state=draft.random_state,
            ).fit(rows.astype(np.float64))
            draft.n_epochs_, draft.converged_ = model.n_epochs_, model.converged_
            draft.set_stream(model.stream_)
            draft.n_features_in_ = model.n_features_in_
        return self

    @at_one_moment
    def transform(self, X: Any) -> np.ndarray:
        """Images rebuilt from their projections on the components.

        Parameters
        ----------
        X : array of shape (n, height, width), or (n, pixels)
            Of the size that was learned.

        Returns
        -------
        array of the same shape
            Floats.
        """
        self._require_same_parameters()
        rows, shape = as_rows(X, self.n_features_in_)
        method = preimages.resolve(self.preimage, self.stream_.components.kernel)
        return self.stream_.project(rows.astype(np.float64), method).reshape(shape)
