"""Table model: an estimator with the encoder of its tables; fit, update, predict, save."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from kernelstream.estimators import (
    KernelEstimator,
    Passes,
    StoredEstimator,
)
from kernelstream.serialization import check_choice, stored
from kernelstream.tables.encoder import TableEncoder
from kernelstream.tables.run import fit_files, prepare
from kernelstream.tables.schema import Schema, few
from kernelstream.tables.source import Source


def has(name: str) -> Callable[[TableModel], bool]:
    """Whether the estimator of a model has a method."""

    def check(model: TableModel) -> bool:
        return hasattr(getattr(model, "estimator_", model.estimator), name)

    return check


def on_encoded_rows(name: str) -> Any:
    """A method of the estimator, applied to the encoded rows of a table."""

    def method(self: TableModel, X: Any, *arguments: Any, **options: Any) -> Any:
        return self._ask(name, X, *arguments, **options)

    method.__name__, method.__qualname__ = name, f"TableModel.{name}"
    method.__doc__ = f"""``{name}`` of the estimator, for the encoded rows of a table.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table, with all columns that were learned.
        *arguments, **options
            Further arguments of ``{name}``.
        """
    return available_if(has(name))(method)


@stored
class TableModel(StoredEstimator):
    """An estimator for tables: files, and frames with words, dates and missing values.

    The first table decides how its columns are encoded (:class:`TableEncoder`); the estimator
    learns the encoded rows. Columns of later tables are found by name: they may have another order,
    and there may be more of them.

    Parameters
    ----------
    estimator : estimator
        Such as :class:`kernelstream.StreamingKernelPCA` or a detector. It is cloned.
    encoder : TableEncoder, default=None
        How columns are encoded; None is ``TableEncoder()``. It is cloned.

    Attributes
    ----------
    estimator_ : estimator
        The estimator, which has learned encoded rows.
    encoder_ : TableEncoder
        The encoder with the schema of the tables, ``encoder_.schema_``.
    feature_names_in_ : array of str
        The columns that are encoded.
    n_features_in_ : int
        Number of columns that are encoded.

    See Also
    --------
    TableEncoder : The encoder alone, as a step of a pipeline.

    Notes
    -----
    Estimators of this library fill missing values from the other columns of a row, by what the
    model expects there; for other estimators the encoder fills them with column means.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from kernelstream import StreamingKernelPCA
    >>> from kernelstream.tables import TableModel
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"temp": rng.normal(20, 5, 400), "state": ["on", "off"] * 200})
    >>> model = TableModel(StreamingKernelPCA(2, scale="auto", random_state=0)).fit(frame)
    >>> model.encoder_.schema_.features
    ('temp', 'state')
    >>> model.transform(frame[:3]).shape
    (3, 2)
    """

    _unfitted = "This %(name)s has not seen any rows yet: call fit or partial_fit first."

    def __init__(self, estimator: Any, encoder: TableEncoder | None = None):
        self.estimator = estimator
        self.encoder = encoder

    @classmethod
    def of(cls, estimator: Any, schema: Schema | None = None) -> TableModel:
        """A model around an estimator as it is, which learned rows with a schema.

        Parameters
        ----------
        estimator : KernelEstimator
            The estimator; it may have learned rows before.
        schema : Schema, default=None
            How its rows were encoded; None: columns of numbers, with the names that it knows.
        """
        model = cls(clone(estimator))
        model.estimator_ = estimator
        model.encoder_ = TableEncoder.of(plain_schema(estimator) if schema is None else schema)
        vars(estimator).pop("feature_names_in_", None)  # the schema has the names
        return model

    # -- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        on_bad_rows: str = "error",
        until: float | None = None,
        checkpoint: Any = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Learn all rows of a table, forgetting what was learned before.

        Parameters
        ----------
        X : data frame, Arrow table, array, path, Source, lazy frame or iterator
            The table. Files (``"day*.parquet"``, or a :class:`Source`), lazy frames of polars and
            datasets of Arrow are read twice and never held in memory; an iterator of tables is
            read once.
        y : array of shape (n,) or str, default=None
            Targets for an estimator that predicts; of files, the name of their column.
        sample_weight : array of shape (n,), default=None
            Non-negative weights of the rows of a table in memory.
        on_bad_rows : {"error", "skip"}, default="error"
            What happens to a row with a value that is not of its column's type.
        until : float, default=None
            As in :meth:`kernelstream.StreamingKernelPCA.fit`.
        checkpoint : path-like, default=None
            Of files: save the run here regularly, and resume it if the file exists.
        checkpoint_every : float, default=60
            Seconds between two checkpoints.

        Returns
        -------
        self
        """
        check_choice("on_bad_rows", on_bad_rows, ("error", "skip"))
        if checkpoint is not None and not is_files(X):
            raise ValueError("A checkpoint is for files: other rows cannot be read from a place.")
        options = {} if until is None else {"until": until}
        with self.transaction() as draft:
            draft._forget()
            if is_files(X):
                source = draft._source(X, y, sample_weight, on_bad_rows)
                fit_files(draft, source, checkpoint, checkpoint_every, until)
            elif (blocks := Passes.blocks_of(X)) is not None:
                draft._fit_blocks(blocks, y, sample_weight, options)
            else:
                draft._learn("fit", X, y, sample_weight, on_bad_rows, options)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        on_bad_rows: str = "error",
        **options: Any,
    ) -> Self:
        """Learn the next rows of a stream of tables.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The rows. A rejected table leaves the model as it was.
        y : array of shape (n,), default=None
            Targets for an estimator that predicts.
        sample_weight : array of shape (n,), default=None
            Non-negative weights.
        on_bad_rows : {"error", "skip"}, default="error"
            What happens to a row with a value that is not of its column's type.
        **options : dict
            Further arguments of ``partial_fit`` of the estimator.

        Returns
        -------
        self
        """
        check_choice("on_bad_rows", on_bad_rows, ("error", "skip"))
        with self.transaction() as draft:
            if not draft.__sklearn_is_fitted__():
                draft._learn("partial_fit", X, y, sample_weight, on_bad_rows, options)
            else:
                rows, y, sample_weight = draft._rows(X, y, sample_weight, on_bad_rows)
                learn(draft.estimator_.partial_fit, rows, y, sample_weight, options)
        return self

    def _learn(
        self,
        method: str,
        X: Any,
        y: Any,
        sample_weight: Any,
        on_bad_rows: str,
        options: dict[str, Any],
    ) -> None:
        """Begin with a table in memory: infer its schema, then fit or partial_fit its rows."""
        encoder = self.new_encoder()
        self.encoder_ = encoder.fit(X) if method == "fit" else encoder.partial_fit(X)
        rows = self.encoder_.split(X, on_bad_rows)[0]
        self.begin(bool(np.isnan(rows).any()))
        rows, y, sample_weight = self._rows(X, y, sample_weight, on_bad_rows)
        learn(getattr(self.estimator_, method), rows, y, sample_weight, options)

    def _fit_blocks(self, tables: Any, y: Any, sample_weight: Any, options: dict[str, Any]) -> None:
        """Begin with the first of many tables, whose columns show the schema of all."""
        if y is not None or sample_weight is not None:
            raise ValueError("Targets and weights go with a table in memory, or with files.")
        read, first = first_of(tables)
        table, _ = rows_and_weights(first)
        self.encoder_ = self.new_encoder().partial_fit(table)
        self.begin(bool(np.isnan(self.encoder_.split(table)[0]).any()))
        blocks: Any = (
            (lambda: map(self._block, read())) if callable(read) else map(self._block, read)
        )
        learn(self.estimator_.fit, blocks, None, None, options)

    def _block(self, block: Any) -> tuple[np.ndarray, Any]:
        table, weights = rows_and_weights(block)
        rows, _, weights = self._rows(table, None, weights, "error")
        return rows, weights

    def _source(self, X: Any, y: Any, sample_weight: Any, on_bad_rows: str) -> Source:
        """Files whose columns are understood by a uniform sample of all rows."""
        if sample_weight is not None:
            raise ValueError("Weights of files are a column of theirs: Source(weight_column=...).")
        if not (y is None or isinstance(y, str)):
            raise ValueError("The target of files is a column of theirs: give its name as y.")
        if isinstance(X, Source):
            return X
        options = self.new_encoder().schema_options()
        return Source(X, schema=options, target=y, on_bad_rows=on_bad_rows)

    def _forget(self) -> None:
        for name in ("estimator_", "encoder_"):
            self.__dict__.pop(name, None)

    # -- queries

    @available_if(has("transform"))
    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit, then transform the same table.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table.
        y : array of shape (n,), default=None
            Targets for an estimator that predicts.
        **options : dict
            Further arguments of :meth:`fit`.
        """
        return self.fit(X, y, **options).transform(X)

    def encode(self, X: Any) -> np.ndarray:
        """Encoded rows of a table, as the estimator takes them.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table, with all columns that were learned.

        Returns
        -------
        array of shape (n, n_features)
        """
        self._require_fitted()
        return self._rows(X, None, None, "error")[0]

    transform = on_encoded_rows("transform")
    predict = on_encoded_rows("predict")
    predict_proba = on_encoded_rows("predict_proba")
    decision_function = on_encoded_rows("decision_function")
    score_samples = on_encoded_rows("score_samples")
    score = on_encoded_rows("score")
    p_values = on_encoded_rows("p_values")
    reconstruction_error = on_encoded_rows("reconstruction_error")

    @available_if(has("inverse_transform"))
    def inverse_transform(self, Z: Any) -> pa.Table:
        """Tables whose encoded rows have these scores.

        Parameters
        ----------
        Z : array of shape (n, r)
            Scores.
        """
        model = self._at_present()
        return model.encoder_.inverse_transform(model.estimator_.inverse_transform(Z))

    @available_if(has("explain"))
    def explain(self, X: Any, n_columns: int = 3) -> Any:
        """``explain`` of the estimator on encoded rows, with the names of encoded columns.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table.
        n_columns : int, default=3
            At most this many columns per row.
        """
        names = self._names()
        return self._ask("explain", X, n_columns=n_columns, feature_names=names)

    @available_if(has("explain_components"))
    def explain_components(self, X: Any = None, n_columns: int = 3) -> Any:
        """``explain_components`` of the estimator, with the names of encoded columns.

        Parameters
        ----------
        X : data frame, Arrow table or array, default=None
            Rows over which effects are averaged; None: those that the model has kept.
        n_columns : int, default=3
            How many columns to name for each component.
        """
        model = self._at_present()
        rows = None if X is None else model.encode(X)
        return model.estimator_.explain_components(rows, n_columns, self._names())

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of ``transform``, as in scikit-learn.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            The container.
        """
        for estimator in (self.estimator, vars(self).get("estimator_")):
            if estimator is not None:
                estimator.set_output(transform=transform)
        return self

    @available_if(has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the outputs of the estimator.

        Parameters
        ----------
        input_features : ignored
        """
        return np.asarray(self._at_present().estimator_.get_feature_names_out())

    # -- models

    @available_if(has("merge"))
    def merge(self, other: TableModel) -> TableModel:
        """A new model of the rows that both have seen.

        Parameters
        ----------
        other : TableModel
            A model with the same columns, encoded the same way. Neither of the two is changed.
        """
        if not isinstance(other, TableModel):
            raise TypeError(f"A TableModel merges with another one; got {type(other).__name__}.")
        ours, theirs = self._at_present(), other._at_present()
        require_same(ours.encoder_.schema_, theirs.encoder_.schema_)
        return ours._around(ours.estimator_.merge(theirs.estimator_))

    @available_if(has("compress"))
    def compress(self, n_points: int) -> TableModel:
        """A new model with fewer landmarks.

        Parameters
        ----------
        n_points : int
            Number of landmarks, as in :meth:`kernelstream.StreamingKernelPCA.compress`.
        """
        model = self._at_present()
        return model._around(model.estimator_.compress(n_points))

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns that are encoded."""
        return np.asarray(self._at_present().encoder_.feature_names_in_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns that are encoded."""
        return int(self._at_present().encoder_.n_features_in_)

    # -- for runs over files

    def new_encoder(self) -> TableEncoder:
        """A fresh encoder with the parameters of this model."""
        encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
        if not isinstance(encoder, TableEncoder):
            raise TypeError(f"encoder must be a TableEncoder or None; got {self.encoder!r}.")
        return encoder

    def begin(self, has_missing: bool) -> None:
        """Set a fresh estimator for encoded rows, which fills missing values where it can.

        Parameters
        ----------
        has_missing : bool
            Whether values are missing in the rows that show the schema.
        """
        estimator = clone(self.estimator)
        fills = self.encoder_.missing == "fill"
        if isinstance(estimator, KernelEstimator):
            filled = prepare(estimator, self._names(), fills and has_missing)
            fills = filled or (fills and not estimator.can_fill)
        self.encoder_.with_fills(fills or self.encoder_.missing == "keep")
        self.estimator_ = estimator

    # -- inside

    def _around(self, estimator: Any) -> TableModel:
        model = clone(self)
        model.encoder_, model.estimator_ = self.encoder_, estimator
        return model

    def _at_present(self) -> Self:
        self._require_fitted()
        return self._as_it_is()

    @property
    def _estimator_fills(self) -> bool:
        return bool(getattr(self.estimator_, "fills", False))

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, on_bad_rows: str
    ) -> tuple[np.ndarray, Any, Any]:
        """Encoded rows of a table with their targets and weights, without skipped rows."""
        rows, valid = self.encoder_.split(X, on_bad_rows)
        if self.encoder_.missing == "fill" and not self._estimator_fills:
            rows = self.encoder_.filled(rows)
        if not valid.all():
            y = None if y is None else np.asarray(y)[valid]
            sample_weight = None if sample_weight is None else np.asarray(sample_weight)[valid]
        return rows, y, sample_weight

    def _ask(self, method: str, X: Any, *arguments: Any, **options: Any) -> Any:
        model = self._at_present()
        return getattr(model.estimator_, method)(model.encode(X), *arguments, **options)

    def _names(self) -> list[str]:
        return list(self.encoder_.schema_.features)

    def __sklearn_is_fitted__(self) -> bool:
        fitted = vars(self).get("estimator_")
        return fitted is not None and "encoder_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # -- files

    @property
    def is_between_passes(self) -> bool:
        """Whether only the first of two passes was made, so that there are no components yet."""
        return bool(self.estimator_.is_between_passes)

    def _content(self) -> dict[str, Any]:
        self._require_fitted()
        if not isinstance(self.estimator_, StoredEstimator):
            raise TypeError(
                "A model file holds estimators of kernelstream, and this TableModel has a "
                f"{type(self.estimator_).__name__}."
            )
        inner = self.estimator_._content()
        return {
            **inner,
            "estimator": type(self).__name__,
            "inner": inner["estimator"],
            "schema": self.encoder_.schema_.to_text(),
            "encoder": json.dumps(self.encoder_.get_params(), sort_keys=True),
            "fill_values": self.encoder_.fill_values_,
        }

    @classmethod
    def from_content(cls, content: dict[str, Any], device: Any = None) -> Self:
        """The model that a file holds; a content that is not of this class raises an error.

        Parameters
        ----------
        content : dict
            The values in the file.
        device : None, str or torch.device
            Where the model continues.
        """
        estimator = StoredEstimator.from_content({**content, "estimator": content["inner"]}, device)
        schema = Schema.from_text(content["schema"])
        params, fill_values = json.loads(content["encoder"]), content["fill_values"]
        n_features = len(schema.features)
        if set(params) != {*TableEncoder().get_params()} or estimator.n_features_in_ != n_features:
            raise ValueError("an encoder that does not fit its estimator")
        if not isinstance(fill_values, np.ndarray) or fill_values.shape != (n_features,):
            raise ValueError("fill values that are not one for each column")
        encoder = TableEncoder(**params)
        encoder.schema_options()  # raises for parameters that make no sense
        model = cls(clone(estimator), encoder)
        model.estimator_ = estimator
        model.encoder_ = TableEncoder.of(schema, fill_values, **params)
        return model


def learn(
    method: Callable[..., Any], X: Any, y: Any, sample_weight: Any, options: dict[str, Any]
) -> None:
    """Call ``fit`` or ``partial_fit`` of an estimator with what was given."""
    if sample_weight is not None:
        options = {**options, "sample_weight": sample_weight}
    known = inspect.signature(method).parameters
    unknown = [name for name in options if name not in known]
    if unknown:
        owner = type(getattr(method, "__self__", None)).__name__
        raise TypeError(f"{owner}.{method.__name__} takes no {', '.join(unknown)}.")
    method(X, **options) if y is None else method(X, y, **options)


def plain_schema(estimator: Any) -> Schema:
    """The schema of an estimator that learned rows of numbers."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(estimator.n_features_in_)]
    fills = isinstance(estimator, KernelEstimator) and estimator.stream_.fills
    return Schema.of_numbers(names, fills)


def require_same(ours: Schema, theirs: Schema) -> None:
    """Raise unless two schemas encode rows the same way."""
    if ours.features != theirs.features:
        apart = [name for name in ours.features if name not in theirs.features]
        apart += [name for name in theirs.features if name not in ours.features]
        listed = few(apart) or "their order"
        raise ValueError(f"The models learned different columns: {listed}.")


def first_of(tables: Any) -> tuple[Any, Any]:
    """The tables, readable from the first on (a function where they can be read again), and it."""
    blocks = tables() if callable(tables) else tables
    first = next(blocks, None)
    if first is None:
        raise ValueError("There is no row to learn from.")
    return (tables if callable(tables) else chain([first], blocks)), first


def rows_and_weights(block: Any) -> tuple[Any, Any]:
    """A block that is a table, or a pair of a table and weights."""
    return block if isinstance(block, tuple) and len(block) == 2 else (block, None)


def is_files(X: Any) -> bool:
    """Whether these are paths of files, or a Source."""
    several = isinstance(X, list | tuple) and len(X) > 0
    if several and all(isinstance(path, str | os.PathLike) for path in X):
        return True
    return isinstance(X, str | os.PathLike | Source)
