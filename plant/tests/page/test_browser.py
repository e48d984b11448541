"""Pages in a real browser. CONTRIBUTING.md says how to install one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor
from kernelstream_plant.operation import LiveMonitor
from kernelstream_plant.page import monitor_html, serve

pytest.importorskip("bokeh", reason="the live page needs bokeh")
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="needs Chromium: apt-get install chromium chromium-driver"
    ),
]
NAMES = ["flow [m³/h]", "heat (°C)", "<i>load</i>", "level"]
RATE, SECONDS = 200, int(os.environ.get("KERNELSTREAM_BROWSER_SECONDS", "120"))
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
)
# All text of the page, and its elements, through the shadow roots of Bokeh's parts.
DEEP = """
const found = [];
(function walk(node) {
  for (const child of node.childNodes) {
    if (child.nodeType === 3) found.push(child.textContent);
    else if (child.tagName !== "STYLE" && child.tagName !== "SCRIPT") walk(child);
  }
  if (node.shadowRoot) walk(node.shadowRoot);
})(document.body);
return found.join(" ").replace(/\\s+/g, " ");
"""
BUTTON = """
const wanted = arguments[0];
let found = null;
(function walk(node) {
  if (node.tagName === "BUTTON" && node.textContent.trim().startsWith(wanted)) found = node;
  for (const child of node.children || []) walk(child);
  if (node.shadowRoot) walk(node.shadowRoot);
})(document.body);
return found;
"""
# The least contrast of text on canvases with the paper below them (WCAG), and of the page's own.
CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.map((v) => (v / 255 <= .04045 ? v / 255 / 12.92
    : ((v / 255 + .055) / 1.055) ** 2.4));
  return .2126 * r + .7152 * g + .0722 * b;
};
const numbers = (text) => {
  const probe = document.createElement("i");
  probe.style.color = text;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
};
const paper = light(numbers(getComputedStyle(document.body).backgroundColor));
const ratio = (colour) => {
  const [a, b] = [light(numbers(colour)), paper].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
};
const colours = [...document.querySelectorAll("p, td, th, h1, h2, li, button, label, figcaption")]
  .map((e) => getComputedStyle(e).color);
for (const doc of Bokeh.documents) for (const plot of doc.roots()) {
  const parts = [plot.above, plot.below, plot.left, plot.right, plot.center, plot.title].flat();
  for (const part of parts) for (const name of
      ["text_color", "label_text_color", "major_label_text_color", "axis_label_text_color"])
    if (part && part.attributes && name in part.attributes) colours.push(part[name]);
}
return Math.min(...colours.map(ratio));
"""
POINTS = """
let most = 0;
for (const doc of Bokeh.documents) for (const model of doc._all_models.values())
  if (model.type === "ColumnDataSource" && model.data.smoothed) most = model.data.at.length;
return most;
"""


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(9).normal(size=(2, 4))
    return rng.normal(size=(n, 2)) @ mix + 0.3 * rng.normal(size=(n, 4))


def monitor() -> KernelMonitor:
    chosen: dict[str, Any] = dict(basis=40, width=30.0, ridge=0.01, whiten=True, lags=0)
    table = pd.DataFrame(rows(600, 0), columns=NAMES)
    return KernelMonitor(**chosen, random_state=0).fit(table)


class Browser:
    """Chromium without a window."""

    def __init__(self, folder: Path, width: int = 1280, dark: bool = False):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS.split(), f"--user-data-dir={folder}", f"--window-size={width},1400"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(DRIVER)
        self.chrome = webdriver.Chrome(options=options, service=service)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def text(self) -> str:
        return str(self.chrome.execute_script(DEEP))

    def wait(self, pattern: str, seconds: float = 40.0) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if re.search(pattern, text := self.text()):
                return text
            time.sleep(0.3)
        raise AssertionError(f"no {pattern!r} in: {text[:2000]}")

    def press(self, label: str) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            button = self.chrome.execute_script(BUTTON, label)
            if button is not None and button.is_enabled():
                button.click()
                return
            time.sleep(0.2)
        raise AssertionError(f"no button {label!r}")

    def problems(self) -> list[str]:
        lines = self.chrome.get_log("browser")
        return [line["message"] for line in lines if line["level"] == "SEVERE"]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    made: list[Browser] = []

    def start(**options: Any) -> Browser:
        made.append(Browser(tmp_path / f"browser{len(made)}", **options))
        return made[-1]

    yield start
    for one in made:
        one.chrome.quit()


class Plant:
    """``kernelstream monitor --serve``, fed 200 rows a second until it is told to stop."""

    def __init__(self, folder: Path, port: int = 0):
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kernelstream", "monitor", "m.safetensors", "--learn"),
                *("--serve", f"127.0.0.1:{port}", "--title", "Plant <7>", "--save-every", "1s"),
            ],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        told = [self.process.stderr.readline() for _ in range(2)]
        self.address, self.view = (line.split()[-1] for line in told)
        self.port = int(self.address.split(":")[2].split("/")[0])
        self.fault = self.lost = self.ended = False
        self.sent = 0
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def _feed(self) -> None:
        X = rows(40_000, 3)
        began = time.monotonic()
        assert self.process.stdin is not None
        while not self.ended:
            x = X[self.sent % len(X)] + [0.0, 6.0 * self.fault, 0.0, 0.0]
            cells = dict(zip(NAMES, x.tolist(), strict=True))
            if self.lost:
                cells["level"] = None
            try:
                self.process.stdin.write(json.dumps(cells) + "\n")
                self.process.stdin.flush()
            except OSError:
                return
            self.sent += 1
            time.sleep(max(0.0, began + self.sent / RATE - time.monotonic()))

    def end(self, how: int = signal.SIGTERM) -> None:
        self.ended = True
        self.thread.join(5)
        self.process.send_signal(how)
        self.process.communicate(timeout=30)


