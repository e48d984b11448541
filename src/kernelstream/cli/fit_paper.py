"""Learning of the command ``paper``: epochs in memory, or one pass over a stream."""

from __future__ import annotations

import inspect
import time
from dataclasses import replace
from typing import Any

import numpy as np

from kernelstream import papers
from kernelstream.cli.arguments import PaperArguments
from kernelstream.cli.failures import DATA, USAGE, CommandError
from kernelstream.cli.intake import kept_schema, open_table, prepare_estimator, say_columns
from kernelstream.cli.learning import Job, component_facts, learn, show_result
from kernelstream.cli.modelfile import Stored, history, lock, require_new, require_sense
from kernelstream.cli.options import literal
from kernelstream.cli.parsing import parse_gamma, parse_kernel, parse_part
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen
from kernelstream.cli.wording import option_of
from kernelstream.tables import Learner, Source

MOST_BYTES = 2 << 30  # of rows that a method with epochs takes into memory


def fit_paper(given: PaperArguments, kind: type, texts: dict[str, str], screen: Screen) -> None:
    """Fit the estimator of a paper; ``texts`` are the parameters that were given."""
    parameters = {name: parsed(name, text) for name, text in texts.items()}
    estimator = kind(**parameters, random_state=given.seed)
    # The trackers of Tanaka et al. have their factor β as "forgetting".
    require_sense(estimator, {**{name: option_of(name) for name in texts}, "forgetting": "--beta"})
    has_epochs = "n_epochs" in inspect.signature(kind).parameters
    if has_epochs and (given.resume or given.checkpoint_every is not None):
        raise CommandError(
            USAGE, "Epochs are learned in memory: leave out --checkpoint-every and --resume."
        )
    with lock(given.output):
        require_new(given.output, given.force)
        wishes = given.wishes(given.read)
        if not estimator.can_fill:
            wishes = replace(wishes, missing="bad")
        source = open_table(given, schema=wishes)
        # Scaling and kernel are those of the method.
        prepare_estimator(estimator, source, calibrated=False)
        say_columns(source, estimator, screen)
        stored = Stored(estimator, source.names if source.named else None, kept_schema(source))
        identity = {"command": "paper", "method": kind.__name__, **texts}
        job = Job(
            stored,
            Learner(estimator, source, passes=1),
            source,
            given.output,
            identity,
            given,
            screen,
        )
        began = time.perf_counter()
        if not has_epochs:
            learn(job, [])
            show_result(job, time.perf_counter() - began, *component_facts(stored))
            return
        learn_in_memory(job)
        facts, lines = component_facts(stored)
        n_epochs, converged = estimator.n_epochs_, estimator.converged_
        words = "converged" if converged else "not converged"
        facts |= {"epochs": n_epochs, "converged": converged}
        lines = [("epochs", f"{n_epochs}, {words}"), *lines]
        show_result(job, time.perf_counter() - began, facts, lines)


def parsed(name: str, text: str) -> Any:
    """The value of a parameter of a paper's estimator."""
    if name == "kernel":
        return parse_kernel(text)
    if name == "gamma":
        return parse_gamma(text)
    value = literal(text)
    if name in ("schedule", "eta") and isinstance(value, str):
        return parse_part(text, papers.SCHEDULES, name)
    return value


def learn_in_memory(job: Job) -> None:
    """Read all rows, and fit the estimator to them in epochs."""
    X, weights, n_invalid = rows_in_memory(job.source, job.given.rejects)
    estimator = job.stored.estimator
    estimator.fit(X, sample_weight=weights)
    entry = history([file.path for file in job.source.files], len(X), n_invalid, passes=1)
    job.stored.origin = {"history": [entry]}
    job.stored.save(job.output)


def rows_in_memory(source: Source, rejects: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """All rows with their weights, and the number of rejected ones."""
    blocks, weights, n_invalid, size = list[Any](), list[Any](), 0, 0
    listing = Rejects(rejects, 0)
    for block in source:
        listing.add(block.bad)
        n_invalid += len(block.bad)
        blocks.append(block.X)
        weights.append(np.ones(len(block)) if block.weights is None else block.weights)
        size += block.X.nbytes
        if size > MOST_BYTES:
            raise CommandError(
                DATA,
                f"The rows must fit into memory ({MOST_BYTES >> 30} GiB) for epochs: end earlier "
                "with --limit, or choose columns.",
            )
    listing.close()
    if not blocks:
        raise CommandError(DATA, "There is no row to learn from.")
    return np.concatenate(blocks), np.concatenate(weights), n_invalid
