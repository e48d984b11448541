"""The live page of a monitor: a Bokeh server beside the stream."""

from kernelstream.cli.report.live.saved import monitor_html
from kernelstream.cli.report.live.server import Page, serve

__all__ = ["Page", "monitor_html", "serve"]
