"""What a pack may say: the models that every `rules/*.yaml` is checked against (`design.md` §6).

Only `id` must be written: a user's pack with the id of a bundled one gives just what differs. What a whole provider
needs is checked after both are merged (`packs.py`).
"""

from __future__ import annotations

import datetime
import re
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from .input_problems import Strict
from .model import Auth, Category, DialectName, Endpoint, Login
from .nearest import looks_like_credential, shown, unknown
from .peers import is_loopback
from .verdicts.schema import PackRules

Trait = Literal[
    "full_text",
    "honor_scope",
    "identify_only",
    "no_compressed_body",
    "passthrough_models",
    "per_model_quota",
]
"""Facts that mechanisms ask for by name; `TRAITS` says what each means."""
TRAITS: Final[dict[Trait, str]] = {
    "full_text": "the whole body is searched for phrases, not only the error's own words (FC-54)",
    "honor_scope": "the scope that the provider's own rules name is trusted (FC-55)",
    "identify_only": "calls are recognised but never sent elsewhere",
    "no_compressed_body": "the provider refuses compressed request bodies",
    "passthrough_models": "a gateway: model names belong to other providers (SR-34)",
    "per_model_quota": "limits are counted per model, not per account (ML-12)",
}
assert set(TRAITS) == set(get_args(Trait))

_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9a-f:.]+\])(?::([0-9]{{1,5}}))?")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_QUERY = re.compile(r"[A-Za-z0-9_.-]+")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")


def check_id(value: str) -> str:
    """A provider's or connection's name: safe in file names, headers and logs."""
    if looks_like_credential(value):
        raise ValueError("the id looks like a credential. Choose a name that may be shown.")
    if not _ID.fullmatch(value):
        raise ValueError(
            f"the id {shown(value)} cannot be used. Use 1 to 64 lower-case letters, digits, '.', '_' or '-', "
            "with a letter or digit first and last."
        )
    return value


def check_host(value: str) -> str:
    """A host name in lower case, with an optional leading `*.` and an optional port."""
    value = value.lower()
    match = _HOST.fullmatch(value)
    if not match or len(value) > 260 or int(match[1] or 1) not in range(1, 65536):
        raise ValueError(
            f"the host {shown(value)} cannot be used. Write a name such as api.example.com, *.example.com or "
            "localhost:11434, without scheme or path."
        )
    return value.rstrip(".")


def check_url(value: str) -> str:
    """An absolute URL without user, query and fragment."""
    plain = _PLACEHOLDER.sub("x", value)
    try:
        url = urlsplit(plain)
        port = url.port
    except ValueError:
        raise ValueError("the URL cannot be parsed. Write it as https://host/path.") from None
    if url.username is not None or "@" in url.netloc:
        raise ValueError("a URL must not contain a user or password. Use `key:` and `headers:` for credentials.")
    if url.scheme not in ("http", "https") or not url.hostname or port == 0 or re.search(r"[\s\\]", value):
        raise ValueError(f"the URL {shown(value)} cannot be used. Write an absolute one, https://host/path.")
    if url.query or url.fragment or value.endswith(("?", "#")):
        raise ValueError("a URL must have no query and no fragment here. Remove what follows '?' or '#'.")
    return value


def _endpoint_url(value: str) -> str:
    check_url(value)
    url = urlsplit(_PLACEHOLDER.sub("x", value))
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        raise ValueError(f"the URL {shown(value)} would send credentials in the clear. Use https://.")
    return value


def _path_glob(value: str) -> str:
    if not value.startswith("/") or re.search(r"[\s?#]", value):
        raise ValueError(f"the path {shown(value)} cannot be used. Begin it with '/', without query.")
    return value


def check_header(value: str) -> str:
    """A header name, in lower case."""
    if not _HEADER.fullmatch(value):
        raise ValueError(f"the header name {shown(value)} cannot be used. Use letters, digits and '-'.")
    return value.lower()


def check_header_value(value: str) -> str:
    """A header value on one line. The value is never repeated in the error: it may be a credential."""
    if any(not 32 <= ord(c) < 256 or ord(c) == 127 for c in value):
        raise ValueError("a header value must be one line of Latin-1 text.")
    return value


def _checked_date(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value if len(value) > 7 else f"{value}-01").isoformat()[: len(value)]
    except ValueError:
        raise ValueError(f"the date {shown(value)} cannot be read. Write it as 2026-01-31.") from None


def _trait(value: Any) -> Any:
    if isinstance(value, str) and value not in TRAITS:
        raise ValueError(unknown("trait", value, TRAITS))
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError(
            f"the variable {shown(value)} cannot be used. Write its name only: capitals, digits and '_', ACME_API_KEY."
        )
    return value


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


ProviderId = Annotated[str, AfterValidator(check_id)]
HeaderName = Annotated[str, AfterValidator(check_header)]
HeaderValue = Annotated[str, AfterValidator(check_header_value)]
PathGlob = Annotated[str, AfterValidator(_path_glob)]
CheckedDate = Annotated[str, AfterValidator(_checked_date)]


