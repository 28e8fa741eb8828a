"""What a client profile may say: the models that every `rules/clients/*.yaml` is checked against.

Only `id` must be written: a user's profile with the id of a bundled one gives just what differs, member by member.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from omniroute_addon.input_problems import Strict
from omniroute_addon.model import DialectName, KeepAlive, StreamEnding
from omniroute_addon.nearest import shown
from omniroute_addon.pack_schema import CheckedDate, HeaderName, HeaderValue, PathGlob, ProviderId, Texts
from omniroute_addon.setting_fields import group

Status = Annotated[int, Field(ge=400, le=599)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
_UNREPORTABLE = frozenset({401, 403, 407})
"""Agents take these for their own login; no form may make them up."""


def _glob(value: str) -> str:
    if not value.strip("* "):
        raise ValueError(f"the pattern {shown(value)} fits everything. Write what the value begins with, `name/*`.")
    return value


def _path(value: str) -> str:
    if not all(value.split(".")):
        raise ValueError(f"the body path {shown(value)} cannot be used. Write member names with dots, `metadata.id`.")
    return value


def _answerable(value: int) -> int:
    if value in _UNREPORTABLE:
        raise ValueError(
            f"a final answer must not be made a {value}: agents take it for their own login. Use 400, 402, 429 or 5xx."
        )
    return value


CaVariable = Literal[
    "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"
]
"""What `omniroute exec` and `env` set."""
Word = Annotated[str, Field(pattern=r"[^\s]+", max_length=200)]
Glob = Annotated[str, AfterValidator(_glob)]
Globs = Annotated[
    list[Glob],
    BeforeValidator(lambda v: v if isinstance(v, list) else [v], json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
StatusKey = Annotated[str, Field(pattern=r"[45]\d\d")]


class WhenFile(Strict):
    """One way to recognise the client; all that is written must hold. Letter case never matters."""

    user_agent: Globs | None = Field(None, description="Globs of the header `user-agent`; one suffices.")
    headers: dict[HeaderName, Literal[True] | Globs] = Field(
        default_factory=dict, description="Header -> `true` (it is sent) or globs of its value; one suffices."
    )
    agent: Globs | None = Field(
        None, description="Globs of the user name that the client gives to the proxy, for what looks like its SDK."
    )
    host: Globs | None = Field(None, description="Globs of the host that is asked.")
    path: Globs | None = Field(None, description="Globs of the path, without query.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.user_agent or self.headers or self.agent):
            raise ValueError("nothing here is about the client. Add `user_agent`, `headers` or `agent`.")
        return self


class SessionFile(Strict):
    """Where the id of the conversation is."""

    headers: list[HeaderName] = Field(default_factory=list, description="Headers, the first that is sent.")
    body: list[Annotated[str, AfterValidator(_path)]] = Field(
        default_factory=list, description="Body members with dots, the first that is there: `metadata.session_id`."
    )


class WaitsFile(Strict):
    """The client's own time limits."""

    head_s: Seconds | None = Field(None, description="Seconds until the response head.")
    idle_s: Seconds | None = Field(None, description="Seconds of silence in a stream.")
    event_s: Seconds | None = Field(None, description="Seconds between real events, whatever else comes.")
    comments_count: bool = Field(False, description="A comment line ends the silence of `idle_s`.")


class RetriesFile(Strict):
    """What the client does by itself after an error answer."""

    statuses: list[Status] = Field(default_factory=list, description="Final statuses after which it tries again.")
    tries: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="Requests in all while the error stays.")
    lasts_s: Seconds = Field(0.0, description="Seconds that these take without `Retry-After`.")
    retry_after: Literal["obeys", "at_least", "ignores"] = Field(
        "ignores", description="It waits so long, at least so long, or keeps its own pace."
    )
    retry_after_max_s: Seconds | None = Field(None, description="Above this it gives up at once.")
    bare_429: bool = Field(True, description="A 429 without `Retry-After` is retried, too.")


