"""The live page without a browser: who gets in, what is shown, what a command does."""

from __future__ import annotations

import copy
import http.client
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelstream import KernelMonitor
from kernelstream_plant import page as package
from kernelstream_plant.operation import LiveMonitor

pytest.importorskip("bokeh", reason="the live page needs bokeh")
from bokeh.document import Document

from kernelstream_plant.page import charts, frame, pages
from kernelstream_plant.page.access import OPERATOR, VIEWER, Access, token_for
from kernelstream_plant.page.incident import incident
from kernelstream_plant.page.server import as_csv, events_csv, serve

NASTY = "<script>alert(1)</script>"
NAMES = ["flow [m³/h]", "heat (°C)", NASTY, "level"]


def rows(n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(9).normal(size=(2, 4))
    return rng.normal(size=(n, 2)) @ mix + 0.3 * rng.normal(size=(n, 4))


@pytest.fixture(scope="module")
def fitted() -> KernelMonitor:
    chosen: dict[str, Any] = dict(basis=20, width=30.0, ridge=0.01, whiten=True, lags=1)
    table = pd.DataFrame(rows(400, 0), columns=NAMES)
    return KernelMonitor(**chosen, random_state=0).fit(table)


@pytest.fixture
def live(fitted: KernelMonitor) -> LiveMonitor:
    """Within an event, with the level lost."""
    now = [1_700_000_000.0]
    live = LiveMonitor(copy.deepcopy(fitted), title=NASTY, clock=lambda: now[0])
    X = rows(120)
    X[80:, 1] += 6.0
    X[60:, 3] = np.nan
    for x in X:
        live.update(x)
        now[0] += 0.5
    return live


@pytest.fixture
def page(live: LiveMonitor) -> Iterator[Any]:
    page = serve(live, token="a-token-for-this-test")
    yield page
    page.close()


def ask(page: Any, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    result = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return result


def session(live: LiveMonitor, build: Any, role: str = OPERATOR, **arguments: str) -> Document:
    """The document of one browser."""

    class Request:
        pass

    Request.arguments = {k: [v.encode()] for k, v in arguments.items()}  # type: ignore[attr-defined]

    class Context:
        token_payload = {"role": role}
        request = Request

    doc = Document()
    doc._session_context = lambda: Context  # type: ignore[assignment]
    build(doc, live)
    return doc


def the(doc: Document, name: str) -> Any:
    return doc.select_one({"name": name})


def all_of(doc: Document, kind: Any) -> list[Any]:
    return list(doc.select({"type": kind}))


def press(doc: Document, label: str) -> None:
    from bokeh.events import ButtonClick
    from bokeh.models.widgets import Button

    button = next(b for b in all_of(doc, Button) if b.label.startswith(label))
    assert not button.disabled
    button._trigger_event(ButtonClick(button))


# -- who gets in


PATHS = ("/", "/event", "/sensors", "/log", "/model", "/alive", "/log.csv", "/events.csv", "/ws")


@pytest.mark.parametrize("path", [*PATHS, "/static/js/bokeh.min.js", "/metadata", "/nowhere"])
def test_without_the_token_nothing_answers(page: Any, path: str) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Cookie": f"kernelstream_{page.port}=no"},
    ):
        assert ask(page, path, **headers)[0] == 403
    assert ask(page, f"{path}?token=wrong")[0] == 403


def test_the_websocket_needs_token_and_origin(page: Any) -> None:
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "bokeh, x",
    }
    own = f"http://127.0.0.1:{page.port}"
    assert ask(page, "/ws", **upgrade, Origin=own)[0] == 403
    token = {"Authorization": "Bearer a-token-for-this-test"}
    assert ask(page, "/ws", **upgrade, **token, Origin="http://evil.example")[0] == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(page: Any) -> None:
    status, headers, _ = ask(page, "/event?token=a-token-for-this-test&id=1")
    assert status == 302 and headers["Location"] == "/event?id=1"
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    status, headers, body = ask(page, "/", Cookie=cookie.split(";")[0])
    assert status == 200 and headers["X-Frame-Options"] == "DENY"
    assert b"a-token-for-this-test" not in body
    assert b"cdn." not in body and b"https://" not in body
    away = ask(page, "//evil.example/?token=a-token-for-this-test")[1]["Location"]
    assert away == "/evil.example/"