def test_two_minutes_of_a_plant(browser: Callable[..., Browser], tmp_path: Path) -> None:
    """A fault and a lost sensor at 200 rows a second; two browsers; reload and restart."""
    monitor().save(tmp_path / "m.safetensors")
    plant = Plant(tmp_path)
    began = time.monotonic()
    try:
        one, two = browser(), browser(width=400, dark=True)
        one.chrome.get(plant.address)
        two.chrome.get(plant.view)
        assert "token" not in one.chrome.current_url
        for each in (one, two):
            each.wait(r"normal .* rows, ")
        plant.fault = True
        for each in (one, two):
            each.wait(r"event \d+ since \d\d:\d\d")
            each.wait(r"heat \+\d")
        assert two.chrome.execute_script(BUTTON, "Acknowledge") is None
        assert one.chrome.title.startswith("event")
        status = one.chrome.find_element("css selector", "[role=status]")
        assert status.get_attribute("textContent").startswith("event")
        number = re.search(r"event (\d+) since", one.wait(r"event (\d+) since"))[1]  # type: ignore[index]
        one.press("Acknowledge")
        one.wait(rf"event {number} acknowledged")
        two.wait(r"event \d+ since \d\d:\d\d, acknowledged")
        one.press("Accept as well")
        one.press("Accept as well: press again")
        one.wait(rf"event {number} accepted as well")
        one.wait(r"normal .* rows, ")
        plant.fault, plant.lost = False, True
        one.wait(r"level missing")
        # everything is in the log, here and after a reload
        home = one.chrome.current_url
        one.chrome.get(home + "log")
        for _ in range(2):
            one.wait(rf"event {number} acknowledged \(by page\)")
            one.wait(rf"event {number} accepted as well \(by page\)")
            one.chrome.refresh()
        one.chrome.get(f"{home}event?id={number}")
        one.wait(rf"Event {number}, acknowledged, accepted.* Off by heat \+\d")
        for page in ("sensors", "model"):
            one.chrome.get(home + page)
            one.wait(r"level|width of the kernel")
        one.chrome.get(home)
        one.wait(r"a second")
        time.sleep(max(0.0, SECONDS - (time.monotonic() - began)))
        until = time.monotonic() + 20
        while one.chrome.execute_script(POINTS) < 20 and time.monotonic() < until:
            time.sleep(0.5)
        points = one.chrome.execute_script(POINTS)
        assert points >= min(20, SECONDS // 2)
        assert one.problems() == [] and two.problems() == []
        # a kill and a new start: the page that was left open comes back by itself
        plant.end(signal.SIGKILL)
        one.wait("No connection to the monitor since", 30)
        plant = Plant(tmp_path, plant.port)
        one.wait(r"(normal|alarm|event \d+).* rows, ", 60)
        until = time.monotonic() + 20
        while (now := one.chrome.execute_script(POINTS)) < points - 5 and time.monotonic() < until:
            time.sleep(0.5)
        assert now >= points - 5
        one.chrome.get(home + "log")
        one.wait(rf"event {number} accepted as well \(by page\)")
        # no cookie, no page
        stranger = browser()
        stranger.chrome.get(home)
        assert "403" in stranger.text()
    finally:
        plant.end(signal.SIGKILL)


def test_the_page_costs_the_stream_little(browser: Callable[..., Browser], tmp_path: Path) -> None:
    """Rows for each second of this process, with the page open in a browser and without."""
    X = rows(4000, 5)
    with serve(monitor(), folder=tmp_path / "h") as page:
        page.update_many(X[:500])
        chrome = browser()
        rates: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(6):
            watched = turn % 2 == 0
            chrome.chrome.get(page.address if watched else "about:blank")
            time.sleep(2.0)
            began, start, n = time.process_time(), time.monotonic(), 0
            while time.monotonic() - start < 4.0:
                page.update(X[n % len(X)])
                n += 1
            rates[watched].append(n / (time.process_time() - began))
        ratio = max(rates[True]) / max(rates[False])
        print(f"rows a second of work: {rates}, ratio {ratio:.2f}")
        assert ratio >= 0.9


@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_of_a_monitor(
    browser: Callable[..., Browser], tmp_path: Path, width: int
) -> None:
    live = LiveMonitor(monitor(), title="Plant")
    for x in np.vstack([rows(200, 3), rows(60, 4) + np.array([0.0, 6.0, 0.0, 0.0])]):
        live.update(x)
    chrome = browser(width=width, dark=True)
    for event in (None, 1):
        (tmp_path / "m.html").write_text(monitor_html(live, event))
        chrome.chrome.get((tmp_path / "m.html").as_uri())
        chrome.wait("heat")
        time.sleep(1.0)
        assert chrome.chrome.execute_script(CONTRAST) >= 4.0
        assert chrome.chrome.execute_script("return document.documentElement.scrollWidth") <= width
        assert chrome.problems() == []
