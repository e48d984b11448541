"""What parts declare of themselves: order of rows, blocks, landmarks.

Default values of parameters are in the registry (``tests/serialization/test_registry.py``).
"""

from __future__ import annotations

from kernelstream import landmarks, papers, trackers


def test_what_parts_say_of_themselves() -> None:
    """Strategies declare when landmarks change, trackers which blocks and values they need."""
    kinds = {name: strategy().kind for name, strategy in landmarks.NAMES.items()}
    declared = {
        "centroids": "adaptive",
        "coherence": "growing",
        "distance": "growing",
        "everything": "growing",
        "landmarks": "fixed",
        "pivoted_cholesky": "fixed",
        "reduced_set": "reduced",
    }
    assert declared.items() <= kinds.items()  # a new strategy has its own tests
    assert landmarks.Centroids(follows=False).kind == "fixed"
    of_trackers = {
        t.__name__: (t.kind, getattr(t, "needs_points", False))
        for t in (
            *(papers.LMS, papers.RLS, papers.Hebbian, papers.SubsetHebbian),
            *(trackers.Covariance, trackers.IncrementalSVD),
        )
    }
    assert of_trackers == {
        "LMS": ("sequential", True),
        "RLS": ("sequential", False),
        "Covariance": ("sums", False),
        "Hebbian": ("sequential", False),
        "IncrementalSVD": ("blocks", False),
        "SubsetHebbian": ("sequential", False),
    }
