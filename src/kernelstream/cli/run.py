"""A learning run that can be killed at any moment: where it stands, checkpoints, going on.

A checkpoint is a model file with the exact position in the source beside the model, written whole
or not at all. The same rows in the same order give the same model, bit for bit, however they are
cut; so a run that goes on from a checkpoint ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernelstream.cli.failures import CHANGED, DATA, CommandError
from kernelstream.cli.modelfile import Stored, read, require_apart
from kernelstream.cli.terminal import Screen, Watch
from kernelstream.sources import BadRow, Block, Position, Source, fingerprint
from kernelstream.stream.stream import advance, end_second_pass, second_pass, wants_second_pass


@dataclass(frozen=True)
class Place:
    """How far a run has come: pass, position, good and bad rows, bytes of the list of rejects."""

    turn: int = 1
    file: int = 0
    row: int = 0
    rows: int = 0
    bad: int = 0
    rejected_bytes: int = 0

    @property
    def position(self) -> Position:
        """The place in the source."""
        return Position(self.file, self.row)


class Rejects:
    """Bad rows as NDJSON, cut back to the checkpoint when a run goes on."""

    def __init__(self, path: Path | None, size: int):
        self.path = path
        if path is None:
            return
        if size and (not path.exists() or path.stat().st_size < size):
            raise CommandError(
                CHANGED, f"{path} is not the list of rejects that the checkpoint left."
            )
        if not size:
            path.write_bytes(b"")
        os.truncate(path, size)
        self.file = open(path, "ab")  # noqa: SIM115 (closed at the end of the run)

    def add(self, bad: tuple[BadRow, ...]) -> int:
        """Write rows down; returns the size of the list."""
        if self.path is None:
            return 0
        for row in bad:
            self.file.write(json.dumps(asdict(row)).encode() + b"\n")
        self.file.flush()
        return self.file.tell()

    def close(self) -> None:
        """Close the list."""
        if self.path is not None:
            self.file.close()


def checkpoint_path(output: Path) -> Path:
    """Where the checkpoint of a model lies: beside it."""
    return output.with_name(output.name + ".checkpoint")


class Run:
    """Learn a source into a model, in one or two passes, with checkpoints.

    Parameters
    ----------
    stored : Stored
        The model to begin with: a fresh one, or one that goes on learning.
    source : Source
    output : Path
        Where the model will be; checkpoints lie beside it.
    identity : dict
        What must be the same for a checkpoint to fit: the options of the command.
    passes : int or None
        1, 2, or None for two where that makes a difference and the source can be read twice.
    every : float or None
        Seconds between checkpoints; None for none.
    rejects : Path or None
        Where bad rows are listed.
    screen : Screen
    """

    def __init__(
        self,
        stored: Stored,
        source: Source,
        output: Path,
        identity: dict[str, Any],
        passes: int | None,
        every: float | None,
        rejects: Path | None,
        screen: Screen,
    ):
        self.stored, self.source, self.output, self.screen = stored, source, output, screen
        self.identity = identity
        self.asked, self.every, self.rejects_path = passes, every, rejects
        self.checkpoint = checkpoint_path(output)
        self.files = [list(entry) for entry in fingerprint(source.files)]
        require_apart([output, self.checkpoint, rejects], [file.path for file in source.files])
        self.place = Place()
        self.saved_at = time.monotonic()

    def resume(self) -> bool:
        """Go on from the checkpoint, if there is one that fits; False to start afresh."""
        if not self.checkpoint.exists():
            return False
        if self.source.from_pipe:
            raise CommandError(
                CHANGED, "--resume needs files: a pipe cannot be read from a place in it."
            )
        found = read(self.checkpoint)
        progress = found.progress
        if progress is None:
            raise CommandError(CHANGED, f"{self.checkpoint} is a model, not a checkpoint.")
        start_afresh = "Start afresh without --resume."
        for name, value in self.identity.items():
            before = progress["identity"].get(name)
            if before != value:
                raise CommandError(
                    CHANGED,
                    f"The checkpoint {self.checkpoint} was made with {name}={before!r}, now it is "
                    f"{value!r}. {start_afresh}",
                )
        for before, now in zip(progress["files"], self.files, strict=False):
            if before != now:
                raise CommandError(
                    CHANGED, f"{now[0]} changed since the checkpoint was made. {start_afresh}"
                )
        if len(progress["files"]) != len(self.files):
            raise CommandError(
                CHANGED, f"The sources are not those of the checkpoint. {start_afresh}"
            )
        self.stored = replace(found, progress=None)
        self.place = Place(**progress["place"])
        return True

    def learn(self) -> Stored:
        """Run to the end; interrupted, leave a checkpoint where checkpoints were asked for."""
        rejects = Rejects(self.rejects_path, self.place.rejected_bytes)
        model = getattr(self.stored.estimator, "_model", None)
        self.held = model, self.place  # always of one moment: what a checkpoint writes
        try:
            if self.place.turn == 1:
                self._pass(rejects)
                if self.place.rows == 0:
                    raise CommandError(
                        DATA, "The source holds no good row: there is nothing to learn."
                    )
                if self._wants_second():
                    estimator = self.stored.estimator
                    estimator._model = second_pass(estimator._model)
                    bad, size = self.place.bad, self.place.rejected_bytes
                    self._reach(Place(turn=2, bad=bad, rejected_bytes=size))
            if self.place.turn == 2:
                self._pass(None)
                estimator = self.stored.estimator
                estimator._model = end_second_pass(estimator._model)
        except KeyboardInterrupt:
            if self.every is not None and self.held[0] is not None:
                self._save()
                self.screen.say(f"Interrupted; --resume goes on from {self.checkpoint}.")
            raise
        finally:
            rejects.close()
        return self.stored

    def _wants_second(self) -> bool:
        useful = wants_second_pass(self.stored.estimator._model)
        if self.asked == 2 and not useful:
            self.screen.say("A second pass changes nothing for this basis and tracker: left out.")
        return useful and self.asked != 1 and not self.source.from_pipe

    def _pass(self, rejects: Rejects | None) -> None:
        title = "learning" if self.place.turn == 1 else "second pass"
        with Watch(self.screen, self.source, title) as watch:
            for block in self.source.blocks(self.place.position, self.place.rows):
                self._learn(block)
                bad, size = self.place.bad, self.place.rejected_bytes
                if rejects is not None:
                    bad, size = bad + len(block.bad), rejects.add(block.bad) if block.bad else size
                end, rows = block.end, self.place.rows + len(block)
                self._reach(Place(self.place.turn, end.file, end.row, rows, bad, size))
                watch.update(len(block), self.stored.estimator)

    def _learn(self, block: Block) -> None:
        estimator = self.stored.estimator
        if not len(block) or (block.weights is not None and not block.weights.any()):
            return
        try:
            if self.place.turn == 1:
                estimator.partial_fit(block.X, sample_weight=block.weights)
            else:
                X, weights = estimator._learnable(block.X, block.weights, reset=False)
                estimator._model = advance(estimator._model, X, weights, frozen=True)
        except ValueError as problem:
            where = f"{block.file}, rows {block.rows[0]} to {block.rows[-1]}"
            raise CommandError(DATA, f"{where}: {problem}") from problem

    def _reach(self, place: Place) -> None:
        self.place = place
        self.held = getattr(self.stored.estimator, "_model", None), place
        due = self.every is not None and time.monotonic() - self.saved_at >= self.every
        if due and self.held[0] is not None:
            self._save()

    def _save(self) -> None:
        model, place = self.held
        assert model is not None
        self.stored.estimator._model = model
        progress = {"identity": self.identity, "files": self.files, "place": asdict(place)}
        replace(self.stored, progress=progress).save(self.checkpoint)
        self.saved_at = time.monotonic()
