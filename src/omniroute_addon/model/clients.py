"""What is known of a client program: what it bears, what it survives, how it must be told that something broke.

Measured facts, written down in `rules/clients/*.yaml`. The values here hold for a client that nobody has measured, and
are careful: nothing that any measured client dies of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .words import DialectName

KeepAlive = Literal["comment", "ping", "none"]
"""What may be sent into a stream that is held: `: comment` lines, `event: ping` with JSON data, or nothing at all."""
StreamEnding = Literal["error_event", "cut"]
"""How a broken stream ends: an error event in the dialect, or the connection (HTTP/2: the stream) is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWaits:
    """The client's own time limits, seconds. None: none is known."""

    head_s: float | None = 60.0
    """Until the response head."""
    idle_s: float | None = 120.0
    """Silence inside a stream; whether comments end it says `comments_count`."""
    event_s: float | None = 120.0
    """Time between real events, whatever else comes."""
    comments_count: bool = False
    """A comment line restarts `idle_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRetries:
    """What the client does by itself after an error answer."""

    statuses: frozenset[int] = frozenset()
    """Final statuses after which it tries again."""
    tries: int = 1
    """Requests in all while the error stays."""
    lasts_s: float = 0.0
    """Seconds that these take when no `Retry-After` says otherwise."""
    retry_after: Literal["obeys", "at_least", "ignores"] = "ignores"
    """What it makes of the header: waits so long, waits at least so long, or keeps its own pace."""
    retry_after_max_s: float | None = None
    """Above this it gives up at once; None: it waits however long it is told."""
    bare_429: bool = True
    """A 429 without `Retry-After` is retried like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """How a final answer is put so that this client does the sensible thing. Empty: as honest as it can be said."""

    statuses: Mapping[int, int] = field(default_factory=dict)
    """True status -> the one that is sent in its place."""
    retry_after: bool = True
    """Say `Retry-After` when a time is known."""
    retry_after_max_s: float | None = None
    """Most that `Retry-After` says; the true time is then in the message."""
    retry_after_unknown_s: float | None = None
    """What `Retry-After` says when nobody knows a time."""
    brief: bool = False
    """The body says no more than what it comes to, and when: the client takes words in it for a reason to go on."""
    own_words: bool = False
    """Never the upstream's body: the client reads words in it that end the session."""
    type: str = ""
    """Error type of a 429, where the client reads one."""
    code: str = ""
    """Error code of a 429, where the client reads one."""
    details: tuple[Mapping[str, object], ...] = ()
    """Entries for Gemini's `details` of a 429."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further response headers, `x-should-retry`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStart:
    """How the program is started behind the proxy, and what makes it trust the proxy's certificate."""

    commands: tuple[str, ...] = ()
    """Names of its executable."""
    packages: tuple[str, ...] = ()
    """Names under which `npx`, `uvx` and the like start it."""
    trusts: tuple[str, ...] = ()
    """Variables that suffice, each alone, to make it trust the proxy; the best first."""
    system_store: bool = False
    """It also trusts what the system trusts."""
    minds_proxy: bool = True
    """It looks at `HTTPS_PROXY` by itself."""
    settings: tuple[str, ...] = ()
    """Its own settings files, `~/` for the home folder, whose `env` sets variables too late for TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """One client program, as its pack describes it. `ClientProfile()` is one that nobody has measured."""

    id: str = "default"
    """Stable, lower case, as in `rules/clients/<id>.yaml`."""
    name: str = "unknown client"
    """For people."""
    session_headers: tuple[str, ...] = ()
    """Request headers that name the conversation, the first that is sent; lower case."""
    session_paths: tuple[tuple[str, ...], ...] = ()
    """Places in the body that name it: member names from the top. Text that holds JSON is opened on the way."""
    keep_alive: Mapping[DialectName, KeepAlive] = field(default_factory=dict)
    early_keep_alive: bool = False
    """It bears keep-alives before the answer is decided: the head has then gone out with status 200 (`A34`)."""
    waits: ClientWaits = field(default_factory=ClientWaits)
    retries: ClientRetries = field(default_factory=ClientRetries)
    reach_s: float = 0.0
    """A way out within so many seconds is reached by the client's own retries, when `near` tells it to."""
    near: AnswerForm = field(default_factory=AnswerForm)
    """The final answer while the way out is in reach: the client comes back."""
    far: AnswerForm = field(default_factory=AnswerForm)
    """The final answer when it is not: the client ends soon and shows the reason."""
    broken_stream: Mapping[DialectName, StreamEnding] = field(default_factory=dict)
    account_headers: frozenset[str] = frozenset()
    """Request headers, lower case, that belong to the client's account and must not travel to another."""
    side_paths: tuple[str, ...] = ()
    """Globs of paths that are never ours, although a door of the provider may look like them."""
    websocket_refusal: int | None = None
    """Status that makes it give up WebSockets for plain HTTP at once; None: nothing is known to."""
    start: ClientStart | None = None
    """None: nothing is known of how it is started."""
    source: str = ""
    """`file:line` it came from."""

    def bears(self, dialect: DialectName) -> KeepAlive:
        """The keep-alive for a stream of this dialect; `none` where nothing is said."""
        return self.keep_alive.get(dialect, "none")

    def ending(self, dialect: DialectName) -> StreamEnding:
        """How a broken stream of this dialect ends; an error event where nothing else is said (`ST-31`)."""
        return self.broken_stream.get(dialect, "error_event")
