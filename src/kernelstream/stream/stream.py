"""Stream: cuts rows into complete blocks, buffers the rest, learns, answers queries.

Rows are learned in internal blocks of a fixed number of rows, counted from the start of the stream;
those of an incomplete block are buffered. So the model is the same, bit for bit, however the caller
cuts the rows. A query learns the buffered rows into a copy.

Methods that need a page of their own are functions of a stream in modules beside this one: `fit`
(two passes), `calibration`, `merge` and `inverse` (back to input space).
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np

from kernelstream.arrays import progress
from kernelstream.arrays.devices import ahead, explain_memory, move_to_device, place, preferred_rows
from kernelstream.arrays.draws import evenly_spaced
from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_dense,
    cast,
    concatenate_rows,
    dtype_name,
    is_foreign,
    largest_entry,
    namespace_of,
    on_accelerator,
    row_norms_squared,
    take_rows,
    to_float64,
    to_host,
)
from kernelstream.arrays.printing import prints_short
from kernelstream.arrays.threads import cores, in_threads
from kernelstream.certificates.certificate import Certificate, certify
from kernelstream.certificates.evaluation import EvaluatedModel
from kernelstream.kernels.rounding import moved_in_float32
from kernelstream.landmarks.fixed import FixedState, Landmarks
from kernelstream.landmarks.nystroem import finite
from kernelstream.landmarks.sample import UniformSample
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream import fit, inverse
from kernelstream.stream.calibration import calibrate
from kernelstream.stream.choosing import choose
from kernelstream.stream.components import Components, Learned
from kernelstream.stream.imputation import Imputation
from kernelstream.stream.merge import add_states, merge
from kernelstream.stream.robust import typical
from kernelstream.stream.scaling import START_ROWS, Automatic, Scaling, require_dense
from kernelstream.stream.state import MOST_OF_A_ROW, Buffer, Rows, State
from kernelstream.stream.step import Chain, overflowing

T = TypeVar("T")

# Variance below this fraction of the squared norms is lost in the factor of the landmarks, whose
# rank ends at 1e-10 of its largest eigenvalue (1e-8 for float32 rows: there the answer is rough).
HIDDEN_FRACTION = 1e-9
TOGETHER = 2**22  # coordinates of blocks that threads project before they are added
# Rows of a query in a piece of work, on a device and by each thread: memory stays bounded.
QUERY_ROWS, THREAD_ROWS = 4096, 1024


@prints_short
@stored
@dataclass(frozen=True, eq=False)
class Stream(Value):
    """A stream between two calls.

    Attributes
    ----------
    learned : Learned
        The chain, whose kernel has all its numbers once the stream has begun, and its state.
    batch_size : int
        Rows in an internal block.
    n_features : int
        Width of the rows.
    dtype : str
        Type of the rows, "float32" or "float64".
    scaling : Scaling or None
        How rows are scaled by what the start of the stream is like.
    scaler : Standardisation, WienerMap or None
        The numbers for that, once they are known.
    waiting : Buffer
        Rows whose block is not complete.
    device : str or None
        Where rows of the host are sent to be computed with; None: they stay where they are.
    """

    learned: Learned
    batch_size: Annotated[int, "positive"]
    n_features: Annotated[int, "= columns, positive"]
    dtype: str
    scaling: Scaling | None = None
    scaler: Any = None
    waiting: Buffer = field(default_factory=Buffer)
    device: str | None = None

    def check(self, sizes: dict[str, int]) -> None:
        """Raise unless rows, scaling and what was learned are of the same width and type."""
        if self.dtype not in ("float32", "float64") or self.device is not None:
            raise ValueError(f"rows of the type {self.dtype!r} on {self.device!r}")
        if self.state is None and not len(self.waiting):
            raise ValueError("a stream without rows")
        if any(str(rows.X.dtype) != self.dtype for rows in self.waiting.blocks):
            raise ValueError(f"rows that are no {self.dtype}")
        if not self.fills and not all(all_finite(rows.X) for rows in self.waiting.blocks):
            raise ValueError("rows with gaps that nothing fills")
        if self.scaling is None or self.scaler is None:
            if self.scaler is not None or (self.scaling is not None and self.state is not None):
                raise ValueError("a scaling without its numbers, or numbers without a scaling")
        else:
            self.scaling.check_state(self.scaler)
        chain = self.chain
        chain.basis.suits(chain.kernel, self.n_features, chain.tracker, chain.n_components)
        keeps_columns = self.scaling is None or self.scaling.keeps_columns
        if keeps_columns and sizes.get("features", self.n_features) != self.n_features:
            raise ValueError(f"{sizes['features']} features, and rows of {self.n_features}")
        wanted = sizes.get("features" if keeps_columns else "columns", self.n_features)
        if self.chain.regress_inputs and sizes.get("targets", wanted) != wanted:
            raise ValueError(f"{sizes['targets']} targets, and rows of {wanted}")

    @property
    def chain(self) -> Chain:
        """Kernel, basis and tracker."""
        return self.learned.chain

    @property
    def state(self) -> State | None:
        """What the finished blocks have taught; None until enough rows have come to begin."""
        return self.learned.state

    @property
    def begun(self) -> State:
        """The state of a stream that has begun."""
        assert self.learned.state is not None
        return self.learned.state

    @property
    def n_rows(self) -> int:
        """Rows seen, folded or waiting."""
        return len(self.waiting) + (0 if self.state is None else self.state.n_rows)

    @property
    def held_array(self) -> Array:
        """An array that the stream holds: it shows in which namespace, on which device."""
        return self.waiting.blocks[0].X if self.state is None else self.state.moments.total

    @classmethod
    def of(
        cls,
        chain: Chain,
        batch_size: int,
        n_features: int,
        dtype: str = "float64",
        scaling: Scaling | None = None,
        device: str | None = None,
    ) -> Stream:
        """A stream that has seen no rows."""
        return cls(Learned(chain), batch_size, n_features, dtype, scaling, device=device)

    def with_chain(self, **changes: Any) -> Stream:
        """The stream with another part, or another parameter, of its chain."""
        chain = replace(self.chain, **changes)
        return replace(self, learned=Learned(chain, self.state))

    def showing(self, n_components: int | float | None) -> Stream:
        """The same stream, of whose components queries see so many."""
        return replace(
            self, learned=Learned(self.chain.showing(n_components, self.state), self.state)
        )

    calibrated = calibrate

    def calibrated_like(self, other: Stream) -> Stream:
        """The stream with scaling and kernel parameters of another one, so that both can merge."""
        same = self.with_chain(kernel=other.chain.kernel)
        return replace(same, scaling=other.scaling, scaler=other.scaler)

    def with_state(self, state: State | None) -> Stream:
        """The stream that has learned something else."""
        return replace(self, learned=Learned(self.chain, state))

    def on(self, device: str | None) -> Stream:
        """The stream on a device of PyTorch, or (None) on the host; rows that wait stay there."""
        return replace(self.with_state(move_to_device(self.state, device)), device=device)

    def for_file(self) -> Stream:
        """The stream as files hold it: the machine that reads one may have no such device."""
        return replace(self, waiting=self.waiting.in_one_piece(), device=None)

    # -- rows as the chain wants them

    @property
    def knows_units(self) -> bool:
        """Whether rows can be scaled: nothing has to be measured, or it was."""
        return self.scaling is None or self.scaler is not None

    def with_units(self, scaler: Any) -> Stream:
        """The stream whose rows are scaled with these numbers; as they are where none is needed."""
        if isinstance(self.scaling, Automatic) and scaler.changes_nothing:
            return replace(self, scaling=None)
        return replace(self, scaler=scaler)

    @property
    def fills(self) -> bool:
        """Whether rows may have gaps."""
        return isinstance(self.scaling, Imputation)

    def scaled(self, X: Array) -> Array:
        """Rows in the units of the kernel; in float64 where a proof is wanted."""
        if self.chain.certify == "tight":
            X = to_float64(X)
        return X if self.scaler is None else self.scaler.apply(X)

    def prepared(self, X: Array) -> Array:
        """Rows in the units of the kernel, on the device where it computes."""
        return place(self.scaled(X), self.device)

    def block(self, rows: Rows) -> Rows:
        """Rows as a step takes them: in C order, in the units of the kernel, with their targets."""
        rows = rows.canonical()
        X = self.prepared(rows.X)
        if not self.chain.regress_inputs:
            targets = None if rows.targets is None else place(rows.targets, self.device)
        elif self.scaling is None or self.scaling.keeps_columns:
            targets = X
        else:  # rows that were mapped to fewer dimensions are wanted back as they came
            targets = place(rows.X, self.device)
        return Rows(X, rows.weights, targets)

    def blocks(self, rows: Rows, size: int) -> Iterator[Rows]:
        """Rows as blocks for a step, on a GPU one ahead of the caller."""
        pieces = (rows[start : start + size] for start in range(0, len(rows), size))
        return ahead(pieces, self.block, self.device)

    # -- learning

    def learn(self, new: Rows, frozen: bool = False) -> Stream:
        """Learn rows: complete blocks are learned, the rest is buffered.

        Blocks are counted from the start of the stream, so the model is the same, bit for bit,
        however the rows are cut into calls. With ``frozen`` the landmarks stay as they are.
        """
        stream = self
        if stream.state is None:
            missing = stream.start_rows - len(stream.waiting)
            if len(new) < missing:
                return stream.buffered(new)
            with cores(), np.errstate(over="ignore", invalid="ignore"):
                stream = stream.start(stream.waiting.join(new[: max(missing, 0)]))
        size = stream.batch_size
        if len(stream.waiting) + len(new) < size:
            return stream.buffered(new)
        if len(stream.waiting):
            # More than a block may have been buffered for the start, and end within one.
            fill = -len(stream.waiting) % size
            held, new = stream.waiting.join(new[:fill]), new[fill:]
            whole = len(held) - len(held) % size
            stream = replace(stream.fold(held[:whole], frozen), waiting=Buffer())
            stream = stream.buffered(held[whole:])
        whole = len(new) - len(new) % size
        return stream.fold(new[:whole], frozen).buffered(new[whole:])

    def buffered(self, rows: Rows) -> Stream:
        """The stream with more rows in its buffer.

        Buffered rows cannot be taken back, and every later call would fail with them. So they are
        refused here if their sums would overflow; with a kernel that is not known to be positive
        semidefinite they are learned into a copy, which shows whether they can be.
        """
        if not len(rows):
            return self
        self.require_summable(rows)
        stream = replace(self, waiting=self.waiting.append(rows))
        if not self.chain.kernel.psd:
            _ = stream._folded  # the next query needs it anyway
        return stream

    def require_summable(self, rows: Rows) -> None:
        """Raise unless sums of ``w k(x, x)`` over any number of such rows are finite.

        Each row is checked by itself, so nothing depends on how rows are cut into calls.
        """
        kernel, largest = self.chain.kernel, 1.0
        if self.scaling is not None:
            require_dense(rows.X)
        # Rows as they are, on the host, have finite squared distances: estimators checked it.
        plain = kernel.unit_norm and self.scaler is None and not on_accelerator(rows.X)
        if self.knows_units and not plain:
            largest = self._largest_squared_norm(rows)
        if rows.weights is not None:  # Σ w x is added up, too
            known = np.nan_to_num(rows.X) if self.fills else rows.X
            largest = max(largest, largest_entry(known)) * float(rows.weights.max())
        if not largest < MOST_OF_A_ROW:
            raise ValueError(overflowing(kernel))

    @np.errstate(over="ignore", invalid="ignore")
    def _largest_squared_norm(self, rows: Rows) -> float:
        """The largest k(x, x) of the rows in the units of the kernel, or an error."""
        kernel, X = self.chain.kernel, self.scaled(rows.X)
        finite(4.0 * row_norms_squared(X), kernel)
        if kernel.unit_norm:
            return 1.0
        # A number that is still to be chosen does not decide whether k(x, x) overflows.
        kernel = kernel if kernel.fixed else kernel.fix(X, rows.weights)
        return largest_entry(finite(kernel.diag(X), kernel))

    @property
    def start_rows(self) -> int:
        """Number of rows for the first decisions: landmarks, kernel parameters and scaling."""
        chain = self.chain
        return max(
            chain.basis.start_rows(),
            0 if chain.kernel.fixed else START_ROWS,
            0 if self.scaling is None else self.scaling.start_rows(self.n_features),
            2 * START_ROWS if chain.robust or chain.auto else 1,
        )

    def start(self, first: Rows, all_rows: Rows | None = None) -> Stream:
        """The stream with scaling, kernel parameters and landmarks from its first rows."""
        first = first.canonical()
        return self.decide(first, all_rows).begin(first)

    def decide(self, first: Rows, all_rows: Rows | None = None) -> Stream:
        """The stream with scaling and kernel parameters: of all rows, or of the first ones.

        A robust stream takes them from the first rows, without those that do not fit.
        """
        stream, chain = self, self.chain
        known = first if all_rows is None or chain.robust else all_rows
        if chain.robust and not (stream.scaling is None and chain.kernel.fixed):
            known = typical(known, chain.wanted, chain.center)
        if stream.scaling is not None and stream.scaler is None:
            stream = stream.with_units(stream.scaling.measure(known))
        X = stream.scaled(known.X)
        if not chain.kernel.fixed:
            chain = replace(chain, kernel=chain.kernel.fix(X, known.weights))
        if chain.auto:
            chain = choose(chain, stream.scaled(first.X))
        if all_rows is not None and (hidden := hidden_variance(chain, X)) is not None:
            raise ValueError(hidden)
        return replace(stream, learned=Learned(chain, stream.state))

    def start_from(
        self, sample: UniformSample, n_rows: int, all_rows: Rows | None = None
    ) -> Stream:
        """Decide the same from a uniform sample of ``n_rows`` rows, which are not learned yet."""
        drawn = Rows(sample.held()[0], sample.stands_for()).canonical()
        return self.decide(drawn, all_rows).begin(drawn, sample, n_rows).without_signs()

    def begin(self, first: Rows, sample: UniformSample | None = None, n_rows: int = 0) -> Stream:
        """The stream with landmarks for the first rows, in the units of the kernel."""
        chain, X = self.chain, self.prepared(first.X)
        if isinstance(chain.basis, Landmarks):  # given landmarks are in the units of the data
            chain = replace(chain, basis=chain.basis.in_units(self.scaled))
        sample = None if sample is None else sample.with_rows(X)
        return self.with_state(chain.begin(X, first.weights, sample, n_rows))

    def fold(self, rows: Rows, frozen: bool = False, size: int = 0) -> Stream:
        """Learn rows in blocks of a size (0: that of the stream); the last one may be short."""
        if not len(rows):
            return self
        chain, state = self.chain, self.begun
        size = size or self.batch_size
        if state.n_rows == 0 and not frozen:
            with cores():
                hidden = hidden_variance(chain, self.scaled(rows[:size].X))
            if hidden is not None:
                # A stream may start at rest and move later: no reason to refuse it.
                warnings.warn(f"At the start of the stream: {hidden}", stacklevel=2)
        if frozen and chain.tracker.kind in ("sums", "window"):  # any blocks, as a device likes
            size = preferred_rows(rows.X, self.device, chain.basis.size, size)
        quiet = np.errstate(over="ignore", invalid="ignore")  # such values become errors
        with explain_memory(size), quiet, cores() as n:
            together: list[Rows] = []
            for block in self.blocks(rows, size):
                progress.advance(len(block))
                together.append(block)
                if not chain.add_up(state, block, frozen):
                    for each in (together[:-1], together[-1:]):
                        state = chain.learn(state, each, frozen)
                    together = []
                elif len(together) == n_together(block.X, state.basis.span.rank, n):
                    state, together = chain.learn(state, together, frozen), []
            state = chain.learn(state, together, frozen)
        return self.with_state(state)

    # -- rows in parts

    def for_sums(self) -> Stream:
        """The stream with its landmarks fixed and without its sums and buffered rows.

        Parts of the rows are summed in it by ``fold(rows, frozen=True)``, anywhere and in any
        order, and :meth:`add` adds their states. It holds nothing but what that takes.
        """
        chain, state = self.chain, self.begun
        basis = FixedState(state.basis.span)
        blank = self.with_state(chain.blank(basis, state.moments.total))
        return replace(blank.without_signs(), waiting=Buffer())

    def add(self, sums: State) -> Stream:
        """The stream with the sums of more rows, which were learned with the same landmarks."""
        state = self.begun
        return self.with_state(add_states(self.chain, state, sums, state.basis))

    @property
    def wants_second_pass(self) -> bool:
        """Whether a second pass with the final landmarks would change the model."""
        chain = self.chain
        return chain.basis.kind in ("adaptive", "growing") and chain.tracker.kind != "sequential"

    learn_all = fit.learn_all
    begin_first_pass = fit.begin_first_pass
    begin_second_pass = fit.begin_second_pass
    finish = fit.finish
    first_pass_fraction = property(fit.first_pass_fraction)
    merge = merge

    def without_signs(self) -> Stream:
        """The stream that keeps no signs on the way: they are taken by :meth:`finish`."""
        return self.with_state(replace(self.begun, next_signs=sys.maxsize))

    # -- what queries see

    @property
    def caught_up(self) -> Stream:
        """The stream with the buffered rows learned; the stream itself stays as it is.

        One that only looks for points shows them, and no components: it has gathered nothing.
        """
        try:
            stream = self._folded if self.waiting else self
        except MemoryError:
            raise
        except Exception as problem:  # a kernel function may raise anything
            raise ValueError(
                f"The {len(self.waiting)} buffered rows cannot be learned: {problem} "
                "model.clear_buffer() drops them."
            ) from problem
        only_points = stream.chain.only_points and stream.state is not None
        return stream.blank(stream.n_rows) if only_points else stream

    def blank(self, n_rows: int = 0) -> Stream:
        """The stream with its basis, after so many rows, and nothing that was learned of them."""
        state = self.begun
        blank = self.chain.blank(state.basis, state.moments.total)
        return self.with_state(replace(blank, n_rows=n_rows, judge=state.judge))

    @cached_property
    def _folded(self) -> Stream:
        # Never the stream itself: a value that held itself, with all its matrices, would stay in
        # memory until Python searches for such circles.
        rows = self.waiting.join()
        with cores():
            begun = self.start(rows) if self.state is None else self
            return replace(begun.fold(rows), waiting=Buffer())

    @property
    def settled(self) -> Stream:
        """The stream with its landmarks updated, if an update is due, and with the buffered rows.

        The landmarks are first those for the completed blocks, so that the queries between two
        blocks share one update; another one follows where the buffered rows call for it. The rest
        is computed for each call: it is as large as the stream.
        """
        with cores():
            return self._updated.caught_up._updated

    @property
    def _updated(self) -> Stream:
        state = self.learned.updated
        return self if state is self.state else self.with_state(state)

    @cached_property
    def components(self) -> Components:
        """The components of all rows, those that wait included."""
        # as in learning: values that are not finite are found and become an error
        with cores(), np.errstate(over="ignore", invalid="ignore"):
            return self.settled.learned.components

    @cached_property
    def certificate(self) -> Certificate:
        """How far the model is from exact kernel PCA of all rows: from the sums as accumulated."""
        shown, plain = self.components, self.caught_up
        with cores(), np.errstate(over="ignore", invalid="ignore"):
            sums, observer = plain.chain.accumulated(plain.begun), plain.begun.observer
            ledger = None if observer is None else observer.ledger
            details = certify(sums, ledger, shown.vectors, shown.mean, shown.span)
            model = plain.evaluated(shown)
            drawn = None if observer is None else observer.bounds_of(model)
            return Certificate(details, self.fills, model, drawn)

    def query(self, function: Callable[[Array], Array], X: Array) -> Array:
        """Apply a function of rows, in the units of the kernel, to rows in those of the data.

        Memory stays bounded whatever their number, and threads share the pieces.
        """
        scaler = self.units

        def answer(piece: Array) -> Array:
            return function(place(piece if scaler is None else scaler.apply(piece), self.device))

        with np.errstate(over="ignore", invalid="ignore"):
            result = cast(concatenate_rows(self.in_pieces(answer, X)), X.dtype)
        if not all_finite(result):
            finite(result, self.components.kernel)  # raises an error that names the kernel
        return result

    def in_pieces(self, function: Callable[[Array], T], X: Array) -> list[T]:
        """Values of a function for pieces of rows; those of a device come back where X was."""
        if is_foreign(X) or self.device is not None:
            size = preferred_rows(X, self.device, 1, QUERY_ROWS)
            values = [function(X[at, :]) for at in slices(X, size)]
            return values if is_foreign(X) else [move_to_device(each, None) for each in values]
        # a few rows are faster without limits for the threads of BLAS
        alone = int(X.shape[0]) <= THREAD_ROWS
        with contextlib.nullcontext() if alone else cores():
            return in_threads(lambda at: function(X[at, :]), slices(X, THREAD_ROWS))

    inverse_transform = inverse.inverse_transform
    project = inverse.project
    repair = inverse.repair

    @property
    def units(self) -> Any:
        """The numbers that scale rows, which the buffered rows may decide; None: rows stay."""
        return self.scaler if self.knows_units else self.caught_up.scaler

    def in_units(self, X: Array) -> Array:
        """Rows in the units of the kernel."""
        return X if (scaler := self.units) is None else scaler.apply(X)

    def in_data_units(self, X: Array) -> Array:
        """Rows in the units of the kernel, back in those of the data."""
        return X if (scaler := self.units) is None else scaler.undo(X)

    def kept_rows(self) -> np.ndarray | None:
        """Rows that were kept, in the units of the data: a sample, or the points; None: none."""
        stream = self.caught_up
        if stream.scaling is not None and not stream.scaling.keeps_columns:
            return None
        basis = stream.begun.basis
        sample = basis.row_sample
        rows = sample.held()[0] if sample is not None and len(sample) else basis.span.points
        return np.asarray(stream.in_data_units(to_host(as_dense(rows)).astype(float)))

    def moved_in_float32(self, coefficients: Array) -> np.ndarray:
        """How far rounding of kernel values in single precision moves combinations of them.

        The coefficients, a column for each combination, are over the points.
        """
        points = self.begun.basis.span.points
        return moved_in_float32(self.chain.kernel, points, coefficients)

    def evaluated(self, shown: Components) -> EvaluatedModel:
        """The components with the sample on which they are evaluated when somebody asks."""
        chain, state = self.chain, self.begun
        return EvaluatedModel(
            kernel=chain.kernel,
            center=chain.center,
            certify=chain.certify,
            sample=None if state.observer is None else state.observer.sample,
            weight=state.moments.weight,
            n_rows=state.n_rows,
            log_forgetting=math.log(chain.tracker.forgetting),
            seed=chain.seed,
            coordinates=shown.coordinates,
            vectors=shown.vectors,
            mean=shown.mean,
        )

    @cached_property
    def solutions(self) -> dict[Any, Any]:
        """Regressions that were solved for this stream, by their parameters: the last one."""
        return {}

    def solved(self, parameters: Any, solve: Callable[[], Any]) -> Any:
        """The regression with such parameters, computed once; several threads may ask."""
        found = self.solutions.get(parameters)
        if found is None:
            found = solve()
            self.solutions.clear()
            self.solutions[parameters] = found
        return found


def slices(X: Array, size: int) -> list[slice]:
    """Rows in pieces."""
    n = int(X.shape[0])
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def n_together(X: Array, rank: int, n: int) -> int:
    """How many blocks like X are projected before they are added: several for each of n threads.

    Some megabytes of coordinates: threads wait for each other at the end, and a call for many
    narrow blocks costs little more than one for one.
    """
    if is_foreign(X):
        return 1  # a device has enough to do with one
    least, numbers = (1, TOGETHER // 8) if n == 1 else (2 * n, TOGETHER)
    return max(least, numbers // max(1, int(X.shape[0]) * rank))


def hidden_variance(chain: Chain, X: Array) -> str | None:
    """A message if rounding would hide all differences between the rows, else None.

    Squared norms far above the variance (a linear kernel on rows far from the origin, a Gaussian
    much wider than the data) leave it below the rank floor of the landmarks, and squares of very
    small numbers underflow: all variances would be zero.
    """
    few = as_dense(take_rows(X, evenly_spaced(int(X.shape[0]), 64)))
    largest = largest_entry(few)
    if 0.0 < largest < float(np.finfo(dtype_name(few)).tiny) ** 0.5:
        return (
            f"The largest number in these rows is {largest:.3g}, whose square underflows "
            f"{few.dtype}: scale the data (to unit variance, say)."
        )
    if not chain.center:
        return None
    X = to_float64(few)
    if not bool(namespace_of(X).any(X[:1, :] != X)):
        return None  # equal rows have no variance, and zero is the right answer
    K = to_host(finite(chain.kernel.gram(X), chain.kernel))
    squared_norm = float(np.trace(K)) / len(K)
    fraction = 1.0 - float(K.mean()) / squared_norm if squared_norm > 0 else 1.0
    if fraction > HIDDEN_FRACTION:
        return None
    return (
        f"With the kernel {chain.kernel} the variance of these rows is {max(fraction, 0.0):.1g} of "
        "their squared norms in feature space, so little that rounding would hide it. Subtract "
        "their mean and scale them (scale='standard' does both), or choose other kernel parameters."
    )
