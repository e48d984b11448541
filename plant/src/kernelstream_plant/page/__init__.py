"""Live page of a monitor (Bokeh server)."""

from kernelstream_plant.page.saved import monitor_html
from kernelstream_plant.page.server import Page, serve

__all__ = ["Page", "monitor_html", "serve"]
