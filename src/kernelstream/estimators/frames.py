"""Data frames: their columns understood as those of files are, and as rows of numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.backends import progress

if TYPE_CHECKING:
    import pyarrow as pa

    from kernelstream.sources import Treatment

SURVEYED = 10_000  # rows by which columns are understood


def is_frame(X: Any) -> bool:
    """Whether this is a table with named columns: of pandas, polars or Arrow."""
    return (hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "to_arrow"))) or (
        hasattr(X, "column_names") and hasattr(X, "schema")
    )


def as_table(X: Any) -> pa.Table:
    """A frame as a table of Arrow; columns of mixed kinds as text."""
    import pyarrow as pa

    if isinstance(X, pa.Table):
        return X
    if hasattr(X, "to_arrow"):
        return X.to_arrow()
    columns = {}
    for j, name in enumerate(X.columns):
        values = X.iloc[:, j]
        try:
            columns[str(name)] = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            words = [None if v is None or v != v else str(v) for v in values]
            columns[str(name)] = pa.array(words, pa.string())
    return pa.table(columns)


@dataclass(frozen=True)
class Frame:
    """A frame that was understood: its treatment, and the table itself."""

    treatment: Treatment
    table: pa.Table

    def rows(self, on_bad_rows: str) -> tuple[Treatment, np.ndarray, np.ndarray | None]:
        """What is done with its columns, its rows, and which of them are good; None: all are."""
        from kernelstream.sources.readers import Batch

        treatment, table = self.treatment, self.table.select(list(self.treatment.inputs))
        kept = None
        if on_bad_rows == "skip":
            (batch,) = table.combine_chunks().to_batches()
            _, bad = treatment.encode(Batch(np.arange(len(table)), batch, len(table)), "float64")
            if bad:
                kept = np.ones(len(table), dtype=bool)
                kept[[cell.place for cell in bad]] = False
                table = table.filter(kept)
        X = treatment.rows_of(table, "float64", "The frame")
        return replace(treatment, fills=bool(np.isnan(X).any())), X, kept


def understand(estimator: Any, X: Any, whole: bool) -> Frame | None:
    """What is to be done with the columns of a frame; None where they are plain numbers.

    None as well without Arrow: then scikit-learn takes the frame as it can.
    """
    try:
        from kernelstream.sources import Wishes, treatment_of
    except ModuleNotFoundError:
        return None
    n = len(X)
    if n == 0 or len(set(map(str, getattr(X, "columns", X)))) < 1:
        return None
    table = as_table(X)
    if len(set(table.column_names)) < len(table.column_names):
        return None
    wishes = Wishes(treat=getattr(estimator, "columns", None) or {})
    step = max(1, n // SURVEYED)
    sample = table.take(np.arange(0, n, step)) if step > 1 else table
    treatment = treatment_of(sample, wishes, whole=whole, where="The frame")
    if treatment.is_trivial and not any(_has_gaps(column) for column in table.columns):
        return None
    for line in treatment.lines() if getattr(estimator, "verbose", False) else ():
        progress.say(line)
    left_out = [c for c in treatment.columns if not c.learned and c.reason != "not asked for"]
    if left_out:
        listed = "; ".join(f"{c.name!r} ({c.reason})" for c in left_out[:8])
        more = f" and {len(left_out) - 8} more" if len(left_out) > 8 else ""
        warnings.warn(
            f"Columns that are not learned: {listed}{more}. columns={{{left_out[0].name!r}: "
            "'number'}} would learn the first (or 'category', 'calendar', 'out').",
            stacklevel=6,
        )
    return Frame(treatment, table)


def _has_gaps(column: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.is_null(column, nan_is_null=True)).as_py())
