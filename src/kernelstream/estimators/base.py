"""What estimators share: changed wholly or not at all, written to a file, read back from one."""

from __future__ import annotations

import contextlib
import logging
import numbers
import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import kernelstream
from kernelstream import files
from kernelstream.backends.arrays import Array
from kernelstream.backends.devices import checked_device
from kernelstream.stream.buffer import SingleRows
from kernelstream.stream.stream import Stream

logger = logging.getLogger("kernelstream")


class StoredEstimator(BaseEstimator):
    """An estimator that can be saved: parameters, what was learned, names of the features."""

    #: What is said to those who ask before anything was learned.
    _unfitted = "This %(name)s has not seen any rows yet: call fit, partial_fit or learn_one first."

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file: data only, checksummed, wholly or not at all.

        A loaded model goes on learning bit for bit as this one would.

        Parameters
        ----------
        path : path-like
            The file; one that is there stays until the new one is whole.
        """
        files.save(path, content_of(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Any = None) -> Self:
        """Read a model that was saved by :meth:`save`; ``device`` as in :func:`load`.

        Parameters
        ----------
        path : path-like
            The file.
        device : None, str or torch.device
            Where the model goes on.
        """
        model = load(path, device)
        if not isinstance(model, cls):
            raise ValueError(f"{path} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model

    @abstractmethod
    def _learned_content(self) -> dict[str, Any]:
        """What a file holds beside parameters and names."""

    @abstractmethod
    def _restore(self, content: dict[str, Any], device: Any) -> None:
        """Take over what a file holds."""


class StreamEstimator(StoredEstimator):
    """An estimator that holds a stream."""

    #: Fitted attributes that are not in the stream, but belong into its file.
    _also_saved: tuple[str, ...] = ()

    #: The stream, but for rows that came one by one since it was last set.
    _stream: Stream | None = None

    #: Those rows, if any came.
    _single_rows: SingleRows | None = None

    @property
    def stream_(self) -> Stream:
        """All that was learned, with the rows that wait, as a read-only value."""
        if self._single_rows is not None:
            return self._single_rows.stream
        if self._stream is None:
            require_fitted(self)
        assert self._stream is not None
        return self._stream

    def __sklearn_is_fitted__(self) -> bool:
        return self._stream is not None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.pop("_single_rows", None) is not None:
            state["_stream"] = self.stream_
        return state

    @abstractmethod
    def _new_stream(self, X: Array) -> Stream:
        """Check the parameters and put the chain together."""

    def _learned_content(self) -> dict[str, Any]:
        return {
            "model": self.stream_.for_file(),
            "attributes": tuple((name, getattr(self, name, None)) for name in self._also_saved),
        }

    def _restore(self, content: dict[str, Any], device: Any) -> None:
        stream, attributes = content["model"], dict(content["attributes"])
        self.n_features_in_ = stream.n_features
        if "device" in self.get_params(deep=False):
            self.device = device
        set_stream(self, stream.on(checked_device(device)))
        for name in self._also_saved:
            if attributes.get(name) is not None:
                setattr(self, name, attributes[name])
        self._check_restored()

    def _check_restored(self) -> None:
        """Raise ``ValueError`` where the attributes in a file are not those of its stream."""


def require_fitted(estimator: StoredEstimator) -> None:
    """Raise ``NotFittedError`` in words unless rows were learned."""
    check_is_fitted(estimator, msg=estimator._unfitted)


def set_stream(estimator: StreamEstimator, stream: Stream) -> None:
    """Let an estimator go on from another stream."""
    estimator._stream, estimator._single_rows = stream, None


def report_progress(estimator: Any) -> None:
    """Tell the logger how many rows were seen, where that was asked for."""
    if estimator.verbose:
        logger.info("%s: %d rows seen", type(estimator).__name__, estimator.stream_.n_rows)


def new_stream(estimator: StreamEstimator, X: Array) -> Stream:
    """A stream for rows like X with the parameters of an estimator, which are checked."""
    return estimator._new_stream(X)


@contextlib.contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Undo everything that happened to an estimator when an error is raised.

    Overflow is no warning here: values that are not finite are found and become an error.
    """
    before = dict(vars(estimator))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def content_of(estimator: StoredEstimator) -> dict[str, Any]:
    """What the file of an estimator holds."""
    require_fitted(estimator)
    params = estimator.get_params(deep=False)
    if not isinstance(params["random_state"], numbers.Integral):
        params["random_state"] = None  # the seed that was drawn is part of the stream
    if "device" in params:
        params["device"] = None  # the machine that reads the file may have others
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "estimator": type(estimator).__name__,
        "parameters": tuple(params.items()),
        "feature_names": None if names is None else tuple(map(str, names)),
        **estimator._learned_content(),
    }


def load(path: str | os.PathLike[str], device: Any = None) -> Any:
    """Read a model from a file, without executing anything in it.

    Parameters
    ----------
    path : path-like
        A file written by ``model.save(path)``.
    device : None, str or torch.device
        Where the model goes on, whatever device it was saved on: None is NumPy on the host,
        ``"cuda"`` a GPU.

    Returns
    -------
    StreamingKernelPCA, or whichever estimator was saved
        The model; ``partial_fit`` goes on exactly where it stopped.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> from kernelstream import StreamingKernelPCA, load
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> StreamingKernelPCA(2, random_state=0).fit(X).save(path)
    >>> load(path).transform(X).shape
    (100, 2)
    """
    return build(files.read(path), path, device)[0]


def build(
    file: files.ModelFile, path: str | os.PathLike[str], device: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The estimator in a model file, and all that the file holds."""
    checked_device(device)
    with holding_an_estimator(path):
        kind = class_named(file.tree["estimator"])
    with files.naming(path):
        content = file.values()
    with holding_an_estimator(path):
        estimator = kind(**dict(content["parameters"]))
        estimator._restore(content, device)
        names = content["feature_names"]
        require_names(names, estimator.n_features_in_)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator, content


def require_names(names: Any, n_features: int) -> None:
    """Raise unless there are no names, or one for each feature."""
    if names is None:
        return
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("names of features that are no texts")
    if len(names) != n_features:
        raise ValueError(f"{len(names)} names of {n_features} features")


@contextlib.contextmanager
def holding_an_estimator(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say that a file holds none where its content is not that of one."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"Cannot load {path}: it holds no estimator ({problem!r}).") from problem


def class_named(name: str) -> type[StoredEstimator]:
    """The estimator of that name among the public ones, which are imported as they are used."""
    home = kernelstream if name in kernelstream.__all__ else kernelstream.images
    kind = getattr(home, name)
    if not (isinstance(kind, type) and issubclass(kind, StoredEstimator)):
        raise KeyError(name)
    return kind
