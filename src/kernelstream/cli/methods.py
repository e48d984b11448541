"""Option ``--method`` of ``fit``: methods of the papers, their parameters, step-size schedules."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import kernelstream
from kernelstream import StreamingKernelPCA, papers
from kernelstream.cli import completion
from kernelstream.cli.beginning import kept_schema
from kernelstream.cli.failures import DATA, USAGE, CommandError
from kernelstream.cli.modelfile import Stored, history, require_apart
from kernelstream.cli.parsing import parse_part
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen, facts_table
from kernelstream.papers import schedules
from kernelstream.serialization import as_number
from kernelstream.tables import Source

PAPERS = "Methods of papers"
MOST_BYTES = 2 << 30  # of rows that a method with epochs takes into memory


class Method(StrEnum):
    """The papers' methods."""

    kha = "kha"
    online = "online"
    rls = "rls"
    lms = "lms"
    subkha = "subkha"
    incremental = "incremental"
    oja = "oja"


# Which options a method has, and what its estimator calls them.
PARAMETERS: dict[Method, dict[str, str]] = {
    Method.kha: {"epochs": "n_epochs", "schedule": "schedule"},
    Method.online: {name: name for name in ("nu", "eta0", "tau", "max_points", "exchange")},
    Method.rls: {name: name for name in ("delta", "beta", "max_points", "exchange")},
    Method.lms: {name: name for name in ("delta", "eta", "max_points", "exchange")}
    | {"schedule": "eta"},
    Method.subkha: {name: name for name in ("delta", "eta", "max_points", "exchange")}
    | {"schedule": "eta"},
    Method.incremental: {
        "n_points": "n_points",
        "n_preimages": "n_preimages",
        "block": "batch_size",
    },
    Method.oja: {"schedule": "schedule"},
}
STEPS: dict[str, type[schedules.Schedule]] = {
    "auto": schedules.AutomaticRate,
    "constant": schedules.ConstantRate,
    "inverse_time": schedules.InverseTime,
    "search_then_converge": schedules.SearchThenConverge,
    "eigenvalue_annealed": schedules.EigenvalueAnnealed,
}


def paper_option(help: str, completed: completion.Completion | None = None) -> Any:
    """An option of the papers' methods."""
    return typer.Option(help=help, rich_help_panel=PAPERS, autocompletion=completed)


@dataclass(frozen=True)
class Rule:
    """The method of a paper, and its parameters; those that are None are the method's own."""

    method: Annotated[
        Method | None,
        paper_option(
            "kha (Kim et al. 2003), online (Honeine 2012), rls, lms, subkha (Tanaka et al.), "
            "incremental (Chin and Suter 2006), oja (Oja's rule). Default: the library's own."
        ),
    ] = None
    literal: Annotated[
        bool,
        typer.Option(
            "--literal",
            help="The paper's rule and nothing else: no step is shortened, centred as it has it.",
            rich_help_panel=PAPERS,
        ),
    ] = False
    nu: Annotated[
        float | None, paper_option("online: squared distance to the span above which a row joins.")
    ] = None
    eta0: Annotated[float | None, paper_option("online: the first step η₀.")] = None
    tau: Annotated[float | None, paper_option("online: rows after which it is half, τ.")] = None
    delta: Annotated[
        float | None, paper_option("rls, lms, subkha: largest coherence of two points, δ.")
    ] = None
    beta: Annotated[float | None, paper_option("rls: forgetting factor β.")] = None
    eta: Annotated[float | None, paper_option("lms, subkha: the step η.")] = None
    epochs: Annotated[
        int | None,
        paper_option("kha: most passes over the rows, in memory; 0: one pass, as a stream."),
    ] = None
    schedule: Annotated[
        str | None,
        paper_option(
            "kha, oja, lms, subkha: steps, 0.05 or search_then_converge(eta0=0.5, tau=1000).",
            completion.names(*completion.SCHEDULES),
        ),
    ] = None
    max_points: Annotated[
        int | None, paper_option("online, rls, lms, subkha: most points of the dictionary.")
    ] = None
    exchange: Annotated[
        int | None,
        paper_option("The same: a full dictionary forgets what so many rows did not need."),
    ] = None
    n_points: Annotated[int | None, paper_option("incremental: points after each compression.")] = (
        None
    )
    n_preimages: Annotated[
        int | None, paper_option("incremental: the paper's n′ pre-images a vector instead.")
    ] = None
    block: Annotated[int | None, paper_option("incremental: rows of a block, the paper's c.")] = (
        None
    )

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if name not in ("method", "literal") and value is not None
        }

    def check(self) -> None:
        """Refuse parameters of another method."""
        if self.method is None:
            wrong = [*self.given, *(["literal"] if self.literal else [])]
            if wrong:
                raise CommandError(
                    USAGE,
                    f"{option(wrong[0])} belongs to the papers' methods: choose one with --method "
                    f"({', '.join(Method)}).",
                )
            return
        for name in self.given:
            if name not in PARAMETERS[self.method]:
                owners = [str(m) for m, known in PARAMETERS.items() if name in known]
                raise CommandError(
                    USAGE,
                    f"--method {self.method} has no {option(name)}; it is of {', '.join(owners)}.",
                )
        if "eta" in self.given and "schedule" in self.given:
            raise CommandError(USAGE, "--eta is a constant step, --schedule another: give one.")
        if self.literal and self._steps_hang_on_the_guard:
            raise CommandError(
                USAGE,
                f"--method {self.method} --literal takes steps as they are given, and automatic "
                "ones end where steps are shortened: give the paper's, --schedule 0.05 or "
                '--schedule "search_then_converge(eta0=0.5, tau=1000)".',
            )

    @property
    def _steps_hang_on_the_guard(self) -> bool:
        """Whether the steps, given or the method's own, are automatic."""
        if self.schedule is not None:
            return getattr(parse_schedule(self.schedule), "relative", False)
        return self.method in (Method.kha, Method.oja)

    @property
    def options(self) -> dict[str, str]:
        """What parameters of the method are called on the command line."""
        assert self.method is not None
        known = PARAMETERS[self.method]
        called = {parameter: option(name) for name, parameter in known.items()}
        called |= {known[name]: option(name) for name in self.given}
        return {**called, "forgetting": "--beta"}

    @property
    def in_memory(self) -> bool:
        """Whether the method passes over the rows again and again."""
        return self.method is Method.kha and self.epochs != 0

    def estimator(
        self, n_components: Any, kernel: Any, center: bool, preimage: str, seed: int
    ) -> StreamingKernelPCA:
        """The estimator of the method."""
        assert self.method is not None
        names = PARAMETERS[self.method]
        values: dict[str, Any] = {names[name]: value for name, value in self.given.items()}
        if self.schedule is not None:
            values[names["schedule"]] = parse_schedule(self.schedule)
        if self.epochs == 0:
            del values["n_epochs"]
        shared = {"kernel": kernel, "preimage": preimage, "random_state": seed}
        literal = self.literal
        if self.method is Method.oja:
            rule = papers.Hebbian(values.get("schedule", "auto"), guard=not literal)
            return StreamingKernelPCA(
                n_components, basis="everything", tracker=rule, center=center, **shared
            )
        own_centre = "paper" if center and literal else center
        if self.method is Method.kha:
            bare: dict[str, Any] = {"guard": False, "ritz": False} if literal else {}
            return kernelstream.papers.KernelHebbianPCA(
                n_components, center=own_centre, **bare, **values, **shared
            )
        if self.method is Method.online:
            return kernelstream.papers.OnlineKernelPCA(
                n_components, center=own_centre, guard=not literal, **values, **shared
            )
        if self.method is Method.incremental:
            if literal and not {"n_points", "n_preimages"} & set(values):
                values["n_preimages"] = 3
            return kernelstream.papers.IncrementalKernelPCA(
                n_components, center=center, **values, **shared
            )
        return kernelstream.papers.AdaptiveKernelPCA(
            n_components,
            method=str(self.method),
            center=center,
            guard=not literal,
            coherence="paper" if literal else "cosine",
            **values,
            **shared,
        )


