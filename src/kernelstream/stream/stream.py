"""Stream: cuts rows into complete blocks, buffers the rest, learns, answers queries.

Rows are folded in internal blocks of a fixed number of rows, counted from the start of the stream;
those of an unfinished block wait. So the model is the same, bit for bit, however the caller cuts
the rows. A query folds the waiting rows on the side and forgets that it did.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from kernelstream.arrays import progress
from kernelstream.arrays.devices import ahead, explain_memory, move_to_device, place, preferred_rows
from kernelstream.arrays.draws import evenly_spaced, generator
from kernelstream.arrays.namespaces import (
    Array,
    all_finite,
    as_dense,
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
from kernelstream.arrays.threads import cores, cut
from kernelstream.certificates.certificate import Certificate, certify
from kernelstream.certificates.evaluation import EvaluatedModel
from kernelstream.certificates.rounding import moved_in_float32
from kernelstream.kernels import Linear
from kernelstream.landmarks import Clock
from kernelstream.landmarks.fixed import FixedState, Landmarks
from kernelstream.landmarks.nystroem import finite
from kernelstream.landmarks.sample import UniformSample
from kernelstream.preimages import Preimage
from kernelstream.serialization import stored
from kernelstream.serialization.part import Value
from kernelstream.stream import choosing, queries
from kernelstream.stream.buffer import MOST_OF_A_ROW, Buffer
from kernelstream.stream.calibration import calibrate
from kernelstream.stream.components import Components, Learned
from kernelstream.stream.fit import (
    begin_first_pass,
    begin_second_pass,
    end_second_pass,
    learn_all,
    share_of_first_pass,
    wants_second_pass,
)
from kernelstream.stream.imputation import Imputation, MaskedPreimage
from kernelstream.stream.merge import add_states, merge
from kernelstream.stream.robust import START_ROWS, first_weights
from kernelstream.stream.scaling import START_ROWS as SCALING_ROWS
from kernelstream.stream.scaling import Automatic, Scaling, require_dense
from kernelstream.stream.state import Rows, State
from kernelstream.stream.step import Block, Chain, overflowing

# Variance below this share of the energy is lost in the factor of the basis, whose rank ends at
# 1e-10 of its largest eigenvalue (1e-8 for float32 rows: there the answer is rough before).
HIDDEN_SHARE = 1e-9
MOST_COMPARED = 64  # rows that are compared to find that out
MEASURED_NUMBERS = 2**20  # coordinates of blocks that are measured together …
SEVERAL = 4  # … times this where there are threads
MEDIAN_ROWS = 500  # rows from which a kernel's width is taken


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

    def calibrated(self, X: np.ndarray) -> Stream:
        """The stream with scaling and kernel parameters fixed by a sample of all rows."""
        return calibrate(self, X)

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

    def block(self, rows: Rows) -> Block:
        """Rows, weights and targets as a fold wants them."""
        X = self.prepared(rows.X)
        if not self.chain.regress_inputs:
            targets = None if rows.targets is None else place(rows.targets, self.device)
        elif self.scaling is None or self.scaling.keeps_columns:
            targets = X
        else:  # rows that were mapped to fewer dimensions are wanted back as they came
            targets = place(rows.X, self.device)
        return X, rows.weights, targets

    def blocks(self, rows: Rows, size: int) -> Iterator[Any]:
        """Rows as blocks for a fold, on a GPU one ahead of the caller."""
        pieces = (rows[start : start + size].canonical() for start in range(0, len(rows), size))
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

    def learn_all(self, rows: Rows) -> Stream:
        """Learn rows that are all at hand: the points are chosen from all of them."""
        return learn_all(self, rows)

    def merge(self, other: Stream) -> Stream:
        """The stream of the rows of both, those that wait included."""
        return merge(self, other)

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
        """Rows that kernel, basis and scaling want to see before the first decision."""
        return max(
            1,
            self.chain.basis.start_rows(),
            0 if self.chain.kernel.fixed else MEDIAN_ROWS,
            0 if self.scaling is None else self.scaling.start_rows(self.n_features),
            START_ROWS if self.chain.robust else 0,
            choosing.START_ROWS if self.chain.auto else 0,
        )

    def start(self, first: Rows, all_rows: Rows | None = None) -> Stream:
        """Decide what the first rows decide: scaling, the kernel's numbers, the basis.

        ``fit`` knows all rows and takes scaling and the kernel's numbers from them.
        """
        first = first.canonical()
        return self.decide(first, all_rows).begin(first)

    def decide(self, first: Rows, all_rows: Rows | None = None) -> Stream:
        """Decide scaling and the kernel's numbers."""
        known = first if all_rows is None or self.chain.robust else all_rows
        stream = self
        if stream.chain.robust and not (stream.scaling is None and stream.chain.kernel.fixed):
            known = typical(known, stream.chain)
        if not stream.knows_units:
            assert stream.scaling is not None
            stream = stream.with_units(stream.scaling.measure(known))
        X = stream.scaled(known.X)
        unseen = invisible(X)
        if unseen is not None and all_rows is not None:
            raise ValueError(unseen)
        if unseen is not None:  # as of hidden variance: larger rows may come
            warnings.warn(f"At the start of the stream: {unseen}", stacklevel=2)
        kernel = stream.chain.kernel
        if not kernel.fixed:
            stream = stream.with_chain(kernel=kernel.fix(X, known.weights))
        if stream.chain.auto:
            stream = stream.chosen(stream.scaled(first.X))
        if all_rows is not None:
            hidden = hidden_variance(stream.chain, X)
            if hidden is not None:
                raise ValueError(hidden)
        return stream

    def chosen(self, X: Array) -> Stream:
        """The stream that has chosen, from rows in its units, what it was asked to choose."""
        chain = self.chain
        found = choosing.choose(
            chain.auto,
            chain.kernel,
            X,
            chain.n_components,
            chain.center,
            generator(chain.seed, "choice"),
        )
        kernel, basis = chain.kernel, chain.basis
        if "gamma" in found:
            kernel = kernel.copy().set_params(gamma=found["gamma"])
        if "points" in found:
            basis = basis.copy().set_params(n_points=found["points"])
        r = found.get("components", chain.n_components)
        return self.with_chain(kernel=kernel, basis=basis, n_components=r, auto=())

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
        """Fold rows block by block; the last block may be short. 0: blocks of the stream's size."""
        stream, size = self, size or self.batch_size
        while not frozen and len(rows) >= stream.rows_to_filling(size):
            n = int(stream.rows_to_filling(size))
            stream, rows = stream._fold(rows[:n], frozen, size).filling_anew(), rows[n:]
        return stream._fold(rows, frozen, size) if len(rows) else stream

    @property
    def next_filling(self) -> float:
        """How many rows have to be learned before they say anew what fills gaps."""
        chain = self.chain
        if not (self.fills and chain.kernel.takes_means):
            return math.inf
        model = self.scaler.model
        return SCALING_ROWS if model is None else 2.0 * model.n_rows

    def rows_to_filling(self, size: int) -> float:
        """Rows in whole blocks until then."""
        missing = self.next_filling - self.begun.n_rows
        return size * max(1, math.ceil(missing / size)) if missing < math.inf else math.inf

    def filling_anew(self) -> Stream:
        """The stream whose gaps are filled by what it has learned up to now."""
        if self.next_filling == math.inf or not self.begun.n_rows:
            return self
        with cores():
            shown = self.learned.components
        if not len(shown.points):
            return self
        model = MaskedPreimage.of(shown, self.begun.n_rows)
        return replace(self, scaler=replace(self.scaler, model=model))

    def _fold(self, rows: Rows, frozen: bool, size: int) -> Stream:
        chain, state = self.chain, self.begun
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
            together: list[Block] = []
            for block in self.blocks(rows, size):
                progress.advance(int(block[0].shape[0]))
                if not chain.add_up(state, block, frozen):
                    state = chain.learn(state, together, frozen)
                    state, together = chain.learn(state, [block], frozen), []
                    continue
                together.append(block)
                if len(together) == measured_together(block[0], state.basis.span.rank, n):
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
        return wants_second_pass(self)

    @property
    def first_pass_fraction(self) -> float:
        """The first of two passes takes about this fraction of their time."""
        return share_of_first_pass(self)

    def begin_first_pass(self) -> Stream:
        """The stream for the first of two passes: it gathers nothing that the second repeats."""
        return begin_first_pass(self)

    def begin_second_pass(self) -> Stream:
        """The stream with its final landmarks and without its sums."""
        return begin_second_pass(self)

    def finish(self) -> Stream:
        """The stream after the last row of a pass: nothing is buffered, and signs are fixed."""
        return end_second_pass(self)

    def without_signs(self) -> Stream:
        """The stream that keeps no signs on the way: they are taken by :meth:`finish`."""
        return self.with_state(replace(self.begun, next_signs=sys.maxsize))

    # -- what queries see

    @property
    def caught_up(self) -> Stream:
        """The stream with the waiting rows folded; the stream itself goes on without that.

        One that only looks for points shows them, and no components: it has gathered nothing.
        """
        try:
            stream = self._folded if self.waiting else self
            only_points = stream.chain.only_points and stream.state is not None
            return stream.blank(stream.n_rows) if only_points else stream
        except MemoryError:
            raise
        except Exception as problem:  # of a kernel function that fails now and then
            raise ValueError(
                f"The {len(self.waiting)} rows that wait for their block cannot be learned, and "
                "with them nothing can be learned or answered: model.drop_waiting() takes them "
                f"out. The reason: {problem}"
            ) from problem

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
        """The stream with the waiting rows folded and its basis brought up to date.

        Made anew for everyone who asks: it is as large as the stream, and seldom asked for.
        """
        stream = self.caught_up
        chain, state = stream.chain, stream.begun
        with cores():
            clock = Clock(chain.seed, state.n_rows, query=True)
            change = chain.basis.revise(chain.kernel, state.basis, clock)
            return stream if change is None else stream.with_state(chain.rebase(state, *change))

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
        return queries.in_pieces(self, function, X)

    def project(self, X: Array, method: Preimage) -> Array:
        """Rows after projection on the components, back in input space."""
        return queries.project(self, X, method)

    def in_units(self, X: Array) -> Array:
        """Rows in the units of the kernel."""
        return queries.in_units(self, X)

    def in_data_units(self, X: Array) -> Array:
        """Rows in the units of the kernel, back in those of the data."""
        scaler = queries.scaler_of(self)
        return X if scaler is None else scaler.undo(X)

    def kept_rows(self) -> np.ndarray | None:
        """Rows that were kept, in the units of the data: a sample, or the points; None: none."""
        return queries.kept_rows(self)

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


