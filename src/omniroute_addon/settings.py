"""Every figure that can be turned: its meaning, default, bounds and environment variable, in one table.

Precedence: built-in < environment < configuration file (`spec/README.md`). Where a value came from is remembered
(`Sourced`), so that `omniroute check` and the log can say it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from .history_settings import HistorySettings
from .input_problems import Strict
from .lock_settings import EgressLockSettings, ModelLockoutSettings
from .nearest import shown
from .plugin_settings import PluginSettings
from .provider_settings import CircuitBreaker, ProviderCooldownSettings
from .setting_fields import DAY_MS, group, ms, setting
from .waiting.settings import CooldownWaitSettings

_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})
_NOTHING = frozenset({"none", "off", "false", "0"})
"""An environment variable's words for an empty list (`EL-3`)."""


# ---------------------------------------------------------------- groups


class OauthCooldown(Strict):
    """Cooldown of connections that log in with OAuth."""

    base_cooldown_ms: int = ms(5_000, "First step of the backoff ladder (CC-12).")
    max_backoff_steps: int = setting(8, "Steps after which the ladder stops growing (CC-15).", ge=0, le=32)
    use_upstream_retry_hints: bool = setting(False, "Wait as long as the upstream says instead of the ladder (CC-20).")
    use_upstream_429_breaker_hints: bool | None = setting(
        None, "Tell kinds of failures apart at the breaker; unset: unless it is somebody's own server (CB-47, CB-50)."
    )


class ApiKeyCooldown(Strict):
    """Cooldown of connections with an API key."""

    base_cooldown_ms: int = ms(3_000, "First step of the backoff ladder (CC-12).")
    max_backoff_steps: int = setting(5, "Steps after which the ladder stops growing (CC-15).", ge=0, le=32)
    use_upstream_retry_hints: bool = setting(True, "Wait as long as the upstream says instead of the ladder (CC-20).")
    use_upstream_429_breaker_hints: bool | None = setting(
        None, "Tell kinds of failures apart at the breaker; unset: unless it is somebody's own server (CB-47, CB-50)."
    )


class LocalCooldown(Strict):
    """Cooldown of local servers."""

    base_cooldown_ms: int = ms(2_000, "First step of the backoff ladder (CC-13).")
    max_backoff_steps: int = setting(3, "Steps after which the ladder stops growing (CC-13).", ge=0, le=32)
    use_upstream_retry_hints: bool = setting(True, "Wait as long as the upstream says instead of the ladder (CC-20).")
    use_upstream_429_breaker_hints: bool | None = setting(
        None, "Tell kinds of failures apart at the breaker; unset: unless it is somebody's own server (CB-47, CB-50)."
    )


class ConnectionCooldown(Strict):
    """Cooldown by the way in which a provider's connections log in."""

    oauth: OauthCooldown = group(OauthCooldown, "Connections that log in with OAuth.")
    api_key: ApiKeyCooldown = group(ApiKeyCooldown, "Connections with an API key.")
    local: LocalCooldown = group(LocalCooldown, "Local servers.")
    concurrency_ms: int = ms(1_000, "Rest of a connection that is busy, not exhausted (CC-42).", le=60_000)
    refusal_ms: int = ms(5_000, "Rest after the upstream refused the way of calling (CC-61).")
    refusals_before_ban: int = setting(
        3, "Such refusals in a row, of one connection, that ban it; 0 never bans (CC-60).", ge=0, le=1000
    )
    forbidden_window_ms: int = ms(
        600_000, "Two 403 without a stated cause within this time ban a connection; 0: the first one does (CC-63)."
    )
    forget_ladder_ms: int = ms(600_000, "Quiet time after a rest that sets the ladder back to its start (CC-85).")
    stream_stall: bool = setting(False, "A stream that stalls without output rests its connection (CC-46).")
    expired_tries: int = setting(
        3, "How often a connection with an expired OAuth login is tried again by itself (CC-71).", ge=0, le=20
    )
    expired_try_base_ms: int = ms(300_000, "Pause before the first such try; doubles (CC-71).")
    custom_banned_signals: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list, description="Further words of an upstream that mean a banned account (CC-66)."
    )
    probe_can_disable: bool = setting(
        False, "A failed connection test counts like any other failure (CC-83).", env="PROBE_CAN_DISABLE"
    )


