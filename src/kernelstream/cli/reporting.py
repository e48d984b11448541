"""Command ``report``: writes the HTML page, colors rows by a label column, opens the browser."""

from __future__ import annotations

import re
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.cli.arguments import ReportArguments
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.info import history_rows
from kernelstream.cli.modelfile import read, require_apart, require_writable
from kernelstream.cli.terminal import RowProgress, Screen
from kernelstream.serialization import Replacement
from kernelstream.tables import Source


def report(given: ReportArguments, screen: Screen) -> None:
    """Write the page of a model."""
    model, output = given.model, given.output
    shape = height_and_width(given.image_shape)
    require_writable(output)
    require_apart([output], [model])
    stored = read(model, "kernel PCA")
    try:
        from kernelstream.cli.report import html, observe
    except ModuleNotFoundError as problem:
        raise CommandError(
            1, f"The report needs {problem.name}: pip install 'kernelstream[report]'"
        ) from problem
    observed = None
    if given.sources:
        read_options = given.source_options(keep=given.color)
        source = stored.open_source(given.sources, read_options)
        require_apart([output], [file.path for file in source.files])
        shape = shape or source.image_shape
        with RowProgress(screen, source, "rows") as bar:
            observed = observe(stored.estimator, labelled_rows(source, given.color, bar))
    page = html(
        stored.estimator,
        observed=observed,
        image_shape=shape,
        title=given.title or f"Kernel PCA: {model.name}",
        history=history_rows(stored.origin.get("history", [])),
        feature_names=stored.names,
    )
    write_page(output, page, screen, given.open_page)


def write_page(output: Path, page: str, screen: Screen, open_page: bool) -> None:
    """Write the page, say so, and open it where that is wanted."""
    Replacement.write(output, page.encode())
    size = output.stat().st_size
    result = {"report": str(output), "bytes": size}
    words = f"{output}, {size / 1e6:.1f} MB: open it in a browser."
    screen.result(result, words, output=output)
    if open_page:
        webbrowser.open(output.resolve().as_uri())


def labelled_rows(
    source: Source, color: str | None, bar: RowProgress
) -> Iterator[tuple[np.ndarray, list[Any] | None]]:
    """Blocks of rows with the column that colours them."""
    for block in source.ahead():
        if len(block):
            yield block.X, None if color is None else block.carried.column(color).to_pylist()
        bar.update(len(block))


def height_and_width(text: str | None) -> tuple[int, int] | None:
    """Height and width, ``28x28``."""
    if text is None:
        return None
    words = re.fullmatch(r"\s*(\d{1,9})\s*[x×]\s*(\d{1,9})\s*", text)
    if not words:
        raise CommandError(
            USAGE, f"{text!r} is no image size: write height x width, such as 28x28."
        )
    return int(words[1]), int(words[2])
