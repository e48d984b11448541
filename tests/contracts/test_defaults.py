"""What parts declare of themselves: order of rows, blocks, landmarks.

Default values of parameters are in the registry (``tests/serialization/test_registry.py``).
"""

from __future__ import annotations

from kernelstream import landmarks, papers, trackers


def test_what_parts_say_of_themselves() -> None:
    """Gains from a second pass; any order; rows of a block, and of one on a device."""
    of_bases = {
        name: (b.settles_late, b.order_free, b.preferred_batch, b.preferred_on_device)
        for name in (
            *("Coherence", "Distance", "Everything"),
            *("Landmarks", "PivotedCholesky", "ReducedSet"),
        )
        if (b := getattr(landmarks, name))
    }
    assert of_bases == {
        "Coherence": (True, False, 256, 1024),
        "Distance": (True, False, 256, 1024),
        "Everything": (True, False, 256, 1024),
        "Landmarks": (False, True, 2048, None),
        "PivotedCholesky": (False, True, 2048, None),
        "ReducedSet": (False, False, 256, 1024),
    }
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