# ---------------------------------------------------------------- all of them


class Settings(Strict):
    """The whole table. Timeouts of 0 are off, unless the row says otherwise."""

    deadline_ms: int = ms(600_000, "Time for all attempts of one request, waits included; never off.", ge=1)
    connect_timeout_ms: int = ms(15_000, "Time for TCP and TLS of one attempt.")
    head_timeout_ms: int = ms(
        600_000,
        "Time until the status line of one attempt.",
        env="FETCH_TIMEOUT_MS REQUEST_TIMEOUT_MS",
    )
    readiness_timeout_ms: int = ms(
        80_000,
        "Time until the first useful frame of a stream, for a small request (ST-14).",
        env="STREAM_READINESS_TIMEOUT_MS REQUEST_TIMEOUT_MS",
    )
    readiness_max_timeout_ms: int = ms(
        180_000,
        "The same for a large request; the readiness timeout itself when that is longer (ST-14).",
        env="STREAM_READINESS_MAX_TIMEOUT_MS",
    )
    readiness_mode: Literal["output", "event"] = setting(
        "output", "What commits a stream: `output` is the first useful frame, `event` any event that is no error."
    )
    lifecycle_grace_ms: int = ms(
        2_000,
        "In mode `output`: how long lifecycle events are held for what may follow them.",
    )
    idle_timeout_ms: int = ms(
        300_000,
        "Longest silence inside a stream; heartbeats do not count (ST-37).",
        env="STREAM_IDLE_TIMEOUT_MS REQUEST_TIMEOUT_MS",
    )
    attempt_deadline_ms: int = ms(
        1_260_000, "Time for one whole attempt, streaming included.", env="STREAM_ACTIVE_TIMEOUT_MS"
    )
    retries_in_place: int = setting(2, "Tries on the same connection after an overload or server fault.", ge=0, le=20)
    retry_pause_ms: int = ms(500, "Pause before the first try in place; doubles, with jitter.")
    retry_pause_max_ms: int = ms(8_000, "Longest pause before a try in place.")
    own_credential: Literal["last", "first", "never"] = setting(
        "last",
        "When the client's own credential is tried beside configured connections; `never` also when none is left.",
    )
    require_agent: bool = setting(
        False,
        "Only clients that name an agent of `agents:` and prove it by its token may use the proxy; others get 407.",
    )
    websocket_model_calls: Literal["auto", "refuse", "pass"] = setting(
        "auto",
        "A client that opens a WebSocket at a model's door: `refuse` answers 426, so that it goes on over HTTP, where other "
        "connections can take over; `auto` does so where the configuration has some for that door, for a client known to go on.",
    )
    final_answer: Literal["survival", "honest"] = setting(
        "survival",
        "When nothing can serve a call: the answer with which this client goes on, the true time in its message; or "
        "always the true status and time.",
    )
    held_body_bytes: int = setting(
        8_388_608, "Most bytes of an answer that are held before the decision.", ge=65_536, le=268_435_456
    )
    max_cooldown_ms: int | None = setting(
        None,
        "Longest step of a connection's backoff ladder; unset: `model_lockout.max_cooldown_ms` (CC-16).",
        ge=0,
        le=DAY_MS,
    )
    max_hint_ms: int = ms(30 * DAY_MS, "Longest wait that an upstream's hint can impose (CC-31).", le=30 * DAY_MS)
    connection_cooldown: ConnectionCooldown = group(ConnectionCooldown, "Cooldown of a failed connection.")
    circuit_breaker: CircuitBreaker = group(CircuitBreaker, "When a whole provider is left alone (CB).")
    provider_cooldown: ProviderCooldownSettings = group(
        ProviderCooldownSettings, "Optional: skip what failed a moment ago (PC)."
    )
    model_lockout: ModelLockoutSettings = group(ModelLockoutSettings, "Locks of one model of one connection (ML).")
    egress_lock: EgressLockSettings = group(EgressLockSettings, "Providers that count per outgoing address (EL).")
    history: HistorySettings = group(HistorySettings, "What is remembered of finished requests.")
    cooldown_wait: CooldownWaitSettings = group(
        CooldownWaitSettings, "Holding a request while everything that could serve it rests briefly (CW)."
    )
    plugins: PluginSettings = group(PluginSettings, "Which plugins run.")

    @property
    def longest_rest_ms(self) -> int:
        """The cap of a connection's ladder (`CC-16`)."""
        return self.model_lockout.max_cooldown_ms if self.max_cooldown_ms is None else self.max_cooldown_ms


