"""Sanger's rule over a block as one kernel of a GPU: ``hebbian.sanger_pass`` with other loops.

The host works row by row on T and S. A GPU has a thread for each column instead: A_t is multiplied
from the left in every step, so all columns change alike and none needs another. The columns are

- the outputs of the rows still to come, G[:, s] ← G[:, s] + η∘y (K[t, s] − c),
- S[:, s] of the rows that were, and the columns of T, with 0 in the place of K[t, s],

where y = G[:, t] and c_j = Σ_{i≤j} y_i G[i, s] runs along with j. Row t is done when its outputs
have become its column η∘y of S, so G and S share their place: B + r columns of length r.

Triton comes with PyTorch for CUDA. It is imported here and nowhere else.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_UNROLLED = 4  # rows of the inner loop at once, so that their loads overlap


def recursion(
    G: Any,
    K: Any,
    dtype: Any,
    steps: Any,
    time: Any,
    variances: Any,
    shortened: Any,
    per_component: bool,
    relative: bool,
) -> tuple[Any, Any]:
    """T and S of a block, as ``hebbian.recursion`` has them, all on the device.

    It is computed in ``dtype``, T and S are float64. The ``time``, the ``variances``
    (float64) and the counter ``shortened`` are updated in place; nothing waits.
    """
    r, n = (int(size) for size in G.shape)
    rows = -(-r // _UNROLLED) * _UNROLLED
    width = triton.next_power_of_2(n + r)
    columns = torch.zeros((rows, width), dtype=dtype, device=K.device)
    columns[:r, :n] = G
    columns[:r, n : n + r].diagonal().fill_(1.0)
    exchanged = torch.empty((2, rows), dtype=dtype, device=K.device)
    _sanger[(1,)](
        columns,
        K.to(dtype).contiguous(),
        steps,
        variances,
        shortened,
        exchanged,
        time,
        n,
        r,
        rows,
        per_component,
        relative,
        width,
        triton.next_power_of_2(rows),
        num_warps=min(max(width // 32, 1), 16),
    )
    columns = columns.to(torch.float64)
    return columns[:r, n : n + r], columns[:r, :n]


@triton.jit
def _sanger(
    columns,
    K,
    steps,
    variances,
    shortened,
    exchanged,
    time,
    n,
    r,
    rows,
    per_component: tl.constexpr,
    relative: tl.constexpr,
    width: tl.constexpr,
    most: tl.constexpr,
):
    """The sequential part, by one block of threads: a column each."""
    column = tl.arange(0, width)
    component = tl.arange(0, most)
    present = component < r
    variance = tl.load(variances + component, mask=present, other=0.0)
    start = tl.load(time)
    n_cut = 0
    for t in range(n):
        y = tl.load(columns + component * width + t, mask=present, other=0.0).to(tl.float64)
        step = tl.load(steps + t)
        # a row with η·max(|z|², |y|²) > 1 would overshoot: its step is shortened to that length
        limit = tl.maximum(tl.load(K + t * n + t).to(tl.float64), tl.sum(y * y, axis=0))
        longest = tl.where(limit > 0.0, 1.0 / limit, 0.0)
        if relative:
            weight = tl.minimum(step, 1.0)
        else:
            weight = 2.0 / (start + t + 2).to(tl.float64)
        variance += (y * y - variance) * weight
        if relative:
            eta = tl.where(variance * longest > step, step / variance, longest)
        elif per_component:
            norm = tl.sqrt(tl.sum(variance * variance, axis=0))
            floor = tl.maximum(variance, 1e-3 * norm)
            eta = tl.where(floor > 0.0, step * norm / floor, step)
        else:
            eta = step + 0.0 * y
            n_cut += tl.where((limit > 0.0) & (step > longest), 1, 0)
        scaled = tl.minimum(eta, longest) * y
        tl.store(exchanged + component, y, mask=component < rows)
        tl.store(exchanged + rows + component, scaled, mask=component < rows)
        tl.debug_barrier()
        product = tl.load(K + t * n + column, mask=(column > t) & (column < n), other=0.0)
        done = column == t
        c = tl.zeros_like(product)
        for j in range(0, rows, 4):  # _UNROLLED, written out: Triton reads no globals
            outputs = exchanged + j
            y0, y1 = tl.load(outputs), tl.load(outputs + 1)
            y2, y3 = tl.load(outputs + 2), tl.load(outputs + 3)
            changes = exchanged + rows + j
            e0, e1 = tl.load(changes), tl.load(changes + 1)
            e2, e3 = tl.load(changes + 2), tl.load(changes + 3)
            place = columns + j * width + column
            g0, g1 = tl.load(place), tl.load(place + width)
            g2, g3 = tl.load(place + 2 * width), tl.load(place + 3 * width)
            c += y0 * g0
            g0 += e0 * (product - c)
            c += y1 * g1
            g1 += e1 * (product - c)
            c += y2 * g2
            g2 += e2 * (product - c)
            c += y3 * g3
            g3 += e3 * (product - c)
            tl.store(place, tl.where(done, e0, g0))
            tl.store(place + width, tl.where(done, e1, g1))
            tl.store(place + 2 * width, tl.where(done, e2, g2))
            tl.store(place + 3 * width, tl.where(done, e3, g3))
        tl.debug_barrier()
    tl.store(variances + component, variance, mask=present)
    tl.store(time, start + n)
    tl.store(shortened, tl.load(shortened) + n_cut)
