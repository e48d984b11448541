"""Print the notes of a release: its section of ``CHANGELOG.md``.

    python .github/release_notes.py v0.1.0

Refuses a tag that is not the version of ``pyproject.toml``, and a section without a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(changelog: str, version: str) -> str:
    """What stands below the heading of a version, up to the next one."""
    parts = re.split(r"^## (.+)\n", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for heading, text in sections.items():
        found = re.fullmatch(r"\[(.+)\] - (.+)", heading)
        if found and found[1] == version:
            if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", found[2]):
                raise SystemExit(
                    f"CHANGELOG.md has {found[2]!r} where the date of {version} goes: "
                    "write YYYY-MM-DD."
                )
            return text.strip() + "\n"
    raise SystemExit(
        f"CHANGELOG.md has no section of {version}: give the one on top the heading "
        f"'## [{version}] - YYYY-MM-DD'."
    )


def main(tag: str) -> None:
    """Check the tag, print the notes."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(
            f"The tag is {tag}, the version in pyproject.toml {version}: tag v{version}."
        )
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
