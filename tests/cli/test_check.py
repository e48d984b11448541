"""Forty tables as people have them: each is understood by ``check`` and learned so by ``fit``."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from kernelstream import StreamingKernelPCA, load
from kernelstream.cli.failures import DATA, USAGE
from kernelstream.tables import SchemaOptions
from kernelstream.tables.inference import infer_column
from tests.cli.conftest import learned, outcome, run, said

N = 300
FAST = ["--basis", "10", "--components", "2"]
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, N))
COLOURS = RNG.choice(["red", "green", "blue"], N)
PLAIN = pd.DataFrame({"a": A, "b": B})
OUT, NUMBER = "left out", "number"


@dataclass(frozen=True)
class Case:
    """A file, and what is to be said of its columns: a use, and a word of the reason."""

    file: str
    write: Callable[[Path], Any]
    columns: dict[str, tuple[str, str]]
    said: str = ""  # in the remarks or the line about scales
    options: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.file


def text(content: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(content.encode(encoding))


def csv(frame: pd.DataFrame, **options: Any) -> Callable[[Path], Any]:
    return lambda path: frame.to_csv(path, **{"index": False, **options})


def parquet(frame: pd.DataFrame, **options: Any) -> Callable[[Path], Any]:
    return lambda path: frame.to_parquet(path, **options)


def ndjson(rows: list[dict[str, Any]]) -> Callable[[Path], Any]:
    return lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines(header: str, row: Callable[[int], str], n: int = N) -> str:
    return header + "".join(row(i) + "\n" for i in range(n))


def german(x: float) -> str:
    return f"{x:,.2f}".translate(str.maketrans(",.", ".,"))


FILTERED = PLAIN[PLAIN.a > -1.2]
WIDE = pd.DataFrame(RNG.normal(size=(40, 2000)), columns=[f"s{i:04d}" for i in range(2000)])
GAPS = PLAIN.mask(RNG.random((N, 2)) < 0.1)
DIGITS = pd.DataFrame(
    np.column_stack([np.zeros(N), RNG.normal(size=(N, 9))]), columns=[f"p{i}" for i in range(10)]
)
DATES = pd.date_range("2024-01-01", periods=N, freq="7h")
LEARNED = {"a": (NUMBER, "numbers"), "b": (NUMBER, "numbers")}

CASES = [
    Case("filtered.parquet", parquet(FILTERED), {**LEARNED, "__index_level_0__": (OUT, "index")}),
    Case(
        "named_index.parquet",
        parquet(PLAIN.set_index(pd.Index(RNG.permutation(N) * 3, name="site"))),
        {**LEARNED, "site": (OUT, "index")},
    ),
    Case("unnamed.csv", csv(PLAIN, index=True), {**LEARNED, "": (OUT, "unnamed counter")}),
    Case(
        "unnamed_twice.csv",
        csv(PLAIN.assign(**{"Unnamed: 0": range(N)})),
        {**LEARNED, "Unnamed: 0": (OUT, "counter")},
    ),
    Case("id.csv", csv(PLAIN.assign(id=range(7, N + 7))), {"id": (OUT, "counts the rows")}),
    Case(
        "shuffled_id.csv",
        csv(PLAIN.assign(customer_id=RNG.permutation(10**6)[:N])),
        {**LEARNED, "customer_id": (OUT, "a key")},
    ),
    Case("permutation.csv", csv(PLAIN.assign(p=RNG.permutation(N))), {"p": (OUT, "a key")}),
    Case(
        "counts.csv",
        csv(PLAIN.assign(count=RNG.integers(0, 9, N))),
        {**LEARNED, "count": (NUMBER, "numbers")},
    ),
    Case("label.csv", csv(PLAIN.assign(label=RNG.integers(0, 3, N))), {"label": (OUT, "label")}),
    Case("constant.csv", csv(PLAIN.assign(unit=4.2)), {**LEARNED, "unit": (NUMBER, "numbers")}),
    Case("copies.csv", csv(PLAIN.assign(a2=PLAIN.a)), {**LEARNED, "a2": (NUMBER, "numbers")}),
    Case("pixels.csv", csv(DIGITS), {"p0": (NUMBER, "numbers"), "p9": (NUMBER, "numbers")}),
    Case(
        "dominating.csv",
        csv(PLAIN.assign(c=A[::-1], money=1e5 * B[::-1])),
        {"money": (NUMBER, "numbers")},
        "money would make nine tenths of all distances",
    ),
    Case(
        "dominating.parquet",
        parquet(PLAIN.assign(c=A[::-1], money=1e5 * B[::-1])),
        {"money": (NUMBER, "numbers")},
        "standardised by a sample of all files",
    ),
    Case(
        "decimal_comma.csv",
        csv(PLAIN.assign(id=range(N)), sep=";", decimal=","),
        {"a": (NUMBER, "decimal commas"), "b": (NUMBER, "decimal commas"), "id": (OUT, "counts")},
    ),
    Case(
        "comma_in_names.csv",
        text(lines("t, °C;p, bar\n", lambda i: f"{A[i]:.3f};{B[i]:.3f}".replace(".", ","))),
        {"t, °C": (NUMBER, "decimal commas"), "p, bar": (NUMBER, "decimal commas")},
    ),
    Case(
        "thousands_german.csv",
        text(lines("a;b\n", lambda i: f"{german(5000 * A[i])};{german(B[i])}")),
        {"a": (NUMBER, "decimal commas and thousands"), "b": (NUMBER, "decimal commas")},
    ),
    Case(
        "thousands_english.csv",
        text(lines("a,b\n", lambda i: f'"{5000 * A[i]:,.2f}",{B[i]:.3f}')),
        {"a": (NUMBER, "thousands"), "b": (NUMBER, "numbers")},
    ),
    Case(
        "thousands_swiss.csv",
        text(lines("a;b\n", lambda i: f"{5000 * A[i]:,.2f};{B[i]:.3f}".replace(",", "'"))),
        {"a": (NUMBER, "thousands"), "b": (NUMBER, "numbers")},
    ),
    Case(
        "decimal_asked.csv",
        csv(PLAIN, sep=";", decimal=","),
        {"a": (NUMBER, "decimal commas")},
        options=("--read", "decimal=,"),
    ),
    Case(
        "latin1.csv",
        text(lines("größe,dicke\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}"), "latin-1"),
        {"größe": (NUMBER, "numbers"), "dicke": (NUMBER, "numbers")},
        "latin-1",
    ),
    Case(
        "utf16.csv",
        text(lines("größe;dicke\n", lambda i: f"{A[i]:.3f};{B[i]:.3f}"), "utf-16"),
        {"größe": (NUMBER, "numbers"), "dicke": (NUMBER, "numbers")},
        "utf-16",
    ),
    Case("bom.csv", csv(PLAIN, encoding="utf-8-sig"), LEARNED),
    Case(
        "comments.csv",
        text("# by the lab\n# 2024\n" + lines("a,b\n", lambda i: f"{A[i]},{B[i]}")),
        LEARNED,
    ),
    Case(
        "savetxt.csv",
        lambda path: np.savetxt(path, PLAIN.to_numpy(), delimiter=",", header="a,b"),
        {"x0": (NUMBER, "numbers"), "x1": (NUMBER, "numbers")},
    ),
    Case("blanks.txt", text(lines("", lambda i: f"{A[i]:.4f} {B[i]:.4f}")), {"x0": (NUMBER, "")}),
    Case(
        "booleans.csv",
        csv(PLAIN.assign(ok=A > 0, on=np.where(B > 0, "yes", "no"))),
        {**LEARNED, "ok": ("boolean", "booleans"), "on": ("boolean", "booleans")},
    ),
    Case("booleans.parquet", parquet(PLAIN.assign(ok=A > 0)), {"ok": ("boolean", "booleans")}),
    Case(
        "categories.csv",
        csv(PLAIN.assign(colour=COLOURS)),
        {**LEARNED, "colour": ("category", "3 levels")},
    ),
    Case(
        "categories.parquet",
        parquet(PLAIN.assign(colour=pd.Categorical(COLOURS))),
        {**LEARNED, "colour": ("category", "3 levels")},
    ),
    Case(
        "codes.csv",
        csv(PLAIN.assign(zip=RNG.integers(1, 5, N))),
        {"zip": ("category", "4 levels, as asked")},
        options=("--treat", "zip=category"),
    ),
    Case(
        "names.csv",
        csv(PLAIN.assign(name=[f"row {i}" for i in range(N)])),
        {**LEARNED, "name": (OUT, "not numbers")},
    ),
    Case("dates.csv", csv(PLAIN.assign(when=DATES)), {**LEARNED, "when": (OUT, "dates or times")}),
    Case(
        "german_dates.csv",
        csv(PLAIN.assign(when=DATES.strftime("%d.%m.%Y %H:%M"))),
        {**LEARNED, "when": (OUT, "dates or times")},
    ),
    Case("times.parquet", parquet(PLAIN.assign(when=DATES)), {"when": (OUT, "dates or times")}),
    Case("gaps.csv", csv(GAPS, na_rep="n/a"), LEARNED),
    Case("gaps.parquet", parquet(GAPS), LEARNED),
    Case(
        "question_marks.csv",
        csv(GAPS, na_rep="?"),
        LEARNED,
    ),
    Case("empty_column.csv", csv(PLAIN.assign(note="")), {**LEARNED, "note": (OUT, "empty")}),
    Case(
        "rows.ndjson",
        ndjson(
            [
                {"id": i, "a": A[i], "ok": bool(B[i] > 0), "c": str(COLOURS[i]), "b": None}
                | ({"b": B[i]} if i % 5 else {})
                for i in range(N)
            ]
        ),
        {
            "id": (OUT, "counts the rows"),
            "a": (NUMBER, "numbers"),
            "ok": ("boolean", "booleans"),
            "c": ("category", "3 levels"),
            "b": (NUMBER, "numbers"),
        },
    ),
    Case(
        "rows.feather",
        lambda path: pa.feather.write_feather(
            PLAIN.assign(id=range(N), colour=pd.Categorical(COLOURS)), str(path)
        ),
        {**LEARNED, "id": (OUT, "counts the rows"), "colour": ("category", "3 levels")},
    ),
    Case(
        "packed.csv.gz",
        lambda path: path.write_bytes(gzip.compress(PLAIN.to_csv().encode())),
        {**LEARNED, "": (OUT, "unnamed counter")},
    ),
    Case("wide.csv", csv(WIDE), {"s0000": (NUMBER, "numbers"), "s1999": (NUMBER, "numbers")}),
    Case(
        "tall.csv",
        csv(pd.DataFrame({"a": np.tile(A, 40), "id": range(40 * N)})),
        {"a": (NUMBER, "numbers"), "id": (OUT, "counts the rows")},
    ),
    Case(
        "sorted.csv",
        csv(PLAIN.sort_values("a")),
        LEARNED,
    ),
    Case("array.npy", lambda path: np.save(path, PLAIN.to_numpy()), {"x0": (NUMBER, "numbers")}),
]


NUMBERS = {"a": (NUMBER, "numbers"), "b": (NUMBER, "numbers")}
CASES += [
    Case(
        "percent.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3f},{B[i]:.2f} %")),
        {"a": (NUMBER, "numbers"), "b": (OUT, "not numbers (text, ")},
    ),
    Case(
        "money.csv",
        text(lines("a,b\n", lambda i: f'{A[i]:.3f},"-$ {abs(B[i]) * 5000:,.2f}"')),
        {"a": (NUMBER, "numbers"), "b": (OUT, "not numbers (text, ")},
    ),
    Case(
        "euros.csv",
        text(lines("a;b\n", lambda i: f"{german(A[i])};{german(5000 * B[i])} €")),
        {"a": (NUMBER, "decimal commas"), "b": (OUT, "not numbers (text, ")},
    ),
    Case(
        "long_minus.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}".replace("-", "−"))),
        NUMBERS,
    ),
    Case(
        "says_its_delimiter.csv",
        text("sep=;\r\n" + lines("a;b\r\n", lambda i: f"{german(A[i])};{german(B[i])}\r")),
        NUMBERS,
    ),
    Case(
        "ends_with_commas.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3f},{B[i]:.3f},")),
        NUMBERS | {"": (OUT, "empty")},
    ),
    Case(
        "names_of_rows.csv",
        text(lines("a,b\n", lambda i: f"row {i},{A[i]:.3f},{B[i]:.3f}")),
        NUMBERS | {"": (OUT, "not numbers")},
    ),
    Case(
        "counted_columns.csv",
        csv(pd.DataFrame(np.column_stack([A, B, A * B]))),
        {str(i): (NUMBER, "numbers") for i in range(3)},
    ),
    Case(
        "excel.csv",
        text(
            "\ufeff"
            + lines(
                "Größe;Preis €;Datum\r\n", lambda i: f"{german(A[i])};{german(B[i])};01.02.2026\r"
            )
        ),
        {"Größe": (NUMBER, "decimal commas"), "Datum": (OUT, "")},
    ),
    Case(
        "blank_lines.csv",
        text("\n\n" + lines("a,b\n\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}" + "\n" * (i % 7 == 0))),
        NUMBERS,
    ),
    Case("one_column.csv", csv(PLAIN[["a"]]), {"a": (NUMBER, "numbers")}),
    Case("one_row.csv", text("a,b\n1,2\n"), NUMBERS),
    Case(
        "exponents.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3e},{B[i]:.2E}")),
        NUMBERS,
    ),
    Case(
        "names_in_unicode.csv",
        csv(PLAIN.set_axis(["湿度", "Δp"], axis=1)),
        {"湿度": (NUMBER, "numbers")},
    ),
    Case(
        "lists.ndjson",
        ndjson([{"a": A[i], "b": B[i], "tags": [1, i]} for i in range(N)]),
        NUMBERS | {"tags": (OUT, "not numbers (list")},
    ),
    Case(
        "one_column_of_commas.csv",
        text(lines("wert\n", lambda i: f"{A[i]:.3f}".replace(".", ","))),
        {"wert": (NUMBER, "decimal commas")},
    ),
    Case(
        "aligned.txt",
        text(lines("  a       b\n", lambda i: f" {A[i]:8.3f}  {B[i]:8.3f} ")),
        NUMBERS,
    ),
    Case(
        "aligned_without_names.txt",
        text(lines("", lambda i: f"{A[i]:9.3f} {B[i]:9.3f}   {i % 2}")),
        {"x0": (NUMBER, "numbers"), "x2": (NUMBER, "numbers")},
    ),
    Case(
        "errors_of_a_spreadsheet.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}" if i % 9 else "#DIV/0!,<NA>")),
        NUMBERS,
    ),
    Case(
        "lakhs.csv",
        text(lines("a;b\n", lambda i: f"{A[i]:.3f};12,34,{abs(int(100 * B[i])):03d}")),
        {"b": (NUMBER, "thousands")},
    ),
    Case(
        "ticked.csv",
        csv(PLAIN.assign(ticked=np.where(A > 0, "Y", ""), set=np.where(B > 0, 5.0, np.nan))),
        {
            **LEARNED,
            "ticked": ("boolean", "booleans"),
            "set": (NUMBER, "numbers"),
        },
    ),
    Case(
        "long_keys.csv",
        csv(PLAIN.assign(account=2**60 + 7 * RNG.permutation(N))),
        {**LEARNED, "account": (OUT, "a key")},
    ),
    Case(
        "long_keys.parquet",
        parquet(PLAIN.assign(account=2**60 + np.arange(N))),
        {**LEARNED, "account": (OUT, "a key")},
    ),
    Case(
        "durations.parquet",
        parquet(PLAIN.assign(took=pd.to_timedelta(np.abs(A), unit="min"))),
        {**LEARNED, "took": (OUT, "not numbers (duration")},
    ),
    Case(
        "categories_of_numbers.feather",
        lambda path: pa.feather.write_feather(
            PLAIN.assign(grade=pd.Categorical(np.arange(N) % 3)), str(path)
        ),
        {**LEARNED, "grade": ("category", "3 levels")},
    ),
    Case(
        "numbers_in_quotes.ndjson",
        ndjson([{"a": f"{A[i]:.3f}", "b": B[i] if i % 9 else f"{B[i]:.3f}"} for i in range(N)]),
        NUMBERS,
    ),
    Case(
        "commas_without_names.csv",
        csv(PLAIN, sep=";", decimal=",", header=False),
        {"x0": (NUMBER, "decimal commas"), "x1": (NUMBER, "decimal commas")},
    ),
    Case(
        "afternoons.csv",
        csv(PLAIN.assign(when=DATES.strftime("%m/%d/%Y %I:%M:%S %p"))),
        {**LEARNED, "when": (OUT, "dates or times")},
    ),
    Case(
        "months.csv",
        csv(PLAIN.assign(when=DATES.strftime("%d-%b-%Y"))),
        {**LEARNED, "when": (OUT, "dates or times")},
    ),
    Case(
        "returns.csv",
        text(lines("a,b\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}").replace("\n", "\r")),
        NUMBERS,
    ),
    Case(
        "names.parquet",
        parquet(PLAIN.assign(name=[f"row {i}" for i in range(N)])),
        {**LEARNED, "name": (OUT, f"not numbers (text, {N} different in the sample)")},
    ),
]


def test_there_are_forty_tables() -> None:
    assert len(CASES) >= 40 and len({case.file for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_table_is_understood(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path / case.file)
    seen = outcome("check", case.file, *case.options)
    found = {column["name"]: column for column in seen["columns"]}
    for name, (use, reason) in case.columns.items():
        assert found[name]["use"] == use, (name, found[name])
        assert reason in found[name]["reason"], (name, found[name])
    assert case.said in f"{seen['remarks']} {seen['scale']}"
    facts = outcome("fit", case.file, "-o", "m.safetensors", *FAST, *case.options)
    assert facts["features"] == seen["features"] and facts["bad_rows"] == 0
    shown = outcome("info", "m.safetensors")
    if shown["columns"] is not None:
        assert [c["use"] for c in shown["columns"]] == [c["use"] for c in seen["columns"]]
    run("transform", "m.safetensors", case.file, "-o", "scores.npy")
    scores = np.load("scores.npy")
    assert len(scores) == facts["rows"] and np.isfinite(scores).all()


def test_what_is_done_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of check, the lines of fit, every column in info."""
    monkeypatch.chdir(tmp_path)
    frame = GAPS.assign(id=range(N), colour=COLOURS, money=1e5 * A)
    frame.to_csv("x.csv", index=False)
    shown = " ".join(run("check", "x.csv").stdout.split())
    assert "id left out counts the rows" in shown and "one-hot, 3 columns 3 levels" in shown
    words = said(run("fit", "x.csv", "-o", "m.safetensors", *FAST))
    for line in (
        "Left out, counts the rows: id.",
        "Categories, one-hot: colour.",
        "Missing values, filled by the model: a, b.",
        "money would make nine tenths of all distances",
    ):
        assert line in words
    info = " ".join(run("info", "m.safetensors").stdout.split())
    assert "id left out counts the rows" in info and "missing values filled" in info


