"""What all reproductions share: data, claims, tables and the ranges that numbers must keep.

A paper is a folder with

- ``run.py`` with two functions:
  ``run(data, full, out, tiny=False) -> dict`` writes its pictures into the folder ``out`` and
  returns its numbers (a dictionary, nested if you like, that JSON can hold). ``data`` is a
  ``Data``. ``full`` asks for the paper's full sizes, ``tiny`` for those of a smoke test: seconds,
  and numbers that need not mean anything. What needs data that is missing is left out, the
  sentence of the ``MissingDataError`` goes to ``results["skipped"]``, and the rest runs.
  ``claims(results) -> list`` of ``claim(...)``: the rows of the table, from those numbers alone.
- ``expected.json``: ``{"name.of.number": [low, high]}``, the range each number must keep. Dots lead
  into nested dictionaries; null is no bound.
- ``decided.json``: ``{"the paper's number": ["Figure 1: the first", …], …}``, by which measure each
  verdict was reached: the paper's own number, a limit of ours (where the paper shows a picture or a
  curve), or a parameter that was fitted to agree. Each claim is named by its beginning.
- ``README.md`` with the two markers below; the table between them is written from the claims.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BEGIN, END = "<!-- results: written by python -m reproductions -->", "<!-- end of results -->"
LARGEST_FIGURE = 200_000  # bytes; larger pictures stay in output/ and are not shown in the README

# --- data --------------------------------------------------------------------------------------


class MissingDataError(Exception):
    """A data file is not there; the message says which and where it comes from."""


def _fetch_mnist() -> dict[str, np.ndarray]:
    from sklearn.datasets import fetch_openml

    images, labels = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
    images = images.reshape(-1, 28, 28).astype(np.uint8)
    labels = labels.astype(np.uint8)
    return {
        "x_train": images[:60000],
        "y_train": labels[:60000],
        "x_test": images[60000:],
        "y_test": labels[60000:],
    }


# The first 50 training images in landscape format, by file name.
_BSDS = (
    "100075 100098 103041 105019 105053 106020 108073 109034 112082 113016 113044 117054 118020 "
    "118035 12003 12074 122048 124084 126039 130034 134008 134052 135037 135069 140055 140075 "
    "145014 145053 147021 151087 153077 153093 156079 159029 159045 159091 16052 161062 163062 "
    "164074 166081 169012 170054 173036 176035 176039 178054 183055 183087 187003"
)
# The first 20 test images in landscape format.
_BSDS_TEST = (
    "100007 100039 100099 10081 101027 102062 103006 103029 103078 105027 106005 106047 107014 "
    "107045 107072 108004 108036 108069 109055 112056"
)
_BSDS_URL = "https://raw.githubusercontent.com/BIDS/BSDS500/master/BSDS500/data/images"


def _fetch_natural_images() -> dict[str, np.ndarray]:
    from PIL import Image

    def grey(folder: str, name: str) -> np.ndarray:
        return np.asarray(Image.open(_download(f"{_BSDS_URL}/{folder}/{name}.jpg")).convert("L"))

    return {
        "bsds_train": np.stack([grey("train", name) for name in _BSDS.split()]),
        "bsds_test": np.stack([grey("test", name) for name in _BSDS_TEST.split()]),
    }


def _fetch_frey() -> dict[str, np.ndarray]:
    from scipy.io import loadmat

    faces = loadmat(_download("https://cs.nyu.edu/~roweis/data/frey_rawface.mat"))["ff"]
    return {"images": faces.T.reshape(-1, 28, 20).astype(np.uint8)}


_TENNESSEE_URL = "https://raw.githubusercontent.com/camaramm/tennessee-eastman-profBraatz/master"


def _fetch_tennessee_eastman() -> dict[str, np.ndarray]:
    names = ["d00", *(f"d{fault:02d}_te" for fault in range(22))]
    runs = {name: np.loadtxt(_download(f"{_TENNESSEE_URL}/{name}.dat")) for name in names}
    # d00 is stored with the variables in rows
    return {name: (X if X.shape[1] == 52 else X.T).astype(np.float32) for name, X in runs.items()}


def _download(url: str) -> BytesIO:
    from urllib.request import urlopen

    with urlopen(url, timeout=60) as answer:
        return BytesIO(answer.read())


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and how to get it with a network (None: by hand only)."""

    contents: str
    origin: str
    fetch: Callable[[], dict[str, np.ndarray]] | None = None


SOURCES = {
    "mnist": Source(
        "x_train (60000, 28, 28), y_train, x_test (10000, 28, 28), y_test, all uint8",
        'MNIST, sklearn.datasets.fetch_openml("mnist_784") or http://yann.lecun.com/exdb/mnist/',
        _fetch_mnist,
    ),
    "natural_images": Source(
        "bsds_train (50, 321, 481) and bsds_test (20, 321, 481), uint8",
        "BSDS500, https://github.com/BIDS/BSDS500 (images as grey values)",
        _fetch_natural_images,
    ),
    "frey": Source(
        "images (1965, 28, 20) uint8",
        "Frey faces, https://cs.nyu.edu/~roweis/data.html (frey_rawface.mat)",
        _fetch_frey,
    ),
    "tennessee_eastman": Source(
        "d00 (500, 52) and d00_te … d21_te (960, 52) float32",
        "Braatz's files, https://github.com/camaramm/tennessee-eastman-profBraatz",
        _fetch_tennessee_eastman,
    ),
    "yale_b": Source(
        "images (2414, 96, 84) uint8, subject (2414,)",
        "Extended Yale Face Database B, cropped: "
        "http://vision.ucsd.edu/~leekc/ExtYaleDatabase/ExtYaleB.html, averaged over 2×2 pixels",
    ),
}