class AuthFile(Strict):
    """Where the credential goes: a header with an optional word before it, or a query parameter."""

    header: HeaderName | None = Field(None, description="Header name; `authorization` unless `query` is given.")
    scheme: str | None = Field(None, description="Word before the credential; empty for the bare credential.")
    query: str | None = Field(None, description="Query parameter that carries the credential instead of a header.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.query is not None and (self.header is not None or self.scheme is not None):
            raise ValueError("`query` stands alone: remove `header` and `scheme`, or remove `query`.")
        if self.query is not None and not _QUERY.fullmatch(self.query):
            raise ValueError(f"the query parameter {shown(self.query)} cannot be used. Use letters, digits and '-'.")
        return self

    def auth(self) -> Auth:
        if self.query is not None:
            return Auth(header="", scheme="", query=self.query)
        header = self.header or "authorization"
        # `Bearer` belongs to the standard header only: `{header: x-api-key}` means the bare key.
        default = "Bearer" if header == "authorization" else ""
        return Auth(header=header, scheme=default if self.scheme is None else self.scheme)


class LoginFile(Strict):
    """A sort of credential that goes another way than the provider's usual one."""

    prefix: Annotated[str, Field(min_length=3)] = Field(description="How such a credential begins, `sk-ant-oat`.")
    auth: AuthFile = Field(description="Where this sort of credential goes.")
    values: dict[HeaderName, HeaderValue] = Field(
        default_factory=dict,
        description="List header -> value that must be on its list with this sort of credential, and with no other.",
    )

    def login(self) -> Login:
        return Login(prefix=self.prefix, auth=self.auth.auth(), values=MappingProxyType(dict(self.values)))


class EndpointFile(Strict):
    """One door: where requests of one dialect go."""

    url: Annotated[str, AfterValidator(_endpoint_url)] = Field(
        description="Absolute URL; `{model}` and `{method}` are filled in, other `{names}` come from a `base_url`."
    )
    aliases: list[PathGlob] = Field(
        default_factory=list,
        description="Further paths that are the same door; `*` is part of a segment, `**` any number of them.",
    )
    auth: AuthFile | None = Field(None, description="Overrides the provider's `auth` for this door.")

    def endpoint(self, dialect: DialectName) -> Endpoint:
        auth = self.auth.auth() if self.auth else None
        return Endpoint(dialect=dialect, url=self.url, aliases=tuple(self.aliases), auth=auth)


def _endpoint_from_text(value: Any) -> Any:
    if not isinstance(value, (str, dict, EndpointFile)):
        raise ValueError(f"an endpoint must be a URL or `{{url: …, aliases: …, auth: …}}`, not {shown(value)}.")
    return {"url": value} if isinstance(value, str) else value


EndpointValue = Annotated[EndpointFile, BeforeValidator(_endpoint_from_text, json_schema_input_type=str | EndpointFile)]
Texts = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]


class PackFile(PackRules):
    """One provider: who it is, and its two rule lists."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="omniroute pack")

    id: ProviderId = Field(description="Stable name of the provider, lower case.")
    name: str | None = Field(None, description="Name for people; the id when it is left out.")
    hosts: list[Annotated[str, AfterValidator(check_host)]] | None = Field(
        None, description="Host names that are this provider: `api.x.com`, `*.x.com`, `localhost:11434`."
    )
    category: Category | None = Field(None, description="How connections log in; picks the default figures (CC-12).")
    endpoints: dict[DialectName, EndpointValue] | None = Field(
        None, description="Dialect -> URL, or `{url, aliases, auth}`. Empty for a provider that is only identified."
    )
    auth: AuthFile | None = Field(None, description="Where the credential goes; `authorization: Bearer …` by default.")
    logins: list[LoginFile] | None = Field(
        None, description="Sorts of credentials that go another way; the first whose prefix fits."
    )
    headers: dict[HeaderName, HeaderValue] | None = Field(
        None, description="Headers that every request needs; set only when the client sent none of that name."
    )
    traits: list[Annotated[Trait, BeforeValidator(_trait)]] | None = Field(
        None, description="Facts that mechanisms ask for by name."
    )
    quota_families: dict[str, list[str]] | None = Field(
        None, description="Family -> globs of the models that share one quota (ML)."
    )
    key_env: list[Annotated[str, AfterValidator(_variable)]] | None = Field(
        None, description="Variables in which people keep a key, the usual one first; `omniroute init` looks there."
    )
    source: Texts | None = Field(None, description="Addresses at which the facts of this pack were checked.")
    checked: CheckedDate | None = Field(None, description="When they were last checked, `2026-01-31`.")


def pack_json_schema() -> dict[str, Any]:
    """JSON Schema of a pack, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **PackFile.model_json_schema()}