def test_names_and_texts_are_escaped(page: Any, live: LiveMonitor) -> None:
    live.note(1, kind="x", comment=NASTY)
    status, _, body = ask(page, "/log", Authorization="Bearer a-token-for-this-test")
    assert status == 200 and NASTY.encode() not in body
    for build in (pages.now, pages.event, pages.sensors, pages.log, pages.model):
        parts = [p.text for p in all_of(session(live, build), frame.Div)]
        assert parts and not any(NASTY in text for text in parts)


def test_roles(page: Any, live: LiveMonitor) -> None:
    access = Access("a-token-for-this-test")
    assert access.role(access.view_token) == VIEWER and access.token not in access.view_token
    assert page.view_address.endswith(access.view_token)
    from bokeh.models.widgets import Button

    for build in (pages.now, pages.event, pages.sensors):
        assert all_of(session(live, build), Button)
        assert not all_of(session(live, build, role=VIEWER), Button)


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = token_for(tmp_path / "h")
    assert token_for(tmp_path / "h") == first and len(first) >= 32
    assert (tmp_path / "h" / "token").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("KERNELSTREAM_TOKEN", "of the environment")
    assert token_for(tmp_path / "h") == "of the environment"
    (tmp_path / "file").write_text("of the file\n")
    assert token_for(tmp_path / "h", tmp_path / "file") == "of the file"
    with pytest.raises(ValueError, match="at least 16"):
        Access("short")


# -- what is shown


def test_now_shows_state_event_and_lost_sensors_first(live: LiveMonitor) -> None:
    doc = session(live, pages.now)
    assert "event 1 since" in the(doc, "strip").text
    assert "learning paused: level missing" in the(doc, "strip").text
    causes = the(doc, "causes").text
    assert causes.index("level") < causes.index("missing") < causes.index("heat")
    assert "°C" in causes and "+" in causes


def test_charts_grow_by_what_is_new(live: LiveMonitor) -> None:
    window = charts.WINDOWS["10 minutes"]
    seen, total = charts.looked_up(live.history, window, 0, None)
    assert len(seen["at"]) == total == len(live.history.stretches[1.0])
    assert set(seen) == set(charts.empty())
    nothing, same = charts.looked_up(live.history, window, total, seen["at"][-1] / 1e3)
    assert same == total and len(nothing["at"]) == 0
    rows_, _ = charts.looked_up(live.history, charts.WINDOWS["latest rows"], 0, None)
    assert len(rows_["at"]) == 120 and np.isfinite(rows_["alarm_at"]).sum() >= 30


def test_gaps_are_gaps(live: LiveMonitor) -> None:
    last = float(live.history.raw["at"][-1])
    record = live.status().record
    assert record is not None
    for i in range(3):
        live.history.add(last + 600.0 + i, record, np.zeros(4))
    seen, _ = charts.looked_up(live.history, charts.WINDOWS["latest rows"], 0, None)
    assert np.isnan(seen["smoothed"]).sum() == 1
    assert np.flatnonzero(np.isnan(seen["smoothed"]))[0] == 120


def test_an_incident_names_the_variable_and_what_was_expected(live: LiveMonitor) -> None:
    found = incident(live, 1)
    assert found is not None and found.leading[0] == "heat (°C)"
    assert np.nanmean(found.sizes[:, 0]) > 0.0
    inside = found.moments >= found.looks[0]
    np.testing.assert_allclose(
        live.history.rows_between(found.looks[0], found.looks[-1], 10**6)[1][:, -3],
        found.expected[inside, 0] + found.sizes[:, 0],
    )
    assert found.contributions.shape == found.sizes.shape == (len(found.looks), 4)
    assert len(found.event_scores) == len(found.looks) and len(found.normal_scores)
    assert incident(live, 99) is None