def test_options_override_what_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PLAIN.assign(id=range(N), colour=COLOURS, unit=1).to_csv("x.csv", index=False)
    uses = {
        c["name"]: c["use"]
        for c in outcome("check", "x.csv", "--treat", "id=number,col*=out,unit=number")["columns"]
    }
    assert uses == {"a": NUMBER, "b": NUMBER, "id": NUMBER, "colour": OUT, "unit": NUMBER}
    asked = outcome("check", "x.csv", "--columns", "id,a")
    assert [c["name"] for c in asked["columns"] if c["use"] == NUMBER] == ["id", "a"]
    refused = said(run("check", "x.csv", "--treat", "a=word", code=USAGE))
    assert "cannot be treated as 'word'" in refused
    assert "write NAME=VALUE" in said(run("check", "x.csv", "--treat", "a", code=USAGE))
    assert "no column 'z'" in said(run("check", "x.csv", "--treat", "z=out", code=DATA))
    run("fit", "x.csv", "-o", "m.safetensors", *FAST, "--no-standardize")
    assert learned("m.safetensors").stream_.scaler is None


def test_later_rows_are_treated_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By other commands, and by Python, which takes the frame as it is."""
    monkeypatch.chdir(tmp_path)
    frame = GAPS.assign(id=range(N), colour=COLOURS)
    frame.to_csv("x.csv", index=False, sep=";", decimal=",")
    run("fit", "x.csv", "-o", "m.safetensors", *FAST)
    frame.iloc[:, ::-1].to_parquet("y.parquet", index=False)
    run("transform", "m.safetensors", "y.parquet", "-o", "scores.npy")
    model = load("m.safetensors")
    assert np.allclose(model.transform(frame), np.load("scores.npy"), atol=1e-9)
    assert [c.name for c in model.encoder_.schema_.columns if not c.learned] == ["id"]
    strange = frame.assign(colour="violet")  # a level that nobody has seen
    assert np.isfinite(model.transform(strange)).all()
    run("update", "m.safetensors", "y.parquet")
    assert learned("m.safetensors").n_samples_seen_ == 2 * N
    run("transform", "m.safetensors", "x.csv", "--denoise", "-o", "clean.parquet")
    clean = pd.read_parquet("clean.parquet")
    assert list(clean.columns) == ["a", "b", "colour"] and set(clean.colour) <= set(COLOURS)
    with pytest.raises(ValueError, match="has no column 'colour'"):
        model.transform(frame.drop(columns="colour"))
    with pytest.raises(ValueError, match="row 2, column 'a': 'x' is not a number"):
        model.transform(frame.astype({"a": object}).assign(a=["1", "2", "x"] * 100))


def test_index_columns_do_not_change_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet of a filtered frame gave another model than its CSV: it learned the index."""
    monkeypatch.chdir(tmp_path)
    FILTERED.to_parquet("x.parquet")
    FILTERED.to_csv("x.csv")
    one, two = (
        outcome("fit", f"x.{kind}", "-o", f"{kind}.safetensors", *FAST)
        for kind in ("parquet", "csv")
    )
    assert one["explained_variance_ratio"] == pytest.approx(two["explained_variance_ratio"])
    assert outcome("merge", "parquet.safetensors", "csv.safetensors", "-o", "both.safetensors")[
        "rows_seen"
    ] == 2 * len(FILTERED)


