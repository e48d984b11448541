"""The command line: ``kernelstream fit``, ``update``, ``transform``, ``monitor`` and the others."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; where its packages are missing, say which to install."""
    try:
        from kernelstream.cli.app import app
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("kernelstream"):
            raise
        sys.stderr.write(
            f"The command line needs the package {problem.name}: pip install 'kernelstream[cli]'\n"
        )
        sys.exit(1)
    app(prog_name="kernelstream")
