"""``report``, ``demo`` and ``bench``: things to look at."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from kernelstream import StreamingKernelPCA
from kernelstream import files as storage
from kernelstream.cli import options as opt
from kernelstream.cli.failures import CommandError, reported
from kernelstream.cli.learn import for_model
from kernelstream.cli.modelfile import read, require_apart, require_writable
from kernelstream.cli.models import facts_of, summary
from kernelstream.cli.parameters import image_shape as parse_shape
from kernelstream.cli.terminal import Screen, Watch
from kernelstream.sources import Source


def report(
    model: opt.Model,
    sources: Annotated[
        list[str] | None, typer.Argument(help="Rows to show; without any, the basis is shown.")
    ] = None,
    output: opt.Output = Path("report.html"),
    color: Annotated[str | None, typer.Option(help="Column to colour the rows by.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Rows are images: height x width, 28x28.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
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
    with reported(as_json):
        try:
            from kernelstream.report import html, observe
        except ModuleNotFoundError as problem:
            raise CommandError(
                1, f"The report needs {problem.name}: pip install 'kernelstream[report]'"
            ) from problem
        shape = parse_shape(image_shape)
        require_writable(output)
        require_apart([output], [model])
        stored = read(model)
        facts = facts_of(stored, model)
        observed = None
        if sources:
            read_options = {**reading.of_source(keep=color), "carried_as_text": True}
            source = for_model(stored, sources, read_options)
            require_apart([output], [file.path for file in source.files])
            shape = shape or source.image_shape
            with Watch(screen, source, "looking at rows") as watch:
                observed = observe(stored.estimator, labelled(source, color, watch))
        page = html(
            stored.estimator,
            observed=observed,
            image_shape=shape,
            title=title or f"Kernel PCA: {model.name}",
            history=[row for row in summary(facts) if row[0] in ("learned", "features")],
        )
        storage.write_atomically(output, page.encode())
        size = output.stat().st_size
        result = {"report": str(output), "bytes": size}
        screen.result(result, f"{output}, {size / 1e6:.1f} MB: open it in a browser.")


def labelled(
    source: Source, color: str | None, watch: Watch
) -> Iterator[tuple[np.ndarray, list[Any] | None]]:
    """Blocks of rows with the column that colours them."""
    for block in source:
        if len(block):
            yield block.X, None if color is None else block.carried.column(color).to_pylist()
        watch.update(len(block))


def demo(
    folder: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for what it writes.")
    ] = Path("kernelstream-demo"),
    as_json: opt.Json = False,
) -> None:
    """Handwritten digits through every step: fit, info, score, report. Shows each command."""
    screen = Screen(as_json)
    with reported(as_json):
        from sklearn.datasets import load_digits

        from kernelstream.cli.app import app  # it holds this command, too: not at the top

        folder.mkdir(parents=True, exist_ok=True)
        images, digits = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(images))
        table = np.column_stack([digits[order], images[order] / 16])
        names = ["digit", *(f"p{i}{j}" for i in range(8) for j in range(8))]
        rows = folder / "digits.csv"
        np.savetxt(rows, table, delimiter=",", header=",".join(names), comments="", fmt="%g")
        model, page = folder / "digits.safetensors", folder / "report.html"
        scores = folder / "errors.csv"
        fit = ["fit", rows, "-o", model, "--exclude", "digit", "--basis", "300"]
        look = ["report", model, rows, "-o", page, "--color", "digit", "--image-shape", "8x8"]
        steps = [
            [*fit, "--certify", "tight"],
            ["info", model, "--components", "5"],
            ["score", model, rows, "-o", scores, "--keep", "digit"],
            look,
        ]
        for step in steps:
            words = [str(word) for word in step]
            if not as_json:
                screen.out.print(
                    f"\n$ kernelstream {shlex.join(words)}", style="bold", soft_wrap=True
                )
            options = ["--quiet"] if as_json and words[0] != "info" else []
            application = typer.main.get_command(app)
            with contextlib.redirect_stdout(io.StringIO() if as_json else sys.stdout):
                code = application.main([*words, *options], standalone_mode=False)
            if code:
                raise CommandError(code, f"'kernelstream {words[0]}' did not succeed.")
        if as_json:
            files = [rows, model, scores, page]
            screen.result({"folder": str(folder), "files": [str(path) for path in files]})


def bench(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Rows to measure with; without any, made-up ones.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1000, help="How many rows.")] = 20_000,
    features: Annotated[int, typer.Option(min=1, help="Of made-up rows.")] = 50,
    points: Annotated[str, typer.Option(help="Sizes of the basis.")] = "64,256",
    components: Annotated[int, typer.Option(min=1)] = 10,
    array: opt.Array = None,
    as_json: opt.Json = False,
) -> None:
    """Rows per second on this machine, beside scikit-learn's Nystroem and IncrementalPCA.

    All see the same rows once, in blocks of 1,000, with the same RBF kernel; captured is the
    variance of the scores of 2,000 rows, relative to exact kernel PCA of these.

    Examples
    --------
      kernelstream bench

      kernelstream bench data.parquet --points 100,400
    """
    screen = Screen(as_json)
    with reported(as_json):
        X = some_rows(sources, rows, features, array)
        sizes = [int(word) for word in points.split(",")]
        gamma, judged = width_and_rows(X)
        components = min(components, len(judged) - 1)
        exact = exact_variance(judged, gamma, components)
        found: list[dict[str, Any]] = []
        for name, learn in systems(sizes, gamma, components).items():
            began = time.perf_counter()
            transform = learn(X)
            took = time.perf_counter() - began
            scores = np.asarray(transform(judged), dtype=float)
            captured = float(scores.var(axis=0).sum() / exact)
            found.append(
                {
                    "system": name,
                    "rows_per_second": len(X) / took,
                    "seconds": took,
                    "captured": captured,
                }
            )
        table = Table(title=f"{len(X):,} rows × {X.shape[1]} features, {components} components")
        for column in ("system", "rows a second", "seconds", "captured"):
            table.add_column(column, justify="left" if column == "system" else "right")
        for line in found:
            table.add_row(
                line["system"],
                f"{line['rows_per_second']:,.0f}",
                f"{line['seconds']:.2f}",
                f"{line['captured']:.3f}",
            )
        screen.result({"rows": len(X), "features": X.shape[1], "results": found}, table)


def some_rows(sources: list[str] | None, rows: int, features: int, array: str | None) -> np.ndarray:
    """The first rows of a source, standardised, or rows around a hundred centres."""
    if sources:
        blocks = [block.X for block in Source(sources, limit=rows, array=array)]
        X = np.concatenate(blocks)
        deviation = X.std(axis=0)
        return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(100, features))
    return centres[rng.integers(100, size=rows)] + 0.5 * rng.normal(size=(rows, features))


def width_and_rows(X: np.ndarray) -> tuple[float, np.ndarray]:
    """A width by the median distance, and up to 2,000 rows to judge by."""
    chosen = np.random.default_rng(1).choice(len(X), min(2000, len(X)), replace=False)
    judged = X[np.sort(chosen)]
    pairs = judged[: len(judged) // 2] - judged[len(judged) // 2 : len(judged) // 2 * 2]
    return 1.0 / max(float(np.median(np.square(pairs).sum(axis=1))), 1e-300), judged


def exact_variance(rows: np.ndarray, gamma: float, components: int) -> float:
    """Variance of the leading components of exact kernel PCA."""
    from sklearn.decomposition import KernelPCA

    exact = KernelPCA(components, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    return float(exact.fit(rows).eigenvalues_.sum() / len(rows))


def systems(sizes: list[int], gamma: float, components: int) -> dict[str, Any]:
    """What is compared: a function from rows to a transform, for each."""
    from sklearn.decomposition import IncrementalPCA
    from sklearn.kernel_approximation import Nystroem

    def ours(size: int) -> Any:
        def learn(X: np.ndarray) -> Any:
            model = StreamingKernelPCA(components, gamma=gamma, basis=size, random_state=0)
            for start in range(0, len(X), 1000):
                model.partial_fit(X[start : start + 1000])
            return model.transform

        return learn

    def theirs(size: int) -> Any:
        def learn(X: np.ndarray) -> Any:
            mapping = Nystroem(gamma=gamma, n_components=size, random_state=0).fit(X[:5000])
            pca = IncrementalPCA(components)
            for start in range(0, len(X), 1000):
                block = mapping.transform(X[start : start + 1000])
                if len(block) >= components:
                    pca.partial_fit(block)
            return lambda rows: pca.transform(mapping.transform(rows))

        return learn

    found: dict[str, Any] = {f"kernelstream, {size} points": ours(size) for size in sizes}
    return found | {f"Nystroem({size}) + IncrementalPCA": theirs(size) for size in sizes}
