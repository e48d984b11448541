"""river adapters: ``learn_one``, ``transform_one``, ``score_one`` on rows that are dictionaries.

river hands every row over as a dictionary and asks two things of a part: ``learn_one(x)`` and
``transform_one(x)``, or ``score_one(x)`` of a detector of anomalies. Its pipelines tell parts apart
by their classes, so these derive from river's where river is installed. Without it they work all
the same, on any dictionaries.

A dictionary has no order and may lack a feature; a model has columns. The first row decides which
columns there are; they are in alphabetical order, so that the same rows give the same model however
they were written down. What a later row lacks or adds is an error that names it, unless a number
for missing values was given or additional features are to be ignored.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelstream.anomaly import KernelNovelty
from kernelstream.estimators import StreamingKernelPCA, Transactional
from kernelstream.regression import StreamingKernelClassifier, StreamingKernelRidge
from kernelstream.serialization import check_choice

try:
    from river.base import Transformer

    try:
        from river.base import AnomalyDetector
    except ImportError:  # before river 0.26
        from river.anomaly.base import AnomalyDetector
except ModuleNotFoundError:
    AnomalyDetector = Transformer = object

GROWTH = 4  # a look is due when a quarter more rows have been learned


class OnDictionaries(Transactional):
    """What the parts for river share: rows from dictionaries, and looks at the model.

    Components are computed when they are asked for, which after every single row would cost
    milliseconds. So answers come from a look at the model that is taken again when a quarter more
    rows have been learned, at the latest after ``refresh`` more. When that is depends on the rows
    alone: neither a query nor the way they are cut into calls changes anything.
    """

    _models: tuple[type, ...] = (StreamingKernelPCA,)  # that the part works with

    def __init__(
        self,
        model: Any = None,
        missing: float | None = None,
        extra: str = "raise",
        refresh: int = 500,
    ):
        model = StreamingKernelPCA(2) if model is None else model
        _check_model(model, self._models)
        if missing is not None and not _is_number(missing):
            raise ValueError(f"missing must be a finite number or None; got {missing!r}.")
        check_choice("extra", extra, ("raise", "ignore"))
        if isinstance(refresh, bool) or not isinstance(refresh, int | np.integer) or refresh < 1:
            raise ValueError(f"refresh must be a positive integer; got {refresh!r}.")
        self.missing = missing
        self.extra = extra
        self.refresh = refresh
        #: As it was given, but never learning: river copies parameters to make a fresh part.
        self.model = clone(model)
        self._learning = clone(model)
        self._features: tuple[Hashable, ...] | None = None
        self._looked: Any = None
        self._next_look = 1
        if model.__sklearn_is_fitted__():
            if not hasattr(model, "feature_names_in_"):
                raise ValueError(
                    f"This {type(model).__name__} was learned from rows without names, so nobody "
                    "knows which feature of a dictionary belongs into which column. Learn from "
                    "dictionaries or data frames, or give a model that has not learned."
                )
            self._learning = copy.deepcopy(model)
            self._features = tuple(model.feature_names_in_)
            del self._learning.feature_names_in_  # rows come as arrays from here on
            self._look()

    @property
    def estimator(self) -> Any:
        """A copy of the model as it is now, with the names of the features: query it, save it."""
        with self._turn():
            model, features = copy.deepcopy(self._learning), self._features or ()
        if features and all(isinstance(name, str) for name in features):
            model.feature_names_in_ = np.array(features, dtype=object)
        return model

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict
            A finite number for each feature. The first row decides which features there are.
        """
        features = self._features_of(x)
        row = self._row(x, features)
        with self._turn():
            before = copy.copy(self._learning)
            try:
                with self.transaction() as draft:
                    draft._features = features
                    draft._learning.learn_one(row)
                    if draft._n_learned() == draft._next_look:
                        draft._look()
            except BaseException:
                self._learning = before
                raise

    def _n_learned(self) -> int:
        model = self._learning
        return model.n_samples_seen_ if model.__sklearn_is_fitted__() else 0

    def _look(self) -> None:
        self._looked = copy.deepcopy(self._learning)
        if isinstance(self._looked, StreamingKernelPCA):
            self._looked.set_output(transform="default")
        n = self._n_learned()
        self._next_look = n + max(1, min(n // GROWTH, self.refresh))

    def _features_of(self, x: Any) -> tuple[Hashable, ...]:
        """The features in their order: those of the first row, sorted."""
        if not isinstance(x, Mapping):
            raise TypeError(
                f"A row must be a dictionary of features, got {type(x).__name__}. For arrays use "
                "the model itself."
            )
        if self._features is not None:
            return self._features
        if not x:
            raise ValueError("The first row has no features: it decides which ones there are.")
        try:
            return tuple(sorted(x))
        except TypeError:  # names of several kinds
            return tuple(sorted(x, key=lambda name: (type(name).__name__, str(name))))

    def _row(self, x: Mapping[Any, Any], features: tuple[Hashable, ...]) -> np.ndarray:
        """The numbers of a row in the order of the features, or an error that names a feature."""
        row = np.empty(len(features))
        found = 0
        for i, name in enumerate(features):
            value = x.get(name)
            found += name in x
            if _is_missing(value):
                if self.missing is None:
                    raise ValueError(
                        f"The row has no value for the feature {name!r}. Put an imputer before "
                        "(river.preprocessing.StatImputer), or give a number for it: missing=0.0."
                    )
                value = self.missing
            if not _is_number(value):
                raise ValueError(
                    f"The feature {name!r} is {value!r}; a finite number is expected. Encode or "
                    "select features before (river.preprocessing.OneHotEncoder, "
                    "river.compose.Select)."
                )
            row[i] = value
        if found < len(x) and self.extra == "raise":
            new = [name for name in x if name not in features]
            raise ValueError(
                f"The row has features that the first row did not have: {_listed(new)}. Select "
                "features before (river.compose.Select), or ignore them: extra='ignore'."
            )
        return row


class KernelComponents(OnDictionaries, Transformer):
    """Kernel PCA as a transformer of a river pipeline.

    Parameters
    ----------
    model : StreamingKernelPCA or an estimator of a paper, optional
        Two components with the defaults, if none is given. One that has learned from rows with
        names goes on from there; one that has not is the pattern of a fresh model.
    missing : float or None
        What stands for a value that is absent, None or NaN; with None such a row is an error.
    extra : "raise" or "ignore"
        What to do with features that the first row did not have.
    refresh : int
        Rows after which components are computed anew, at the latest; 1 keeps them current and is
        slow.

    Notes
    -----
    Before the first row all scores are zero, as river expects it of its parts (where
    ``n_components`` is a share or None, the dictionary is empty). A scaler before it changes with
    every row, so the first rows are scaled otherwise than later ones; ``scale="standard"`` of the
    model itself is frozen after the start.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.integrations.river import KernelComponents
    >>> part = KernelComponents(StreamingKernelPCA(2, gamma=0.5, basis=20, random_state=0))
    >>> for a, b in np.random.default_rng(0).normal(size=(300, 2)):
    ...     part.learn_one({"a": a, "b": b})
    >>> sorted(part.transform_one({"b": 0.1, "a": -0.3}))
    ['streamingkernelpca0', 'streamingkernelpca1']

    In a pipeline: ``river.preprocessing.StandardScaler() | KernelComponents(model) | …``.
    """

    def transform_one(self, x: Mapping[Any, Any]) -> dict[str, float]:
        """Scores of one row, by the names of the components.

        Parameters
        ----------
        x : dict

        Returns
        -------
        dict
        """
        row = self._row(x, self._features_of(x))
        looked = self._looked
        if looked is None:
            return dict.fromkeys(self._names_before(), 0.0)
        scores = looked.transform(row[None, :])[0]
        return dict(zip(_names(looked, len(scores)), scores.tolist(), strict=True))

    def _names_before(self) -> list[str]:
        """Names of the components before the first row, where their number is known."""
        r = self.model.n_components
        known = isinstance(r, int | np.integer) and not isinstance(r, bool)
        return _names(self.model, int(r)) if known else []


class NoveltyDetector(OnDictionaries, AnomalyDetector):
    """The error of kernel PCA as a detector of anomalies for river.

    Parameters
    ----------
    model : kernelstream.KernelNovelty, StreamingKernelPCA or an estimator of a paper
        :class:`kernelstream.KernelNovelty` holds rows back and knows p-values; of the others the
        score is the reconstruction error. ``StreamingKernelPCA(2)`` if none is given.
    missing : float or None
        What stands for a value that is absent, None or NaN.
    extra : "raise" or "ignore"
        What to do with features that the first row did not have.
    refresh : int
        Rows after which the model is looked at anew, at the latest.

    Notes
    -----
    The score is the squared distance in feature space between a row and the model: between 0 and 1
    for kernels with ``k(x, x) = 1``. Before the first row it is 0. In river's loops a row is scored
    before it is learned, so a limit from earlier scores (``river.anomaly.QuantileFilter``) is an
    honest one. :class:`kernelstream.KernelMonitor` has a limit of its own, follows drift and names
    causes.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.integrations.river import NoveltyDetector
    >>> detector = NoveltyDetector(StreamingKernelPCA(5, gamma=0.5, basis=30, random_state=0))
    >>> for a in np.random.default_rng(0).normal(size=300):
    ...     detector.learn_one({"a": a, "b": a**2})
    >>> detector.score_one({"a": 1.0, "b": 1.0}) < 0.2 < detector.score_one({"a": 1.0, "b": -3.0})
    True
    """

    _models = (StreamingKernelPCA, KernelNovelty)

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """How strange one row is: its reconstruction error.

        Parameters
        ----------
        x : dict

        Returns
        -------
        float
        """
        row = self._row(x, self._features_of(x))
        looked = self._looked
        if looked is None:
            return 0.0
        if isinstance(looked, KernelNovelty):
            return -float(looked.score_samples(row[None, :])[0])
        return float(looked.reconstruction_error(row[None, :])[0])

    def p_value_one(self, x: Mapping[Any, Any]) -> float:
        """Share of rows like those learned that are at least as strange, 1 before there are any.

        Parameters
        ----------
        x : dict

        Returns
        -------
        float
        """
        if not isinstance(self.model, KernelNovelty):
            raise TypeError(
                f"{type(self.model).__name__} holds no rows back, so that there are no p-values: "
                "give a kernelstream.KernelNovelty as model."
            )
        row = self._row(x, self._features_of(x))
        looked = self._looked
        if looked is None or not looked.n_held_back_:
            return 1.0
        return float(looked.p_values(row[None, :])[0])


def _check_model(model: Any, models: tuple[type, ...]) -> None:
    if isinstance(model, StreamingKernelRidge | StreamingKernelClassifier):
        raise TypeError(
            f"{type(model).__name__} learns targets: use river.compat.convert_sklearn_to_river."
        )
    if not isinstance(model, models):
        names = ", a ".join(each.__name__ for each in models)
        raise TypeError(
            f"model must be a {names} or an estimator of a paper, got {type(model).__name__}."
        )


def _is_missing(value: Any) -> bool:
    """None, NaN of any type, or what pandas has in their place."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ == "NAType"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | np.bool_) and math.isfinite(value)


def _listed(names: list[Any], most: int = 5) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _names(model: Any, n: int) -> list[str]:
    """Names of components, those of ``get_feature_names_out``."""
    return [f"{type(model).__name__.lower()}{i}" for i in range(n)]
