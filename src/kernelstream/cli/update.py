"""Command ``update``: continues to learn from rows that follow those already seen."""

from __future__ import annotations

import hashlib

from kernelstream.cli.arguments import UpdateArguments
from kernelstream.cli.learning import Job, identity_of, learn, learner_for, open_source, resumed
from kernelstream.cli.modelfile import (
    SCORES,
    lock,
    read,
    require_apart,
    require_kind,
    require_new,
)
from kernelstream.cli.terminal import Screen


def update(given: UpdateArguments, screen: Screen) -> None:
    """Learn the rows in one pass."""
    model, output = given.model, given.output or given.model
    with lock(output):
        if output != model and not given.resume:
            require_new(output, given.force)
        stored = read(model)
        if stored.target is None:
            require_kind(stored, model, *SCORES)
        require_apart([given.rejects], [model])
        stored, source = resumed(given, output) or (stored, open_source(stored, given))
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        identity = identity_of(given, {"command": "update", "model": digest})
        learner = learner_for(stored, source, passes=1)
        learn(Job(stored, learner, source, output, identity, given, screen))