def test_scale_and_width_do_not_hang_on_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted rows gave another scale, and with it other components, than shuffled ones."""
    monkeypatch.chdir(tmp_path)
    X = RNG.normal(size=(6000, 4)) * [1, 5, 20, 100]
    shuffled = pd.DataFrame(X, columns=list("abcd"))
    shuffled.to_csv("shuffled.csv", index=False)
    shuffled.sort_values("d").to_csv("sorted.csv", index=False)
    found = []
    for name in ("shuffled", "sorted"):
        run("fit", f"{name}.csv", "-o", f"{name}.safetensors", *FAST)
        found.append(learned(f"{name}.safetensors"))
    scales = [model.stream_.scaler.deviation for model in found]
    assert np.allclose(scales[0], X.std(axis=0), rtol=0.05)
    assert np.allclose(scales[0], scales[1], rtol=0.05)
    assert found[0].kernel_.gamma == pytest.approx(found[1].kernel_.gamma, rel=0.05)
    assert np.allclose(
        found[0].explained_variance_ratio_, found[1].explained_variance_ratio_, atol=0.02
    )


def test_csv_and_parquet_of_the_same_rows_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digits that a text has lost changed the last ones of the width: two kernels."""
    monkeypatch.chdir(tmp_path)
    PLAIN.to_csv("x.csv", index=False, float_format="%.9g")
    PLAIN.to_parquet("x.parquet")
    for kind in ("csv", "parquet"):
        run("fit", f"x.{kind}", "-o", f"{kind}.m", *FAST)
    facts = outcome("merge", "csv.m", "parquet.m", "-o", "both.m")
    assert facts["rows_seen"] == 2 * N


