"""The rows of the benchmark for ``asv``, which times them release after release.

    make bench-over-time

asv imports this folder by itself, so that the one above must be found.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
