"""Dask: fit and queries on arrays and dataframes, chunk by chunk, in two stages.

Chunks never move; what moves is the size of a model, O(m² + m d), for any number of rows.

1. *Sample.* Each chunk returns a uniform sample of its rows, and samples are joined in a tree.
   Scaling, kernel parameters and landmarks are chosen from it, as in ``fit`` on one machine. This
   stage is omitted if there is nothing to choose.
2. *Sums.* Each chunk returns its sums for these landmarks, and sums are added in a tree. The sums
   of a regression include the cross moments with the targets.

The tree follows the order of the chunks, and every draw is a function of the seed and the chunk's
number: the same chunks give the same model for any scheduling. Between the stages the result stays
on the cluster together with its recipe, so a lost worker costs time, not the fit. Each stage reads
the chunks again, so none has to be held (call ``X.persist()`` first if they fit into memory).
"""

# fit and partial_fit are in learning.py, queries in queries.py; chunks.py checks what the user
# passes, worker.py has the tasks, graph.py builds task graphs.

from kernelstream.distributed.dask.graph import FAN_IN as FAN_IN  # who counts tasks needs it
from kernelstream.distributed.dask.learning import fit, partial_fit
from kernelstream.distributed.dask.queries import (
    predict,
    reconstruction_error,
    score_samples,
    transform,
)

__all__ = ["fit", "partial_fit", "predict", "transform", "reconstruction_error", "score_samples"]