def test_parts_fitted_like_one_model_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = GAPS.assign(colour=COLOURS, money=1e5 * A)
    parts = {"x.csv": frame[:100], "y.csv": frame[100:]}
    for name, part in parts.items():
        part.to_csv(name, index=False)
    run("fit", *parts, "--passes", 1, "-o", "plan.safetensors", *FAST)
    for name in parts:
        run("fit", name, "-o", f"{name}.m", *FAST, "--like", "plan.safetensors")
    facts = outcome("merge", "x.csv.m", "y.csv.m", "-o", "both.safetensors")
    assert facts["rows_seen"] == N
    assert np.isfinite(load("both.safetensors").transform(frame)).all()
    both, plan = learned("both.safetensors"), learned("plan.safetensors")
    assert both.kernel_.gamma == plan.kernel_.gamma
    words = ["fit", "x.csv", "-o", "z.m", "--like", "plan.safetensors", "--gamma", 1]
    assert "--gamma cannot be used with --like" in said(run(*words, code=USAGE))
    run("fit", "x.csv", "-o", "alone.m", *FAST)
    refused = said(run("merge", "alone.m", "y.csv.m", "-o", "no.m", code=DATA))
    assert "--like" in refused


def test_a_pipe_is_understood_by_its_head() -> None:
    rows = PLAIN.assign(id=range(N), colour=COLOURS).to_csv(index=False).encode()
    seen = outcome("check", "-", stdin=rows)
    uses = {c["name"]: c["use"] for c in seen["columns"]}
    # What looks like a counter may be none in what follows.
    assert uses == {"a": NUMBER, "b": NUMBER, "id": NUMBER, "colour": "category"}


