"""Base classes of estimators: transactions, thread safety, save, load, pickling.

One thread may learn while others ask. Who learns works on a draft, which becomes the estimator in
one step; who asks looks at the estimator as it was at one moment. So an answer is that of the model
before or after a call, and an error or an interrupt leaves the model of before. Several threads
that learn take turns.
"""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import kernelstream
from kernelstream import serialization
from kernelstream.arrays import progress
from kernelstream.arrays.devices import checked_device
from kernelstream.arrays.namespaces import Array
from kernelstream.estimators import inputs
from kernelstream.serialization.part import checked_seed
from kernelstream.stream.state import Buffer, Rows
from kernelstream.stream.stream import Stream

Model = TypeVar("Model", bound="StoredEstimator")
P = ParamSpec("P")
Answer = TypeVar("Answer")

# Whose turn it is to learn. Beside the estimators and not in them: a lock can be neither copied nor
# pickled, and is no part of what was learned.
_turns: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_turns_lock = threading.Lock()


def _forget_turns() -> None:
    """After a fork the threads that had their turn are gone, and would never end it."""
    global _turns_lock
    _turns_lock = threading.Lock()
    _turns.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns)


def at_one_moment(
    query: Callable[Concatenate[Model, P], Answer],
) -> Callable[Concatenate[Model, P], Answer]:
    """A query that sees one and the same model from beginning to end, whatever others learn.

    Parameters
    ----------
    query : callable
        Method of an estimator that reads the model.

    Returns
    -------
    callable
        The method, which is evaluated on a snapshot of the estimator.
    """

    @functools.wraps(query)
    def asked(self: Model, /, *arguments: P.args, **options: P.kwargs) -> Answer:
        return query(self._as_it_is(), *arguments, **options)

    return asked