def test_an_earlier_event_does_not_show_what_is_usual(live: LiveMonitor) -> None:
    before = incident(live, 1)
    assert before is not None
    usual = before.moments[before.moments < before.looks[0]]
    live.history.keep_event(2, begin=usual[0], end=usual[len(usual) // 2])
    found = incident(live, 1)
    assert found is not None
    moments = found.moments[found.moments < found.looks[0]]
    assert len(moments) > 2 and moments.min() > usual[len(usual) // 2]


def test_similar_events_are_found(live: LiveMonitor) -> None:
    live.accept(instead=False)
    event = live.history.event(1)
    assert event is not None
    live.history.keep_event(2, begin=0.0, direction=event["direction"])
    live.history.keep_event(3, begin=0.0, direction=[-v for v in event["direction"]])
    found = incident(live, 1)
    assert found is not None
    assert [(e["id"], round(cosine, 3)) for e, cosine in found.similar] == [(2, 1.0)]


def test_a_page_for_an_event_that_is_none(live: LiveMonitor) -> None:
    parts = all_of(session(live, pages.event, id="99"), frame.Div)
    assert any("There is no event 99" in part.text for part in parts)
    assert "Event 1" in the(session(live, pages.event, id="<b>"), "head").text


def test_sensors_have_a_word_and_a_line(live: LiveMonitor) -> None:
    grid = the(session(live, pages.sensors), "grid").text
    assert grid.count('<div class="tag">') == 4 and grid.count("<polyline") >= 4
    assert "missing" in grid
    assert pages.sensors_html(live, live.status(), "heat").count('<div class="tag">') == 1


def test_the_log_filters_and_links(live: LiveMonitor) -> None:
    assert '<a href="/event?id=1">1</a>' in pages.log_html(live, "")
    assert "/event?id=1" not in pages.log_html(live, "nothing like it")


def test_csv_is_no_formula(live: LiveMonitor) -> None:
    live.note(1, comment="=cmd()")
    assert "'=cmd()" in events_csv(live)
    assert as_csv(["a"], [[1], ["-1"]]).split() == ["a", "1", "'-1"]


def test_what_if(live: LiveMonitor) -> None:
    doc = session(live, pages.model)
    assert "would have had an alarm" in the(doc, "what-if").text
    assert "width of the kernel" in the(doc, "facts").text


# -- what a command does


def test_acknowledge_and_accept_are_executed_once_and_logged(live: LiveMonitor) -> None:
    doc = session(live, pages.now)
    press(doc, "Acknowledge")
    assert live.monitor.event_ is not None and live.monitor.event_.acknowledged
    press(doc, "Accept as well")
    assert live.monitor.event_ is not None  # it wants to be sure
    press(doc, "Accept as well: press again")
    assert live.monitor.event_ is None
    commands = [line.text for line in live.history.log() if line.kind == "command"]
    assert commands == ["event 1 accepted as well (by page)", "event 1 acknowledged (by page)"]


def test_a_button_is_about_its_event(live: LiveMonitor) -> None:
    doc = session(live, pages.now)
    live.accept(instead=True)
    live.update_many(rows(20, 8) + 30.0)
    assert live.monitor.event_ is not None and live.monitor.event_.id == 2
    press(doc, "Acknowledge")  # the page has not seen the new event yet
    assert not live.monitor.event_.acknowledged and "is over" in the(doc, "said").text


def test_out_of_service_and_pause(live: LiveMonitor) -> None:
    press(session(live, pages.sensors), "Out of service")
    assert live.status().out_of_service == ("flow [m³/h]",)
    press(session(live, pages.now), "Pause learning")
    assert live.status().paused
    press(session(live, pages.now), "Resume learning")
    assert not live.status().paused


def test_serve_takes_a_monitor_and_keeps_its_history(fitted: KernelMonitor, tmp_path: Path) -> None:
    with package.serve(copy.deepcopy(fitted), folder=tmp_path) as page:
        page.update_many(rows(40))
        page.update(rows(1)[0])
        token = page.address.split("=")[1]
    with package.serve(copy.deepcopy(fitted), folder=tmp_path) as again:
        assert len(again.live.history.raw) == 41
        assert again.address.split("=")[1] == token
    with pytest.raises(OSError, match="in use"), package.serve(fitted) as first:
        package.serve(fitted, port=first.port)


def test_a_browser_that_does_not_read_slows_nothing(page: Any, live: LiveMonitor) -> None:
    """A websocket that is opened and never read: the stream goes on."""
    import socket

    connection = socket.create_connection(("127.0.0.1", page.port))
    connection.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-token-for-this-test\r\n\r\n"
    )
    began = time.perf_counter()
    live.update_many(rows(200, 3))
    assert time.perf_counter() - began < 5.0
    connection.close()


def test_a_saved_page_says_first_how_the_stream_is(
    fitted: KernelMonitor, live: LiveMonitor
) -> None:
    quiet = LiveMonitor(copy.deepcopy(fitted))
    quiet.update_many(rows(50))
    page = package.monitor_html(quiet)
    assert '<div class="strip normal"><b>Normal</b><span>50 rows were judged: no event.' in page
    assert page.index("strip normal") < page.index("<h2>Events") < page.index("<h2>Model")
    page = package.monitor_html(live)
    assert '<div class="strip event"><b>Event 1 goes on</b>' in page
    assert "120 rows were judged, with one event, event 1: heat +" in page
