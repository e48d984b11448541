"""``python -m benchmarks.gpu [--data FOLDER]``: the same code on a GPU, against its own products.

Times are medians of device events over whole calls, synchronised at both ends; the products beside
them run in the same process on the same arrays, alone. TF32 stays off, as the library leaves it.
Without a GPU it says so and does nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelstream import StreamingKernelPCA, landmarks
from kernelstream.arrays.namespaces import to_host
from kernelstream.papers import KernelHebbianPCA

GAMMA = 1 / (2 * 8.5**2)
ASKED = {
    "fold m=256": "≥ 40 million rows/s",
    "fold m=1024": "≤ 1.11 × its three products",
    "fit MNIST": "≤ 0.1 s, captured ≥ 0.975",
    "agreement": "1e-10 in float64, 1e-4 in float32",
}


def median_ms(run: Callable[[], Any], repeats: int = 7) -> float:
    """Median time of a call by device events, after one call to warm up."""
    import torch

    run()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return float(np.median(times))


def fold(m: int, n: int, dtype: str) -> dict[str, Any]:
    """A running stream with m given points learns n more rows; and the three products alone."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    kind = getattr(torch, dtype)
    X = torch.rand((n, 784), device="cuda", dtype=kind, generator=generator)
    D = X[:m].clone()
    model = StreamingKernelPCA(50, gamma=GAMMA, basis=landmarks.Landmarks(D))
    for _ in range(5):  # a stream that runs: past its first blocks, and between two doublings
        model.partial_fit(X)
    start = model.stream_

    def learn() -> None:
        model.set_stream(start)  # every repetition folds the same rows into the same state
        model.partial_fit(X)

    F = model.stream_.begun.basis.span.projector
    size = model.stream_.batch_size

    def products() -> None:
        for i in range(0, n, size):
            K = X[i : i + size] @ D.T
            Z = K @ F
            _ = Z.T @ Z

    ours, bare = median_ms(learn), median_ms(products)
    return {
        "rows_per_s": n / ours * 1e3,
        "ms": ours,
        "products_ms": bare,
        "ratio": ours / bare,
        "batch_size": size,
    }


def exact_variance(X: Any) -> float:
    """Variance that 50 components of exact centred kernel PCA capture."""
    import torch

    K = torch.exp(-GAMMA * torch.cdist(X, X) ** 2)
    K -= K.mean(0)
    K -= K.mean(1)[:, None]
    return float(torch.linalg.eigvalsh((K + K.T) / 2)[-50:].sum()) / len(X)


def mnist_fit(folder: Path, m: int) -> dict[str, Any]:
    """``fit`` of 60,000 digits on the device, and on two cores of the host."""
    import torch

    images = np.load(folder / "mnist.npz")["x_train"].reshape(60000, 784)
    X = (images[np.random.default_rng(0).permutation(60000)] / np.float32(255)).astype(np.float32)
    judged = X[np.random.default_rng(123).choice(60000, 6000, replace=False)]
    exact = exact_variance(torch.from_numpy(judged.astype(np.float64)).cuda())
    there = torch.from_numpy(X).cuda()

    def fit(rows: Any) -> Any:
        model = StreamingKernelPCA(50, gamma=GAMMA, basis=m, random_state=0).fit(rows)
        model.explained_variance_  # noqa: B018 the components are part of the job
        return model

    gpu = median_ms(lambda: fit(there), 5)
    two_cores = []
    with threadpool_limits(2):
        for _ in range(3):
            start = time.perf_counter()
            host = fit(X)
            two_cores.append(time.perf_counter() - start)
    device = fit(there)
    streamed = StreamingKernelPCA(50, gamma=GAMMA, basis=m, random_state=0, device="cuda")
    sent = median_ms(lambda: streamed.fit(X), 3)

    def captured(scores: Any) -> float:
        return float(to_host(scores).astype(float).var(axis=0).sum() / exact)

    return {
        "points": m,
        "gpu_s": gpu / 1e3,
        "two_cores_s": min(two_cores),
        "ratio": min(two_cores) / gpu * 1e3,
        "numpy_rows_sent_s": sent / 1e3,
        "captured_gpu": captured(device.transform(torch.from_numpy(judged).cuda())),
        "captured_host": captured(host.transform(judged)),
    }


def agreement(dtype: str) -> float:
    """Largest relative difference of eigenvalues between GPU and host, given points."""
    import torch

    X = np.random.default_rng(0).random((20000, 100)).astype(dtype)
    settings: dict[str, Any] = dict(gamma=0.02, basis=landmarks.Landmarks(X[:256]))
    here = StreamingKernelPCA(20, **settings).fit(X).eigenvalues_
    there = to_host(StreamingKernelPCA(20, **settings).fit(torch.from_numpy(X).cuda()).eigenvalues_)
    return float(np.max(np.abs(there - here) / here))


def kernel_hebbian_estimator() -> float:
    """Seconds of a small fit through the estimator: that it works at all."""
    import torch

    X = torch.rand((5000, 20), device="cuda")
    start = time.perf_counter()
    KernelHebbianPCA(5, gamma=0.1, n_epochs=2, random_state=0).fit(X)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="folder with mnist.npz")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--rows", type=int, default=2**20, help="a multiple of the block size")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is not installed.") from None
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU here.")
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "fold m=256": fold(256, options.rows, "float32"),
        "fold m=256 float64": fold(256, options.rows, "float64"),
        "fold m=1024": fold(1024, options.rows, "float32"),
        "agreement": {dtype: agreement(dtype) for dtype in ("float64", "float32")},
        "KHA estimator, 5,000 rows, s": kernel_hebbian_estimator(),
    }
    if options.data is not None:
        results["fit MNIST"] = mnist_fit(options.data, 240)
    for name, found in results.items():
        print(f"{name}: {found}   {'asked: ' + ASKED[name] if name in ASKED else ''}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
