"""Sample reports on the site: what the Python blocks of ``samples.md`` write, beside that page.

So the samples are those of the present code, and nothing of a megabyte is kept in the repository.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

PAGE, FOLDER = "samples.md", "samples"


def write_samples(app: Any, failure: Exception | None) -> None:
    """Run the page's blocks inside of a folder of the site."""
    if failure is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    text = Path(app.srcdir, PAGE).read_text()
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            exec(compile(code, PAGE, "exec"), names)


def setup(app: Any) -> dict[str, bool]:
    """Connect with Sphinx."""
    app.connect("build-finished", write_samples)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
