"""Dask: fit and queries on arrays and dataframes, chunk by chunk, in three stages.

Chunks never move; what moves is the size of a model, O(m² + m d), whatever the number of rows.

1. *Look.* What the data decide (a ``"median"`` width, the scaling, sampled landmarks) is decided
   once, from a sample of all chunks. Left out when there is nothing to decide.
2. *Basis.* Each chunk becomes a model of its own; models are merged in a tree.
3. *Statistics.* The final basis goes out once; each chunk returns its sums in that basis, and sums
   are added in a tree. Every row is seen in the final basis, as in ``fit`` on one machine. The sums
   of a regression have the cross moments with the targets among them.

The tree follows the order of the chunks and every draw is a function of the seed and the chunk's
number: the same chunks give the same model, whatever the scheduling. Between two stages the result
stays on the cluster together with its recipe, so a lost worker costs time, not the fit; and each
stage reads the chunks anew, so none has to be held (``X.persist()`` first, where they fit).
"""

# The verbs are in learning.py and queries.py, what the user gives is taken apart in chunks.py, and
# graph.py speaks to Dask.

from kernelstream.distributed.dask.graph import FAN_IN as FAN_IN  # who counts tasks needs it
from kernelstream.distributed.dask.learning import fit, partial_fit
from kernelstream.distributed.dask.queries import (
    predict,
    reconstruction_error,
    score_samples,
    transform,
)

__all__ = ["fit", "partial_fit", "predict", "transform", "reconstruction_error", "score_samples"]
