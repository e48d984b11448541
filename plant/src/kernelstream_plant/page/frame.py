"""HTML frame of the live page: template, style, light and dark colors, escaping of text."""

from __future__ import annotations

from html import escape
from typing import Any

from bokeh.models import ColumnDataSource, CustomJS
from bokeh.models.widgets import Div

from kernelstream_plant.operation import LiveMonitor, Status

PAGES = {"/": "Now", "/event": "Event", "/sensors": "Sensors", "/log": "Log", "/model": "Model"}

STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --quiet: #5d6675; --paper: #ffffff;
  --panel: #f5f6f8; --line: #d9dde3; --accent: #0b61a4; --high: #b3440a; --low: #0b61a4;
  --normal: #1a7a4c; --alarm: #a35c00; --event: #b3261e; --silent: #5d6675; --on: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --quiet: #a2abb8; --paper: #14171c;
  --panel: #1f242b; --line: #3a424d; --accent: #6cb6ff; --high: #ff9e64; --low: #6cb6ff;
  --normal: #4cc38a; --alarm: #f0b429; --event: #ff7b72; --silent: #a2abb8; --on: #14171c; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
header { display: flex; flex-wrap: wrap; gap: 4px 20px; align-items: baseline; padding: 10px 16px;
  border-bottom: 1px solid var(--line); }