@dataclass(frozen=True)
class Data:
    """Data sets by name: from ``path/NAME.npz``, or from the network where no path is given."""

    path: Path | None = None
    network: bool = True

    def load(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a data set, or ``MissingDataError`` with where to find them."""
        source = SOURCES[name]
        wanted = f"{name}.npz with {source.contents}; source: {source.origin}"
        if self.path is not None:
            file = self.path / f"{name}.npz"
            if not file.is_file():
                raise MissingDataError(f"{file} is missing ({wanted}).")
            with np.load(file) as archive:
                return dict(archive)
        if source.fetch is None or not self.network:
            raise MissingDataError(
                f"No folder with data was given (--data PATH). Needed: {wanted}."
            )
        try:
            return source.fetch()
        except Exception as error:  # whatever a download can raise; all mean the same here
            raise MissingDataError(
                f"{name} could not be downloaded ({type(error).__name__}: {error}) and no folder "
                f"with data was given (--data PATH). Needed: {wanted}."
            ) from error


# --- claims and numbers ------------------------------------------------------------------------


def claim(text: str, paper: str, ours: str, same: bool | None, why: str = "") -> dict[str, Any]:
    """One row of the table: what the paper says, its number, ours, and whether they agree.

    ``ours`` is formatted from the run's numbers and ``same`` computed from them; None: the paper
    claims nothing. ``why`` explains a difference, or is a remark where there is none.
    """
    agrees = None if same is None else bool(same)
    return {"claim": text, "paper": paper, "ours": ours, "same": agrees, "why": why}


def verdict(row: dict[str, Any], different: str = "different") -> str:
    """The last column: ``same`` or ``different``, and why."""
    words = {True: "same", False: different, None: ""}[row["same"]]
    return ": ".join(part for part in (words, row["why"]) if part)


def number(results: dict[str, Any], name: str) -> Any:
    """The number with a dotted name, or None."""
    value: Any = results
    for part in name.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def outside(results: dict[str, Any], expected: dict[str, list[float | None]]) -> list[str]:
    """Sentences about the numbers that leave their range, or are not there."""
    sentences = []
    for name, (low, high) in expected.items():
        value = number(results, name)
        if value is None:
            sentences.append(f"{name} was not computed, expected {low} to {high}")
        elif not ((low is None or value >= low) and (high is None or value <= high)):
            sentences.append(f"{name} = {value:.6g}, expected {low} to {high}")
    return sentences


def plain(value: Any) -> Any:
    """Arrays and NumPy numbers as JSON knows them, floats to seven digits."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.bool_ | bool):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating | float):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return value


def write_results(results: dict[str, Any], out: Path) -> None:
    """The numbers as ``results.json``."""
    text = json.dumps(plain(results), indent=1, ensure_ascii=False)
    (out / "results.json").write_text(text + "\n", encoding="utf-8")


# --- the README --------------------------------------------------------------------------------

DECIDERS = ("the paper's number", "a limit of ours", "a fitted parameter")


def deciders(folder: Path) -> dict[str, str]:
    """By which measure verdicts were reached: beginnings of claims, and the measure."""
    listed = json.loads((folder / "decided.json").read_text(encoding="utf-8"))
    assert set(listed) <= set(DECIDERS), f"{folder.name}: measures are {DECIDERS}"
    return {beginning: measure for measure, claims in listed.items() for beginning in claims}


def decided_by(row: dict[str, Any], known: dict[str, str]) -> str:
    """The measure by which a claim was judged; none where there is no verdict."""
    if row["same"] is None:
        return ""
    found = [measure for beginning, measure in known.items() if row["claim"].startswith(beginning)]
    if len(found) != 1:
        raise ValueError(f"decided.json has {len(found)} entries for the claim {row['claim']!r}.")
    return found[0]


def table(claims: list[dict[str, Any]], how: str, known: dict[str, str]) -> str:
    """The claims as a Markdown table, with how they were computed below it."""
    lines = ["| the paper | its number | ours | same? | decided by |", "|---|---|---|---|---|"]
    for row in claims:
        cells = (
            row["claim"],
            row["paper"],
            row["ours"],
            verdict(row, "**different**"),
            decided_by(row, known),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", how])


def fill(readme: str, table: str) -> str:
    """The README with the table between its markers replaced."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(readme):
        raise ValueError(f"The README has no place for the table: {BEGIN} … {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{table}\n\n{END}", readme)


def publish(folder: Path, table: str, out: Path) -> None:
    """Write the table into the folder's README, and the pictures that it shows beside it."""
    readme = folder / "README.md"
    readme.write_text(fill(readme.read_text(encoding="utf-8"), table), encoding="utf-8")
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for picture in sorted(out.glob("*.png")):
        if picture.stat().st_size < LARGEST_FIGURE:
            shutil.copy(picture, figures / picture.name)
