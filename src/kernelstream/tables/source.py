"""Source: files, globs or a pipe as blocks of numbers; schema, weights, targets, invalid rows."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kernelstream.arrays import prints_short
from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.files import File, SourceError, find_files, standard_input
from kernelstream.tables.formats import open_reader
from kernelstream.tables.inference import (
    SchemaOptions,
    infer_column,
    infer_schema,
    infer_target,
    matching,
)
from kernelstream.tables.readers import UNREADABLE, BadRow, Batch, Reader, ReadOptions, Selection
from kernelstream.tables.sample import TableSample, sample_rows
from kernelstream.tables.schema import InvalidCell, Schema, Target, column_means, few, require
from kernelstream.tables.text import FIRST_ROWS


@dataclass(frozen=True)
class SourcePosition:
    """A place in a source: so many rows of this file, invalid ones included, precede it.

    Attributes
    ----------
    file : int
        Number of the file in the source.
    row : int
        Rows of it that precede the place.
    """

    file: int = 0
    row: int = 0


class BadRowError(SourceError):
    """An invalid row in a source that must have none."""


@prints_short
@dataclass(frozen=True)
class Block:
    """Rows of one file, ready to be learned.

    Attributes
    ----------
    X : array of shape (n, d)
        Finite numbers, or NaN for missing values that will be filled; n may be 0.
    weights : array of shape (n,) or None
    carried : pyarrow.RecordBatch
        The columns to keep, as they are stored.
    file : str
        Name of the file.
    rows : array of shape (n,)
        Numbers of the rows in the file, from 1.
    end : SourcePosition
        Where reading continues after this block.
    bad : tuple of BadRow
        Invalid rows that were skipped.
    y : array of shape (n,) or None
        The targets of the rows, if the source has a target.
    """

    X: np.ndarray
    weights: np.ndarray | None
    carried: pa.RecordBatch
    file: str
    rows: np.ndarray
    end: SourcePosition
    bad: tuple[BadRow, ...] = ()
    y: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def take(self, places: np.ndarray) -> Block:
        """Some of its rows.

        Parameters
        ----------
        places : array of shape (m,)
            Which rows.
        """
        carried = self.carried
        return replace(
            self,
            X=self.X[places],
            weights=None if self.weights is None else self.weights[places],
            carried=carried.take(pa.array(places)) if carried.num_columns else carried,
            rows=self.rows[places],
            y=None if self.y is None else self.y[places],
        )


class Source:
    r"""Files, folders, globs or a pipe as one stream of blocks, in bounded memory.

    Parameters
    ----------
    paths : path-like or sequence of them
        Files, folders, globs, ``"-"`` for the standard input, or an address (``kafka://``,
        ``mqtt://``, ``opcua://``, ``sql:``).
    schema : SchemaOptions or Schema, optional
        Infer the types of the columns from a sample of all files, with what the user says about
        them, or take a schema that was inferred before: its columns, or as many others of numbers
        (``columns``) in its order. ``X`` then has NaN for missing values that will be filled.
        Without a schema, columns of numbers are read, and every value must be one.
    target : str or Target, optional
        The column to be predicted, with ``schema``: its values are ``Block.y``, and a row without
        one is invalid. Whether it is a number or a class is inferred, or known already.
    **options : dict
        Fields of ``ReadOptions``:

        columns, exclude : sequence of str
            Names or patterns (``"sensor_*"``) of the columns to learn, and of those not to. Without
            any, all columns that hold numbers.
        weight_column : str
            Column with the weight of each row.
        keep : sequence of str or None
            Columns to carry through; None for all that are not learned. Those of CSV files are
            text.
        on_bad_rows : "error" or "skip"
            A row with an invalid value is an error that names it, or is skipped and listed in
            ``Block.bad``.
        limit : int
            End after so many valid rows.
        format : str
            ``"parquet"``, ``"csv"``, ``"arrow"``, ``"ndjson"`` or ``"npy"``, if it cannot be
            inferred from names and first bytes.
        delimiter, header, encoding : str, bool and str
            Of CSV files; by default inferred from the first bytes.
        dtype : "auto", "float32" or "float64"
            ``"auto"`` is float32 if that loses nothing.
        connection : Connection
            For an address: users and passwords, the database, and where to continue.
        stdin : binary stream
            What ``"-"`` reads.

    Attributes
    ----------
    names : tuple of str
        The encoded columns.
    named : bool
        Whether these are the file's own names.
    schema : Schema
        The types of the columns.
    sampled_rows : array of shape (n, d) or None
        The encoded rows from which the schema was inferred: a uniform sample of all files, or the
        first rows of a pipe.
    sampled_targets : array of shape (n,) or None
        The targets of the sampled rows, if the source has a target.
    target : Target or None
        What is predicted.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("time,a,b\nmon,1,2\ntue,3,4\nwed,5,six\n")
    >>> source = Source(path, on_bad_rows="skip")
    >>> source.names
    ('a', 'b')
    >>> [(block.X.tolist(), [bad.reason for bad in block.bad]) for block in source]
    [([[1.0, 2.0], [3.0, 4.0]], ["'six' is not a number"])]
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        schema: SchemaOptions | Schema | None = None,
        target: str | Target | None = None,
        **options: Any,
    ):
        wanted = ReadOptions(**options)
        paths = [paths] if isinstance(paths, str | os.PathLike) else paths
        self.files = find_files(paths, wanted.format)
        if wanted.stdin is None and any(file.is_stdin for file in self.files):
            wanted = replace(wanted, stdin=standard_input())
        self.options = asked = wanted
        if isinstance(schema, Schema) and wanted.columns is None and not schema.is_nameless:
            asked = replace(wanted, columns=schema.inputs)  # of an address, by these names
        first = open_reader(self.files[0], asked)
        self._done = 0.0
        self.from_pipe = not all(os.path.isfile(file.path) for file in self.files)
        try:
            self._infer(first, schema, target)
        finally:
            # A file is opened again to be read; what comes from a pipe comes once.
            if is_file := os.path.isfile(first.file.path):
                first.close()
        self._reader = Reader() if is_file else first
        self._is_unread = not is_file

    def _infer(
        self, first: Reader, schema: SchemaOptions | Schema | None, target: str | Target | None
    ) -> None:
        """What the columns are, and the target, by the first file and a sample of all."""
        name = target.name if isinstance(target, Target) else target
        self.sample: TableSample | None = None
        if isinstance(schema, SchemaOptions):
            self.schema = self._inferred(first, schema, name)
        elif schema is None:
            self.schema = self._of_numbers(first, name)
        elif self.options.columns or (schema.is_plain and schema.is_nameless == first.named):
            # Of numbers that have no names in the model, or in the file, the order counts.
            chosen = self._of_numbers(first, name, len(schema.inputs))
            self.schema = replace(chosen, fills=schema.fills)
        else:
            self.schema = schema
        if isinstance(target, str):
            if self.sample is None or not isinstance(schema, SchemaOptions):
                raise ValueError("What a target is shows the sample: give schema=SchemaOptions().")
            sampled = pa.Table.from_batches([self.sample.batch.table])
            target = infer_target(sampled, target, schema)
        self.target = target
        names, where, learned = first.names, first.file.name, set(self.schema.inputs)
        if self.options.keep is None:
            carried = [column for column in names if column not in learned]
        else:
            carried = matching(self.options.keep, names, where)
        weight = self.options.weight_column
        self.selection = Selection(self.schema.inputs, weight, tuple(carried), name)
        require(self.selection.wanted, names, where)
        self.dtype = self.options.dtype
        if self.dtype == "auto":
            numbers = [column.name for column in self.schema.learned if column.is_plain]
            self.dtype = "float32" if numbers and first.is_single(numbers) else "float64"
        self.sampled_rows: np.ndarray | None = None
        self.sampled_targets: np.ndarray | None = None
        self.sampled_bad: list[InvalidCell] = []
        if self.sample is not None:
            self._encode_sample(self.sample.batch)
        self.remarks = first.remarks if self.sample is None else self.sample.remarks
        self.named, self.image_shape = first.named, first.image_shape

    def _inferred(self, first: Reader, said: SchemaOptions, target: str | None) -> Schema:
        """The schema by a sample of all rows; the numbers of an array belong together."""
        where = first.file.name
        require([] if target is None else [target], first.names, where)
        if target is not None and target == self.options.weight_column:
            raise SourceError(f"The column {target!r} cannot be target and weight at once.")
        if isinstance(first, ArrayReader):
            schema = self._of_numbers(first, target)
            wanted = Selection(schema.inputs, target=target)
            self.sample = sample_rows(self.files, first, wanted, self.options)
            if target is not None and not self.sample.whole:
                raise SourceError(
                    "The target of an array in a pipe is not known before: name a file."
                )
            return replace(schema, fills=said.missing == "fill")
        self.sample = sample_rows(self.files, first, Selection(first.names), self.options)
        schema = infer_schema(
            pa.Table.from_batches([self.sample.batch.table]),
            said,
            self.options,
            target=target,
            index=first.index_columns,
            named=first.named,
            whole=self.sample.whole,
            where=where,
        )
        for name, columns in self.sample.columns.items():
            require(schema.inputs, columns, name)
        return schema

    def _of_numbers(self, first: Reader, target: str | None, n_wanted: int | None = None) -> Schema:
        """Columns of numbers by name or pattern; by default all there are."""
        names, where, options = first.names, first.file.name, self.options
        others = {*matching(options.exclude, names, where), options.weight_column, target}
        columns = options.columns
        if columns is None:
            head = first.head(Selection(names), FIRST_ROWS)
            table, plain = pa.Table.from_batches([head.table]), SchemaOptions(decimal=".")
            is_array = head.matrix is not None
            columns = [n for n in names if is_array or infer_column(table, n, plain).is_plain]
        features = [name for name in matching(columns, names, where) if name not in others]
        if not features:
            raise SourceError(
                f"{where} has no column of numbers to learn; its columns: {few(names, 20)}."
            )
        if n_wanted not in (None, len(features)):
            raise SourceError(
                f"{where} has {len(features)} columns of numbers and the model wants {n_wanted}; "
                f"choose them with --columns: {few(features, 20)}."
            )
        return Schema.of_numbers(features)

    def _encode_sample(self, batch: Batch) -> None:
        """Encode the sample; missing values will be filled if it has any."""
        X, y, self.sampled_bad = self._encoded(batch)
        valid = np.ones(len(X), dtype=bool)
        valid[[cell.place for cell in self.sampled_bad]] = False
        self.sampled_rows, self.sampled_targets = X[valid], None if y is None else y[valid]
        fills = self.schema.fills and bool(np.isnan(self.sampled_rows).any())
        self.schema = replace(self.schema, fills=fills)

    def _encoded(self, batch: Batch) -> tuple[np.ndarray, np.ndarray | None, list[InvalidCell]]:
        """Rows, targets, and the cells that make a row invalid."""
        X, cells = self.schema.encode(batch, self.dtype)
        if self.target is None:
            return X, None, cells
        y, wrong = self.target.values(batch.table.column(self.target.name))
        return X, y, cells + wrong

    @property
    def filled_sample(self) -> np.ndarray:
        """The sampled rows with missing values replaced by the means of their columns.

        For methods that take finite rows, such as :func:`kernelstream.suggest`.
        """
        rows = np.asarray(self.sampled_rows, dtype=np.float64)
        return np.where(np.isnan(rows), column_means(rows), rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns."""
        return self.schema.features

    @property
    def has_places(self) -> bool:
        """Whether it is an address: another run can go on where this one stopped."""
        return self.files[0].is_address

    def place(self, position: SourcePosition) -> dict[str, Any] | None:
        """Where an address is gone on with after a block, ready for JSON; None for files.

        Parameters
        ----------
        position : SourcePosition
            The end of a block of this source, which were read up to here.
        """
        return self._reader.place(position.row)

    def close(self) -> None:
        """Let go of the other side of an address; files are let go of when they were read."""
        self._reader.close()

    def commit(self, place: dict[str, Any]) -> None:
        """Say that all rows before a place were saved, to a broker that keeps account.

        Parameters
        ----------
        place : dict
            As :meth:`place` gave it.
        """
        self._reader.commit(place)

    def fraction(self) -> float:
        """How much of all bytes has been read, between 0 and 1."""
        return self._done

    def _note(self, index: int, share: float) -> None:
        """Remember that all files before one, and a share of that one, have been read."""
        sizes = [file.size for file in self.files]
        done = sum(sizes[:index]) + share * sum(sizes[index : index + 1])
        self._done = min(1.0, done / max(sum(sizes), 1))

    def __iter__(self) -> Iterator[Block]:
        return self.blocks()

    def blocks(
        self, start: SourcePosition = SourcePosition(), n_before: int = 0
    ) -> Generator[Block, None, None]:
        """Blocks from a position on; ``n_before`` good rows count towards the limit already.

        Parameters
        ----------
        start : SourcePosition
            Where to begin.
        n_before : int
            Good rows before it.
        """
        left = None if self.options.limit is None else self.options.limit - n_before
        if left == 0:
            return
        for index in range(start.file, len(self.files)):
            skip = start.row if index == start.file else 0
            for block in self._of_file(index, skip):
                if left is not None:
                    block = first_rows(block, left)
                    left -= len(block)
                yield block
                if left == 0:
                    return

    def ahead(self, start: SourcePosition = SourcePosition(), n_before: int = 0) -> Iterator[Block]:
        """The same blocks, the next one read while the caller works on the last.

        What goes wrong with a block is raised where it would have come. A pipe is read when it is
        asked: nobody can stop a thread that waits for rows.

        Parameters
        ----------
        start : SourcePosition
            Where to begin.
        n_before : int
            Good rows before it.
        """
        blocks = self.blocks(start, n_before)
        if self.from_pipe:
            yield from blocks
            return
        pa.default_memory_pool().release_unused()  # batches before and after have other sizes
        try:
            with ThreadPoolExecutor(1, "kernelstream reads") as reader:
                coming = reader.submit(next, blocks, None)
                while (block := coming.result()) is not None:
                    coming = reader.submit(next, blocks, None)
                    yield block
        finally:
            blocks.close()
            pa.default_memory_pool().release_unused()

    def _of_file(self, index: int, skip: int) -> Iterator[Block]:
        file = self.files[index]
        self._note(index, 0.0)
        if index == 0 and self._is_unread:
            reader, self._is_unread = self._reader, False
        elif index == 0 and not os.path.isfile(file.path):
            raise SourceError("A pipe, or an address, can be read only once.")
        else:
            reader = open_reader(file, self.options)
        try:
            require(self.selection.wanted, reader.names, file.name)
            for batch in reader.batches(self.selection):
                if batch.end > skip:
                    block = self._block(file, index, batch.after(skip))
                    self._note(index, reader.fraction())
                    yield block
            self._note(index + 1, 0.0)
        except UNREADABLE as problem:
            raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
        finally:
            if not file.is_address:  # that one is committed to, and closed at the end
                reader.close()

    def _block(self, file: File, index: int, batch: Batch) -> Block:
        """A batch as finite numbers; invalid rows are taken out, or are an error."""
        X, y, cells = self._encoded(batch)
        weights = None
        if self.selection.weight is not None:
            weights, wrong = weights_of(batch, self.selection.weight)
            cells = cells + wrong
        first_cells = {cell.place: cell for cell in reversed(cells)}
        bad = list(batch.invalid)
        for place, cell in first_cells.items():
            text = row_text(batch, place, self.selection.features)
            bad.append(BadRow(file.name, int(batch.numbers[place]), cell.column, cell.reason, text))
        bad.sort(key=lambda row: row.row)
        if bad and self.options.on_bad_rows == "error":
            raise BadRowError(
                f"{bad[0]}. Mend the file, or pass over such rows with --on-bad-rows skip "
                "(on_bad_rows='skip')."
            )
        carried = batch.table.select(list(self.selection.carried))
        end = SourcePosition(index, batch.end)
        block = Block(X, weights, carried, file.name, batch.numbers, end, tuple(bad), y)
        return block.take(np.delete(np.arange(len(X)), list(first_cells))) if first_cells else block


def open_table(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    schema: SchemaOptions | Schema | None = None,
    target: str | Target | None = None,
    **options: Any,
) -> Source:
    r"""Open files as a table: the intake of every command that fits or examines rows.

    The schema is inferred from a uniform random sample of the rows of all files (of a pipe, from
    its first rows), or taken as it is. Nothing is scaled.

    Parameters
    ----------
    paths : path-like or sequence of them
        As for :class:`Source`.
    schema : SchemaOptions or Schema, optional
        What the user says about columns, or a schema that was inferred before.
    target : str or Target, optional
        The column to be predicted; it is no feature then.
    **options : dict
        Further parameters of :class:`Source`: ``columns``, ``exclude``, ``weight_column``,
        ``keep``, ``on_bad_rows``, ``limit`` and how files are read.

    Returns
    -------
    Source
        ``schema`` is its schema; ``sampled_rows`` are the encoded rows of the sample, NaN where
        values are missing, ``filled_sample`` the same with column means there, and
        ``sampled_targets`` their targets. Iterate over it to read all rows.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("kg,color,fast\n" + "1.5,red,1\n,blue,0\n2.5,red,1\n" * 10)
    >>> table = open_table(path, target="fast")
    >>> table.names
    ('kg', 'color=blue', 'color=red')
    >>> table.filled_sample[:2], table.sampled_targets[:2]
    (array([[1.5, 0. , 1. ],
           [2. , 1. , 0. ]]), array([1, 0]))
    """
    return Source(paths, schema=schema or SchemaOptions(), target=target, **options)


def weights_of(batch: Batch, name: str) -> tuple[np.ndarray, list[InvalidCell]]:
    """The weights of rows, and those that are none."""
    column = replace(batch, matrix=None)
    values, cells = Schema.of_numbers([name]).encode(column, "float64")
    weights = values[:, 0]
    negative = np.flatnonzero(weights < 0).tolist()
    return weights, cells + [
        InvalidCell(place, name, f"the weight {weights[place]:g} is negative") for place in negative
    ]


def first_rows(block: Block, n: int) -> Block:
    """The first n good rows of a block; what comes after them was not read."""
    if len(block) <= n:
        return block
    last = int(block.rows[n - 1])
    bad = tuple(row for row in block.bad if row.row < last)
    end = SourcePosition(block.end.file, last)
    return replace(block.take(np.arange(n)), end=end, bad=bad)


def row_text(batch: Batch, place: int, names: Sequence[str]) -> str:
    """A row in words, for the list of rejected rows."""
    values = [batch.cell(place, j, name) for j, name in enumerate(names[:20])]
    more = ", …" if len(names) > 20 else ""
    return ", ".join("" if value is None else str(value) for value in values) + more
