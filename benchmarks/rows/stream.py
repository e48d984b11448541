"""One pass over a long stream at equal captured variance, and queries afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.measuring import Outcome, Side, faster, interleaved
from benchmarks.run import Run
from benchmarks.systems import NYSTROEM_IN_MEMORY, NYSTROEM_INCREMENTAL, OURS, System


def learning(run: Run) -> list[Outcome]:
    """Against the streaming route and against the same in memory."""
    sizes = run.sizes
    contest: dict[System, int] = {
        OURS: run.centroids,
        NYSTROEM_INCREMENTAL: run.landmarks_streamed,
        NYSTROEM_IN_MEMORY: run.landmarks,
    }
    run.orientation()
    run.say("timed runs of the stream")
    X, problem = run.images.stream, run.problem

    def work(system: System, size: int) -> Callable[[], Any]:
        return lambda: system.learn(X, size, problem)

    seconds, scores = interleaved({s.name: work(s, m) for s, m in contest.items()}, run.repeats)
    ours, streamed, in_memory = (
        Side(s.name, seconds[s.name], run.judge.captured(scores[s.name]), m)
        for s, m in contest.items()
    )
    title = (
        f"{run.images.source} {len(X):,} × {X.shape[1]}, r = {sizes.components}, "
        f"captured ≥ {sizes.target}, one pass"
    )
    return [
        faster("stream", title, ours, streamed, 20.0),
        faster("stream", title, ours, in_memory, 6.0),
    ]


def transforming(run: Run) -> list[Outcome]:
    """Scores of new rows, by models of equal captured variance."""
    queries, X, problem = run.images.queries, run.images.stream, run.problem
    contest = {OURS: run.centroids, NYSTROEM_IN_MEMORY: run.landmarks}
    models = {s.name: s.learn(X, m, problem) for s, m in contest.items()}
    for model in models.values():
        model(queries[:100])  # whatever is made ready at the first query

    def work(name: str) -> Callable[[], Any]:
        return lambda: models[name](queries)

    # a query is short, so more turns cost nothing
    seconds, _ = interleaved({name: work(name) for name in models}, 3 * run.repeats)
    ours, theirs = (
        Side(s.name, seconds[s.name], run.judge.captured(models[s.name]), m)
        for s, m in contest.items()
    )
    return [faster("transform", f"transform of {len(queries):,} rows", ours, theirs, 4.0)]
