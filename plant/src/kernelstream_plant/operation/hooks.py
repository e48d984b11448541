"""Hooks: runs a command or posts to a URL (webhook, with retries) when an event begins or ends."""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kernelstream_plant.operation.live import Notice

KINDS = ("begin", "end", "silence", "data")
MOST_WAITING = 200
TIMEOUT = 30.0  # seconds for one command or request
ATTEMPTS = (0.0, 1.0, 5.0)  # waits before each attempt to reach an address


class Hook:
    """Tells a command (JSON on its standard input) or an address (JSON by POST) of events.

    It never holds up the stream: notices wait in a queue for a thread, and where too many wait the
    newest are dropped and counted.

    Parameters
    ----------
    target : str
        ``https://…``, or a command with its arguments. It is started without a shell.
    complain : callable
        Is given a sentence where something went wrong.

    Examples
    --------
    >>> import sys
    >>> wrong = []
    >>> hook = Hook(f"{sys.executable} -c 'import sys, json; json.load(sys.stdin)'", wrong.append)
    >>> hook(Notice("begin", 0.0, "event 1: heat +3", 1, {}))
    >>> hook.close()
    >>> wrong
    []
    """

    def __init__(self, target: str, complain: Callable[[str], None]):
        self.address = target if target.startswith(("http://", "https://")) else None
        self.command = [] if self.address else shlex.split(target)
        if not self.address and not self.command:
            raise ValueError("A hook needs a command or an address (https://…).")
        self.complain, self.dropped = complain, 0
        self._waiting: queue.Queue[Notice | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="hook", daemon=True)
        self._thread.start()

    def __call__(self, notice: Notice) -> None:
        """Pass a notice on, if it is about an event or about silence."""
        if notice.kind not in KINDS:
            return
        try:
            self._waiting.put_nowait(notice)
        except queue.Full:
            self.dropped += 1

    def close(self, patience: float = 10.0) -> None:
        """Wait for what is still to be told."""
        try:
            self._waiting.put(None, timeout=patience)
        except queue.Full:
            return
        self._thread.join(patience)

    def _work(self) -> None:
        while (notice := self._waiting.get()) is not None:
            try:
                self._tell(message(notice))
            except Exception as problem:
                # whatever a foreign program or server does, the next notice is told all the same
                self.complain(
                    f"the hook failed at {notice.kind} of event {notice.event}: {problem}"
                )

    def _tell(self, facts: dict[str, Any]) -> None:
        body = json.dumps(facts).encode()
        if self.address is None:
            told = {
                "KERNELSTREAM_EVENT": str(facts["event"] or ""),
                "KERNELSTREAM_KIND": facts["kind"],
            }
            done = subprocess.run(
                self.command,
                input=body,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=TIMEOUT,
                env={**os.environ, **told},
                check=False,
            )
            if done.returncode:
                words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
                raise OSError(f"exit code {done.returncode} {' '.join(words)[:200]}")
            return
        request = urllib.request.Request(
            self.address, body, {"Content-Type": "application/json"}, method="POST"
        )
        for attempt, wait in enumerate(ATTEMPTS, 1):
            time.sleep(wait)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT):
                    return
            except (urllib.error.URLError, OSError):
                if attempt == len(ATTEMPTS):
                    raise


def message(notice: Notice) -> dict[str, Any]:
    """A notice for programs; ``id`` lets a reader drop repeats."""
    when = datetime.fromtimestamp(notice.at).astimezone().isoformat(timespec="milliseconds")
    return {
        "id": f"{notice.facts.get('title', '')}:{notice.event}:{notice.kind}",
        "kind": notice.kind,
        "time": when,
        "event": notice.event,
        "text": notice.text,
        **notice.facts,
    }
