"""Who may ask: on this machine, pages of this service and programs; from elsewhere, whoever has the token.

A page from the internet can make a browser send requests to this machine. It cannot change the `Host` that the browser
sends, which is its own name even when that name leads here, nor hide the `Origin` it comes from.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import SettingError
from .page import PATHS
from .refusal import Refusal

OPEN = ("/", "/health", *PATHS)  # the page holds no secret: what it asks for goes with the token
SHORTEST = 16


@dataclass(frozen=True)
class Access:
    """The rules: whether only names of this machine are answered to, and the token, if one is needed."""

    local: bool = True
    token: str | None = None

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Refuse a request that comes under a foreign name, from a foreign page, or without the token."""
        host = headers.get("host", "")
        if self.local and not is_local(_name(host)):
            raise Refusal(421, f"this service answers to localhost, not to '{host[:80]}': ask by that name")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refusal(403, "requests from other sites' pages are not answered: open the page of this service")
        if self.token is not None and path not in OPEN:
            self._check_token(headers.get("authorization", ""))

    def _check_token(self, given: str) -> None:
        scheme, _, token = given.partition(" ")
        assert self.token is not None  # whoever calls has looked
        same = hmac.compare_digest(token.strip().encode(), self.token.encode())  # takes as long wherever they differ
        if scheme.lower() != "bearer" or not same:
            sentence = "a token is needed: send it as 'Authorization: Bearer …', or open the page by its full address"
            raise Refusal(401, sentence, {"WWW-Authenticate": "Bearer"})


def rules(host: str, token: str | None) -> Access:
    """Return the rules for a host to bind to; where others can reach it there is a token, made if none is given."""
    if token is not None and (len(token) < SHORTEST or not token.isascii() or any(c.isspace() for c in token)):
        raise SettingError(
            f"a token has at least {SHORTEST} letters, digits and signs and no space, got {len(token)}: leave it out "
            "and one is made"
        )
    local = is_local(host)
    return Access(local, token if token is not None or local else secrets.token_urlsafe(32))


def is_local(host: str) -> bool:
    """Say whether a name or address is this machine's own, which nobody else can reach."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