header h1 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 2px 4px; }
nav a { color: var(--ink); text-decoration: none; padding: 6px 10px; border-radius: 6px; }
nav a:hover { background: var(--panel); }
nav a[aria-current] { background: var(--accent); color: var(--on); }
a:focus-visible, button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
main { max-width: 1280px; margin: 0 auto; padding: 12px 16px 48px; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; background: var(--paper); padding: 8px; z-index: 9; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
#lost { display: none; background: var(--silent); color: var(--on); padding: 8px 16px; }
@media (max-width: 480px) { main { padding: 8px 10px 40px; } header { padding: 8px 10px; } }
"""

# Inside the shadow roots of Bokeh's parts, where colours come from the page.
PART = """
:host { color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
.bk-clearfix { width: 100%; }
h2 { font-size: 1rem; margin: 14px 0 4px; } p { margin: 4px 0; max-width: 60rem; }
a { color: var(--accent); } .quiet { color: var(--quiet); font-size: .92em; }
a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.strip { display: flex; flex-wrap: wrap; gap: 6px 22px; align-items: center; padding: 10px 14px;
  background: var(--panel); border-radius: 8px; border-left: 8px solid var(--state); }
.strip b { font-size: 1.3rem; color: var(--state); }
.strip span { white-space: nowrap; } .strip span.long { white-space: normal; }
.normal { --state: var(--normal); } .alarm { --state: var(--alarm); }
.event { --state: var(--event); } .silent { --state: var(--silent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93em; }
th, td { text-align: left; padding: 4px 12px 4px 0; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
.many { min-width: 720px; }
th { font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
.bar { height: 12px; border-radius: 3px; min-width: 2px; }
.up { background: var(--high); } .down { background: var(--low); }
.bad { color: var(--event); font-weight: 600; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 8px; }
.tag { background: var(--panel); border-radius: 8px; padding: 6px 8px; min-width: 0; }
.tag h3 { margin: 0; font-size: .86em; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; } .tag p { margin: 0; font-size: .82em; }
.tag svg { display: block; width: 100%; height: 54px; }
polyline { fill: none; stroke: var(--accent); stroke-width: 1.5;
  vector-effect: non-scaling-stroke; } rect { fill: var(--normal); opacity: .16; }
.bk-btn, .bk-input { font: inherit; color: var(--ink); background: var(--panel);
  border: 1px solid var(--quiet); border-radius: 6px; }
.bk-btn { padding: 7px 12px; white-space: nowrap; }
.bk-btn:hover:not(:disabled) { background: var(--accent); color: var(--on); }
.bk-btn:disabled { color: var(--quiet) !important; background: var(--panel) !important;
  border-style: dashed !important; opacity: 1 !important; }
.bk-btn:focus-visible, .bk-input:focus-visible { outline: 3px solid var(--accent); }
select.bk-input { background-image: linear-gradient(45deg, transparent 50%, var(--ink) 50%),
  linear-gradient(-45deg, transparent 50%, var(--ink) 50%) !important;
  background-position: right 13px center, right 8px center !important;
  background-size: 5px 5px !important; background-repeat: no-repeat; }
.when { white-space: nowrap; }
label { color: var(--ink); } option { color: var(--ink); background: var(--paper); }
"""

TEMPLATE = """
{% block title %}{{ name | e }}{% endblock %}
{% block preamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>{{ style }}</style>
{% endblock %}
{% block inner_body %}
<a class="skip" href="#content">Skip to the content</a>
<header><h1>{{ name | e }}</h1><nav aria-label="Pages">{% for path, title in pages.items() %}
<a href="{{ path }}"{% if path == here %} aria-current="page"{% endif %}>{{ title }}</a>
{% endfor %}</nav></header>
<div id="lost" role="alert"></div>
<div id="state" class="unseen" role="status" aria-live="polite"></div>
<main id="content" tabindex="-1" aria-label="{{ pages[here] }}">
{% for root in roots %}{{ embed(root) }}{% endfor %}
</main>
{{ plot_script | indent(8) }}
<script>
"use strict";
// A page that was left open finds its way back after a restart, or after the lid was closed.
let boot = null, lost = null;
async function look() {
  const banner = document.getElementById("lost");
  try {
    const answer = await fetch("/alive", {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.status);
    const now = await answer.text();
    const still = window.beat && Date.now() - window.beat > 20000;
    if ((boot !== null && now !== boot) || lost || still) { location.reload(); return; }
    boot = now;
    banner.style.display = "none";
  } catch (problem) {
    lost = lost || new Date();
    banner.textContent = "No connection to the monitor since " + lost.toLocaleTimeString();
    banner.style.display = "block";
  }
}
window.beat = Date.now();
look();
setInterval(look, 3000);
</script>
{% endblock %}
"""

# What a browser does with each look at the state: the title, the announcement, the sign of life.
ON_BEAT = """
window.beat = Date.now();
const text = beat.data.text[0], name = beat.data.name[0];
document.title = text + " – " + name;
const place = document.getElementById("state");
if (place && place.textContent !== text) place.textContent = text;
"""

# Canvases know nothing of style sheets.
ON_COLOURS = """
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const ink = dark.matches ? "#c9d0da" : "#3d4553", line = dark.matches ? "#2c333c" : "#e4e7ec";
  for (const axis of axes) {
    axis.major_label_text_color = ink; axis.axis_label_text_color = ink;
    axis.axis_line_color = ink; axis.major_tick_line_color = ink;
  }
  for (const grid of grids) grid.grid_line_color = line;
  for (const title of titles) title.text_color = ink;
  for (const legend of legends) legend.label_text_color = ink;
}
dark.addEventListener("change", paint);
paint();
"""


def text(value: object) -> str:
    """Any text inside HTML."""
    return escape(str(value), quote=True)


def label(value: object) -> str:
    """Any text on a canvas, where Bokeh would take ``$$`` and backslashed brackets for formulas."""
    return str(value).replace("$$", "$\u200b$").replace("\\", "\u29f5")


def part(html: str = "", **options: Any) -> Div:
    """A piece of HTML that a session may change."""
    return Div(
        text=html, sizing_mode="stretch_width", disable_math=True, stylesheets=[PART], **options
    )


def table(head: list[str], rows: list[list[str]], caption: str) -> str:
    """A table of cells that are HTML already."""
    many = ' class="many"' if len(head) > 3 else ""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table{many} aria-label="{text(caption)}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def furnish(doc: Any, here: str, live: LiveMonitor, figures: list[Any]) -> ColumnDataSource:
    """Frame, colours and sign of life for a page; returns the source that carries the state."""
    doc.title = live.title
    doc.template = TEMPLATE
    doc.template_variables.update(name=live.title, here=here, pages=PAGES, style=STYLE)
    beat = ColumnDataSource({"text": [live.status().text], "name": [live.title]}, name="beat")
    beat.js_on_change("data", CustomJS(args={"beat": beat}, code=ON_BEAT))
    colours = CustomJS(
        args={
            "axes": [axis for figure in figures for axis in figure.axis],
            "grids": [grid for figure in figures for grid in figure.grid],
            "titles": [figure.title for figure in figures],
            "legends": [legend for figure in figures for legend in figure.legend],
        },
        code=ON_COLOURS,
    )
    doc.js_on_event("document_ready", colours)
    return beat


def class_of(status: Status) -> str:
    """The colour of a state."""
    return {"normal": "normal", "alarm": "alarm", "event": "event"}.get(status.word, "silent")
