"""Source: files, globs or a pipe as blocks of numbers; invalid rows, weights, positions."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from kernelstream.arrays import prints_short
from kernelstream.tables.arrays import ArrayReader
from kernelstream.tables.columns import Bad, Chosen, choose, matrix, name_list, require
from kernelstream.tables.files import File, SourceError, find_files
from kernelstream.tables.formats import open_reader
from kernelstream.tables.memory import give_back
from kernelstream.tables.readers import UNREADABLE, BadRow, Batch, Connection, Reader, Reading
from kernelstream.tables.sample import Sample, sampled
from kernelstream.tables.survey import NO_WISHES, Wishes, treatment_of
from kernelstream.tables.target import Target, target_of
from kernelstream.tables.treatment import Column, Treatment, column_means


@dataclass(frozen=True)
class Position:
    """A place in a source: so many rows of this file, bad ones included, have gone by.

    Attributes
    ----------
    file : int
        Number of the file in the source.
    row : int
        Rows of it that have gone by.
    """

    file: int = 0
    row: int = 0


BEGINNING = Position()
GRACE = 1.0  # seconds that are waited for a block that nobody wants any more


class BadRowError(SourceError):
    """A bad row in a source that was to have none.

    Parameters
    ----------
    bad : BadRow
        The row.
    """

    def __init__(self, bad: BadRow):
        super().__init__(
            f"{bad}. Mend the file, or pass over such rows with --on-bad-rows skip "
            "(on_bad_rows='skip')."
        )
        self.bad = bad


@prints_short
@dataclass(frozen=True)
class Block:
    """Rows of one file, ready to be learned.

    Attributes
    ----------
    X : array of shape (n, d)
        Finite numbers, or NaN where a treatment fills; n may be 0 where all rows were bad.
    weights : array of shape (n,) or None
    carried : pyarrow.RecordBatch
        The columns to keep, as they are stored.
    file : str
        Name of the file.
    rows : array of shape (n,)
        Numbers of the rows in the file, from 1.
    end : Position
        Where reading goes on after this block.
    bad : tuple of BadRow
        Rows that were passed over.
    y : array of shape (n,) or None
        The targets of the rows, where the source has a target.
    """

    X: np.ndarray
    weights: np.ndarray | None
    carried: pa.RecordBatch
    file: str
    rows: np.ndarray
    end: Position
    bad: tuple[BadRow, ...] = ()
    y: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)


class Source:
    r"""Files, folders, globs or a pipe as one stream of blocks, in bounded memory.

    Parameters
    ----------
    paths : path-like or sequence of them
        Files, folders, globs, ``"-"`` for the standard input, or an address (``kafka://``,
        ``mqtt://``, ``opcua://``, ``sql:``).
    columns, exclude : sequence of str, optional
        Names or patterns (``"sensor_*"``) of the columns to learn, and of those not to. Without
        any, all columns that hold numbers.
    features : sequence of str, optional
        Exactly these columns in this order: those of a model.
    n_features : int, optional
        So many columns of numbers: those of a model that knows no names.
    weight_column : str, optional
        Column with the weight of each row.
    keep : sequence of str or None
        Columns to carry through; None for all that are not learned.
    on_bad_rows : "error" or "skip"
        A row with a missing value, or with text for a number, is an error that names it, or is
        passed over and listed in ``Block.bad``.
    limit : int, optional
        End after so many good rows.
    format : str, optional
        ``"parquet"``, ``"csv"``, ``"arrow"``, ``"ndjson"``, ``"npy"`` or ``"npz"``, where names and
        first bytes do not tell.
    array : str, optional
        Name of the array in ``.npz`` archives.
    delimiter, header : str and bool, optional
        Of CSV files; by default what the first line has of ``, ; tab |``, in this order, and a
        header where the first line is not all numbers.
    dtype : "auto", "float32" or "float64"
        ``"auto"`` is float32 where that loses nothing.
    carried_as_text : bool
        Leave the kept columns of CSV files as they are spelt.
    encoding : str, optional
        Of text files: ``"utf-16"``, ``"latin-1"``; by default UTF-8, or what the file itself says.
    treat : Wishes or Treatment, optional
        Understand the columns before they are learned: by a sample of all files, with what is
        wished for, or as it was decided before. ``X`` then has NaN where values are missing and
        will be filled.
    target : str or Target, optional
        The column to be predicted, with ``treat``: its values are ``Block.y``, and a row without
        one is a bad row. What it is, a number or a class, the sample shows, or is known already.
    connection : Connection, optional
        For an address: users and passwords, the database, and where to go on.
    stdin : binary stream, optional
        What ``"-"`` reads.

    Attributes
    ----------
    names : tuple of str
        The columns that are learned.
    named : bool
        Whether these are the file's own names.
    left_out : tuple of str
        Columns without numbers that nobody asked for.
    treatment : Treatment or None
        What is done with each column, where that was asked for.
    sampled_rows : array of shape (n, d) or None
        The rows by which that was decided, as they would be learned: a uniform sample of all
        files, or the head of a pipe.
    sampled_targets : array of shape (n,) or None
        The targets of the sampled rows, where the source has a target.
    target : Target or None
        What is predicted.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("time,a,b\nmon,1,2\ntue,3,4\nwed,5,six\n")
    >>> source = Source(path, on_bad_rows="skip")
    >>> source.names, source.left_out
    (('a', 'b'), ('time',))
    >>> [(block.X.tolist(), [bad.reason for bad in block.bad]) for block in source]
    [([[1.0, 2.0], [3.0, 4.0]], ["'six' is not a number"])]
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        features: Sequence[str] | None = None,
        n_features: int | None = None,
        weight_column: str | None = None,
        keep: Sequence[str] | None = (),
        on_bad_rows: str = "error",
        limit: int | None = None,
        format: str | None = None,
        array: str | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        dtype: str = "auto",
        carried_as_text: bool = False,
        encoding: str | None = None,
        treat: Wishes | Treatment | None = None,
        target: str | Target | None = None,
        connection: Connection | None = None,
        stdin: BinaryIO | None = None,
    ):
        if on_bad_rows not in ("error", "skip"):
            raise ValueError(f"on_bad_rows must be 'error' or 'skip'; got {on_bad_rows!r}.")
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1; got {limit}.")
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self.files = find_files(given, format)
        self.on_bad_rows = on_bad_rows
        self.limit = limit
        piped = any(file.is_stdin for file in self.files)
        self.stdin = standard_input() if stdin is None and piped else stdin
        self._reading = Reading(
            delimiter,
            header,
            array,
            carried_as_text=carried_as_text,
            encoding=encoding,
            connection=replace(
                connection or Connection(),
                names=names_asked(columns, features, treat, weight_column, keep),
                limit=limit,
                name=self.files[0].name,
            ),
            guesses=treat is not None,
        )
        first = open_reader(self.files[0], self._reading, self.stdin)
        self.remarks = first.remarks
        self.sample: Sample | None = None
        self.sampled_rows: np.ndarray | None = None
        self.sampled_targets: np.ndarray | None = None
        self.sampled_bad: tuple[Bad, ...] = ()  # among them, left out of them
        aim = target.name if isinstance(target, Target) else target
        if aim is not None:
            require([aim], list(first.fields), self.files[0].name)
            if aim == weight_column:
                raise SourceError(f"The column {aim!r} cannot be target and weight at once.")
        if isinstance(treat, Wishes):
            wishes = replace(
                treat, columns=columns, exclude=exclude, weight=weight_column, target=aim
            )
            self.sample, treat = self._survey(first, wishes)
            if isinstance(target, str):
                target = target_of(self._table_with(first, target), target, wishes)
            self.remarks = self.sample.remarks
        if isinstance(treat, Treatment) and treat.is_nameless and first.named:
            n_features, treat = len(treat.features), None  # by their order, whatever their names
        self.treatment = treat
        if treat is not None and self.sample is not None:
            for name, lacking in self.sample.lacking:
                if gone := [column for column in treat.inputs if column in lacking]:
                    raise SourceError(
                        f"{name} has no column {', '.join(map(repr, gone))}, which "
                        f"{self.files[0].name} has: mend it, or leave such columns out."
                    )
        if treat is not None:
            require(treat.inputs, list(first.fields), self.files[0].name)
            self._chosen = choose(first, self.files[0].name, treat.inputs, (), weight_column, keep)
            plain = tuple(column.name for column in treat.learned if column.is_plain)
            encoded = tuple(name for name in treat.inputs if name not in set(plain))
            encoded += () if aim is None else (aim,)
            self._reading = replace(self._reading, features=plain, encoded=encoded)
        else:
            self._chosen = self._choose(
                first, columns, exclude, features, n_features, weight_column, keep
            )
            self._reading = replace(self._reading, features=self._chosen.features)
        if isinstance(target, str):
            raise ValueError("What a target is shows the sample: give treat=Wishes() as well.")
        self.target = target
        self._chosen = replace(self._chosen, target=aim)
        if treat is not None and n_features not in (None, len(treat.features)):
            raise SourceError(
                f"{len(treat.features)} columns were chosen and the model wants {n_features}."
            )
        if dtype == "auto":
            single = first.is_single(list(self._reading.features))
            dtype = "float32" if single and self._reading.features else "float64"
        self.dtype = dtype
        if self.sample is not None and treat is not None:
            self.sampled_rows, bad = treat.encode(self.sample.batch, dtype)
            if isinstance(target, Target):
                cells = self._table_with(first, target.name).column(target.name)
                self.sampled_targets, wrong = target.values(cells)
                bad = bad + wrong
                invalid = [cell.place for cell in bad]
                self.sampled_targets = np.delete(self.sampled_targets, invalid, axis=0)
            self.sampled_bad = tuple(bad)
            self.sampled_rows = np.delete(self.sampled_rows, [c.place for c in bad], axis=0)
            # Where the sample has no gap, one that comes later is a bad row, as it always was.
            gaps = bool(np.isnan(self.sampled_rows).any())
            self.treatment = replace(treat, fills=treat.fills and gaps)
        self.named = first.named
        self.image_shape = first.image_shape
        self._first: Reader | None = first
        self._open: Reader | None = first if self.has_places else None
        self._done = 0.0

    @property
    def filled_sample(self) -> np.ndarray:
        """The sampled rows with missing values replaced by the means of their columns.

        For methods that take finite rows, such as :func:`kernelstream.suggest`.
        """
        rows = np.asarray(self.sampled_rows, dtype=np.float64)
        return np.where(np.isnan(rows), column_means(rows), rows)

    def _choose(
        self,
        first: Reader,
        columns: Sequence[str] | None,
        exclude: Sequence[str],
        features: Sequence[str] | None,
        n_features: int | None,
        weight: str | None,
        keep: Sequence[str] | None,
    ) -> Chosen:
        """The columns, by the first file; those of a model must be there."""
        where = self.files[0].name
        if features is not None and first.named:
            require(features, list(first.fields), where)
            columns, exclude, n_features = features, (), len(features)
        elif features is not None:
            n_features = len(features)
        chosen = choose(first, where, columns, exclude, weight, keep)
        n_chosen = len(chosen.features)
        if n_features in (None, n_chosen):
            return chosen
        if columns is not None:
            raise SourceError(f"{n_chosen} columns were chosen and the model wants {n_features}.")
        raise SourceError(
            f"{where} has {n_chosen} columns of numbers and the model wants {n_features}; choose "
            f"them with --columns: {name_list(chosen.features)}."
        )

    def _survey(self, first: Reader, wishes: Wishes) -> tuple[Sample, Treatment]:
        """A sample of all files, and what is to be done with their columns."""
        where = self.files[0].name
        if isinstance(first, ArrayReader):  # the numbers of an array belong together
            exclude = [*wishes.exclude, *([] if wishes.target is None else [wishes.target])]
            chosen = choose(first, where, wishes.columns, exclude, wishes.weight, ())
            learned = tuple(map(Column, chosen.features))
            treatment = Treatment(learned, (), wishes.missing == "fill")
            reading = replace(self._reading, features=chosen.features)
            return sampled(self.files, first, reading, self.stdin, self.limit), treatment
        sample = sampled(self.files, first, self._reading, self.stdin, self.limit)
        treatment = treatment_of(
            sample.table,
            wishes,
            index=first.index_columns,
            named=first.named,
            whole=sample.whole,
            where=where,
            remarks=sample.remarks,
        )
        return sample, treatment

    def _table_with(self, first: Reader, target: str) -> pa.Table:
        """A sample with the target in it: of arrays, the matrix alone was sampled."""
        assert self.sample is not None
        if not isinstance(first, ArrayReader):
            return self.sample.table
        if self.from_pipe:
            raise SourceError("The target of an array in a pipe is not known before: name a file.")
        cells = []
        for file, numbers in zip(self.files, self.sample.numbers, strict=False):
            reader = open_reader(file, self._reading, None)
            require([target], list(reader.fields), file.name)
            cells += [
                batch.table.filter(pa.array(np.isin(batch.numbers - 1, numbers)))
                for batch in reader.batches([target], 0, self._reading)
            ]
            reader.close()
        return pa.Table.from_batches(cells)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are learned."""
        return self._chosen.features if self.treatment is None else self.treatment.features

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns without numbers that nobody asked for."""
        return self._chosen.left_out

    @property
    def from_pipe(self) -> bool:
        """Whether a part of it can be read only once."""
        return any(file.is_passing for file in self.files)

    @property
    def has_places(self) -> bool:
        """Whether it is an address: another run can go on where this one stopped."""
        return self.files[0].is_address

    def place(self, position: Position) -> dict[str, Any] | None:
        """Where an address is gone on with after a block, ready for JSON; None for files.

        Parameters
        ----------
        position : Position
            The end of a block of this source, which were read up to here.
        """
        return None if self._open is None else self._open.place(position.row)

    def close(self) -> None:
        """Let go of the other side of an address; files are let go of when they were read."""
        if self._open is not None:
            self._open.close()

    def commit(self, place: dict[str, Any]) -> None:
        """Say that all rows before a place were saved, to a broker that keeps account.

        Parameters
        ----------
        place : dict
            As :meth:`place` gave it.
        """
        if self._open is not None:
            self._open.commit(place)

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
        self, start: Position = BEGINNING, n_before: int = 0
    ) -> Generator[Block, None, None]:
        """Blocks from a position on; ``n_before`` good rows count towards the limit already.

        Parameters
        ----------
        start : Position
            Where to begin.
        n_before : int
            Good rows before it.
        """
        left = None if self.limit is None else self.limit - n_before
        for index in range(start.file, len(self.files)):
            if left is not None and left <= 0:
                return
            skip = start.row if index == start.file else 0
            for block in self._of_file(index, skip):
                if left is not None:
                    block = first_rows(block, left)
                    left -= len(block)
                yield block
                if left is not None and left <= 0:
                    return

    def ahead(self, start: Position = BEGINNING, n_before: int = 0) -> Iterator[Block]:
        """The same blocks, the next one read while the caller works on the last.

        What goes wrong with a block is raised where it would have come. A pipe is read when it is
        asked: nobody can stop a thread that waits for rows.

        Parameters
        ----------
        start : Position
            Where to begin.
        n_before : int
            Good rows before it.
        """
        blocks = self.blocks(start, n_before)
        if self.from_pipe:
            yield from blocks
            return
        give_back()  # what came before a pass was of other sizes, and so is what comes after it
        asked: SimpleQueue[bool] = SimpleQueue()
        answers: SimpleQueue[tuple[Block | None, BaseException | None]] = SimpleQueue()

        def read() -> None:
            while asked.get():
                try:
                    answers.put((next(blocks, None), None))
                except BaseException as problem:
                    answers.put((None, problem))
            blocks.close()

        # A daemon: a named pipe in the place of a file may keep it waiting when all others stop.
        reader = Thread(target=read, name="kernelstream reads", daemon=True)
        reader.start()
        asked.put(True)
        try:
            while True:
                block, problem = answers.get()
                if problem is not None:
                    raise problem
                if block is None:
                    return
                asked.put(True)
                yield block
        finally:
            asked.put(False)
            reader.join(GRACE)
            give_back()

    def _of_file(self, index: int, skip: int) -> Iterator[Block]:
        file = self.files[index]
        self._note(index, 0.0)
        reader = self._first if index == 0 and self._first is not None else None
        if reader is None:
            if file.is_passing and index == 0:
                raise SourceError("A pipe, or an address, can be read only once.")
            reader = open_reader(file, self._reading, self.stdin)
        if index == 0:
            self._first = None
        try:
            require(self._chosen.wanted, list(reader.fields), file.name)
            for batch in reader.batches(self._chosen.wanted, skip, self._reading):
                block = self._block(file, index, batch)
                self._note(index, reader.fraction())
                yield block
            self._note(index + 1, 0.0)
        except UNREADABLE as problem:
            raise SourceError(f"{file.name} cannot be read to its end: {problem}") from problem
        finally:
            if not file.is_address:  # that one is committed to, and let go of at the end
                reader.close()

    def _block(self, file: File, index: int, batch: Batch) -> Block:
        """A batch as finite numbers; bad rows are taken out, or are an error."""
        if self.treatment is None:
            X, cells = matrix(batch, self.names, self.dtype)
        else:
            X, cells = self.treatment.encode(batch, self.dtype)
        weights = None
        if self._chosen.weight is not None:
            weights, more = self._weights(batch)
            cells = cells + more
        y = None
        if self.target is not None:
            y, more = self.target.values(batch.table.column(self.target.name))
            cells = cells + more
        bad = list(batch.broken)
        places: dict[int, Bad] = {}
        for cell in cells:
            places.setdefault(cell.place, cell)
        for place, cell in places.items():
            number = int(batch.numbers[place])
            text = row_text(batch, place, self._chosen.features)
            bad.append(BadRow(file.name, number, cell.column, cell.reason, text))
        bad.sort(key=lambda b: b.row)
        if bad and self.on_bad_rows == "error":
            raise BadRowError(bad[0])
        carried = batch.table.select(list(self._chosen.carried))
        numbers = batch.numbers
        if places:
            good = np.ones(len(X), dtype=bool)
            good[list(places)] = False
            X, numbers = X[good], numbers[good]
            if carried.num_columns:
                carried = carried.filter(pa.array(good))
            weights = None if weights is None else weights[good]
            y = None if y is None else y[good]
        return Block(
            X, weights, carried, file.name, numbers, Position(index, batch.end), tuple(bad), y
        )

    def _weights(self, batch: Batch) -> tuple[np.ndarray, list[Bad]]:
        name = self._chosen.weight
        assert name is not None
        column = Batch(batch.numbers, batch.table, batch.end)
        values, cells = matrix(column, [name], "float64")
        weights = values[:, 0]
        negative = np.flatnonzero(weights < 0)
        cells += [Bad(int(i), name, f"the weight {weights[i]:g} is negative") for i in negative]
        return weights, cells


