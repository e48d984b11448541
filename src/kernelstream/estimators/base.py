"""Estimators that hold a stream: fitted or not, changed wholly or not at all, saved and loaded."""

from __future__ import annotations

import contextlib
import numbers
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from kernelstream import files as storage
from kernelstream.backends.devices import checked_device
from kernelstream.stream.buffer import Inbox
from kernelstream.stream.state import Model


class OnStream(BaseEstimator):
    """An estimator that holds a stream: fitted or not, changed wholly or not at all, a file."""

    #: Fitted attributes that are not in the model, but belong into its file.
    _also_saved: tuple[str, ...] = ()

    #: Rows that came one by one since the model was last set, if any did.
    _inbox: Inbox | None = None

    @property
    def _model(self) -> Model:
        """The stream with all its rows."""
        if self._inbox is not None:
            return self._inbox.model
        try:
            return self.__dict__["_model"]
        except KeyError:
            raise AttributeError("_model") from None

    @_model.setter
    def _model(self, model: Model) -> None:
        self.__dict__["_model"] = model
        self.__dict__.pop("_inbox", None)  # its rows joined another model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.pop("_inbox", None) is not None:
            state["_model"] = self._model
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file: data only, checksummed, wholly or not at all.

        A loaded model goes on learning bit for bit as this one would.

        Parameters
        ----------
        path : path-like
            The file; one that is there stays until the new one is whole.
        """
        storage.save(path, self._content())

    def _content(self) -> dict[str, Any]:
        """What a model file holds."""
        self._view_exists()
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], numbers.Integral):
            params["random_state"] = None  # the seed that was drawn is part of the model
        if "device" in params:
            params["device"] = None  # the machine that reads the file may have others
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "parameters": tuple(params.items()),
            "feature_names": None if names is None else tuple(map(str, names)),
            "model": replace(self._model, device=None),
            "attributes": tuple((name, getattr(self, name, None)) for name in self._also_saved),
        }

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

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def _is_fitted(self) -> bool:
        return self.__dict__.get("_model") is not None

    def _view_exists(self) -> None:
        if not self._is_fitted():
            raise NotFittedError(
                f"This {type(self).__name__} has not seen any rows yet: call fit, partial_fit or "
                "learn_one first."
            )

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo everything when an error is raised.

        Overflow is no warning here: values that are not finite are found and become an error.
        """
        before = dict(self.__dict__)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


def descendants(cls: type[OnStream]) -> list[type[OnStream]]:
    """All estimators that are built on this one."""
    found: list[type[OnStream]] = []
    for child in cls.__subclasses__():
        found += [child, *descendants(child)]
    return found


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
    return from_content(storage.load(path), path, device)


def from_content(content: dict[str, Any], path: str | os.PathLike[str], device: Any = None) -> Any:
    """The estimator in the content of a model file; ``path`` is for the error message."""
    try:
        name = content["estimator"]
        storage.import_estimator(name)
        if name in storage.READERS:
            return storage.READERS[name](content)
        family: dict[str, Any] = {c.__name__: c for c in descendants(OnStream)}
        estimator = family[name](**dict(content["parameters"]))
        model, names = content["model"], content["feature_names"]
        attributes = dict(content["attributes"])
        estimator.n_features_in_ = model.n_features
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"Cannot load {path}: it holds no estimator ({problem!r}).") from problem
    if "device" in estimator.get_params(deep=False):
        estimator.device = device
    estimator._model = model.on(checked_device(device))
    for name in estimator._also_saved:
        if attributes.get(name) is not None:
            setattr(estimator, name, attributes[name])
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator
