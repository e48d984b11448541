"""Sphinx builds the pages of this folder: ``make docs``, then open ``build/docs/index.html``.

Everything that a page shows is in the output: no fonts, scripts or inventories are fetched, when it
is built or when it is read. Warnings are errors, and a reference that leads nowhere is a warning.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "kernelstream"
author = "The kernelstream developers"
copyright = f"2026, {author}"
release = metadata.version("kernelstream")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "repository_links",
    "sample_pages",
]
root_doc = "index"
# README.md is the index for those who read the folder on a forge; the rest is no page of its own.
exclude_patterns = ["README.md", "_extensions", "_templates", "figures", "gallery/**.ipynb"]

# --- Markdown -----------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "dollarmath", "amsmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
suppress_warnings = ["config.cache"]  # the settings of the gallery cannot be pickled

# --- Python -------------------------------------------------------------------------------------

templates_path = ["_templates"]
autosummary_generate = True
# What a function of kernelstream.plot draws, by the number of its picture in that example.
_SHOWN = (HERE.parent / "examples" / "plot_pictures.py").read_text().split("plt.show()")
autosummary_context = {
    "pictures": {
        f"kernelstream.plot.{name}": number
        for number, cell in enumerate(_SHOWN, 1)
        for name in re.findall(r"\bplot\.(\w+)\(", cell)
    }
}
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the template of a class lists them
numpydoc_use_plots = False
numpydoc_xref_param_type = False
# What a docstring must have, of numpydoc's list: a summary that ends with a full stop, the
# parameters of the signature in its order with their types, sections in order and spelt right.
numpydoc_validation_checks = {
    "GL03", "GL05", "GL06", "GL07", "GL08", "SS01", "SS03", "SS04",
    "PR01", "PR02", "PR04", "PR05", "PR10",
}  # fmt: skip
# The protocols of parts and the values that they exchange are described in words: CONTRIBUTING.md.
numpydoc_validation_exclude = {
    r"\.__",
    r"\.(Kernel|Euclidean|LandmarkStrategy|LandmarkState|Span|Projection|Clock|Tracker|Moments|Preimage|Schedule|Stream)\b",
    r"\.images\.patches\.",
    r"\.(LiveRow)\.",  # Python's words for the fields of a named tuple
}
# The fields of a value are its attributes, not the parameters of a call.
numpydoc_validation_overrides = {"PR01": {r"(?s)\A(?!.*\n\s*Parameters\n).*\n\s*Attributes\n"}}
nitpicky = True
toc_object_entries_show_parents = "hide"

# --- equations ----------------------------------------------------------------------------------

# One file with MathJax and its glyphs, from the package sphinx-mathjax-offline; the package as an
# extension would copy all 24 MB of MathJax.
_MATHJAX = next(
    Path(str(path.locate()))
    for path in metadata.files("sphinx-mathjax-offline") or ()
    if path.name == "tex-svg-full.js"
)
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "svg": {"fontCache": "global"},
}

# --- the gallery --------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,  # a page that would fetch scripts
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "doc_module": ("kernelstream",),
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": True,
    "matplotlib_animations": False,
    "plot_gallery": "True",
    "within_subsection_order": "ExampleTitleSortKey",
    "copyfile_regex": r"(?!)",
}

# --- the pages ----------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "kernelstream"
html_static_path = ["_static"]
html_css_files = ["kernelstream.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
# Pages with wide tables get the room of the second bar.
_REPRODUCTIONS = [f"reproductions/{p.stem}" for p in HERE.glob("reproductions/*.md")]
_WIDE = ["benchmarks", "centroids", *_REPRODUCTIONS]
html_theme_options = {
    "logo": {
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
        "text": "kernelstream",
        "alt_text": "kernelstream",
    },
    "header_links_before_dropdown": 6,  # as many as fit beside the search at 1280 pixels
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "secondary_sidebar_items": {"**": ["page-toc"]} | {page: [] for page in _WIDE},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "use_edit_page_button": False,
}
# Pages without a section around them need no bar for it: those that the first page lists itself.
_INDEX = (HERE / "index.md").read_text()
_LISTED = re.findall(r"^```\{toctree\}\n:hidden:\n\n(.*?)^```", _INDEX, re.DOTALL | re.MULTILINE)
_PAGES = [name for name in "".join(_LISTED).split() if "/" not in name]
_ALONE = ["index", *(p for p in _PAGES if "{toctree}" not in (HERE / f"{p}.md").read_text())]
html_sidebars = {page: [] for page in _ALONE}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    app.connect("build-finished", _copy_mathjax)
    app.connect("build-finished", _refuse_what_is_fetched)
    app.connect("autodoc-skip-member", _skip_inherited_from_elsewhere)


def _skip_inherited_from_elsewhere(app, what, name, member, skip, options):
    """What the classes of scikit-learn and of Python bring is described there."""
    function = getattr(member, "fget", getattr(member, "func", member))  # of a property
    owner = getattr(function, "__objclass__", function)  # of a method that is not in Python
    module = getattr(owner, "__module__", None) or "kernelstream"
    return True if not module.startswith("kernelstream") else None


def _copy_mathjax(app, failure):
    if failure is None and app.builder.format == "html":
        target = Path(app.outdir, "_static", mathjax_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_MATHJAX.read_bytes())


def _refuse_what_is_fetched(app, failure):
    """A page that loads a script, a style or a picture from elsewhere does not work offline."""
    if failure is not None or app.builder.format != "html":
        return
    remote = re.compile(r"""(?:src=|<link\b[^>]*?href=)["'](?:https?:)?//[^"']*""")
    inside = re.compile(r"(<script\b[^>]*>).*?</script>", re.DOTALL)  # Bokeh's own text
    for page in sorted(Path(app.outdir).glob("**/*.html")):
        found = remote.search(inside.sub(r"\1", page.read_text()))
        if found is not None:
            raise ExtensionError(f"{page.relative_to(app.outdir)} fetches something: {found[0]}")