def open_table(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    schema: Wishes | Treatment = NO_WISHES,
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
    schema : Wishes or Treatment
        What the user says about columns, or a schema that was inferred before.
    target : str or Target, optional
        The column to be predicted; it is no feature then.
    **options : dict
        Further parameters of :class:`Source`: ``columns``, ``exclude``, ``weight_column``,
        ``keep``, ``on_bad_rows``, ``limit`` and how files are read.

    Returns
    -------
    Source
        ``treatment`` is its schema; ``sampled_rows`` are the encoded rows of the sample, NaN where
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
    return Source(paths, treat=schema, target=target, **options)


def names_asked(
    columns: Sequence[str] | None,
    features: Sequence[str] | None,
    treat: Wishes | Treatment | None,
    weight_column: str | None,
    keep: Sequence[str] | None,
) -> tuple[str, ...] | None:
    """The columns that are asked for by name; None where any will do."""
    learned = treat.inputs if isinstance(treat, Treatment) else features or columns
    if learned is None or any(glob.has_magic(name) for name in learned):
        return None
    more = [*([] if weight_column is None else [weight_column]), *(keep or ())]
    return tuple(dict.fromkeys([*learned, *more]))


def standard_input() -> BinaryIO:
    """The standard input as bytes; a process may have been started without any."""
    if sys.stdin is None:
        raise SourceError("The standard input is closed: send rows to it, or name files.")
    return sys.stdin.buffer


def first_rows(block: Block, n: int) -> Block:
    """The first n good rows of a block; what comes after them was not read."""
    if len(block) <= n:
        return block
    last = int(block.rows[n - 1])
    return Block(
        block.X[:n],
        None if block.weights is None else block.weights[:n],
        block.carried.slice(0, n),
        block.file,
        block.rows[:n],
        Position(block.end.file, last),
        tuple(b for b in block.bad if b.row < last),
        None if block.y is None else block.y[:n],
    )


def row_text(batch: Batch, place: int, names: Sequence[str]) -> str:
    """A row in words, for the list of rejected rows."""
    values = [batch.cell(place, j, name) for j, name in enumerate(names[:20])]
    more = ", …" if len(names) > 20 else ""
    return ", ".join("" if value is None else str(value) for value in values) + more