class FormFile(Strict):
    """How a final answer is put. Left out: as honest as it can be said."""

    statuses: dict[StatusKey, Annotated[Status, AfterValidator(_answerable)]] = Field(
        default_factory=dict, description="True status -> the one that is sent in its place."
    )
    retry_after: bool = Field(True, description="Say `Retry-After` when a time is known.")
    retry_after_max_s: Seconds | None = Field(None, description="Most that it says; the message has the true time.")
    retry_after_unknown_s: Seconds | None = Field(None, description="What it says when nobody knows a time.")
    brief: bool = Field(
        False,
        description="One sentence and the time, no facts beside it: the client takes words in them for a reason to go on.",
    )
    own_words: bool = Field(False, description="Never the upstream's body: the client takes words in it for the end.")
    type: str = Field("", description="Error type of a 429.")
    code: str = Field("", description="Error code of a 429.")
    details: list[dict[str, Any]] = Field(default_factory=list, description="Entries of Gemini's `details` of a 429.")
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, description="Further response headers.")


class ExhaustedFile(Strict):
    """The final answer when no connection can serve the call."""

    reach_s: Seconds = Field(0.0, description="A way out within so many seconds is reached by the client's retries.")
    near: FormFile = group(FormFile, "Form while it is in reach: the client comes back.")
    far: FormFile = group(FormFile, "Form when it is not: the client ends with the reason.")


class StartFile(Strict):
    """How the program is brought behind the proxy."""

    commands: list[Word] = Field(default_factory=list, description="Names of its executable.")
    packages: list[Word] = Field(
        default_factory=list, description="Names under which `npx`, `uvx` and the like start it."
    )
    trusts: list[CaVariable] = Field(
        default_factory=list,
        description="Variables that suffice, each alone, to make it trust the proxy; the best first.",
    )
    system_store: bool = Field(False, description="It also trusts what the system trusts.")
    minds_proxy: bool = Field(True, description="It looks at `HTTPS_PROXY` by itself.")
    settings: list[Word] = Field(
        default_factory=list, description="Its settings files, whose `env` sets variables too late for TLS."
    )


class ProfileExample(Strict):
    """The head of a request, and whether it is this client's."""

    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, description="Request headers.")
    agent: str | None = Field(None, description="User name given to the proxy.")
    host: str = Field("api.example.com", description="The host that is asked.")
    path: str = Field("/", description="Path, with or without query.")
    body: dict[str, Any] | None = Field(None, description="The body, where the session is in it.")
    session: str | None = Field(None, description="The session that must be found.")
    no_match: bool = Field(False, description="It must be taken for another client.")


class ProfileFile(Strict):
    """One client program."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="omniroute client profile")

    id: ProviderId = Field(description="Stable name of the client, lower case.")
    name: str | None = Field(None, description="Name for people; the id when it is left out.")
    when: (
        Annotated[
            list[WhenFile],
            BeforeValidator(
                lambda v: v if isinstance(v, list) else [v], json_schema_input_type=WhenFile | list[WhenFile]
            ),
            Field(min_length=1),
        ]
        | None
    ) = Field(None, description="How it is recognised; one of several ways suffices, the most specific client wins.")
    session: SessionFile | None = Field(None, description="Where the id of the conversation is.")
    keep_alive: dict[DialectName, KeepAlive] | None = Field(
        None, description="Dialect -> what may be sent into a held stream: `comment`, `ping` or `none`."
    )
    early_keep_alive: bool | None = Field(
        None, description="It bears keep-alives before the answer is decided; errors then come inside the stream."
    )
    waits: WaitsFile | None = Field(None, description="Its own time limits.")
    retries: RetriesFile | None = Field(None, description="What it retries by itself.")
    exhausted: ExhaustedFile | None = Field(None, description="The final answer when no connection can serve the call.")
    broken_stream: dict[DialectName, StreamEnding] | None = Field(
        None, description="Dialect -> how a broken stream ends: `error_event` or `cut`."
    )
    account_headers: list[HeaderName] | None = Field(
        None, description="Request headers that belong to its account and must not travel to another."
    )
    side_paths: list[PathGlob] | None = Field(
        None, description="Paths that are never model calls, although a door of the provider looks like them."
    )
    websocket_refusal: Status | None = Field(
        None, description="Status that makes it use HTTP in place of WebSockets at once."
    )
    start: StartFile | None = Field(
        None, description="How it is brought behind the proxy, and what makes it trust that."
    )
    examples: list[ProfileExample] | None = Field(None, description="Request heads that are and are not this client's.")
    tested: str | None = Field(None, description="Versions that were measured.")
    source: Texts | None = Field(None, description="Where the facts of this profile come from.")
    checked: CheckedDate | None = Field(None, description="When they were last checked, `2026-01-31`.")


def profile_json_schema() -> dict[str, Any]:
    """JSON Schema of a client profile, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ProfileFile.model_json_schema()}
