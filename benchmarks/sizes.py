"""How large each piece of work is: as the claims are stated, or small enough for a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows, features, components and points of every row of the table."""

    # one pass over a long stream, at equal captured variance
    stream_rows: int = 60_000
    features: int = 784
    components: int = 50
    judged_rows: int = 6_000
    target: float = 0.975
    query_rows: int = 10_000
    # sizes that are tried, coarse; between the last two the search goes on in the given steps
    centroids: tuple[int, ...] = (50, 100, 150, 200, 300, 400, 600, 800)
    centroids_step: int = 10
    landmarks: tuple[int, ...] = (200, 400, 800, 1200, 1600, 2400)
    landmarks_step: int = 50
    frequencies: tuple[int, ...] = (400, 800, 1600)
    # rows that still fit KernelPCA
    batch_rows: int = 8_000
    batch_components: int = 20
    batch_target: float = 0.98
    batch_centroids: tuple[int, ...] = (20, 40, 60, 80, 120, 160, 240)
    batch_centroids_step: int = 4
    batch_landmarks: tuple[int, ...] = (100, 200, 400, 800)
    # time against the number of rows
    growth_dense: tuple[int, ...] = (500, 1_000, 2_000, 4_000)
    growth_iterative: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000)
    growth_stream: tuple[int, ...] = (7_500, 15_000, 30_000, 60_000)
    # the kernel Hebbian algorithm over a finite set
    hebbian_rows: int = 5_000
    hebbian_side: int = 14  # images of 14 × 14 pixels
    hebbian_components: int = 40
    hebbian_naive_rows: int = 500  # of the epoch: the naive loop costs the same for every row
    kernlab_rows: int = 2_000
    kernlab_components: int = 10
    kernlab_epochs: int = 2
    # partial_fit beside its matrix products
    product_points: tuple[int, ...] = (256, 1_024)
    # row by row
    single_points: int = 100
    single_features: int = 16
    single_components: int = 10
    single_calls: int = 20_000
    single_naive_calls: int = 4_000
    # a stream that does not end
    endless_early: int = 1_000_000
    endless_late: int = 10_000_000
    endless_window: int = 500_000
    endless_features: int = 8
    endless_points: int = 32
    # the first call of a process
    startup_rows: int = 4_000
    startup_trackers: tuple[str, ...] = ("trackers.Covariance", "papers.Hebbian", "papers.RLS")


FULL = Sizes()

QUICK = Sizes(
    stream_rows=3_000,
    features=36,
    components=5,
    judged_rows=400,
    target=0.9,
    query_rows=300,
    centroids=(10, 20, 40),
    centroids_step=5,
    landmarks=(20, 40, 80),
    landmarks_step=20,
    frequencies=(20, 40),
    batch_rows=400,
    batch_components=3,
    batch_target=0.9,
    batch_centroids=(6, 12, 24),
    batch_centroids_step=3,
    batch_landmarks=(20, 40),
    growth_dense=(100, 200, 400),
    growth_iterative=(100, 200, 400),
    growth_stream=(750, 1_500, 3_000),
    hebbian_rows=300,
    hebbian_side=6,
    hebbian_components=4,
    hebbian_naive_rows=100,
    kernlab_rows=100,
    kernlab_components=2,
    kernlab_epochs=1,
    product_points=(16,),
    single_points=20,
    single_features=4,
    single_components=3,
    single_calls=600,
    single_naive_calls=200,
    endless_early=20_000,
    endless_late=60_000,
    endless_window=10_000,
    endless_features=4,
    endless_points=8,
    startup_rows=500,
    startup_trackers=("trackers.Covariance",),
)
