"""Epochs of the kernel Hebbian algorithm that stay on a GPU.

The recursion over the rows of a block (``epochs.py``) keeps one multiprocessor busy and leaves the
others idle; the kernel block and its product with A fill them all. So the two overlap: while the
recursion of block b runs, on a stream of its own, those of block b + 1 are made with coefficients
that *lag behind*. With A_now = T A + S E_Pᵀ, where P are the rows of the last few blocks,

    A_now K(X, X_J) = T (A K(X, X_J)) + S K(X_P, X_J)

makes good for that, by small products. A itself, r × l in float64, is touched now and then only.

A block is some forty launches, which cost the host more than the device. They are recorded once,
as a CUDA graph that finds its way by counters on the device, and then launched as one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np

from kernelstream.arrays.namespaces import Array, like, on_accelerator, to_host
from kernelstream.papers.schedules import Schedule

if TYPE_CHECKING:
    from kernelstream.papers.kim_2003.epochs import Expansion
    from kernelstream.papers.kim_2003.gram import KernelMatrix, Means

LAG = 8  # blocks after which A is brought up to date
RECORDED_FROM = 16  # the block from which on it pays to record one


def runs_on_device(A: Array) -> bool:
    """Whether the recursion has a kernel where ``A`` lives: PyTorch on CUDA, with its Triton."""
    return (
        array_api_compat.is_torch_array(A)
        and on_accelerator(A)
        and str(A.device).startswith("cuda")
        and importlib.util.find_spec("triton") is not None
    )


def block_rows(n_components: int) -> int:
    """Rows in a block: with the columns of T they fill the threads of the recursion."""
    return 2 ** (n_components + 127).bit_length() - n_components


class DeviceEpochs:
    """One epoch after the other over the rows of a finite set, with all memory in its place.

    Parameters
    ----------
    data, means
        Of ``gram.py``; the rows are on a GPU.
    n_components : int
        Number of components, r.
    schedule : Schedule
        Step sizes; only how they are meant is read here.
    """

    def __init__(self, data: KernelMatrix, means: Means, n_components: int, schedule: Schedule):
        import torch

        self.data, self.schedule = data, schedule
        self.dtype, where = data.points.dtype, data.points.device
        self.rows = min(data.batch_size, data.n_rows)
        B, r, l = self.rows, n_components, data.n_rows
        self.beside = torch.cuda.Stream(where, priority=-1)  # its threads take the first free place
        self.graphs: dict[bool, Callable[[], None]] = {}  # with functions watched, and without

        def zeros(*shape: int, dtype: Any = torch.float64) -> Any:
            return torch.zeros(shape, dtype=dtype, device=where)

        self.A: Any = zeros(r, 1)
        self.narrow = zeros(r, l, dtype=self.dtype)  # A as the products see it, lagging behind
        self.watched: Any = None
        self.place_to_watch: Any = None
        self.lengths = zeros(r)
        self.variances, self.shortened = zeros(r), zeros(1, dtype=torch.int32)
        # what A lacks
        self.T, self.S = zeros(r, r), zeros(r, LAG * B)
        self.lacking = zeros(LAG * B, dtype=torch.int64)
        # the block that the recursion reads next, the count of blocks and of those A lacks
        self.G, self.inner = zeros(r, B), zeros(B, B)
        self.block, self.lag = zeros(1, dtype=torch.int64), zeros(1, dtype=torch.int64)
        self.time = zeros(1, dtype=torch.int64)
        self.within = torch.arange(B, device=where)
        self.order, self.steps = zeros(l, dtype=torch.int64), zeros(l)
        # Centring by products with (1, k̄) and (k̄ − k̄̄, 1) of the rows: s, q = A (1, k̄), then
        # A K − s k̄ᵀ − (q − s k̄̄) 1ᵀ and K − k̄ 1ᵀ − 1 k̄ᵀ + k̄̄.
        column = like(means.column, self.A)
        self.right = torch.stack([torch.ones_like(column), column], dim=1)
        self.left = torch.stack([column - means.grand, torch.ones_like(column)], dim=1)
        self.to_centre = self.A.new_tensor([[-means.grand, 1.0], [1.0, 0.0]])
        self.sq = zeros(r, 2)

    def run(
        self, state: Expansion, order: np.ndarray, watched: Array | None = None
    ) -> tuple[Array, np.ndarray, int, np.ndarray]:
        """``epochs.sample_epoch``: A, variances, how many steps were shortened, raw lengths.

        Blocks are of one size; rows that are left at the end are a short block of their own.
        """
        import torch

        weighted = self.schedule.steps(state.time + 1, len(order)) * self.data.weights[order]
        self.order[: len(order)].copy_(like(order, self.A))
        self.steps[: len(order)].copy_(like(weighted, self.A))
        self.A = state.A
        self.variances.copy_(like(state.variances, self.A))
        self.shortened.zero_()
        self.lengths.zero_()
        self.sq.copy_(self.A @ self.right)
        self.time.fill_(state.time)
        self._up_to_date()
        self.watched = None
        if watched is not None:
            if self.place_to_watch is None:
                self.place_to_watch = torch.empty_like(self.narrow), torch.empty_like(self.A)
            self.watched = tuple(place.copy_(watched) for place in self.place_to_watch)
        whole = len(order) - len(order) % self.rows
        if whole:
            self._learn(whole // self.rows)
        if whole < len(order):
            self._learn_rest(slice(whole, len(order)))
        return self.A, to_host(self.variances), int(self.shortened[0]), to_host(self.lengths)

    def _learn(self, n_blocks: int) -> None:
        """All blocks of full size."""
        self.block.zero_()
        self._meet(self._rows_of(self.block), self.G, self.inner)
        watching = self.watched is not None
        for number in range(1, n_blocks):
            # a function of the user's, not known to be psd, may do what cannot be recorded
            if number == RECORDED_FROM and self.data.kernel.psd:
                self._record(watching)
            self.graphs.get(watching, self._step)()
            if number % LAG == 0:
                self._catch_up()
        self._absorb(*self._recursion())
        self._catch_up()

    def _learn_rest(self, here: slice) -> None:
        """A short block."""
        J, n = self.order[here], here.stop - here.start
        G, inner = (self.G.new_empty((rows, n)) for rows in (len(self.G), n))
        self._meet(J, G, inner)
        T, S = self._pass(G, inner, self.steps[here])
        self.A = (T @ self.A).index_add_(1, J, S)

    def _step(self) -> None:
        """The recursion of a block, and beside it the products of the next."""
        import torch

        main = torch.cuda.current_stream(self.A.device)
        self.beside.wait_stream(main)
        with torch.cuda.stream(self.beside):
            T, S = self._recursion()
        here = self._rows_of(self.block + 1)
        K, outputs = self._products(here)
        main.wait_stream(self.beside)
        self._absorb(T, S)
        self._correct(here, K, outputs, self.G, self.inner)
        self.block += 1

    def _record(self, watching: bool) -> None:
        """A step as one launch, from here on."""
        import torch

        if watching not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._step()
            self.graphs[watching] = graph.replay

    def _rows_of(self, block: Any) -> Any:
        return self.order.index_select(0, block * self.rows + self.within)

    def _meet(self, J: Any, G: Any, inner: Any) -> None:
        """Outputs and inner products of a block."""
        self._correct(J, *self._products(J), G, inner)

    def _products(self, J: Any) -> tuple[Any, Any]:
        """The kernel block and its product with an A that lags behind."""
        K = self.data.block(J)
        if self.watched is not None:
            narrow, wide = self.watched
            self.lengths += ((narrow @ K.T).double() * wide.index_select(1, J)).sum(dim=1)
        return K, self.narrow @ K.T

    def _correct(self, J: Any, K: Any, outputs: Any, G: Any, inner: Any) -> None:
        """What A lacks, and centring; written into G and inner."""
        import torch

        lacking = K.index_select(1, self.lacking).double()
        torch.addmm(self.T @ outputs.double(), self.S, lacking.T, out=G)
        inner.copy_(K.index_select(1, J))
        if self.data.center:
            right = self.right.index_select(0, J)
            G.addmm_(self.sq @ self.to_centre, right.T, alpha=-1)
            inner.addmm_(self.left.index_select(0, J), right.T, alpha=-1)

    def _recursion(self) -> tuple[Any, Any]:
        return self._pass(
            self.G, self.inner, self.steps.index_select(0, self.block * self.rows + self.within)
        )

    def _pass(self, G: Any, inner: Any, steps: Any) -> tuple[Any, Any]:
        from kernelstream.papers.kim_2003 import triton_recursion

        return triton_recursion.recursion(
            G,
            inner,
            self.dtype,
            steps,
            self.time,
            self.variances,
            self.shortened,
            self.schedule.per_component,
            self.schedule.relative,
        )

    def _absorb(self, T: Any, S: Any) -> None:
        """T and S of a block join what A lacks."""
        J, place = self._rows_of(self.block), self.lag * self.rows + self.within
        self.T.copy_(T @ self.T)
        self.S.copy_(T @ self.S)
        self.S.index_copy_(1, place, S)
        self.lacking.index_copy_(0, place, J)
        self.sq.copy_((T @ self.sq).addmm_(S, self.right.index_select(0, J)))
        self.lag += 1

    def _catch_up(self) -> None:
        """A gets what it lacks."""
        self.A = (self.T @ self.A).index_add_(1, self.lacking, self.S)
        self._up_to_date()

    def _up_to_date(self) -> None:
        self.narrow.copy_(self.A)
        self.T.zero_().diagonal().fill_(1.0)
        self.S.zero_()
        self.lag.zero_()
