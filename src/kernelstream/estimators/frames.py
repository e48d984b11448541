"""Data frames: their columns understood as those of files are, and as rows of numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelstream.arrays import progress

if TYPE_CHECKING:
    import pyarrow as pa

    from kernelstream.tables import Treatment

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
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if hasattr(X, "to_arrow"):
        return X.to_arrow()
    columns = []
    for j in range(X.shape[1]):
        values = X.iloc[:, j]
        if hasattr(values, "cat") and values.cat.categories.dtype == "interval":
            values = values.cat.rename_categories(str)  # of pandas.cut
        try:
            columns.append(pa.array(values, from_pandas=True))
        except (pa.ArrowException, OverflowError):
            words = [None if v is None or v != v else str(v) for v in values]
            columns.append(pa.array(words, pa.string()))
    return pa.Table.from_arrays(columns, names=list(map(str, X.columns)))


@dataclass(frozen=True)
class Frame:
    """A frame that was understood: its treatment, and the table itself."""

    treatment: Treatment
    table: pa.Table

    def rows(self, on_bad_rows: str) -> tuple[Treatment, np.ndarray, np.ndarray | None]:
        """What is done with its columns, its rows, and which of them are good; None: all are."""
        from kernelstream.tables.readers import Batch

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
        from kernelstream.tables import Wishes, treatment_of
        from kernelstream.tables.treatment import few
    except ModuleNotFoundError:
        return None
    n = len(X)
    if n == 0 or X.shape[1] == 0:
        return None
    table = as_table(X)
    if len(set(table.column_names)) < len(table.column_names):
        twice = sorted(name for name, n in Counter(table.column_names).items() if n > 1)
        raise ValueError(f"The frame has several columns called {few(twice)}: rename them.")
    wishes = Wishes(treat=getattr(estimator, "columns", None) or {})
    step = max(1, n // SURVEYED)
    sample = table.take(np.arange(0, n, step)) if step > 1 else table
    treatment = treatment_of(sample, wishes, whole=whole, where="The frame")
    if treatment.is_trivial and not any(map(_is_special, table.columns)):
        return None
    for line in treatment.lines() if getattr(estimator, "verbose", False) else ():
        progress.say(line)
    left_out = [c for c in treatment.columns if not c.learned and c.reason != "not asked for"]
    if left_out:
        listed = "; ".join(f"{c.name!r} ({c.reason.split(' (--')[0]})" for c in left_out[:8])
        more = f" and {len(left_out) - 8} more" if len(left_out) > 8 else ""
        warnings.warn(
            f"Columns that are not learned: {listed}{more}. columns={{{left_out[0].name!r}: KIND}} "
            "learns the first all the same (KIND is 'number', 'category' or 'calendar'); 'out' "
            "leaves it out without a word.",
            stacklevel=6,
        )
    return Frame(treatment, table)


def _is_special(column: Any) -> bool:
    """Whether a column of numbers has gaps, or is of a type that scikit-learn does not take."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_temporal(column.type):
        return True
    return bool(pc.any(pc.is_null(column, nan_is_null=True)).as_py())
