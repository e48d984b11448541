"""Command ``report``: writes the HTML page, colors rows by a label column, opens the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kernelstream.cli import completion
from kernelstream.cli import options as opt
from kernelstream.cli.failures import USAGE, CommandError, report_failures
from kernelstream.cli.info import facts_of, summary
from kernelstream.cli.modelfile import (
    holds_monitor,
    open_file,
    require_apart,
    require_components,
    require_writable,
    stored_in,
)
from kernelstream.cli.terminal import Screen, Watch
from kernelstream.serialization import Replacement
from kernelstream.tables import Source


def report(
    model: opt.Model,
    sources: Annotated[
        list[str] | None, typer.Argument(help="Rows to show; without any, the basis is shown.")
    ] = None,
    output: opt.Output = Path("report.html"),
    color: Annotated[
        str | None,
        typer.Option(help="Column to colour the rows by.", autocompletion=completion.column),
    ] = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Rows are images: height x width, 28x28.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
    reading: opt.Reading = opt.AS_IT_COMES,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """One self-contained HTML page about a model, to open in any browser, also offline.

    Examples
    --------
      kernelstream report model.safetensors data.parquet -o report.html --color label

      kernelstream report digits.safetensors mnist.npz --array x_test --color y_test
    """
    screen = Screen(as_json, quiet)
    with report_failures(as_json):
        shape = height_and_width(image_shape)
        require_writable(output)
        require_apart([output], [model])
        file = open_file(model)
        if holds_monitor(file):
            raise CommandError(
                USAGE,
                f"{model} holds a monitor: its report is made by 'kernelstream plant report' "
                "(pip install kernelstream-plant).",
            )
        try:
            from kernelstream.cli.report import html, observe
        except ModuleNotFoundError as problem:
            raise CommandError(
                1, f"The report needs {problem.name}: pip install 'kernelstream[report]'"
            ) from problem
        stored = require_components(stored_in(file, model), model)
        facts = facts_of(stored, model)
        observed = None
        if sources:
            read_options = {**reading.of_source(keep=color), "carried_as_text": True}
            source = stored.open_source(sources, read_options)
            require_apart([output], [file.path for file in source.files])
            shape = shape or source.image_shape
            with Watch(screen, source, "looking at rows") as watch:
                observed = observe(stored.estimator, labelled_rows(source, color, watch))
        page = html(
            stored.estimator,
            observed=observed,
            image_shape=shape,
            title=title or f"Kernel PCA: {model.name}",
            history=[row for row in summary(facts) if row[0] in ("learned", "features")],
            feature_names=stored.names,
        )
        write_page(output, page, screen, open_page)


def write_page(output: Path, page: str, screen: Screen, open_page: bool) -> None:
    """Write the page, say so, and open it where that is wanted."""
    Replacement.write(output, page.encode())
    size = output.stat().st_size
    result = {"report": str(output), "bytes": size}
    words = f"{output}, {size / 1e6:.1f} MB: open it in a browser."
    screen.result(result, words, output=output)
    if open_page:
        import webbrowser  # not for help, which imports all commands

        webbrowser.open(output.resolve().as_uri())


def labelled_rows(
    source: Source, color: str | None, watch: Watch
) -> Iterator[tuple[np.ndarray, list[Any] | None]]:
    """Blocks of rows with the column that colours them."""
    for block in source.ahead():
        if len(block):
            yield block.X, None if color is None else block.carried.column(color).to_pylist()
        watch.update(len(block))


def height_and_width(text: str | None) -> tuple[int, int] | None:
    """Height and width, ``28x28``."""
    if text is None:
        return None
    words = re.fullmatch(r"\s*(\d+)\s*[x×]\s*(\d+)\s*", text)
    if not words:
        raise CommandError(
            USAGE, f"{text!r} is no image size: write height x width, such as 28x28."
        )
    return opt.whole_number(words[1], "An image size"), opt.whole_number(words[2], "An image size")
