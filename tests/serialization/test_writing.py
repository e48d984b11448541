"""Files are written whole or not at all, whatever is in their place."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelstream.serialization import writing
from kernelstream.serialization.writing import Replacement

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes of POSIX")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@posix
@pytest.mark.parametrize("relative", [True, False])
def test_a_link_stays_and_leads_to_the_new_file(relative: bool, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    real, link = tmp_path / "models" / "real", tmp_path / "latest"
    real.write_bytes(b"old")
    link.symlink_to("models/real" if relative else real)
    (tmp_path / "further").symlink_to("latest")
    Replacement.write(tmp_path / "further", b"new")
    assert link.is_symlink() and (tmp_path / "further").is_symlink()
    assert real.read_bytes() == b"new"
    assert names(tmp_path) == {"models", "latest", "further"} and names(real.parent) == {"real"}


@posix
def test_a_link_to_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("to be")
    Replacement.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "to be").read_bytes() == b"new"
    (tmp_path / "lost").symlink_to("nowhere/file")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Replacement.write(tmp_path / "lost", b"new")


@posix
def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not Replacement.is_possible(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    Replacement.write(pipe, b"new")
    reader.join(timeout=20)
    assert found == [b"new"] and pipe.is_fifo() and names(tmp_path) == {"pipe"}


@posix
def test_a_device_is_written_through() -> None:
    before = os.stat(os.devnull)
    Replacement.write(Path(os.devnull), b"new")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_ino == before.st_ino


@posix
@pytest.mark.parametrize("name", ["/dev/stdout", "link"])
def test_the_standard_output_goes_where_it_was_sent(name: str, tmp_path: Path) -> None:
    """Also where that is a plain file, in which others have written and will write."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    script = (
        "import sys; from pathlib import Path; from kernelstream.serialization.writing import *\n"
        "print('before', flush=True)\n"
        "Replacement.write(Path(sys.argv[1]), b'new\\n')\n"
        "print('after')"
    )
    before = os.lstat("/dev/stdout")
    with open(tmp_path / "sent", "wb") as sent:
        subprocess.run(
            [sys.executable, "-c", script, name], stdout=sent, cwd=tmp_path, check=True, timeout=100
        )
    assert (tmp_path / "sent").read_text() == "before\nnew\nafter\n"
    assert (tmp_path / "link").is_symlink() and os.path.samestat(os.lstat("/dev/stdout"), before)


@posix
def test_a_descriptor_is_one_of_this_process(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        assert Replacement.descriptor_of(Path(f"/dev/fd/{file.fileno()}")) == file.fileno()
    assert Replacement.descriptor_of(tmp_path / "file") is None


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o660])
def test_who_may_read_stays(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []
    new = Replacement(path)
    seen.append(stat.S_IMODE(os.fstat(new.file.fileno()).st_mode))
    new.file.write(b"new")
    new.keep()
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == mode
    assert seen == [mode], "while it was written, others could read more"


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    Replacement.write(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@pytest.mark.parametrize("name", ["n" * 255, "ä" * 127, "n" * 250, "n" * 233])
def test_long_names(name: str, tmp_path: Path) -> None:
    Replacement.write(tmp_path / name, b"new")
    assert names(tmp_path) == {name}
    others = (tmp_path / name, tmp_path / (name[:-1] + "m"))
    one, other = (Replacement.companion(path, ".0.part", hidden=True) for path in others)
    assert one != other
    assert len(os.fsencode(Replacement.companion(tmp_path / name, ".checkpoint").name)) <= 255


def left_by_a_killed_writer(path: Path) -> None:
    """What a process leaves that dies in the middle of a file."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from kernelstream.serialization.writing import *\n"
        "Replacement(Path(sys.argv[1])).file.write(b'half'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], timeout=100, check=False)


@posix
def test_leftovers_go_when_the_file_is_written_again(tmp_path: Path) -> None:
    left_by_a_killed_writer(tmp_path / "day1")
    assert names(tmp_path) == {".day1.0.part"}
    Replacement.write(tmp_path / "day1", b"new")
    assert names(tmp_path) == {"day1"}


@posix
def test_leftovers_of_others_and_of_the_living_stay(tmp_path: Path) -> None:
    left_by_a_killed_writer(tmp_path / "day10")
    living = Replacement(tmp_path / "day1")
    strangers = {".day1.notes", ".day1-scores.csv.0.part", ".day1.0123456789abcdef.part"}
    for name in strangers:
        (tmp_path / name).write_bytes(b"theirs")
    Replacement.clear_leftovers(tmp_path / "day1")
    assert names(tmp_path) == {".day10.0.part", ".day1.0.part", *strangers}
    Replacement.write(tmp_path / "day1", b"second")  # while the first goes on
    living.file.write(b"first")
    living.keep()
    assert (tmp_path / "day1").read_bytes() == b"first"
    assert names(tmp_path) == {".day10.0.part", "day1", *strangers}


@posix
def test_what_others_put_in_the_place_of_a_leftover_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"theirs")
    (tmp_path / ".m.0.part").symlink_to("secret")
    os.mkfifo(tmp_path / ".m.1.part")
    Replacement.write(tmp_path / "m", b"new")
    assert (tmp_path / "m").read_bytes() == b"new" and not (tmp_path / "m").is_symlink()
    assert (tmp_path / "secret").read_bytes() == b"theirs"


def test_discarded(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"old")
    new = Replacement(tmp_path / "m")
    new.file.write(b"half")
    new.discard()
    assert (tmp_path / "m").read_bytes() == b"old" and names(tmp_path) == {"m"}


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="folder"):
        Replacement.write(tmp_path, b"new")


def test_an_interrupt_while_the_new_file_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Replacement.write(tmp_path / "model", b"new")
    assert not list(tmp_path.iterdir())
