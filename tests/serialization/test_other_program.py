"""A model file as another program reads it: with safetensors, JSON and NumPy, by the specification.

Nothing of this library is used to read; docs/model-files.md says what to do.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from kernelstream import StreamingKernelPCA, landmarks


def header(data: bytes) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["kernelstream"])


def scores(path: Path, X: np.ndarray) -> np.ndarray:
    """``k(X, D) F V − μ V``, from a file."""
    data = path.read_bytes()
    said = header(data)
    assert said["format"] == "kernelstream" and said["version"] == 1
    blank = data.replace(said["checksum"].encode(), b"0" * 64, 1)
    assert hashlib.sha256(blank).hexdigest() == said["checksum"]

    model = json.loads(said["content"])["model"]["fields"]
    learned = model["learned"]["fields"]
    chain, state = learned["chain"]["fields"], learned["state"]["fields"]
    assert (
        chain["kernel"]["part"] == "kernels.RBF"
        and not model["waiting"]["fields"]["blocks"]["tuple"]
    )
    with safe_open(path, framework="numpy") as file:

        def tensor(node: Any) -> np.ndarray:
            return file.get_tensor(node["tensor"])

        span = state["basis"]["fields"]["span"]["fields"]
        D, F = tensor(span["points"]), tensor(span["factor"])
        scatter = tensor(state["tracker"]["fields"]["scatter"])
        moments, signs = state["moments"]["fields"], tensor(state["signs"])
        weight, total = moments["weight"], tensor(moments["total"])

    mean = total / weight
    values, vectors = np.linalg.eigh(scatter / weight - np.outer(mean, mean))
    leading = vectors[:, np.argsort(values)[::-1][: chain["n_components"]]]
    cosines = signs[:, : leading.shape[1]].T @ leading
    leading = leading * np.sign(np.diag(cosines))

    apart = ((X[:, None, :] - D[None, :, :]) ** 2).sum(axis=2)
    K = np.exp(-chain["kernel"]["params"]["gamma"] * apart)
    return K @ (F @ leading) - mean @ leading


@pytest.mark.parametrize("basis", [landmarks.Landmarks(20), landmarks.Centroids(20)], ids=str)
def test_scores_without_the_library(basis: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3)) * [2.0, 1.0, 0.5]
    model = StreamingKernelPCA(3, gamma=0.2, basis=basis, random_state=0).fit(X)
    model.save(tmp_path / "m.safetensors")
    queries = rng.normal(size=(9, 3))
    np.testing.assert_allclose(
        scores(tmp_path / "m.safetensors", queries), model.transform(queries), atol=1e-9
    )