def test_the_model_of_plain_numbers_is_the_one_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", PLAIN.to_numpy())
    run("fit", "x.npy", "-o", "m.safetensors", *FAST, "--gamma", 0.3, "--passes", 1)
    python = StreamingKernelPCA(2, gamma=0.3, basis=10, random_state=0)
    python.partial_fit(PLAIN.to_numpy())
    assert np.array_equal(learned("m.safetensors").dual_coef_, python.dual_coef_)


MIXED = PLAIN.assign(
    b=np.where(np.arange(N) % 9 == 0, np.nan, B),
    id=np.arange(N) + 1000,
    colour=COLOURS,
    when=pd.date_range("2026-01-01", periods=N, freq="h").astype(str),
)


@pytest.mark.parametrize(
    "words",
    [["fit"], ["fit", "--detector", "novelty"], ["paper", "online"], ["paper", "incremental"]],
    ids=lambda words: " ".join(words) or "plain",
)
@pytest.mark.parametrize("piped", [False, True])
def test_every_kind_of_model_understands_a_table(
    words: list[str], piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a pipe, and of other kinds, words were left out and gaps refused."""
    monkeypatch.chdir(tmp_path)
    MIXED.to_csv("m.csv", index=False)
    stdin = Path("m.csv").read_bytes() if piped else None
    few = ["--basis", "20"] if words[0] == "fit" else []
    result = run(*words, "-" if piped else "m.csv", "-o", "m.st", *few, stdin=stdin)
    assert "one-hot: colour" in said(result) and "filled by the model: b" in said(result)
    schema = load("m.st").encoder_.schema_
    done = {column.name: column.use for column in schema.columns}
    assert done["colour"] == "category" and done["when"] == OUT
    assert done["id"] == (NUMBER if piped else OUT)  # its first rows cannot tell a counter
    command = "score" if "novelty" in words else "transform"
    run(command, "m.st", "m.csv", "-o", "s.parquet")
    assert len(pd.read_parquet("s.parquet")) == N
    assert "colour" in run("info", "m.st").stdout


def test_a_monitor_watches_sensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the counter of the rows; a sensor that stands still, or equals another, is one."""
    monkeypatch.chdir(tmp_path)
    MIXED.assign(b=B, still=1.0, twin=B).to_csv("m.csv", index=False)
    result = run(
        "fit", "m.csv", "-o", "m.st", "--detector", "monitor", "--set", "lags=0", "--basis", "20"
    )
    for line in (
        "Left out, counts the rows: id.",
        "Left out, no plain numbers: colour.",
        "Left out, dates or times: when.",
    ):
        assert line in said(result)
    assert list(load("m.st").feature_names_in_) == ["a", "b", "still", "twin"]
    more = ["--columns", "a,id"]
    run(
        "fit",
        "m.csv",
        "-o",
        "m.st",
        "--detector",
        "monitor",
        "--set",
        "lags=0",
        "--basis",
        "20",
        *more,
        "--force",
    )
    assert list(load("m.st").feature_names_in_) == ["a", "id"]


def test_fit_of_numbers_with_a_long_minus_gives_those_of_plain_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = lines("a;b\n", lambda i: f"{A[i]:.3f};{B[i]:.3f}")
    Path("plain.csv").write_text(plain)
    Path("signs.csv").write_text(plain.replace("-", "\u2212"))
    for name in ("signs", "plain"):
        run("fit", f"{name}.csv", "-o", f"{name}.st", *FAST)
        run("transform", f"{name}.st", f"{name}.csv", "-o", f"{name}.npy")
    assert np.array_equal(np.load("signs.npy"), np.load("plain.npy"))


def written(path: str, content: bytes) -> str:
    Path(path).write_bytes(content)
    return path


def packed(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        # Without the present time, which would make the names of tests differ between processes.
        archive.writestr(zipfile.ZipInfo(name), "a,b\n1,2\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        (
            "x.csv.zip",
            packed("x.csv"),
            "x.csv.zip is an archive or a spreadsheet: unpack it",
        ),
        ("x.xlsx", packed("xl/workbook.xml"), "x.xlsx is an archive or a spreadsheet"),
        ("x.csv", packed("xl/workbook.xml"), "x.csv is an archive or a spreadsheet"),
        ("x.json", b'[{"a": 1}, {"a": 2}]', "is one JSON array. Write an object a line"),
        (
            "x.txt",
            lines("", lambda i: f" {A[i]:.5e} {B[i]:.5e}".replace("e", "D")).encode(),
            "no column of numbers to learn",
        ),
        ("x.csv", b"a,b\n", "has no rows below the names of its columns, a, b"),
        ("x.csv", b"Made by X\n\na;b\n" + b"1,5;2\n" * 9, "remove what precedes the table"),
        ("x.csv", b"; a remark\na,b\n" + b"1,2\n" * 9, "has no rows below the names"),
        ("x.csv", b"a,b,a\n" + b"1,2,3\n" * 9, "several columns called 'a': rename them"),
        ("x.csv", "a;b\n1;2\n".encode("utf-16-le"), "--read encoding=utf-16-le"),
    ],
    ids=[
        *("zip", "xlsx", "xlsx named csv", "json", "Fortran", "header", "other text", "a remark"),
        *("names twice", "UTF-16 without a mark"),
    ],
)
def test_what_is_no_table_is_said(
    name: str, content: bytes, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(name, content)
    for command in (["check", name], ["fit", name, "-o", "m.st"]):
        assert refusal in said(run(*command, code=DATA))


def test_fit_of_a_row_of_units_names_it_and_skips_it_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(lines("a,b\nm/s,degC\n", lambda i: f"{A[i]:.3f},{B[i]:.3f}"))
    refused = said(run("fit", "x.csv", "-o", "m.st", *FAST, code=DATA))
    assert "row 1, column 'a': 'm/s' is not a number" in refused
    facts = outcome("fit", "x.csv", "-o", "m.st", *FAST, "--on-bad-rows", "skip")
    assert facts["rows"] == N and facts["bad_rows"] == 1


def test_check_tells_of_bad_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It praised tables on which fit then stopped."""
    monkeypatch.chdir(tmp_path)
    written("x.csv", lines("a,b\n", lambda i: f"{A[i]},{B[i] if i % 9 else '<0.05'}").encode())
    shown = " ".join(run("check", "x.csv").stdout.split())
    assert "34 in the sample, such as column 'b': '<0.05' is not a number" in shown
    assert outcome("check", "x.csv")["bad_rows_sampled"] == 34


def test_parts_with_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is missing is an error before anything was learned; one more is said."""
    monkeypatch.chdir(tmp_path)
    PLAIN[:100].to_csv("1.csv", index=False)
    PLAIN[100:][["b", "a"]].assign(c=1).to_parquet("2.parquet", index=False)
    words = said(run("fit", "1.csv", "2.parquet", "-o", "m.st", *FAST))
    assert "2.parquet has columns that 1.csv has not, and that are left out: c." in words
    assert learned("m.st").n_samples_seen_ == N
    PLAIN[["a"]].to_csv("3.csv", index=False)
    for command in (["check"], ["fit", "-o", "n.st"]):
        refused = said(run(*command, "1.csv", "3.csv", code=DATA))
        assert "3.csv has no column 'b'; its columns: a" in refused
    run("check", "1.csv", "3.csv", "--exclude", "b")


def test_models_of_other_columns_say_how_parts_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i, levels in enumerate((["x", "y"], ["y", "z"])):
        PLAIN.assign(c=levels * (N // 2)).to_csv(f"{i}.csv", index=False)
        run("fit", f"{i}.csv", "-o", f"{i}.st", *FAST)
    assert "--like" in said(run("merge", "0.st", "1.st", "-o", "both.st", code=DATA))


def test_fit_of_negative_numbers_in_brackets_names_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no numbers: a row of them is invalid, and never a positive number."""
    monkeypatch.chdir(tmp_path)
    profit = B + 1.0
    cells = [f"{x:.3f}" if x > 0 else f"({-x:.3f})" for x in profit]
    Path("x.csv").write_text(lines("a;b\n", lambda i: f"{A[i]:.3f};{cells[i]}"))
    first = int(np.flatnonzero(profit <= 0)[0])
    refused = said(run("fit", "x.csv", "-o", "m.st", *FAST, code=DATA))
    assert f"row {first + 1}, column 'b': '{cells[first]}' is not a number" in refused
    found = outcome("fit", "x.csv", "-o", "m.st", *FAST, "--on-bad-rows", "skip")
    assert found["bad_rows"] == int((profit <= 0).sum())


@pytest.mark.parametrize("spelling", ["12D3", "1.5D-02", "(3)", "3 %", "$ 3", "1_000"])
def test_a_number_in_an_odd_spelling_is_never_another_number(spelling: str) -> None:
    column = infer_column(pa.table({"b": [f"{x:.3f}" for x in B]}), "b", SchemaOptions())
    assert np.isnan(column.encode(pa.array([spelling]))).all()