# ---------------------------------------------------------------- where a value comes from


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A setting's value and where it was said."""

    value: Any
    origin: str
    """`default`, `environment NAME`, or `file:line:column`."""

    def __str__(self) -> str:
        return f"{self.value} ({self.origin})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting, for tables in docs and `omniroute` commands."""

    name: str
    """With dots: `connection_cooldown.oauth.base_cooldown_ms`."""
    field: FieldInfo
    env: tuple[str, ...]


def rows(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Row]:
    """Every setting, groups opened, in the order of the table."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from rows(annotation, f"{prefix}{name}.")
        else:
            extra = field.json_schema_extra
            env = extra.get("env", ()) if isinstance(extra, dict) else ()
            yield Row(name=prefix + name, field=field, env=tuple(str(e) for e in env))  # type: ignore[union-attr]


def resolve_settings(
    written: Settings | None, environ: Mapping[str, str], places: Mapping[str, str]
) -> tuple[Settings, Mapping[str, Sourced], list[str]]:
    """The settings in force, where each came from, and warnings about the environment.

    `written` is the file's part; `places` maps the dotted names that stand in the file to their place.
    """
    resolved: dict[str, Any] = {}
    sourced: dict[str, Sourced] = {}
    warnings: dict[str, str] = {}  # by variable: one warning, however many settings read it
    for row in rows():
        value, origin = row.field.get_default(call_default_factory=True), "default"
        if written is not None and row.name in places:
            value, origin = _value(written, row.name), places[row.name]
        else:
            name = next((name for name in row.env if environ.get(name, "").strip()), None)
            if name is not None:
                parsed = _from_environment(environ[name].strip(), row.field)
                if parsed is None:
                    warnings[name] = f"environment variable {name}: {_cannot(environ[name], row.field)}"
                else:
                    value, origin = parsed, f"environment {name}"
        sourced[row.name] = Sourced(value=value, origin=origin)
        _put(resolved, row.name.split("."), value)
    return Settings.model_validate(resolved), sourced, list(warnings.values())


def _value(settings: BaseModel, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _is_number(field: FieldInfo) -> bool:
    return field.annotation is int or field.annotation == int | None


def _bounds(field: FieldInfo) -> tuple[float, float]:
    low = next((m.ge for m in field.metadata if hasattr(m, "ge")), -math.inf)
    high = next((m.le for m in field.metadata if hasattr(m, "le")), math.inf)
    return low, high


def _from_environment(text: str, field: FieldInfo) -> Any:
    """The value that a variable's text means, or None when it means nothing (`ST` section 13)."""
    if field.annotation is bool:
        return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
    if _is_number(field):
        try:
            number = float(text)
        except ValueError:
            return None
        if not math.isfinite(number) or number < 0:
            return None
        low, high = _bounds(field)
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("clamp"):
            number = min(max(number, low), high)
        return int(number) if low <= number <= high else None
    if get_origin(field.annotation) is list:
        return [] if text.lower() in _NOTHING else [word for part in text.split(",") if (word := part.strip().lower())]
    return text if text in get_args(field.annotation) else None


def _cannot(text: str, field: FieldInfo) -> str:
    if field.annotation is bool:
        wanted = "true or false"
    elif _is_number(field):
        low, high = _bounds(field)
        wanted = f"a number from {low} to {high}"
    else:
        wanted = " or ".join(str(word) for word in get_args(field.annotation))
    return f"{shown(text)} is not {wanted}. The default is used."
