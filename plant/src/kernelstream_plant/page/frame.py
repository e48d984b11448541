"""HTML frame of the live page: templates, style, light and dark colors, escaping of text."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import jinja2
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.models.widgets import Div

from kernelstream_plant.operation import LiveMonitor, Status

PAGES = {"/": "Now", "/event": "Event", "/sensors": "Sensors", "/log": "Log", "/model": "Model"}


@cache
def environment() -> jinja2.Environment:
    """The templates of the folder ``templates``; text that is put into them is escaped."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kernelstream_plant.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """A template, filled with values."""
    return environment().get_template(template).render(**values)


@cache
def part_css() -> str:
    """The style of the parts of a page."""
    return render("part.css")


def text(value: object) -> str:
    """Any text inside HTML."""
    return escape(str(value), quote=True)


def label(value: object) -> str:
    """Any text on a canvas, where Bokeh would take ``$$`` and backslashed brackets for formulas."""
    return str(value).replace("$$", "$\u200b$").replace("\\", "\u29f5")


def part(html: str = "", **options: Any) -> Div:
    """A piece of HTML that a session may change."""
    return Div(
        text=html,
        sizing_mode="stretch_width",
        disable_math=True,
        stylesheets=[part_css()],
        **options,
    )


def table(head: list[str], rows: list[list[str]], caption: str) -> str:
    """A table of cells that are HTML already."""
    return render("table.html", head=head, rows=rows, caption=caption)


def furnish(doc: Any, here: str, live: LiveMonitor, figures: list[Any]) -> ColumnDataSource:
    """Frame, colours and sign of life for a page; returns the source that carries the state."""
    doc.title = live.title
    # Bokeh makes an extension of its own page of it, in an environment of its own.
    doc.template = files("kernelstream_plant.page").joinpath("templates/page.html").read_text()
    style = render("page.css")
    doc.template_variables.update(name=live.title, here=here, pages=PAGES, style=style)
    beat = ColumnDataSource({"text": [live.status().text], "name": [live.title]}, name="beat")
    beat.js_on_change("data", CustomJS(args={"beat": beat}, code=render("beat.js")))
    colours = CustomJS(
        args={
            "axes": [axis for figure in figures for axis in figure.axis],
            "grids": [grid for figure in figures for grid in figure.grid],
            "titles": [figure.title for figure in figures],
            "legends": [legend for figure in figures for legend in figure.legend],
        },
        code=render("colors.js"),
    )
    doc.js_on_event("document_ready", colours)
    return beat


def class_of(status: Status) -> str:
    """The colour of a state."""
    return {"normal": "normal", "alarm": "alarm", "event": "event"}.get(status.word, "silent")
