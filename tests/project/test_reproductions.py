"""Every reproduction runs, tiny and without data, and its table, README and ranges fit together."""

from __future__ import annotations

import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproductions import __main__ as command
from reproductions import frame

NO_DATA = frame.Data(network=False)


class MadeUpDigits(frame.Data):
    """MNIST in shape and names: blurred random strokes."""

    def load(self, name: str) -> dict[str, np.ndarray]:
        assert name == "mnist"
        rng = np.random.default_rng(0)
        images = np.cumsum(rng.normal(size=(80, 28, 28)), axis=2)
        images = (255 / (1 + np.exp(-images))).astype(np.uint8)
        labels = np.arange(80, dtype=np.uint8) % 4
        return {
            "x_train": images[:60],
            "y_train": labels[:60],
            "x_test": images[60:],
            "y_test": labels[60:],
        }


@pytest.mark.parametrize("name", command.papers())
def test_runs_tiny_without_data(name: str, tmp_path: Path) -> None:
    paper = import_module(f"reproductions.{name}.run")
    folder = frame.HERE / name
    results = frame.plain(paper.run(data=NO_DATA, full=False, out=tmp_path, tiny=True))
    claims = json.loads(json.dumps(paper.claims(results)))
    assert claims
    assert list(tmp_path.glob("*.png"))
    table = frame.table(claims, "how", frame.deciders(folder))  # each verdict has its measure
    assert len(table.splitlines()) == len(claims) + 4
    assert table in frame.fill((folder / "README.md").read_text(encoding="utf-8"), table)
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert expected
    if not results.get("skipped"):
        missing = [key for key in expected if frame.number(results, key) is None]
        assert not missing, f"expected.json names numbers that run.py does not return: {missing}"


def test_honeine_on_digits(tmp_path: Path) -> None:
    from reproductions.honeine_2012 import digits, run

    found = frame.plain(digits.experiment(MadeUpDigits(), range(2), tmp_path))
    assert found["available"] == 60
    assert len(found["orders"]) == 2
    assert len(run.claims_on_digits(found)) == 5
    assert {picture.name for picture in tmp_path.iterdir()} == {"figure_4.png", "figure_5.png"}


def test_honeine_denoising(tmp_path: Path) -> None:
    from reproductions.honeine_2012 import denoising, run

    found = frame.plain(denoising.experiment(MadeUpDigits(), tmp_path))
    assert found["n_train"] == 45
    assert len(run.claims_on_denoising(found)) == 4
    assert (tmp_path / "figure_6.png").exists()


def made_up_faces() -> dict[str, np.ndarray]:
    """Yale B in shape and names: three persons of smooth noise under changing light."""
    rng = np.random.default_rng(0)
    persons = np.cumsum(np.cumsum(rng.normal(size=(3, 96, 84)), axis=1), axis=2)
    subject = np.arange(180) % 3
    images = persons[subject] * rng.uniform(0.5, 1.5, size=(180, 1, 1))
    images = (images - images.min()) / np.ptp(images)
    return {"images": (255 * images).astype(np.uint8), "subject": subject}


def test_kim_on_faces_and_photographs(tmp_path: Path) -> None:
    from reproductions.kim_2003 import faces, photographs, run, textures

    found = frame.plain(faces.experiment(made_up_faces(), tmp_path, tiny=True))
    assert len(run.claims_on_faces(found)) == 5
    # Batch kernel PCA by two libraries, on the same split.
    assert found["draws"]["sse"]["kpca"][0] == pytest.approx(found["sse"]["kpca"][0], rel=1e-4)
    rng = np.random.default_rng(0)
    images = np.cumsum(rng.normal(size=(4, 80, 90)), axis=2)
    images = (255 / (1 + np.exp(-images))).astype(np.uint8)
    arrays = {"bsds_train": images[:3], "bsds_test": images[3:]}
    found = frame.plain(photographs.experiment(arrays, tmp_path, full=False, tiny=True))
    assert len(run.claims_on_photographs(found)) == 4
    X = run.patches(images[:3], 100)
    found = frame.plain(textures.experiment(X, images[3:], tmp_path, tiny=True))
    assert len(textures.claims(found)) == 3
    assert {picture.name for picture in tmp_path.iterdir()} == {
        "figure_2.png",
        "figure_3.png",
        "figure_5.png",
        "figure_5_textures.png",
    }


def test_chin_and_suter_on_faces(tmp_path: Path) -> None:
    from reproductions.chin_suter_2006 import eigenfaces

    found = frame.plain(eigenfaces.experiment(made_up_faces(), tmp_path, tiny=True))
    assert found["test"] == 100
    assert len(eigenfaces.claims(found, frame.claim)) == 6
    assert eigenfaces.claims(None, frame.claim) == []
    assert (tmp_path / "table_2.png").exists()


def test_missing_data_says_what_and_where(tmp_path: Path) -> None:
    with pytest.raises(frame.MissingDataError, match=r"mnist\.npz.*is missing.*fetch_openml"):
        frame.Data(tmp_path).load("mnist")
    with pytest.raises(frame.MissingDataError, match=r"--data PATH.*mnist_784"):
        NO_DATA.load("mnist")


STATUSES = ("works", "**does not come out**", "**not to be had**")


