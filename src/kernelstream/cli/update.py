"""Command ``update``: continues to learn from rows that follow those already seen."""

from __future__ import annotations

import hashlib
import time

from kernelstream.cli.arguments import UpdateArguments
from kernelstream.cli.fit import learn_target
from kernelstream.cli.learning import (
    Job,
    component_facts,
    learn,
    show_result,
    stopped_run,
    with_position,
)
from kernelstream.cli.modelfile import lock, read, require_apart, require_kernel_pca, require_new
from kernelstream.cli.prediction import TargetLearner
from kernelstream.cli.terminal import Screen
from kernelstream.tables import Learner


def update(given: UpdateArguments, screen: Screen) -> None:
    """Learn the rows in one pass."""
    model, output = given.model, given.output or given.model
    read_options = given.source_options(given.columns, weight_column=given.weight_column)
    with lock(output):
        if output != model and not given.resume:
            require_new(output, given.force)
        stored = read(model, any_kind=True)
        target = stored.target
        if target is None:
            require_kernel_pca(stored, model)
        stopped = stopped_run(output, given.sources, given.resume)
        read_options = with_position(read_options, stopped or stored, given.sources)
        source = stored.open_source(given.sources, read_options, target)
        identity = {
            "command": "update",
            "model": hashlib.sha256(model.read_bytes()).hexdigest(),
            "columns": list(source.names),
            **{name: read_options[name] for name in ("weight_column", "limit", "on_bad_rows")},
        }
        require_apart([given.rejects], [model])
        earlier = stored.origin.get("history", [])
        if target is not None:
            holdout = stored.origin["target"]["hold_back"]
            learner: Learner = TargetLearner(stored.estimator, source, holdout, passes=1)
        else:
            learner = Learner(stored.estimator, source, passes=1)
        job = Job(stored, learner, source, output, identity, given, screen)
        began = time.perf_counter()
        if target is not None:
            learn_target(job, earlier)
        elif learn(job, earlier) is not None:
            show_result(job, time.perf_counter() - began, *component_facts(stored))
