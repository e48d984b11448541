"""Option ``--until`` of ``fit``: learns random rows until a target confidence interval is met."""

from __future__ import annotations

from typing import Any

from kernelstream.cli.checkpoints import Place, Run
from kernelstream.cli.failures import USAGE, CommandError
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Watch
from kernelstream.cli.wording import of_shell
from kernelstream.estimators import ProgressiveSampling
from kernelstream.tables import Block, FileRows


def require_draws(until: float | None, given: dict[str, bool]) -> None:
    """Refuse a number that is no share, and options that do not go with draws."""
    if until is None:
        return
    try:
        ProgressiveSampling(until)
    except ValueError as problem:
        raise CommandError(USAGE, of_shell(str(problem), {"until": "--until"})) from problem
    wrong = [f"--{name}" for name, is_given in given.items() if is_given]
    if wrong:
        raise CommandError(
            USAGE,
            "--until draws rows for a kernel PCA of its own, until enough is known about all of "
            f"them: leave out {', '.join(wrong)}.",
        )


class DrawnRun(Run):
    """Learn as many rows as are needed; where that is all of them, in passes as always.

    Parameters
    ----------
    until : float
        How far below the best possible the share of the model may be.
    """

    drawn_from = 0  # rows, where not all of them were learned

    def __init__(self, *run: Any, until: float):
        super().__init__(*run)
        self.until = until

    def learn(self) -> None:
        """Draw rows; a run that was stopped had to learn all of them, and goes on with that."""
        if self.place != Place() or not self._drawn():
            super().learn()

    def _drawn(self) -> bool:
        """Whether draws were enough."""
        rejects, bad = Rejects(self.rejects_path, 0), 0

        def note(block: Block) -> None:
            nonlocal bad
            bad += len(block.bad)
            rejects.add(block.bad)
            watch.update(len(block))

        try:
            with Watch(self.screen, self.source, "counting") as watch:
                rows = FileRows.of(self.stored.estimator, self.source, note)
        finally:
            rejects.close()
        found = ProgressiveSampling(self.until).fit(self.stored.estimator, rows)
        if found is None:
            self.screen.say("As many rows as there are would have to be drawn: all are learned.")
            return False
        self.stored.estimator, self.drawn_from = found, rows.n
        drawn = found.n_samples_seen_ + found.certificate_.statistical.n_sampled
        self.place = Place(rows=drawn, bad=bad)
        return True

    def found(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Of how many rows they were drawn, and how far the model is from the best."""
        facts, lines = super().found()
        if not self.drawn_from:
            return facts, lines
        below = self.stored.estimator.certificate_.statistical.shortfall_bound
        more = {"drawn_from": self.drawn_from, "shortfall_bound": below}
        told = [
            ("drawn from", f"{self.drawn_from:,} rows"),
            *lines,
            ("below that", f"by {below:.2%} of the variance at most"),
        ]
        return {**facts, **more}, told