class Transactional:
    """An object that is changed wholly or not at all, by one thread at a time."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """A draft of this object, which becomes the object in one step unless an error is raised.

        Until then nothing happens to the object: other threads go on to see what was there before.
        Overflow is no warning here: values that are not finite are found and become an error.

        Yields
        ------
        The draft.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(70, 3))
        >>> model = StreamingKernelPCA(2, gamma=0.1).partial_fit(X)
        >>> try:
        ...     with model.transaction() as draft:
        ...         draft.partial_fit(X).partial_fit([["a", "b", "c"]])
        ... except ValueError:
        ...     print(model.n_samples_seen_)
        70
        """
        with self._turn():
            draft = self._as_it_is()
            before = dict(vars(draft))
            with np.errstate(over="ignore", invalid="ignore"):
                yield draft
            after = vars(draft)
            # What others did meanwhile, set_params say, stays.
            kept = {n: v for n, v in vars(self).items() if n in after or n not in before}
            changed = {n: v for n, v in after.items() if n not in before or v is not before[n]}
            self.__dict__ = kept | changed

    def _as_it_is(self) -> Self:
        """A copy that shares all values: what is learned later does not reach it."""
        view = object.__new__(type(self))
        view.__dict__.update(vars(self))
        return view

    def _turn(self) -> threading.RLock:
        """The lock that threads hold while they change this object."""
        with _turns_lock:
            return _turns.setdefault(self, threading.RLock())


class StoredEstimator(Transactional, BaseEstimator):
    """An estimator that can be saved: parameters, what was learned, names of the features."""

    #: What is said to those who ask before anything was learned.
    _unfitted = "This %(name)s has not seen any rows yet: call fit, partial_fit or learn_one first."

    @at_one_moment
    def save(self, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
        """Write the model to a file: data only, checksummed, wholly or not at all.

        A loaded model goes on learning bit for bit as this one would.

        Parameters
        ----------
        path : path-like
            The file; one that is there stays until the new one is whole.
        extra : dict of str, optional
            Further entries of the file, such as the place in its source that a run has come to.
        """
        require_stored(type(self))
        serialization.save(path, {**self._content(), **(extra or {})})

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

    @property
    def is_between_passes(self) -> bool:
        """Whether only the first of two passes was made, so that there are no components yet."""
        return False

    def _require_fitted(self) -> None:
        """Raise ``NotFittedError`` in words unless rows were learned."""
        check_is_fitted(self, msg=self._unfitted)

    def _seed(self) -> int:
        """The seed of all draws: ``random_state`` if it is an integer, else a drawn one."""
        return checked_seed(self.random_state)

    def _content(self) -> dict[str, Any]:
        """What the file of this estimator holds."""
        self._require_fitted()
        params = self.get_params(deep=False)
        if not isinstance(params["random_state"], numbers.Integral):
            params["random_state"] = None  # the seed that was drawn is part of the stream
        if "device" in params:
            params["device"] = None  # the machine that reads the file may have others
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": require_stored(type(self)),
            "parameters": tuple(params.items()),
            "feature_names": None if names is None else tuple(map(str, names)),
            **self._learned_content(),
        }

    @staticmethod
    def from_file(
        file: serialization.ModelFile, path: str | os.PathLike[str], device: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the estimator in a model file, whatever its class, and all values of the file.

        Parameters
        ----------
        file : ModelFile
            The file.
        path : path-like
            Its name, for messages.
        device : None, str or torch.device
            As in :func:`load`.
        """
        checked_device(device)
        with holding_an_estimator(path):
            import_classes(file.names)
            kind = class_named(file.tree["estimator"])
        with serialization.naming(path):
            content = file.values()
        with holding_an_estimator(path):
            return kind.from_content(content, device), content

    @classmethod
    def from_content(cls, content: dict[str, Any], device: Any = None) -> Self:
        """The estimator that a file holds; a content that is not of this class raises an error.

        ``StoredEstimator.from_content`` takes the content of any estimator.

        Parameters
        ----------
        content : dict
            The values in the file.
        device : None, str or torch.device
            As in :func:`load`.
        """
        if cls is StoredEstimator:
            return cast(Self, class_named(content["estimator"]).from_content(content, device))
        estimator = cls(**dict(content["parameters"]))
        estimator._restore(content, device)
        names = content["feature_names"]
        if names is not None:
            if len(names) != estimator.n_features_in_ or {*map(type, names)} != {str}:
                raise ValueError(f"the names {names} of {estimator.n_features_in_} features")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return estimator

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

    _stream: Stream | None = None

    @property
    def stream_(self) -> Stream:
        """All that was learned, including buffered rows, as a read-only value."""
        stream = self._stream  # once: another thread may assign another one
        if stream is None:
            self._require_fitted()
        assert stream is not None
        return stream

    @property
    def is_between_passes(self) -> bool:
        """Whether only the first of two passes was made, so that there are no components yet."""
        return self._stream is not None and bool(self._stream.chain.only_points)

    def __sklearn_is_fitted__(self) -> bool:
        return self._stream is not None

    def clear_buffer(self) -> Self:
        """Drop the buffered rows of the unfinished block.

        This is the way out if a kernel function of your own fails on them, so that the model can
        neither learn nor answer. All completed blocks stay learned.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import StreamingKernelPCA
        >>> X = np.random.default_rng(0).normal(size=(70, 3))
        >>> model = StreamingKernelPCA(2, gamma=0.1, basis="everything", batch_size=64)
        >>> model.partial_fit(X).clear_buffer().n_samples_seen_
        64
        """
        with self.transaction() as draft:
            stream = draft.stream_
            if stream.state is None or not stream.state.n_rows:
                draft._stream = None
            else:
                draft.set_stream(replace(stream, waiting=Buffer()))
        return self

    @abstractmethod
    def new_stream(self, X: Array) -> Stream:
        """A stream for rows like X with the parameters of this estimator, which are checked.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows that determine the number of columns, the data type and the device of the stream.

        Returns
        -------
        Stream
            A stream without rows.
        """

    def set_stream(self, stream: Stream) -> None:
        """Let this estimator go on from another stream.

        Parameters
        ----------
        stream : Stream
            The stream that replaces the present one.
        """
        self._stream = stream

    # -- rows

    def _rows_to_learn(
        self,
        X: Any,
        sample_weight: Any,
        on_bad_rows: str = "error",
        targets: np.ndarray | None = None,
        anew: bool = False,
    ) -> tuple[Rows, Stream | None]:
        """The next rows, checked, and the stream that they continue; None if they begin one.

        ``anew`` says that they are all rows, and that what was learned before is forgotten.
        """
        stream = None if anew else self._stream
        if stream is not None:
            return inputs.check_rows(stream, X, sample_weight, targets, self, on_bad_rows), stream
        rows = inputs.first_rows(self, X, sample_weight, on_bad_rows, targets)
        if anew and not len(rows):
            raise ValueError(inputs.NO_WEIGHT)
        return rows, None

    def check_rows(self, X: Any) -> Array:
        """The rows of a query: finite numbers, as many features as were learned, the same names.

        Parameters
        ----------
        X : array of shape (n, d), dense or CSR, or data frame
            Rows in the units of the data.

        Returns
        -------
        array of shape (n, d)
            The rows, for functions of :class:`~kernelstream.stream.Stream`.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelstream import KernelNovelty
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = KernelNovelty(basis=20, random_state=0).fit(X)
        >>> stream = model.stream_
        >>> stream.query(stream.components.scores, model.check_rows(X[:5])).shape
        (5, 20)
        """
        return inputs.query_rows(self.stream_, X, self)

    def _query(self, function: Callable[[Array], Array], X: Any) -> Array:
        """Apply a function of rows, as the kernel sees them, to the rows of a query."""
        return self.stream_.query(function, self.check_rows(X))

    def report_progress(self) -> None:
        """Tell how many rows were seen, where that was asked for."""
        if self.verbose and self.__sklearn_is_fitted__():
            progress.say(f"{type(self).__name__}: {self.stream_.n_rows} rows seen")

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
        self.set_stream(stream.on(checked_device(device)))
        for name in self._also_saved:
            if attributes.get(name) is not None:
                setattr(self, name, attributes[name])
        self._check_restored()

    def _check_restored(self) -> None:
        """Raise ``ValueError`` where the attributes in a file are not those of its stream."""


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
    model = StoredEstimator.from_file(serialization.ModelFile.read(path), path, device)[0]
    if model.is_between_passes:
        raise ValueError(
            f"{path} is a checkpoint of the first of two passes, which looks for points: it has no "
            "components yet. The fit that wrote it goes on from there."
        )
    return model