def typical(rows: Rows, chain: Chain) -> Rows:
    """Rows with less weight where they do not fit, whatever the units of their columns.

    In those of medians: what scales rows, and how wide a kernel is, must not hang on outliers.
    """
    X = to_host(as_dense(rows.X)).astype(float)
    X = X - np.median(X, axis=0)
    size = np.median(np.abs(X), axis=0)
    size[size == 0.0] = np.abs(X).mean(axis=0)[size == 0.0]
    size[size == 0.0] = 1.0
    left = first_weights(Linear(), X / size, chain.wanted, chain.center, rows.weights)
    return replace(rows, weights=left if rows.weights is None else left * rows.weights)


def measured_together(X: Array, rank: int, n: int) -> int:
    """Blocks like X that are measured before they are entered, n at a time.

    A few megabytes of coordinates, more where there are threads, which wait for each other at the
    end, and at least two blocks for each of several.
    """
    if is_foreign(X):
        return 1  # a device has enough to do with one
    least, numbers = (1, 1) if n == 1 else (2 * n, SEVERAL)
    return max(least, numbers * MEASURED_NUMBERS // max(1, int(X.shape[0]) * rank))


def invisible(X: Array) -> str | None:
    """Say so in words when rows that are not zero are so small that their squares are."""
    largest, least = 0.0, np.finfo(dtype_name(X)).tiny
    for at in cut(X, int(X.shape[1])):  # as a rule the first rows show it
        largest = max(largest, largest_entry(X[at, :]))
        if largest * largest >= least:
            return None
    if not largest > 0:
        return None
    return (
        f"The largest number in the first rows is {largest:.3g}, whose square underflows "
        f"{X.dtype}: scale the data (to unit variance, say)."
    )


def hidden_variance(chain: Chain, X: Array) -> str | None:
    """Say so in words when rounding would hide all that makes the rows differ.

    Energies far above the variance (a linear kernel on rows far from the origin, a Gaussian much
    wider than the data) leave it below the rank floor of the basis: the answer would be zero.
    """
    if not chain.center:
        return None
    X = to_float64(as_dense(take_rows(X, evenly_spaced(int(X.shape[0]), MOST_COMPARED))))
    if not bool(namespace_of(X).any(X[:1, :] != X)):
        return None  # equal rows have no variance, and zero is the right answer
    K = to_host(finite(chain.kernel.gram(X), chain.kernel))
    energy = float(np.trace(K)) / len(K)
    share = 1.0 - float(K.mean()) / energy if energy > 0 else 1.0
    if share > HIDDEN_SHARE:
        return None
    return (
        f"With the kernel {chain.kernel} the variance of these rows is {max(share, 0.0):.1g} of "
        "their energy in feature space, so little that rounding would hide it. Subtract their mean "
        "and scale them (scale='standard' does both), or choose other kernel parameters."
    )
