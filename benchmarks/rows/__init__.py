"""The rows of the table, by name; each module measures one kind of work.

A row is a function that takes the :class:`~benchmarks.run.Run` and returns its lines of the table.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measuring import Outcome
from benchmarks.rows import batch, endless, growth, hebbian, products, single, startup, stream
from benchmarks.run import Run

ROWS: dict[str, Callable[[Run], list[Outcome]]] = {
    "stream": stream.learning,
    "transform": stream.transforming,
    "batch": batch.beside_kernel_pca,
    "hebbian": hebbian.epochs,
    "kernlab": hebbian.beside_kernlab,
    "products": products.beside_bare_products,
    "single": single.row_by_row,
    "endless": endless.ten_million_rows,
    "startup": startup.first_calls,
    "growth": growth.time_against_rows,
}
