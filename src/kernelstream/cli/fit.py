"""Commands ``fit`` and ``paper``: a model, a detector or a prediction from files or a pipe."""

from __future__ import annotations

from typing import Any

from kernelstream import KernelMonitor, papers
from kernelstream.cli.arguments import FitArguments, PaperArguments
from kernelstream.cli.intake import open_table, prepare_estimator, prepare_like, say_columns
from kernelstream.cli.kinds import new_estimator, require_fitting_options
from kernelstream.cli.learning import (
    Job,
    identity_of,
    learn,
    learner_for,
    resumed,
)
from kernelstream.cli.modelfile import SCORES, Stored, lock, read, require_new, require_sense
from kernelstream.cli.normal import fit_monitor
from kernelstream.cli.options import literal
from kernelstream.cli.parsing import parse_kernel, parse_part
from kernelstream.cli.prediction import begin_prediction, say_target
from kernelstream.cli.terminal import Screen
from kernelstream.cli.wording import option_of
from kernelstream.tables import Learner, Source


def fit(given: FitArguments, screen: Screen) -> None:
    """Fit the kind of model that is asked for."""
    require_fitting_options(given)
    estimator = new_estimator(given)
    with lock(given.output):
        if not given.resume:
            hint = f" ('kernelstream update {given.output}' goes on with it.)"
            require_new(given.output, given.force, hint)
        if isinstance(estimator, KernelMonitor):
            fit_monitor(given, estimator, screen)
            return
        stored, source = resumed(given) or begin(given, estimator)
        say_columns(source, stored.estimator, screen)
        say_target(source.target, screen)
        # A second pass would learn the rows that a detector holds out.
        passes = given.passes if given.detector is None else 1
        learner = learner_for(stored, source, passes)
        identity = identity_of(given, {"command": "fit"})
        job = Job(stored, learner, source, given.output, identity, given, screen)
        learn(job)


def begin(given: FitArguments, estimator: Any) -> tuple[Stored, Source]:
    """A model that has learned nothing, prepared for the rows of its source."""
    if given.like is not None:
        template = read(given.like, *SCORES)
        source = template.open_source(
            given.sources, given.source_options(weight_column=given.weight_column)
        )
        prepare_like(estimator, template, source)
        return Stored.of(estimator, source), source
    source = open_table(given, target=given.target)
    if source.target is None:
        # The scaling of a detector is its own, and is part of what it holds out.
        prepare_estimator(estimator, source, calibrated=given.detector is None)
        return Stored.of(estimator, source), source
    return begin_prediction(estimator, source, given.hold_back), source


# -- methods of papers


def fit_paper(given: PaperArguments, kind: type, texts: dict[str, str], screen: Screen) -> None:
    """Fit the estimator of a paper; ``texts`` are the parameters that were given."""
    parameters = {name: parsed(name, text) for name, text in texts.items()}
    estimator = kind(**parameters, random_state=given.seed)
    # The trackers of Tanaka et al. have their factor β as "forgetting".
    require_sense(estimator, {**{name: option_of(name) for name in texts}, "forgetting": "--beta"})
    with lock(given.output):
        if not given.resume:
            require_new(given.output, given.force)
        stored, source = resumed(given) or begin_paper(given, estimator)
        say_columns(source, stored.estimator, screen)
        learner = Learner(stored.estimator, source, passes=1)
        identity = identity_of(given, {"command": "paper", "estimator": kind.__name__, **texts})
        learn(Job(stored, learner, source, given.output, identity, given, screen))


def begin_paper(given: PaperArguments, estimator: Any) -> tuple[Stored, Source]:
    """The estimator of a paper, which brings its scaling and kernel, with its source."""
    source = open_table(given)
    prepare_estimator(estimator, source, calibrated=False)
    return Stored.of(estimator, source), source


def parsed(name: str, text: str) -> Any:
    """The value of a parameter of a paper's estimator."""
    if name == "kernel":
        return parse_kernel(text)
    value = literal(text)
    if name == "eta" and isinstance(value, str):
        return parse_part(text, papers.SCHEDULES, name)
    return value
