"""Access control of the live page: operator and viewer tokens, cookies, security headers."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.tornado import BokehTornado
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import HTTPError, OutputTransform, RequestHandler

OPERATOR, VIEWER = "operator", "viewer"
FEWEST_CHARACTERS = 16
VARIABLE = "KERNELSTREAM_TOKEN"
KEPT_DAYS = 30
HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "kernelstream",
    # Bokeh builds functions for its own callbacks; nothing is loaded from elsewhere.
    "Content-Security-Policy": "default-src 'self'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self' ws: wss:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class Access:
    """The operator's token, the viewer's, and what they allow.

    Examples
    --------
    >>> access = Access("a token of some length")
    >>> access.role("a token of some length"), access.role(access.view_token), access.role("no")
    ('operator', 'viewer', None)
    """

    def __init__(self, token: str):
        if len(token) < FEWEST_CHARACTERS:
            raise ValueError(
                f"The token has {len(token)} characters: give at least {FEWEST_CHARACTERS}, for "
                "example those of: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        self.token = token
        self.view_token = self._derived("view")[:43]  # tells nothing about the operator's
        self.secret_key = self._derived("session").encode()

    def _derived(self, purpose: str) -> str:
        return hashlib.sha256(f"kernelstream {purpose} {self.token}".encode()).hexdigest()

    def role(self, given: str | None) -> str | None:
        """What a token allows."""
        offered = (given or "").encode()
        if hmac.compare_digest(offered, self.token.encode()):
            return OPERATOR
        return VIEWER if hmac.compare_digest(offered, self.view_token.encode()) else None


def token_for(folder: Path | None, file: Path | None = None) -> str:
    """The token: of a file, of the environment, or a random one that the history remembers.

    Parameters
    ----------
    folder : Path or None
        Of the history.
    file : Path, optional
        That holds the token.
    """
    if file is not None:
        return file.read_text().strip()
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE].strip()
    if folder is None:
        return secrets.token_urlsafe(24)
    kept = folder / "token"
    with contextlib.suppress(FileNotFoundError):
        return kept.read_text().strip()
    folder.mkdir(parents=True, exist_ok=True)
    fresh = secrets.token_urlsafe(24)
    with contextlib.suppress(FileExistsError):
        number = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(number, "w") as file_:
            file_.write(fresh + "\n")
        return fresh
    return kept.read_text().strip()


class Guarded(BokehTornado):
    """A Bokeh server where every request, also of a file or a websocket, needs a token."""

    def __init__(self, applications: Any, access: Access, cookie: str, **options: Any):
        self.access, self.cookie = access, cookie
        super().__init__(
            applications,
            sign_sessions=True,
            secret_key=access.secret_key,
            include_headers=[],  # what a session knows of its request is sent to the page
            include_cookies=[],
            log_function=lambda handler: None,  # addresses may hold a token
            **options,
        )
        self.add_transform(SafeHeaders)

    def role_of(self, request: HTTPServerRequest) -> str | None:
        """What the cookie or the header of a request allows."""
        held = request.cookies.get(self.cookie)
        header = request.headers.get("Authorization", "")
        given = header.removeprefix("Bearer ") if header.startswith("Bearer ") else None
        return self.access.role(held.value if held is not None else given)

    def find_handler(self, request: HTTPServerRequest, **options: Any) -> Any:
        """The handler of a request: that of Bokeh, for those who may."""
        if "token" in request.query_arguments and request.method == "GET":
            return self.get_handler_delegate(request, Enter)
        if self.role_of(request) is None:
            return self.get_handler_delegate(request, Refused)
        return super().find_handler(request, **options)


class Refused(RequestHandler):
    """What those without a token see, whatever they ask for."""

    def prepare(self) -> None:
        """Refuse."""
        raise HTTPError(403)

    def write_error(self, status_code: int, **problem: Any) -> None:
        """Say what to do."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "403: open the address that was printed when the page was started, with its token.\n"
        )


class Enter(RequestHandler):
    """Exchanges the token of an address for a cookie, so that the address has none any more."""

    application: Guarded

    def get(self) -> None:
        """Set the cookie and go on to the page itself."""
        token = self.get_query_argument("token")
        if self.application.access.role(token) is None:
            self.set_status(403)
            self.finish("403: this is not the token of this page.\n")
            return
        self.set_cookie(
            self.application.cookie,
            token,
            httponly=True,
            samesite="Strict",
            expires_days=KEPT_DAYS,
            secure=self.request.protocol == "https",
        )
        others = [
            (name, value.decode(errors="replace"))
            for name, values in self.request.query_arguments.items()
            for value in values
            if name != "token"
        ]
        path = "/" + self.request.path.lstrip("/\\")  # of this server, never of another
        self.redirect(f"{path}?{urlencode(others)}" if others else path)


class SafeHeaders(OutputTransform):
    """Headers that keep the page to itself."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add them to every answer."""
        for name, value in HEADERS.items():
            headers[name] = value
        return status_code, headers, chunk


class Visit(FunctionHandler):
    """Builds a page; a session knows the role of the one who opened it, signed by the server."""

    def __init__(self, build: Any, role_of: Any):
        super().__init__(build)
        self._role_of = role_of

    def process_request(self, request: HTTPServerRequest) -> dict[str, Any]:
        """What the session is told."""
        return {"role": self._role_of(request) or VIEWER}