def test_the_checklist_counts_its_rows_and_names_commands_that_are_there() -> None:
    text = (frame.HERE / "checklist.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [KTHLC]\d+ \| .* \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    statuses = [status for status, _, _ in rows]
    said = re.search(r"(\d+) items: \*\*(\d+) work, (\d+) .*\*\*and (\d+) is not", text)
    assert said is not None
    assert [len(rows), *map(statuses.count, STATUSES)] == [int(n) for n in said.groups()]
    for status, _, cell in rows:
        commands = re.findall(r"`([^`]+)`", cell)
        assert commands or status == STATUSES[2]
        for line in commands:
            words = shlex.split(line.replace("pytest", "python -m pytest", 1))
            if words[2] == "reproductions":
                assert words[-1] in command.papers()
                continue
            place = frame.HERE.parent / next(word for word in words if word.startswith("tests/"))
            tests = "".join(
                f.read_text() for f in ([place] if place.is_file() else place.glob("*.py"))
            )
            wanted = words[words.index("-k") + 1] if "-k" in words else ""
            for part in set(re.findall(r"\w+", wanted)) - {"and", "or"}:
                assert part in tests, f"{line}: no test has {part} in its name"


def test_folders_that_are_none_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for word, said in (("--data", "is not a folder"), ("--out", "a folder is wanted")):
        with pytest.raises(SystemExit):
            command.parsed([word, str(tmp_path / "file")])
        assert said in capsys.readouterr().err


def test_data_is_read_from_the_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "frey.npz", images=np.arange(4))
    assert frame.Data(tmp_path).load("frey")["images"].tolist() == [0, 1, 2, 3]


def test_ranges() -> None:
    results = {"a": {"b": 2.0, "c": [5.0, 6.0]}, "flag": True}
    assert frame.outside(results, {"a.b": [1, 3], "a.c.1": [6, None], "flag": [1, 1]}) == []
    assert "a.b = 2" in frame.outside(results, {"a.b": [None, 1]})[0]
    assert "not computed" in frame.outside(results, {"a.x": [0, 1]})[0]
    assert "not computed" in frame.outside(frame.plain({"a": np.nan}), {"a": [0, 1]})[0]


def test_verdicts() -> None:
    rows = [
        frame.claim("a | b", "1", "1", True),
        frame.claim("c", "1", "2", False, "why"),
        frame.claim("d", "–", "3", None, "ours"),
    ]
    known = {"a | b": "a limit of ours", "c": "the paper's number"}
    lines = frame.table(rows, "how", known).splitlines()
    assert lines[2:5] == [
        r"| a \| b | 1 | 1 | same | a limit of ours |",
        "| c | 1 | 2 | **different**: why | the paper's number |",
        "| d | – | 3 | ours |  |",
    ]
    with pytest.raises(ValueError, match=r"0 entries for the claim 'c'"):
        frame.table(rows[1:], "how", {})
    with pytest.raises(ValueError, match="no place for the table"):
        frame.fill("no markers", "table")


def made_up_paper(number: float, skipped: list[str]) -> Any:
    class Paper:
        @staticmethod
        def run(data: frame.Data, full: bool, out: Path) -> dict[str, Any]:
            (out / "figure_1.png").write_bytes(b"small")
            (out / "figure_2.png").write_bytes(bytes(frame.LARGEST_FIGURE))
            return {"number": number, "skipped": skipped}

        @staticmethod
        def claims(results: dict[str, Any]) -> list[dict[str, Any]]:
            return [frame.claim("It is one", "1", f"{results['number']:g}", True)]

    return Paper


@pytest.mark.parametrize(
    ("number", "skipped", "code", "published"),
    [(1.0, [], 0, True), (2.0, [], 1, True), (1.0, ["No data."], 0, False)],
)
def test_the_command(
    number: float,
    skipped: list[str],
    code: int,
    published: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "run.py").touch()
    (folder / "README.md").write_text(f"before\n{frame.BEGIN}\nold\n{frame.END}\nafter\n")
    (folder / "expected.json").write_text('{"number": [0.5, 1.5]}')
    (folder / "decided.json").write_text('{"the paper\'s number": ["It"]}')
    monkeypatch.setattr(frame, "HERE", tmp_path)
    monkeypatch.setattr(command, "import_module", lambda _: made_up_paper(number, skipped))

    assert command.main(["--out", str(tmp_path / "out")]) == code
    assert "old" in (folder / "README.md").read_text()
    assert "It is one" in (tmp_path / "out" / "paper" / "README.md").read_text()

    assert command.main([]) == code
    readme = (folder / "README.md").read_text()
    assert readme.startswith("before\n") and readme.endswith("after\n")
    assert ("It is one" in readme) == published
    assert ("old" in readme) != published
    assert (folder / "figures" / "figure_1.png").exists() == published
    assert not (folder / "figures" / "figure_2.png").exists()
    written = json.loads((folder / "output" / "results.json").read_text())
    assert written["number"] == number
    assert written["claims"][0]["ours"] == f"{number:g}"
    shown = capsys.readouterr().out
    assert ("not as expected" in shown) == bool(code)
    assert ("not run" in shown) == bool(skipped)


def test_an_error_in_one_paper_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, *_: Any) -> dict[str, Any]:
        if name == "chin_suter_2006":
            raise RuntimeError("no")
        return {"outside": [], "skipped": [], "seconds": 0.0, "out": tmp_path, "claims": []}

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "papers", lambda: ["chin_suter_2006", "lecture_oja"])
    assert command.main([]) == 1
    shown = capsys.readouterr().out
    assert "chin_suter_2006 stopped" in shown
    assert "0 s" in shown
