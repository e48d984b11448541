"""Rows from OPC UA, with asyncua's own server."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kernelstream.tables import SourceError
from kernelstream.tables.live import LiveRow, LiveRows

pytest.importorskip("asyncua", reason="needs asyncua")
from asyncua import Server, ua
from asyncua.server.user_managers import User, UserManager, UserRole

from kernelstream.tables.feeds import open_address, read_settings
from kernelstream_plant.sources.opcua import OpcUaFeed

pytestmark = pytest.mark.filterwarnings("ignore")


class Plant:
    """A server with two variables that change five times a second."""

    def __init__(
        self, port: int | None = None, certificate: tuple[Path, Path] | None = None
    ) -> None:
        if port is None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
        self.port, self.stopped, self.certificate = port, False, certificate
        self.quality = ua.StatusCodes.Good
        self.frozen = self.constant = self.infinite = False  # what becomes of b
        self.started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()
        assert self.started.wait(30)

    async def _run(self) -> None:
        server = Server(user_manager=None if self.certificate is None else OneUser())
        await server.init()
        server.set_endpoint(f"opc.tcp://127.0.0.1:{self.port}/")
        server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        if self.certificate is not None:
            server.set_security_policy([ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt])
            await server.set_application_uri("urn:kernelstream:plant")
            await server.load_certificate(str(self.certificate[0]))
            await server.load_private_key(str(self.certificate[1]))
        place = await server.nodes.objects.add_object(2, "Line")
        a = await place.add_variable(2, "a", 0.0)
        b = await place.add_variable(2, "b", 0.0)
        async with server:
            self.started.set()
            n = 0.0
            while not self.stopped:
                n += 1.0
                await a.write_value(n)
                status = ua.StatusCode(ua.UInt32(self.quality))
                value = ua.Variant(-1.0 if self.constant else -n, ua.VariantType.Double)
                if self.infinite:
                    value = ua.Variant(math.inf, ua.VariantType.Double)
                now: Any = datetime.now(UTC)
                if not self.frozen:
                    await b.write_value(ua.DataValue(value, status, SourceTimestamp=now))
                await asyncio.sleep(0.2)

    def end(self) -> None:
        self.stopped = True
        self.thread.join(20)


def feed(plant: Plant, *names: str, more: str = "?interval=0.5&tolerance=2") -> OpcUaFeed:
    parse = LiveRows(len(names), list(names), takes_missing=True)
    return OpcUaFeed(f"opcua://127.0.0.1:{plant.port}/{more}", parse)


def take(made: OpcUaFeed, n: int, seconds: float = 20.0) -> list[Any]:
    found: list[Any] = []
    until = time.monotonic() + seconds
    for row in made.rows():
        if row is not None:
            found.append(row)
        if len(found) >= n or time.monotonic() > until:
            break
    return found


def test_variables_become_rows_and_bad_quality_is_missing() -> None:
    plant = Plant()
    try:
        made = feed(plant, "a", "b")
        rows = take(made, 3)
        assert len(rows) == 3 and all(isinstance(row, LiveRow) for row in rows)
        assert rows[-1].x[0] > rows[0].x[0] >= 1.0 and rows[-1].x[1] < 0.0
        assert rows[1].time - rows[0].time == pytest.approx(0.5)
        plant.quality = ua.StatusCodes.BadSensorFailure
        until = time.monotonic() + 20
        while time.monotonic() < until:
            (row,) = take(made, 1)
            if row.x[1] != row.x[1]:
                break
        assert row.x[1] != row.x[1] and row.x[0] > 0
        made.close()
        with pytest.raises(SourceError, match="has no variable zzz"):
            feed(plant, "a", "zzz")
    finally:
        plant.end()


def test_no_server() -> None:
    parse = LiveRows(1, ["a"])
    with pytest.raises(SourceError, match="opcua://127"):
        OpcUaFeed("opcua://127.0.0.1:1", parse)
    with pytest.raises(SourceError, match="Settings of OPC UA"):
        OpcUaFeed("opcua://127.0.0.1:1", parse, {"x": "y"})


@pytest.mark.slow
def test_a_value_that_stays_is_no_tag_that_stops() -> None:
    """The sensor of the one is alive; the other is missing, and named. No row is of garbage."""
    plant = Plant()
    plant.constant = True
    try:
        made = feed(plant, "a", "b", more="?interval=0.2&tolerance=0.9&dead=1.2&patience=0.5")
        told: list[str] = []
        made.tell = told.append
        rows = take(made, 10**6, seconds=2.5)
        assert len(rows) > 5 and all(row.x[1] == -1.0 for row in rows[2:]) and told == []
        plant.infinite = True
        wrong = [row for row in take(made, 10**6, seconds=1.0) if isinstance(row, str)]
        assert wrong and set(wrong) == {"column 'b': the value is missing or infinite"}
        plant.infinite, plant.frozen = False, True
        take(made, 10**6, seconds=2.0)
        assert [text[:22] for text in told] == ["b has sent nothing for"]
        plant.frozen = False
        rows = take(made, 10**6, seconds=1.0)
        assert told[1:] == ["b is back"] and rows[-1].x[1] == -1.0
        made.close()
    finally:
        plant.end()


class OneUser(UserManager):
    """Lets in who knows the password."""

    def get_user(
        self, iserver: Any, username: Any = None, password: Any = None, certificate: Any = None
    ) -> User | None:
        known = (username, password) == ("press", "a secret")
        return User(role=UserRole.User) if known else None


@pytest.mark.slow
def test_users_and_certificates_come_from_a_file(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    plant = Plant(certificate=certificate)
    try:
        parse = LiveRows(1, ["a"], takes_missing=True)
        address = f"opcua://127.0.0.1:{plant.port}/?interval=0.2&patience=0.3"
        policy = "Basic256Sha256,SignAndEncrypt"
        settings = tmp_path / "settings"
        settings.write_text(
            f"security = {policy},{certificate[0]},{certificate[1]}\n"
            "username = press\npassword = a secret\n"
        )
        given = read_settings(settings)
        made = open_address(address, parse, settings=given)
        assert isinstance(made, OpcUaFeed) and take(made, 1)[0].x[0] > 0
        made.close()
        for wrong, why in (
            ({}, ""),  # a server that wants encryption has nothing to say without
            ({**given, "password": "guessed"}, "BadUserAccessDenied|BadIdentityToken|denied"),
            ({**given, "security": f"{policy},no.pem,no.key"}, r"no\.pem"),
        ):
            with pytest.raises(SourceError, match=why):
                OpcUaFeed(address, parse, wrong)
    finally:
        plant.end()


@pytest.mark.slow
def test_a_server_that_vanishes_for_ten_seconds() -> None:
    """Told when it goes and when it is back; meanwhile no row is made up by the clock."""
    plant = Plant()
    made = feed(plant, "a", "b")
    told: list[str] = []
    made.tell = told.append
    assert len(take(made, 2)) == 2
    plant.end()
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        take(made, 10**6, seconds=0.5)
    gone = time.time()
    assert take(made, 10**6, seconds=10.0) == []
    plant = Plant(plant.port)
    rows = take(made, 10**6, seconds=25.0)
    made.close()
    plant.end()
    assert len(told) == 2 and "no connection" in told[0] and "is back" in told[1]
    later = [row for row in rows if row.time > gone + 10.0]
    assert len(later) > 10 and all((row.x == row.x).all() for row in later[4:])
    # values from before it went stand for two seconds, and no longer
    assert not [row for row in rows if gone + 2.0 < row.time < gone + 9.0]
