"""Ordinary tables, learned as they come: the table of docs/tables.md.

    python -m benchmarks.tables --data FOLDER [docs/tables.md]

Eight tables: five of scikit-learn's, and Elec2, Adult (a9a) and the Tennessee Eastman process from
the folder. A linear classifier judges the features that a method makes of half of the rows (at most
3,000), on the other half: scikit-learn's ``StandardScaler`` and ``Nystroem`` with 256 points;
``StreamingKernelPCA(scale="auto")``, with all components; and the command line, which is given a
CSV file of the table, with its default (95 % of the variance) and with ten components, beside ten
principal components of scikit-learn's features. Five seeds draw the halves and what is random.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from kernelstream import StreamingKernelPCA, load
from kernelstream.cli.app import app

POINTS, MOST_ROWS, SEEDS = 256, 6_000, 5
Features = tuple[np.ndarray, np.ndarray]
Method = Callable[[pd.DataFrame, pd.DataFrame, int], Features]


def tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Names, columns and what is to be told from them."""
    for name in ("wine", "breast_cancer", "iris", "digits"):
        loaded = getattr(datasets, f"load_{name}")(as_frame=True)
        yield name, loaded.data, loaded.target.to_numpy()
    loaded = datasets.load_diabetes(as_frame=True, scaled=False)
    target = loaded.target.to_numpy()
    yield "diabetes", loaded.data, (target > np.median(target)).astype(int)
    elec2 = np.load(folder / "elec2.npz")
    yield "Elec2", pd.DataFrame(elec2["X"], columns=elec2["columns"].astype(str)), elec2["y"]
    adult = np.load(folder / "adult_a9a.npz")
    names = [f"bit{i}" for i in range(adult["x_train"].shape[1])]
    yield "Adult", pd.DataFrame(adult["x_train"], columns=names), adult["y_train"]
    process = np.load(folder / "tennessee_eastman.npz")
    faults = ["d00", "d01", "d02", "d04", "d06", "d08", "d12", "d13"]
    rows = np.concatenate([process[fault] for fault in faults])
    labels = np.concatenate([np.full(len(process[f]), i) for i, f in enumerate(faults)])
    yield "Tennessee", pd.DataFrame(rows, columns=[f"v{i}m" for i in range(52)]), labels


def of_scikit_learn(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Features:
    """``StandardScaler`` and ``Nystroem``."""
    nystroem = Nystroem(n_components=min(POINTS, len(train)), random_state=seed)
    steps = make_pipeline(StandardScaler(), nystroem)
    return steps.fit_transform(train), steps.transform(test)


def of_scikit_learn_in_ten(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Features:
    """The same in ten dimensions."""
    first, second = of_scikit_learn(train, test, seed)
    pca = PCA(10, random_state=seed).fit(first)
    return pca.transform(first), pca.transform(second)


def of_python(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Features:
    """All components of ``StreamingKernelPCA(scale="auto")``."""
    model = StreamingKernelPCA(basis=POINTS, scale="auto", random_state=seed).fit(train)
    return model.transform(train), model.transform(test)


def of_command_line(*options: str) -> Method:
    """What ``fit`` and ``transform`` make of CSV files."""

    def features(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Features:
        with tempfile.TemporaryDirectory() as folder:
            path, model = Path(folder) / "train.csv", Path(folder) / "model.safetensors"
            train.to_csv(path, index=False)
            words = ["fit", str(path), "-o", str(model), "-q", "--seed", str(seed), *options]
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
            fitted = load(model)
            return fitted.transform(train), fitted.transform(test)

    return features


DEFAULT = "fit"  # whose number of features is told, too
METHODS: dict[str, Method] = {
    "StandardScaler, Nystroem": of_scikit_learn,
    'scale="auto"': of_python,
    DEFAULT: of_command_line(),
    "Nystroem, PCA(10)": of_scikit_learn_in_ten,
    "fit --components 10": of_command_line("--components", "10"),
}


def probe(method: Method, X: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[float, int]:
    """Share of the other half that a linear classifier gets right, and the number of features."""
    rows = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    X, y = X.iloc[rows].reset_index(drop=True), y[rows]
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, random_state=seed, stratify=y
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = method(train, test, seed)
        classifier = LogisticRegression(C=100.0, max_iter=1000).fit(first, y_train)
    return float(classifier.score(second, y_test)), first.shape[1]


def measured(folder: Path) -> list[list[str]]:
    """Rows of the table: mean accuracy in per cent."""
    found = []
    for name, X, y in tables(folder):
        cells = [name, f"{len(X):,} × {X.shape[1]}"]
        for title, method in METHODS.items():
            probes = np.array([probe(method, X, y, seed) for seed in range(SEEDS)])
            cells.append(f"{100.0 * probes[:, 0].mean():.1f}")
            if title == DEFAULT:
                cells.append(f"{probes[:, 1].mean():.0f}")
        found.append(cells)
        print(" | ".join(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure, and put the table into a page where one is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("page", type=Path, nargs="?")
    given = parser.parse_args()
    at = list(METHODS).index(DEFAULT) + 1
    header = ["table", "rows × columns", *METHODS]
    header.insert(2 + at, "its components")
    lines = [header, ["---"] * 2 + ["--:"] * (len(header) - 2), *measured(given.data)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if given.page is None:
        print(text)
        return
    start, end = "<!-- tables -->\n", "<!-- end of tables -->"
    page = given.page.read_text()
    before, _, rest = page.partition(start)
    given.page.write_text(f"{before}{start}{text}\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
