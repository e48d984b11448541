"""Table model: an estimator with the encoder of its tables; fit, update, predict, save."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from kernelstream.estimators import KernelEstimator, StoredEstimator
from kernelstream.serialization import stored
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

    def method(self: TableModel, X: Any = None, *arguments: Any, **options: Any) -> Any:
        model = self._at_present()
        if name.startswith("explain"):
            options = {"feature_names": model._names(), **options}
        rows = None if X is None else model.encode(X)
        return getattr(model.estimator_, name)(rows, *arguments, **options)

    method.__name__, method.__qualname__ = name, f"TableModel.{name}"
    method.__doc__ = f"""``{name}`` of the estimator, for the encoded rows of a table.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The table, with all columns that were learned.
        *arguments, **options
            Further arguments of ``{name}``. Explanations name the encoded columns.
        """
    return available_if(has(name))(method)


@stored
class TableModel(StoredEstimator):
    """An estimator for tables: files, and frames with words and missing values.

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
    def of(cls, estimator: Any, schema: Schema) -> TableModel:
        """A model around an estimator as it is, which learned rows with a schema.

        Parameters
        ----------
        estimator : KernelEstimator
            The estimator; it may have learned rows before.
        schema : Schema
            How its rows were encoded.
        """
        model = cls(clone(estimator))
        model.estimator_ = estimator
        model.encoder_ = TableEncoder.of(schema)
        vars(estimator).pop("feature_names_in_", None)  # the schema has the names
        return model

    # -- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        until: float | None = None,
    ) -> Self:
        """Learn all rows of a table, forgetting what was learned before.

        Parameters
        ----------
        X : data frame, Arrow table, array, path, paths or Source
            The table. Files (``"day*.parquet"``, or a :class:`Source`) are read twice and never
            held in memory.
        y : array of shape (n,) or str, default=None
            Targets for an estimator that predicts; of files, the name of their column.
        sample_weight : array of shape (n,), default=None
            Non-negative weights of the rows of a table in memory.
        until : float, default=None
            As in :meth:`kernelstream.StreamingKernelPCA.fit`, for a table in memory.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            for name in ("estimator_", "encoder_"):
                draft.__dict__.pop(name, None)
            if is_files(X):
                if until is not None:
                    raise ValueError(
                        "fit(until=...) draws rows by their number, and files are read in order: "
                        "fit all of their rows, or give them as an array."
                    )
                fit_files(draft, draft._source(X, y, sample_weight))
            else:
                draft.encoder_ = draft.new_encoder().fit(X)
                draft.estimator_ = draft.new_estimator(draft.encoder_.encode(X))
                options = given(sample_weight=sample_weight, until=until)
                draft.estimator_.fit(draft.encode(X), y, **options)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Self:
        """Learn the next rows of a stream of tables.

        Parameters
        ----------
        X : data frame, Arrow table or array
            The rows. A rejected table leaves the model as it was.
        y : array of shape (n,), default=None
            Targets for an estimator that predicts.
        sample_weight : array of shape (n,), default=None
            Non-negative weights.
        **options : dict
            Further arguments of ``partial_fit`` of the estimator.

        Returns
        -------
        self
        """
        with self.transaction() as draft:
            if not draft.__sklearn_is_fitted__():
                draft.encoder_ = draft.new_encoder().infer(X, whole=False)
                draft.estimator_ = draft.new_estimator(draft.encoder_.encode(X))
            options |= given(sample_weight=sample_weight)
            draft.estimator_.partial_fit(draft.encode(X), y, **options)
        return self

    def _source(self, X: Any, y: Any, sample_weight: Any) -> Source:
        """Files whose columns are understood by a uniform sample of all rows."""
        if sample_weight is not None:
            raise ValueError("Weights of files are a column of theirs: Source(weight_column=...).")
        if not (y is None or isinstance(y, str)):
            raise ValueError("The target of files is a column of theirs: give its name as y.")
        if isinstance(X, Source):
            return X
        return Source(X, schema=self.new_encoder().schema_options(), target=y)

    # -- queries

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
        rows = self.encoder_.encode(X)
        is_filled = self.encoder_.missing != "fill" or getattr(self.estimator_, "fills", False)
        return rows if is_filled else self.encoder_.filled(rows)

    transform = on_encoded_rows("transform")
    predict = on_encoded_rows("predict")
    predict_proba = on_encoded_rows("predict_proba")
    decision_function = on_encoded_rows("decision_function")
    score_samples = on_encoded_rows("score_samples")
    score = on_encoded_rows("score")
    p_values = on_encoded_rows("p_values")
    reconstruction_error = on_encoded_rows("reconstruction_error")
    explain = on_encoded_rows("explain")
    explain_components = on_encoded_rows("explain_components")

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
        if differing := set(ours._names()) ^ set(theirs._names()):
            raise ValueError(f"The models learned different columns: {few(sorted(differing))}.")
        model = clone(self)
        model.encoder_, model.estimator_ = ours.encoder_, ours.estimator_.merge(theirs.estimator_)
        return model

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

    def new_estimator(self, rows: np.ndarray) -> Any:
        """A fresh estimator for encoded rows, which fills missing values if it can.

        Parameters
        ----------
        rows : array of shape (n, n_features)
            The rows that show the schema, NaN where values are missing.
        """
        estimator = clone(self.estimator)
        if isinstance(estimator, KernelEstimator):
            fills = self.encoder_.missing == "fill" and bool(np.isnan(rows).any())
            prepare(estimator, self._names(), fills)
        return estimator

    # -- inside

    def _at_present(self) -> Self:
        self._require_fitted()
        return self._as_it_is()

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


def given(**options: Any) -> dict[str, Any]:
    """The options that are not None: not every estimator takes them."""
    return {name: value for name, value in options.items() if value is not None}


def is_files(X: Any) -> bool:
    """Whether these are paths of files, or a Source."""
    several = isinstance(X, list | tuple) and len(X) > 0
    if several and all(isinstance(path, str | os.PathLike) for path in X):
        return True
    return isinstance(X, str | os.PathLike | Source)
