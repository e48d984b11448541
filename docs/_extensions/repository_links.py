"""Pages that read well on a forge and on the site.

The Markdown files of the repository link to each other and to its files, and name what belongs to
the library in code: `landmarks.Centroids`. On the site

- a link to a file that a page includes leads to that page, a link to an example into the gallery,
  and a link to any other file is a download;
- code that is a public name leads to its description;
- the mark ``<!-- claims -->`` becomes a table that counts the claims of all reproductions.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

INCLUDE = re.compile(r"^[`:]{3,}\{include\}\s+(\S+)", re.MULTILINE)

# Whose names are linked, and the name that a page gives the module; the bare names of some
# are known without it.
MODULES = {
    "kernelstream.kernels": "kernels",
    "kernelstream.landmarks": "landmarks",
    "kernelstream.trackers": "trackers",
    "kernelstream.papers": "papers",
    "kernelstream.papers.schedules": "schedules",
    "kernelstream.preimages": "preimages",
    "kernelstream.metrics": "metrics",
    "kernelstream.plot": "plot",
    "kernelstream.tables": "tables",
    "kernelstream.cli.report": "report",
    "kernelstream_plant": "kernelstream_plant",
    "kernelstream_plant.page": "page",
    "kernelstream.distributed.dask": "distributed.dask",
    "kernelstream.images": "images",
    "kernelstream": "kernelstream",
}
BARE = ("kernelstream", "kernelstream.images", "kernelstream.papers")


def public_names() -> dict[str, str]:
    """What a page may write, and the object it means."""
    known = {}
    for module, short in MODULES.items():
        for name in import_module(module).__all__:
            full = f"{module}.{name}"
            known |= {full: full, f"{short}.{name}": full}
            if module in BARE and name[0].isupper():
                known[name] = full
        if module != "kernelstream":
            known[module] = module
    return known


def pages_of_files(docs: Path) -> dict[str, str]:
    """Files and folders of the repository (relative to it), and the pages that show them."""
    root = docs.parent
    pages = {"README.md": "index", "docs": "index", "docs/README.md": "index"}
    pages["examples"] = "gallery/index"
    for example in (root / "examples").glob("plot_*.py"):
        pages[f"examples/{example.name}"] = f"gallery/{example.stem}"
    for page in docs.glob("**/*.md"):
        docname = page.relative_to(docs).with_suffix("").as_posix()
        for target in INCLUDE.findall(page.read_text()):
            shown = Path(os.path.normpath(page.parent / target)).relative_to(root).as_posix()
            pages[shown] = docname
            if PurePosixPath(shown).name == "README.md":
                pages[PurePosixPath(shown).parent.as_posix()] = docname
    return pages


def claims(reproductions: Path) -> str:
    """How many claims of each paper were found to be the same, from the tables in the READMEs."""
    lines = ["| paper | the same | different |", "|---|--:|--:|"]
    for readme in sorted(reproductions.glob("*/README.md")):
        # the fourth cell; a bar inside a cell has a backslash before it
        cells = r"(?:(?:\\\||[^|\n])*\|){3}"
        rows = re.findall(rf"^\|{cells} ((?:\\\||[^|\n])*?) \|", readme.read_text(), re.MULTILINE)
        same = sum(verdict.startswith("same") and verdict != "same?" for verdict in rows)
        different = sum(verdict.startswith("**different**") for verdict in rows)
        title = readme.read_text().splitlines()[0].removeprefix("# ").replace("*", "")
        lines.append(f"| [{title}]({readme.parent.name}.md) | {same} | {different} |")
    return "\n".join(lines)


def count_claims(app: Any, docname: str, source: list[str]) -> None:
    if "<!-- claims -->" in source[0]:
        table = claims(Path(app.srcdir).parent / "reproductions")
        source[0] = source[0].replace("<!-- claims -->", table)


class RepositoryLinks(SphinxTransform):
    """Links between files of the repository become links between pages, names become references."""

    default_priority = 300

    def apply(self, **kwargs: Any) -> None:
        source = Path(self.env.doc2path(self.env.docname))
        if source.suffix != ".md":
            return
        pages, names = self.app.pages_of_files, self.app.public_names
        wanted = (addnodes.download_reference, addnodes.pending_xref)
        for link in list(self.document.findall(lambda node: isinstance(node, wanted))):
            if link.get("reftype") == "myst":
                self.to_page(link, source, pages)
        for code in list(self.document.findall(nodes.literal)):
            self.to_object(code, names)

    def to_page(self, link: nodes.Element, source: Path, pages: dict[str, str]) -> None:
        docs = Path(self.env.srcdir)
        if link.get("refdomain") == "doc":  # MyST has found the page: relative to this folder
            target, anchor = docs / (link["reftarget"] + ".md"), link.get("reftargetid")
        else:  # relative to the file that has the link, which may be included
            path, _, anchor = link["reftarget"].partition("#")
            target = Path(link.source or source).parent / path
        target = Path(os.path.normpath(target))
        if not target.exists() or not target.is_relative_to(docs.parent):
            return  # Sphinx will say so
        docname = pages.get(target.relative_to(docs.parent).as_posix())
        if docname is None and target.is_relative_to(docs) and target.suffix == ".md":
            docname = target.relative_to(docs).with_suffix("").as_posix()
        if docname is not None:
            kind, details = addnodes.pending_xref, {"reftarget": docname, "refdomain": "doc"}
            details["reftargetid"] = anchor or None
        elif target.is_file():
            relative = os.path.relpath(target, source.parent)
            kind, details = addnodes.download_reference, {"reftarget": relative}
        else:
            return
        new = kind(reftype="myst", refdoc=self.env.docname, refexplicit=True, **details)
        new += link.children
        new.source, new.line = link.source, link.line
        link.replace_self(new)

    def to_object(self, code: nodes.literal, names: dict[str, str]) -> None:
        ancestor = code.parent
        while ancestor is not None:
            if isinstance(ancestor, nodes.title | nodes.reference | addnodes.pending_xref):
                return
            ancestor = ancestor.parent
        # `basis=landmarks.Centroids(100)` is about Centroids
        full = names.get(re.sub(r"^\w+=", "", code.astext()).partition("(")[0])
        if full is None:
            return
        new = addnodes.pending_xref(
            refdomain="py",
            reftype="obj",
            reftarget=full,
            refdoc=self.env.docname,
            refexplicit=True,
        )
        code.replace_self(new)
        code["classes"] += ["xref", "py"]
        new += code


def begin(app: Any) -> None:
    app.pages_of_files = pages_of_files(Path(app.srcdir))
    app.public_names = public_names()


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", begin)
    app.connect("source-read", count_claims)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
