"""SQL: query results as rows by DuckDB or PostgreSQL, Arrow batches, row offset as position.

``sql:SELECT t, flow, heat FROM 'day*.parquet' ORDER BY t``. The position is the number of rows that
have gone by, so going on after a stop needs an order that is the same every time: a query that says
none is told so, and cannot be gone on with.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kernelstream.tables import Feed, LiveRow, LiveRows, SourceError

ROWS = 2048  # of a batch
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


def has_order(query: str) -> bool:
    """Whether a query says in which order its rows come, at its outermost level.

    Examples
    --------
    >>> has_order("SELECT * FROM x ORDER BY t"), has_order("SELECT 'order by' FROM x")
    (True, False)
    >>> has_order("SELECT * FROM (SELECT * FROM x ORDER BY t)")
    False
    """
    text, depth, outer = _QUOTED.sub(" ", query), 0, []
    for character in text:
        depth += (character == "(") - (character == ")")
        outer.append(character if depth == 0 and character != ")" else " ")
    return bool(_ORDER.search("".join(outer)))


class SqlFeed(Feed):
    """The rows of a query.

    Parameters
    ----------
    address : str
        ``sql:SELECT …``.
    parse : LiveRows
        What makes rows; columns are found by their names.
    position : dict, optional
        ``{"query": …, "row": rows that have gone by}``.
    database : str, optional
        ``postgresql://…``, or a file of DuckDB, which is opened for reading.
    """

    def __init__(
        self,
        address: str,
        parse: LiveRows,
        position: dict[str, Any] | None = None,
        database: str | None = None,
    ):
        self.query = address.split(":", 1)[1].strip().rstrip(";")
        self.parse, self.row = parse, int((position or {}).get("row", 0))
        self.ordered = has_order(self.query)
        if position is not None and position.get("query") != self.query:
            raise SourceError("The model has come to a place in another query: give that one.")
        if self.row and not self.ordered:
            raise SourceError(f"{NO_ORDER} It cannot be gone on with after row {self.row}.")
        if database is not None and re.search(r"://[^/@]*:[^/@]*@|[?&]password=", database):
            raise SourceError(
                "An address has no place for passwords, which others could read: put it into the "
                "variable PGPASSWORD, or into the file ~/.pgpass."
            )
        self._close: list[Callable[[], Any]] = []
        self._batches = self._open(database)

    def _open(self, database: str | None) -> Iterator[pa.RecordBatch]:
        try:
            if database is not None and re.match(r"postgres(ql)?://", database):
                from adbc_driver_postgresql import dbapi

                connection = dbapi.connect(database)
                cursor = connection.cursor()
                self._close += [cursor.close, connection.close]
                cursor.execute(self.query)
                return iter(cursor.fetch_record_batch())
            import duckdb

            base = duckdb.connect(database or ":memory:", read_only=database is not None)
            self._close.append(base.close)
            found = base.sql(self.query)
            if hasattr(found, "to_arrow_reader"):  # its name in newer releases
                return iter(found.to_arrow_reader(ROWS))
            return iter(found.fetch_arrow_reader(ROWS))
        except ModuleNotFoundError:
            raise
        except Exception as problem:  # each driver has errors of its own
            self.close()
            words = without_password(str(problem), database)
            raise SourceError(f"The query cannot be answered: {words}") from problem

    def rows(self) -> Iterator[LiveRow | str | None]:
        """Rows in the order of the query, after those that have gone by."""
        if not self.ordered:
            self.tell(NO_ORDER)
        left = self.row
        for batch in self._batches:
            gone = min(left, batch.num_rows)
            left -= gone
            for row in self.parse.rows_of(batch.slice(gone)):
                self.row += 1
                yield row

    def position(self) -> dict[str, Any] | None:
        """Rows that have gone by; None where the query has no order."""
        return {"query": self.query, "row": self.row} if self.ordered else None

    def close(self) -> None:
        """Let go of the database."""
        for close in self._close:
            with contextlib.suppress(Exception):
                close()
        self._close.clear()


NO_ORDER = "The query has no ORDER BY: its rows may come in another order the next time."


def without_password(text: str, database: str | None) -> str:
    """A message without the password of an address in it.

    Examples
    --------
    >>> without_password("cannot reach postgresql://me:secret@host/db", None)
    'cannot reach postgresql://me:***@host/db'
    """
    return re.sub(r"(://[^:/@\s]+:)[^@\s]+@", r"\1***@", text)
