"""What cannot run on chunks apart is said before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelstream import StreamingKernelPCA
from kernelstream.distributed.dask.worker import require_parallel


@pytest.mark.parametrize(
    ("options", "reason"),
    [(dict(robust=True), "compares rows with those before"), (dict(gamma="auto"), "suggest")],
)
def test_streams_that_judge_or_choose(options: dict[str, Any], reason: str) -> None:
    stream = StreamingKernelPCA(2, **options).new_stream(np.empty((0, 3)))
    with pytest.raises(ValueError, match=reason):
        require_parallel(stream)
    require_parallel(StreamingKernelPCA(2).new_stream(np.empty((0, 3))))
