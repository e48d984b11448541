"""Changes that once survived, each with a test since then: ``python -m mutants --named``."""

from __future__ import annotations

from mutants.changes import PACKAGE, Mutant

# What it is about, the file, what stands there, and what stands there instead.
SURVIVED = (
    ("rows all alike", "stream/stream.py", "HIDDEN_FRACTION = 1e-9", "HIDDEN_FRACTION = 1e-7"),
    (
        "no variance",
        "stream/components.py",
        "NO_VARIANCE = 1e-12  # variance",
        "NO_VARIANCE = 1e-7  # variance",
    ),
    ("slack of an angle", "certificates/bounds.py", "sine += slack / gap", "sine += 0.0"),
    ("loose energy decays", "certificates/ledger.py", "loose=self.loose * factor", "loose=0.0"),
    ("shift of distances", "kernels/distances.py", "squared_norm > 16.0", "squared_norm > 1e4"),
    ("ceiling of RLS", "papers/tanaka_2012/rls.py", "_CEILING = 1e8", "_CEILING = 1e300"),
    ("order in memory", "serialization/format.py", '"F" if fortran else "C"', '"C"'),
    ("merge of ways back", "stream/merge.py", ', "regress_inputs", "robust")', ")"),
    ("dead sensors", "anomaly/monitor/sensors.py", "RUN_FACTOR = 3", "RUN_FACTOR = 1"),
    ("clipped index", "anomaly/monitor/limits.py", "CLIP = 6.0", "CLIP = 600.0"),
    ("fixed point uphill", "preimages/fixed_point.py", "_EPSILON = 1e-12", "_EPSILON = 0.5"),
    ("quota is full", "cli/failures.py", "errno.ENOSPC, errno.EDQUOT,", "errno.ENOSPC,"),
    ("file is too large", "cli/failures.py", "errno.EDQUOT, errno.EFBIG)", "errno.EDQUOT)"),
    ("rows that decide", "tables/text.py", "FIRST_ROWS = 1000", "FIRST_ROWS = 10"),
    ("bad rows of a limit", "tables/source.py", "if row.row < last)", "if row.row >= 0)"),
    (
        "aligned arrays",
        "distributed/dask/worker.py",
        "    if isinstance(value, np.ndarray):\n        return value if",
        "    if isinstance(value, np.ndarray):\n        return value if True or",
    ),
)


def named() -> list[Mutant]:
    """The changes of the list, in its order."""
    found = []
    for name, path, old, new in SURVIVED:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise ValueError(f"{name}: {path} has changed; look for what {old!r} has become.")
        at = source.index(old)
        found.append(Mutant(name, path, at, at + len(old), new))
    return found