NO_RULE = Rule()


def option(name: str) -> str:
    """What a parameter is called on the command line."""
    return f"--{name.replace('_', '-')}"


def parse_schedule(text: str) -> Any:
    """A step, or a schedule by name with its parameters in parentheses.

    Examples
    --------
    >>> parse_schedule("search_then_converge(eta0=0.1, tau=50)")
    SearchThenConverge(eta0=0.1, tau=50)
    >>> parse_schedule("0.05")
    0.05
    """
    try:
        step = as_number(float(text))
    except ValueError:
        return parse_part(text, STEPS, "schedule")
    return step


def fit_in_memory(
    estimator: StreamingKernelPCA,
    source: Source,
    output: Path,
    rejects: Path | None,
    screen: Screen,
) -> None:
    """A method that passes over the rows again and again: they are read once, and kept."""
    require_apart([output, rejects], [file.path for file in source.files])
    began, blocks, weights, bad, size = time.perf_counter(), [], [], 0, 0
    listing = Rejects(rejects, 0)
    for block in source:
        listing.add(block.bad)
        bad += len(block.bad)
        blocks.append(block.X)
        weights.append(np.ones(len(block)) if block.weights is None else block.weights)
        size += block.X.nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"The rows must fit into memory ({MOST_BYTES >> 30} GiB) for epochs: end earlier "
                "with --limit, choose columns, or pass once with --epochs 0 or --method online.",
            )
    listing.close()
    rows = np.concatenate(blocks) if blocks else np.empty((0, len(source.names)))
    try:
        estimator.fit(rows, sample_weight=np.concatenate(weights) if weights else None)
    except ValueError as problem:
        raise CommandError(DATA, str(problem)) from problem
    stored = Stored(estimator, source.names if source.named else None, kept_schema(source))
    paths = [file.path for file in source.files]
    stored.origin = {"history": [history(paths, len(rows), bad)]}
    stored.save(output)
    took = time.perf_counter() - began
    share = float(estimator.explained_variance_ratio_.sum())
    epochs, converged = estimator.n_epochs_, estimator.converged_
    facts = {
        "model": str(output),
        "rows": len(rows),
        "bad_rows": bad,
        "epochs": epochs,
        "converged": converged,
        "rows_seen": estimator.n_samples_seen_,
        "features": estimator.n_features_in_,
        "points": len(estimator.basis_points_),
        "components": estimator.n_components_,
        "explained_variance_ratio": share,
        "seconds": round(took, 3),
    }
    shown = [
        ("rows", f"{len(rows):,} in {took:.1f} s"),
        ("epochs", f"{epochs}, {'converged' if converged else 'not converged'}"),
        ("components", f"{estimator.n_components_} with {share:.1%} of the variance"),
        ("model", f"{output}"),
    ]
    screen.result(facts, facts_table(shown), output=output)
