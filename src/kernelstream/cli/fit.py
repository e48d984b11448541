"""Command ``fit``: a kernel PCA, a detector, a monitor or a prediction from files or a pipe."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from kernelstream.cli.arguments import Detector, FitArguments
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.intake import (
    kept_schema,
    open_table,
    prepare_estimator,
    prepare_like,
    require_sample,
    say_columns,
)
from kernelstream.cli.kinds import (
    kernel_pca,
    monitor,
    novelty_detector,
    predictor,
    require_fitting_options,
)
from kernelstream.cli.learning import (
    Job,
    checkpoint_path,
    component_facts,
    learn,
    learn_random_rows,
    random_row_facts,
    show_result,
    stopped_run,
    with_position,
)
from kernelstream.cli.modelfile import Stored, history, lock, read, require_apart, require_new
from kernelstream.cli.normal import fit_monitor
from kernelstream.cli.prediction import (
    HOLDOUT,
    TargetLearner,
    announce_target,
    say_target,
    target_facts,
)
from kernelstream.cli.terminal import Screen
from kernelstream.cli.wording import of_shell
from kernelstream.estimators import ProgressiveSampling
from kernelstream.stream import Rows
from kernelstream.tables import Learner, Source


def fit(given: FitArguments, screen: Screen) -> None:
    """Fit the kind of model that is asked for."""
    require_fitting_options(given)
    if given.until is not None:
        require_fraction(given.until)
    estimator = fresh_estimator(given)
    with lock(given.output):
        if not given.resume:
            hint = f" ('kernelstream update {given.output}' goes on with it.)"
            require_new(given.output, given.force, hint)
        if given.target is not None:
            fit_prediction(given, screen)
        elif given.detector is Detector.monitor:
            fit_monitor(given, estimator, screen)
        elif given.sample:
            fit_sample(given, estimator, screen)
        else:
            fit_rows(given, estimator, screen)


def fresh_estimator(given: FitArguments) -> Any:
    """An estimator whose parameters make sense, which is checked before any row is read.

    That of a prediction depends on the type of the target: None.
    """
    if given.target is not None:
        return None
    if given.detector is Detector.novelty:
        return novelty_detector(given)
    return kernel_pca(given) if given.detector is None else monitor(given)


def fit_rows(given: FitArguments, estimator: Any, screen: Screen) -> None:
    """Fit a kernel PCA, or a novelty detector, to all rows, or to random ones."""
    identity = parameter_identity(estimator, given)
    source, is_prepared = open_rows(given, estimator)
    if not is_prepared:
        # The scaling of a detector is its own, and is part of what it holds out.
        prepare_estimator(estimator, source, calibrated=given.detector is None)
    # A second pass would learn the rows that a detector holds out.
    passes = 1 if given.detector is not None else given.passes
    learner = Learner(estimator, source, passes)
    stored = Stored(estimator, source.names if source.named else None, kept_schema(source))
    identity |= common_identity(given, source)
    job = Job(stored, learner, source, given.output, identity, given, screen)
    say_columns(source, estimator, screen)
    began = time.perf_counter()
    drawn_from = 0
    is_resumed = given.resume and (given.output.exists() or checkpoint_path(given.output).exists())
    if given.until is not None and not is_resumed:
        drawn_from = learn_random_rows(job, given.until)
    if not drawn_from and learn(job, []) is None:
        return
    facts = random_row_facts(stored, drawn_from) if drawn_from else component_facts(stored)
    show_result(job, time.perf_counter() - began, *facts)


def open_rows(given: FitArguments, estimator: Any) -> tuple[Source, bool]:
    """The rows, and whether the estimator is prepared for them already."""
    plain = given.source_options(given.columns, given.exclude, given.weight_column)
    stopped = stopped_run(given.output, given.sources, given.resume)
    if stopped is not None:
        return stopped.open_source(
            given.sources, with_position(plain, stopped, given.sources)
        ), True
    if given.like is not None:
        template = read(given.like)
        source = template.open_source(given.sources, plain)
        prepare_like(estimator, template, source)
        return source, True
    wishes = given.wishes(given.read)
    if not getattr(estimator, "can_fill", True):
        wishes = replace(wishes, missing="bad")
    return open_table(given, schema=wishes), False


def fit_prediction(given: FitArguments, screen: Screen) -> None:
    """Fit a regression or a classifier to a target, and score held-out rows."""
    stopped = stopped_run(given.output, given.sources, given.resume)
    if stopped is None:
        source = open_table(given, target=given.target)
    else:
        plain = given.source_options(given.columns, given.exclude, given.weight_column)
        plain = with_position(plain, stopped, given.sources)
        source = stopped.open_source(given.sources, plain, stopped.target)
    target = source.target
    assert target is not None
    estimator = predictor(given, target)
    identity = parameter_identity(estimator, given)
    if stopped is None:
        prepare_estimator(estimator, source)
    announce_target(estimator, target)
    holdout = HOLDOUT if given.hold_back is None else given.hold_back
    identity |= common_identity(given, source)
    identity |= {"target": str(target), "hold_back": holdout}
    names = source.names if source.named else None
    stored = Stored(estimator, names, kept_schema(source))
    learner = TargetLearner(estimator, source, holdout, given.passes)
    job = Job(stored, learner, source, given.output, identity, given, screen)
    say_columns(source, estimator, screen)
    say_target(target, screen)
    learn_target(job, [])


def learn_target(job: Job, earlier: list[dict[str, Any]]) -> None:
    """Learn rows with their targets, score the held-out ones, and write the model."""
    learner, source, began = job.learner, job.source, time.perf_counter()
    assert isinstance(learner, TargetLearner) and source.target is not None
    target, score = source.target, dict[str, Any]()

    def score_rows() -> None:
        score.update(learner.score(job.screen))
        job.stored.origin = {
            **job.stored.origin,
            "target": {
                "column": target.to_facts(),
                "hold_back": learner.holdout,
                "judged": score,
            },
        }

    if learn(job, earlier, score_rows) is not None:
        show_result(job, time.perf_counter() - began, *target_facts(target, score))


def fit_sample(given: FitArguments, estimator: Any, screen: Screen) -> None:
    """Fit a random sample of all rows: a template for ``--like``."""
    source = open_table(given)
    require_apart([given.output], [file.path for file in source.files])
    X = require_sample(source)
    prepare_estimator(estimator, source)
    say_columns(source, estimator, screen)
    stored = Stored(estimator, source.names if source.named else None, kept_schema(source))
    stored.stream = stored.stream.learn_all(Rows(X))
    entry = history([file.path for file in source.files], len(X), 0, plan=True)
    stored.origin = {"history": [entry]}
    stored.save(given.output)
    facts = {"model": str(given.output), "rows": len(X), "features": len(source.names)}
    words = f"A sample of {len(X):,} rows → {given.output}. Fit each part with --like."
    screen.result(facts, words, output=given.output)


def parameter_identity(estimator: Any, given: FitArguments) -> dict[str, Any]:
    """Parameters that options give; what the data decide is in the checkpoint."""
    undecided = {"scale"} if given.standardize is None else set()
    parameters = estimator.get_params(deep=False)
    return {name: repr(value) for name, value in parameters.items() if name not in undecided}


def common_identity(given: FitArguments, source: Source) -> dict[str, Any]:
    """Other options that must be the same when the run is resumed."""
    return {
        "command": "fit",
        "columns": list(source.names),
        "passes": given.passes,
        "until": given.until,
        "dtype": source.dtype,
        "weight_column": given.weight_column,
        "limit": given.limit,
        "on_bad_rows": given.on_bad_rows.value,
    }


def require_fraction(until: float) -> None:
    """Raise where ``--until`` is no fraction."""
    try:
        ProgressiveSampling(until)
    except ValueError as problem:
        raise CommandError(USAGE, of_shell(str(problem), {"until": "--until"})) from problem
