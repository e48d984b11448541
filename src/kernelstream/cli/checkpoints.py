"""Checkpoint and resume of long runs: position in the source, two passes, ``--resume``.

A checkpoint is a model file with the exact position in the source beside the model, written whole
or not at all. The same rows in the same order give the same model, bit for bit, however they are
cut; so a run that goes on from a checkpoint ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from kernelstream.cli.failures import CHANGED, DATA, MODEL, USAGE, CommandError, terminable
from kernelstream.cli.modelfile import Stored, history, read, require_apart
from kernelstream.cli.rejects import Rejects
from kernelstream.cli.terminal import Screen, Watch, facts_table
from kernelstream.cli.wording import in_shell, option_of
from kernelstream.serialization import Replacement
from kernelstream.tables import Block, Source, SourcePosition, fingerprint
from kernelstream.tables.addresses import same_source
from kernelstream.tables.files import is_address
from kernelstream.tables.memory import give_back


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
    def position(self) -> SourcePosition:
        """The place in the source."""
        return SourcePosition(self.file, self.row)


def left_by(output: Path, sources: list[str], resume: bool) -> Stored | None:
    """What a run over an address that was stopped has left, where this one is to go on with it.

    Parameters
    ----------
    output : Path
        Where the model will be.
    sources : list of str
        One address, or files, whose place is found without.
    resume : bool
        Whether to go on.
    """
    checkpoint = Replacement.companion(output, ".checkpoint")
    wanted = resume and is_address(sources[0]) and checkpoint.exists()
    return read(checkpoint, any_kind=True, half_done=True) if wanted else None


def place_in(stored: Stored | None, sources: list[str]) -> dict[str, Any] | None:
    """Where an address is gone on with: after what a model, or a checkpoint, has learned of it.

    Parameters
    ----------
    stored : Stored or None
        The model.
    sources : list of str
        One address, or files, which have no place.
    """
    if stored is None or not is_address(sources[0]):
        return None
    if stored.progress is not None:
        return stored.progress.get("position")
    for entry in reversed(stored.origin.get("history", [])):
        if entry["sources"] and same_source(entry["sources"][0], sources[0]):
            return entry.get("position")
    return None


def going_on(read_options: dict[str, Any], place: dict[str, Any] | None) -> dict[str, Any]:
    """The options of a source that begins at a place of an address."""
    return {**read_options, "connection": replace(read_options["connection"], position=place)}


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

    any_kind = False  # whether the model may be another one than a kernel PCA

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
        self.checkpoint = Replacement.companion(output, ".checkpoint")
        if every is not None and not Replacement.is_possible(output):
            raise CommandError(
                USAGE, f"{output} is no plain file: there is no place for a checkpoint beside it."
            )
        self.files = [list(entry) for entry in fingerprint(source.files)]
        require_apart([output, self.checkpoint, rejects], [file.path for file in source.files])
        self.place = Place()
        self.reached: dict[str, Any] | None = None  # the place in an address
        self.saved_at = time.monotonic()
        self.first_share = 0.5  # of the time of two passes

    def complete(self, resume: bool, before: list[dict[str, Any]]) -> None:
        """Learn to the end, write the model, drop the checkpoint, tell what happened.

        Parameters
        ----------
        resume : bool
            Go on from the checkpoint; with none, and the model complete, say so and do nothing.
        before : list of dict
            The history of the model.
        """
        screen, output = self.screen, self.output
        if resume and self._prepare_resume():
            screen.say(f"Already complete: {output}.")
            screen.result({"model": str(output), "complete": True}, output=output)
            return
        began = time.perf_counter()
        with terminable():
            self.learn()
        place, stored = self.place, self.stored
        entry = history(
            [file.path for file in self.source.files],
            place.rows,
            place.bad,
            passes=place.turn,
            identity=self.identity,
            sizes=self._sizes(),
            **({} if self.reached is None else {"position": self.reached}),
        )
        stored.origin = {**stored.origin, "history": [*before, entry]}
        stored.save(output)
        give_back()  # the bytes of the file
        if self.reached is not None:
            self.source.commit(self.reached)
        self.source.close()
        self.checkpoint.unlink(missing_ok=True)
        took = time.perf_counter() - began
        facts = {
            "model": str(output),
            "rows": place.rows,
            "bad_rows": place.bad,
            "passes": place.turn,
            "rows_seen": stored.estimator.n_samples_seen_,
            "features": stored.estimator.n_features_in_,
            "points": len(getattr(stored.estimator, "basis_points_", ())),
        }
        shown = [("rows", f"{place.rows:,} in {took:.1f} s")]
        if place.bad:
            listed = f", listed in {self.rejects_path}" if self.rejects_path else ""
            shown.append(("bad rows", f"{place.bad:,} passed over{listed}"))
        shown += [("features", f"{facts['features']}"), ("basis points", f"{facts['points']}")]
        more, lines = self.found()
        facts |= {**more, "seconds": round(took, 3)}
        screen.result(facts, facts_table([*shown, *lines, ("model", f"{output}")]), output=output)

    def found(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """What the model is worth, for machines and for people."""
        shown = self.stored.components
        count, share = int(shown.variances.shape[0]), float(shown.explained_variance_ratio.sum())
        (low, high), kind = self.stored.stream.certificate.narrowest_ratio
        facts = {
            "components": count,
            "explained_variance_ratio": share,
            "explained_variance_ratio_interval": [low, high],
            "kind": kind,
        }
        lines = [
            ("components", f"{count} with {share:.1%} of the variance"),
            ("best possible", f"{low:.1%} to {high:.1%} of the variance ({kind})"),
        ]
        return facts, lines

    def _prepare_resume(self) -> bool:
        """Go on from the checkpoint, or start afresh and say so; True where all is done already."""
        if self.resume():
            place = self.place
            turn = "" if place.turn == 1 else " of the second pass"
            self.screen.say(f"Going on after {place.rows:,} rows{turn}, from {self.checkpoint}.")
            return False
        if self.output.exists():
            done = read(self.output, self.any_kind).origin.get("history", [])
            # What an address had to give is learned; an update looks for what came since.
            newer = self.source.has_places and self.identity["command"] == "update"
            if done and self._made(done[-1]) and not newer:
                return True
            if newer:
                return False
            if self.identity["command"] != "update":
                raise CommandError(
                    CHANGED,
                    f"There is no checkpoint, and {self.output} was made from other sources or "
                    "with other options. Replace it with --force in the place of --resume, or "
                    "write another file with -o.",
                )
        self.screen.say(f"No checkpoint {self.checkpoint} yet: starting afresh.")
        return False

    def _made(self, entry: dict[str, Any]) -> bool:
        """Whether the last thing that a model learned is what this run would learn.

        An update in place is not compared by the model it began with: that one is gone.
        """
        now = {k: v for k, v in self.identity.items() if k != "model"}
        before = {k: v for k, v in entry.get("identity", {}).items() if k != "model"}
        same_files = entry["sources"] == [file.path for file in self.source.files]
        return now == before and same_files and entry.get("sizes") == self._sizes()

    def _sizes(self) -> list[int]:
        """Bytes of the sources: what a finished model remembers of them."""
        return [file.size for file in self.source.files]

    def resume(self) -> bool:
        """Go on from the checkpoint, if there is one that fits; False to start afresh."""
        if not self.checkpoint.exists():
            return False
        if self.source.from_pipe and not self.source.has_places:
            raise CommandError(
                CHANGED, "--resume needs files: a pipe cannot be read from a place in it."
            )
        stored = read(self.checkpoint, self.any_kind, half_done=True)
        progress = stored.progress
        if progress is None:
            raise CommandError(CHANGED, f"{self.checkpoint} is a model, not a checkpoint.")
        start_afresh = "Start afresh without --resume."
        for name, value in self.identity.items():
            before = progress["identity"].get(name)
            if before != value:
                raise CommandError(
                    CHANGED,
                    f"The checkpoint {self.checkpoint} was made with {option_of(name)} "
                    f"{in_shell(before)}, now it is {in_shell(value)}. {start_afresh}",
                )
        if set(progress["place"]) != {field.name for field in fields(Place)}:
            raise CommandError(MODEL, f"{self.checkpoint} has a place that no release has written.")
        for before, now in zip(progress["files"], self.files, strict=False):
            if before != now:
                raise CommandError(
                    CHANGED, f"{now[0]} changed since the checkpoint was made. {start_afresh}"
                )
        if len(progress["files"]) != len(self.files):
            raise CommandError(
                CHANGED, f"The sources are not those of the checkpoint. {start_afresh}"
            )
        self.stored = replace(stored, progress=None)
        self.place = Place(**progress["place"])
        if self.source.has_places:  # it was opened at the place of the checkpoint
            self.reached = progress.get("position")
            self.place = replace(self.place, file=0, row=0)
        return True

    def learn(self) -> None:
        """Run to the end; interrupted, leave a checkpoint where checkpoints were asked for."""
        rejects = Rejects(self.rejects_path, self.place.rejected_bytes)
        # Always of one moment: what a checkpoint writes.
        self.held = self._model(), self.place, self.reached
        try:
            if self.place.turn == 1:
                if self._turns() == 2:
                    self._begin_first()
                self._pass(rejects)
                if self.place.rows == 0:
                    raise CommandError(
                        DATA, "The source holds no good row: there is nothing to learn."
                    )
                if self._wants_second():
                    self._begin_second()
                    bad, size = self.place.bad, self.place.rejected_bytes
                    self._reach(Place(turn=2, bad=bad, rejected_bytes=size))
            if self.place.turn == 2:
                self._pass(None)
                self.stored.stream = self.stored.stream.finish()
        except KeyboardInterrupt:
            if self.every is not None and self.held[0] is not None:
                self._save()
                self.screen.say(f"Interrupted; --resume goes on from {self.checkpoint}.")
            raise
        finally:
            rejects.close()

    def _begin_first(self) -> None:
        self.stored.stream = self.stored.stream.begin_first_pass()
        self.first_share = self.stored.stream.first_pass_fraction

    def _begin_second(self) -> None:
        self.stored.stream = self.stored.stream.begin_second_pass()

    def _wants_second(self) -> bool:
        useful = self.stored.stream.wants_second_pass
        if self.asked == 2 and not useful:
            self.screen.say("A second pass changes nothing for this basis and tracker: left out.")
        return useful and self.asked != 1 and not self.source.from_pipe

    def _turns(self) -> int:
        """Passes that there will be; 1 where only the rows of a pipe will show it."""
        stream = getattr(self.stored, "stream", None)
        again = stream is not None and stream.wants_second_pass
        again = again and self.asked != 1 and not self.source.from_pipe
        return max(self.place.turn, 2 if again else 1)

    def _pass(self, rejects: Rejects | None) -> None:
        turn, turns = self.place.turn, self._turns()
        title = "learning" if turns == 1 else f"pass {turn} of {turns}"
        shown = self.stored.estimator if turn == turns else None  # a first pass looks for points
        edges = (0.0, 1.0) if turns == 1 else (0.0, self.first_share, 1.0)
        with Watch(self.screen, self.source, title, edges[turn - 1], edges[turn]) as watch:
            for block in self.source.ahead(self.place.position, self.place.rows):
                self._learn(block)
                bad, size = self.place.bad, self.place.rejected_bytes
                if rejects is not None:
                    bad, size = bad + len(block.bad), rejects.add(block.bad) if block.bad else size
                end, rows = block.end, self.place.rows + len(block)
                self.reached = self.source.place(end)
                self._reach(Place(self.place.turn, end.file, end.row, rows, bad, size))
                watch.update(len(block), shown)

    def _learn(self, block: Block) -> None:
        if not len(block) or (block.weights is not None and not block.weights.any()):
            return
        try:
            if self.place.turn == 1:
                self.stored.estimator.partial_fit(block.X, sample_weight=block.weights)
            else:
                self.stored.learn_again(block.X, block.weights)
        except ValueError as problem:
            where = f"{block.file}, rows {block.rows[0]} to {block.rows[-1]}"
            raise CommandError(DATA, f"{where}: {problem}") from problem

    def _reach(self, place: Place) -> None:
        self.place = place
        self.held = self._model(), place, self.reached
        due = self.every is not None and time.monotonic() - self.saved_at >= self.every
        if due and self.held[0] is not None:
            self._save()

    def _model(self) -> Any:
        """The model as it is now, with all that it holds; None before the first row."""
        model = self.stored.estimator
        return copy.copy(model) if model.__sklearn_is_fitted__() else None

    def _save(self) -> None:
        model, place, reached = self.held
        assert model is not None
        self.stored.estimator = model
        progress = {"identity": self.identity, "files": self.files, "place": asdict(place)}
        if reached is not None:
            progress["position"] = reached
        replace(self.stored, progress=progress).save(self.checkpoint)
        if reached is not None:
            self.source.commit(reached)
        self.saved_at = time.monotonic()
