"""Arguments of every command: a frozen dataclass each, whose docstring is the help of the command.

They are apart from the functions that run the commands, which import NumPy, Arrow and Numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernelstream.cli import options as opt


@dataclass(frozen=True, kw_only=True)
class CheckArguments(opt.ColumnOptions, opt.InputOptions, opt.ScreenOptions):
    """Show how each column would be handled, and why.

    With --tune, suggest gamma, components and landmarks for 'fit', with the curve behind them:
    without a target, the bandwidth whose scores reconstruct held-out rows best, and the components
    with more variance than by chance; with a target, those that predict it best.

    Examples
    --------
      kernelstream check data.csv

      kernelstream check parts/*.parquet --treat 'zip=category,id=out'

      kernelstream check data.csv --tune --target digit
    """

    sources: opt.Sources
    tune: Annotated[
        bool, typer.Option("--tune", help="Suggest gamma, components and landmarks.")
    ] = False
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --tune: column that the scores should predict."),
    ] = None
    standardize: opt.Standardize = None
    seed: opt.Seed = 0


@dataclass(frozen=True, kw_only=True)
class FitArguments(opt.ColumnOptions, opt.CheckpointOptions, opt.InputOptions, opt.ScreenOptions):
    """Fit a model to the rows of files or a pipe.

    Without --target or --detector it is a kernel PCA.

    Examples
    --------
      kernelstream fit data/*.parquet -o model.safetensors

      zcat log.csv.gz | kernelstream fit - --columns 'a,b,sensor_*'

      kernelstream fit houses.csv -o price.safetensors --target price

      kernelstream fit good.csv -o detector.safetensors --detector novelty --alpha 0.01

      kernelstream fit normal.csv -o monitor.safetensors --detector monitor --set lags=2

      kernelstream fit big/ --components 20 --checkpoint-every 60s --resume

      kernelstream fit tuesday.csv -o tuesday.safetensors --like monday.safetensors
    """

    sources: opt.Sources
    output: opt.Output = Path("model.safetensors")
    weight_column: opt.WeightColumn = None
    force: opt.Force = False
    components: Annotated[
        str | None,
        opt.model_option(
            metavar="N",
            help="Number of components, a fraction of the variance such as 0.95, all, or auto "
            "(more variance than by chance). Default: 0.95, or 10 if it must be known before the "
            "first row.",
        ),
    ] = None
    kernel: Annotated[
        str,
        opt.model_option(
            metavar="KERNEL",
            help="rbf, poly(degree=2), matern(nu=1.5), ...; sums and products, also by column: "
            "on('t_*', rbf) * on('color', categorical).",
        ),
    ] = "rbf"
    gamma: Annotated[
        str | None,
        opt.model_option(
            metavar="GAMMA",
            help="Inverse squared bandwidth of the kernel: a number, or auto (compares several). "
            "Default: the median heuristic on a sample of all rows.",
        ),
    ] = None
    basis: Annotated[
        str,
        opt.model_option(
            metavar="N",
            help="Number of landmarks, auto, or a strategy: distance(nu=0.1), everything, ...",
        ),
    ] = "256"
    standardize: opt.Standardize = None
    forgetting: Annotated[
        float | None,
        opt.model_option(
            metavar="FACTOR",
            help="Weight of older rows is multiplied by this with each row, such as 0.999.",
        ),
    ] = None
    target: Annotated[
        str | None,
        opt.model_option(
            metavar="NAME",
            help="Column to predict with 'kernelstream predict': a number, or a class.",
        ),
    ] = None
    hold_back: Annotated[
        float,
        opt.model_option(
            min=0.0,
            max=0.9,
            metavar="FRACTION",
            help="With --target: fraction of rows held out to score the model.",
        ),
    ] = 0.2
    detector: Annotated[
        Literal["novelty", "monitor"] | None,
        opt.model_option(
            help="Fit a novelty detector for 'kernelstream score', or a process monitor for "
            "'kernelstream monitor' (rows in order of time)."
        ),
    ] = None
    alpha: Annotated[
        float | None,
        opt.model_option(
            metavar="FRACTION",
            help="With --detector: fraction of normal rows that may be flagged. Default: 0.05 for "
            "novelty, 0.01 for a monitor.",
        ),
    ] = None
    set: opt.ParameterSettings = None
    seed: opt.Seed = 0
    like: Annotated[
        Path | None,
        opt.expert_option(
            metavar="MODEL",
            help="Take columns, scaling and kernel from this model, so that both can be merged.",
        ),
    ] = None
    passes: Annotated[
        int | None,
        opt.expert_option(
            min=1,
            max=2,
            metavar="N",
            help="Read the rows once or twice: the second time with the final landmarks. Default: "
            "2 for files where it helps, 1 for a pipe.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class UpdateArguments(opt.CheckpointOptions, opt.InputOptions, opt.ScreenOptions):
    """Update a model with rows that follow those it has learned.

    Examples
    --------
      kernelstream update model.safetensors today.parquet

      kernelstream update model.safetensors new/ -o newer.safetensors

      kernelstream update model.safetensors kafka://broker/plant
    """

    model: opt.Model
    sources: opt.Sources
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file. Default: the model."),
    ] = None
    columns: opt.Columns = None
    weight_column: opt.WeightColumn = None
    force: opt.Force = False


@dataclass(frozen=True, kw_only=True)
class QueryArguments(opt.InputOptions, opt.ScreenOptions):
    """What commands are given that compute something for each row."""

    model: opt.Model
    sources: opt.Sources
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Output file; its ending gives the format. Default: the standard output.",
        ),
    ] = None
    to: Annotated[
        Literal["parquet", "csv", "arrow", "ndjson", "npy"] | None,
        typer.Option(help="Output format, if it cannot be inferred from the file name."),
    ] = None
    keep: opt.Keep = None
    columns: opt.Columns = None
    rejects: opt.RejectsFile = None


@dataclass(frozen=True, kw_only=True)
class TransformArguments(QueryArguments):
    """Compute the scores of rows on the components: columns pc1, pc2, and so on.

    With --denoise, write rows like those of the source instead: their projections on the
    components, back in the units of the columns (inverse transform).

    Examples
    --------
      kernelstream transform model.safetensors data.parquet -o scores.parquet --keep id

      kernelstream transform model.safetensors data.csv --to csv | head

      kernelstream transform model.safetensors noisy.npy --denoise -o clean.npy
    """

    denoise: Annotated[
        bool, typer.Option("--denoise", help="Write denoised rows instead of scores.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ScoreArguments(QueryArguments):
    """Compute the anomaly score of each row.

    Of a kernel PCA: reconstruction_error (squared, in feature space) and t2, the sum of the squared
    scores, each divided by the variance of its component. Of a detector (fit --detector novelty):
    error, p_value (the fraction of normal rows with such an error), novel (1 or 0) and, for novel
    rows, the columns that contribute most.

    Examples
    --------
      kernelstream score model.safetensors data.parquet -o errors.parquet --keep time

      kernelstream score model.safetensors - < rows.ndjson
    """


@dataclass(frozen=True, kw_only=True)
class PredictArguments(QueryArguments):
    """Predict the target of a model that 'fit --target' wrote, in a column NAME_predicted.

    Examples
    --------
      kernelstream fit houses.csv -o price.safetensors --target price

      kernelstream predict price.safetensors new.csv -o prices.csv --keep id
    """


@dataclass(frozen=True, kw_only=True)
class ExplainArguments(opt.InputOptions, opt.ScreenOptions):
    """Explain components by their columns, or the rows with the largest error by theirs.

    Examples
    --------
      kernelstream explain model.safetensors

      kernelstream explain model.safetensors today.parquet --top 20 --keep id
    """

    model: opt.Model
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Rows, of which those with the largest error are explained. Default: components.",
        ),
    ] = None
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of rows, or components, to explain.")
    ] = 10
    by: Annotated[int, typer.Option(min=1, metavar="N", help="Number of columns for each.")] = 3
    keep: opt.Keep = None
    columns: opt.Columns = None


@dataclass(frozen=True, kw_only=True)
class InfoArguments:
    """Describe a model: parameters, rows learned, components and certificate.

    Examples
    --------
      kernelstream info model.safetensors

      kernelstream info model.safetensors --json | jq .explained_variance_ratio
    """

    model: opt.Model
    components: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of components in the table.")
    ] = 20
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class MergeArguments:
    """Merge models of different rows into the model of all their rows.

    They need the same columns, scaling and kernel: fit them with --like.

    Examples
    --------
      kernelstream merge monday.safetensors tuesday.safetensors -o both.safetensors
    """

    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL", help="Two or more models of the same kind.")
    ]
    output: opt.Output
    force: opt.Force = False
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class CompressArguments:
    """Reduce the landmarks of a model: a smaller file, and scores in a fraction of the time.

    It needs no rows. The loss is printed, and is part of the certificate ('kernelstream info').
    The model can be updated afterwards, but keeps its landmarks.

    Examples
    --------
      kernelstream compress model.safetensors -o small.safetensors --points 64
    """

    model: opt.Model
    output: opt.Output
    points: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of landmarks. Default: half of them."),
    ] = None
    force: opt.Force = False
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class ReportArguments(opt.InputOptions, opt.ScreenOptions):
    """Write one self-contained HTML page about a model, which also works offline.

    Examples
    --------
      kernelstream report model.safetensors data.parquet --color label

      kernelstream report digits.safetensors digits.npy --image-shape 8x8
    """

    model: opt.Model
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Rows to show. Default: the landmarks."),
    ] = None
    output: opt.Output = Path("report.html")
    color: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column that colors the rows.")
    ] = None
    image_shape: Annotated[
        str | None, typer.Option(metavar="SHAPE", help="Rows are images: height x width, 28x28.")
    ] = None
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How lines become rows, and what is written about them."""

    time_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the time stamp.")
    ] = None
    keep: opt.Keep = None
    read: opt.ReadSettings = None
    top: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of contributing columns to name.")
    ] = 3
    alarms_only: Annotated[
        bool, typer.Option("--alarms-only", help="Write only rows with an alarm.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class LearningOptions:
    """Whether rows are learned, and where the model is saved."""

    learn: Annotated[
        bool, typer.Option("--learn", help="Learn rows without an alarm, and save the model.")
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where --learn saves. Default: the model."
        ),
    ] = None
    save_every: Annotated[
        float,
        typer.Option(
            parser=opt.seconds, metavar="TIME", help="With --learn: interval between savings."
        ),
    ] = "60s"  # type: ignore[assignment]

    def saved_at(self, model: Path) -> Path | None:
        """Where a model that learns is saved."""
        return (self.output or model) if self.learn else None


@dataclass(frozen=True, kw_only=True)
class MonitorArguments(RowOptions, LearningOptions):
    """Score rows one by one as they come from a pipe or files: a line of NDJSON each.

    The model is a monitor or a novelty detector ('fit --detector'). 'kernelstream plant serve', of
    the package kernelstream-plant, adds a live page, a history, metrics, and rows from brokers,
    servers and databases.

    Examples
    --------
      tail -f sensors.ndjson | kernelstream monitor model.safetensors --alarms-only

      nc -l 9000 | kernelstream monitor model.safetensors --learn --time-column t > scored.ndjson

      kernelstream monitor model.safetensors day.csv --time-column t
    """

    model: opt.Model
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Files. Default: the standard input."),
    ] = None
    as_json: opt.Json = False


@dataclass(frozen=True, kw_only=True)
class PaperArguments(opt.ColumnOptions, opt.CheckpointOptions, opt.InputOptions, opt.ScreenOptions):
    """Fit the method of a paper, with the parameters of its estimator."""

    sources: opt.Sources
    output: opt.Output = Path("model.safetensors")
    force: opt.Force = False
    seed: opt.Seed = 0


@dataclass(frozen=True, kw_only=True)
class DemoArguments:
    """Run fit, info, score and report on handwritten digits, and show each command."""

    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Output folder.")
    ] = Path("kernelstream-demo")