@contextlib.contextmanager
def holding_an_estimator(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say that a file holds none where its content is not that of one."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"Cannot load {path}: it holds no estimator ({problem!r}).") from problem


def import_classes(names: set[str]) -> None:
    """Import applications until all classes of these names in files are there, or no more is left.

    Parameters
    ----------
    names : set of str
        Names as :func:`kernelstream.serialization.stored` registers them.
    """
    for application in kernelstream.STORED_IN:
        if names <= serialization.STORED.keys():
            return
        getattr(kernelstream, application)


def class_named(name: str) -> type[StoredEstimator]:
    """The estimator that has this name in files."""
    import_classes({name})
    kind = serialization.STORED.get(name)
    if kind is None or not issubclass(kind, StoredEstimator):
        raise KeyError(name)
    return kind


def require_stored(kind: type[StoredEstimator]) -> str:
    """The name of a class of estimators in files; a class that is not stored raises an error."""
    name = serialization.stored_name(kind)
    if serialization.STORED.get(name) is not kind:
        raise ValueError(
            f"A {name} cannot be saved: a model file holds estimators of kernelstream, and this "
            f"is the class {kind.__module__}.{kind.__qualname__}. Pickle the model (which only "
            "your own code should load), or let your class hold an estimator and save that one."
        )
    return name
