"""Atomic writing of files: temporary file, rename, lock, symbolic links, leftovers of crashes.

A plain file is written beside its target under another name, flushed to the disk, and renamed: the
old file is there until the new one is whole. A symbolic link stays, and what it leads to is
replaced. A pipe or a device is written to as it is: nothing can take its place.

The name beside the target is made of that of the target, and belongs to no other file. Its writer
holds a lock on it, which the system ends with the process: who finds one without a lock knows that
its writer was killed, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|\d+|thread-self))/fd/(\d+)")
_WRITERS = 8  # of one file at the same time, whose leftovers are looked for
_LONGEST_NAME = 255  # bytes, on all file systems in use


def _target_of(path: Path) -> Path:
    """Where a path leads: the place itself, or what a chain of symbolic links ends at."""
    return Path(os.path.realpath(path))


class Replacement:
    """A file that replaces another one, or none, as a whole.

    Parameters
    ----------
    path : Path
        The file to write. A link is followed; a pipe or a device is written to directly.

    Attributes
    ----------
    file : BinaryIO
        Where to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kernelstream.serialization import Replacement
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> new = Replacement(path)
    >>> _ = new.file.write(b"one line")
    >>> path.exists()
    False
    >>> new.keep()
    >>> path.read_text()
    'one line'
    """

    def __init__(self, path: Path):
        self.path, self.target = path, _target_of(path)
        self._temporary: Path | None = None
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "this is a folder: name a file in it", str(path))
        descriptor = self.descriptor_of(path)
        if descriptor is not None:
            self.file: BinaryIO = os.fdopen(os.dup(descriptor), "wb")
            return
        if not self.is_possible(path):
            self.file = open(path, "wb")  # noqa: SIM115 (closed when it is kept or discarded)
            return
        folder = self.target.parent if path.is_symlink() else path.parent
        if not folder.is_dir():
            raise FileNotFoundError(f"Cannot save to {path}: there is no folder {folder}.")
        try:
            self._begin()
        except OSError as problem:  # in the words of the caller, who knows nothing of our names
            raise type(problem)(problem.errno, problem.strerror, str(path)) from problem
        except BaseException:  # an interrupt: nobody else knows of the new file yet
            self.discard()
            raise

    @classmethod
    def write(cls, path: Path, *pieces: bytes | memoryview) -> None:
        """Write the whole file, or leave the existing file as it is.

        Parameters
        ----------
        path : Path
            The file to write.
        *pieces : bytes
            Its content, one piece after the other.
        """
        new = cls(path)
        try:
            for piece in pieces:
                new.file.write(piece)
            new.keep()
        except BaseException:
            new.discard()
            raise

    @classmethod
    def is_possible(cls, path: Path) -> bool:
        """Whether a path is a plain file or does not exist: anything else is written to directly.

        Parameters
        ----------
        path : Path
            The file to write.
        """
        if cls.descriptor_of(path) is not None:
            return False
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except FileNotFoundError:
            return True

    @staticmethod
    def descriptor_of(path: Path) -> int | None:
        """The descriptor of this process that a path such as /dev/stdout stands for, if any.

        Parameters
        ----------
        path : Path
            Any path.
        """
        place = os.path.abspath(path)
        for _ in range(40):  # links that a system follows, at most
            found = _DESCRIPTOR.fullmatch(place)
            if found and os.path.lexists(place):
                return int(found[1])
            if not os.path.islink(place):
                return None
            place = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))
        return None

    @staticmethod
    def companion(path: Path, ending: str, hidden: bool = False) -> Path:
        """The path of a companion file in the same folder, which belongs to this path alone.

        Parameters
        ----------
        path : Path
            The file.
        ending : str
            What is appended to its name; a digest replaces a name that is too long for that.
        hidden : bool, default=False
            Whether the name begins with a dot.

        Examples
        --------
        >>> from pathlib import Path
        >>> Replacement.companion(Path("model.safetensors"), ".checkpoint").name
        'model.safetensors.checkpoint'
        """
        path = path.with_name(f".{path.name}") if hidden else path
        longer = path.with_name(path.name + ending)
        if len(os.fsencode(longer.name)) <= _LONGEST_NAME:
            return longer
        digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:32]
        return path.with_name(f"{path.name[:40]}.{digest}{ending}")

    @classmethod
    def clear_leftovers(cls, path: Path) -> None:
        """Remove unfinished files that killed writers of this path left next to it.

        Parameters
        ----------
        path : Path
            The file.
        """
        for number in range(_WRITERS):
            _remove_if_left(cls.companion(_target_of(path), f".{number}.part", hidden=True))

    def _begin(self) -> None:
        """Open a new file beside the target, with the lock that says that it is in use."""
        old = os.stat(self.target) if self.target.exists() else None
        # Unlike mkstemp's, readable by whom the user allows; a private file is never less private.
        mode = 0o666 if old is None else 0o600
        self.clear_leftovers(self.target)
        for number in itertools.count():
            name = self.companion(self.target, f".{number}.part", hidden=True)
            try:
                self.file = open(name, "xb", opener=lambda n, flags: os.open(n, flags, mode))  # noqa: SIM115
            except FileExistsError:
                continue
            self._temporary = name
            if _lock(self.file.fileno()) is not False and _is_still(self.file.fileno(), name):
                break
            self.file.close()  # somebody took it for a leftover before it was locked
        if old is not None:
            _permit_alike(self.file.fileno(), old)

    def keep(self) -> None:
        """Flush to the disk and take the place of what is there."""
        if self._temporary is None:
            self.file.close()
            return
        self.file.flush()
        os.fsync(self.file.fileno())
        if fcntl is None:
            self.file.close()
        os.replace(self._temporary, self.target)
        self._temporary = None
        self.file.close()

    def discard(self) -> None:
        """Leave what is there as it is."""
        with contextlib.suppress(OSError, AttributeError):  # it may not be open yet
            self.file.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None


def _permit_alike(descriptor: int, old: os.stat_result) -> None:
    """Owner and permissions of the file that was there; none to a group that cannot be kept."""
    if not hasattr(os, "fchmod"):
        return
    mode = stat.S_IMODE(old.st_mode) & 0o777
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except OSError:
                mode &= 0o707
    os.fchmod(descriptor, mode)


def _lock(descriptor: int) -> bool | None:
    """Take the lock: False where another process has it, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_still(descriptor: int, name: Path) -> bool:
    """Whether a name is still that of the open file."""
    if fcntl is None:
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(name))
    except FileNotFoundError:
        return False


def _remove_if_left(name: Path) -> None:
    """Remove a file beside a target if its writer is gone."""
    with contextlib.suppress(OSError):
        if fcntl is None:
            name.unlink()
            return
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if plain and _lock(descriptor) and _is_still(descriptor, name):
                name.unlink()
        finally:
            os.close(descriptor)
