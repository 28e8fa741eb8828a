"""A request's life: who is asked, in which order, and what follows from the answers.

The engine is synchronous and pure: it reads an injected clock, asks plugins, and returns the next step. It never waits,
sends or receives; `stream.py` does that and comes back. The loop of `design.md` §3 (exclude → order → admit → prepare →
… → learn → next) is `advance` and `failed`, called in turn until `advance` says `Reply` or the stream has committed.

Nothing here knows a mechanism by name. What the engine itself decides:

* Rotation among targets is bounded by their number; each is left for good once it failed (`A24`).
* One retry budget a call pays for tries in place. A verdict says whether a try in place is worth it (`A07`).
* A server fault (500, 502, 503, 504) belongs to the provider: other keys at the same address are not asked (`A24`).
* The client's own credential is never refused locally: when nothing else is left it is sent, whatever a timer says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from urllib.parse import urlsplit

from .consequences import by_status, holds_for_the_address, origin
from .core import Core
from .deadlines import Deadlines
from .dialects import dialect
from .exchange import Exchange, Pause, RawAnswer, Reply, Send, Step
from .final_answer import final_reply
from .model import (
    Answer,
    Attempt,
    Auth,
    Connection,
    Exclusion,
    ModelCall,
    Secret,
    Story,
    Target,
    Verdict,
)
from .peers import is_loopback
from .plugin_host import PluginHost
from .quoted import unquoted
from .watch import Watch
from .wire import (
    SECRET_HEADERS,
    Incoming,
    Outgoing,
    as_mapping,
    client_secret,
    decoded_body,
    outgoing,
    visible_headers,
)

log = logging.getLogger(__name__)

_UNREACHABLE = ("network", "timeout")
"""Tried in place only when nothing else is left: a dead address stays dead for longer than a pause."""
NOT_ADMITTED = "not_admitted"
"""Label of a target that a permit refused."""
_MAX_WAITS = 100
"""Rounds of the hook `wait` in one call: a plugin that always says 'in 0 s' must not spin for ever."""


class Engine:
    """Decides; see the module's text. Raises nothing for any input: what cannot be understood is not ours."""

    def __init__(self, core: Core, plugins: PluginHost) -> None:
        self.core = core
        self.plugins = plugins
        self.verified_tls = True
        """mitmproxy checks upstream certificates; without that no configured credential leaves (design.md §7.4)."""
        self.warming: Callable[[], list[Awaitable[None]]] = list
        """What a request waits for before its first choice: the state, as long as it is being read."""

    # ------------------------------------------------------------ tls, identify, resolve

    def decrypts(self, host: str, port: int) -> bool:
        """Whether TLS to this host is opened: a plugin says so, or a pack names it."""
        answer = self.plugins.first("intercept", host=host, port=port)
        return bool(answer) if answer is not None else self.core.packs.for_host(host, port) is not None

    def is_ours(self, method: str, host: str, port: int, path: str) -> bool:
        """Might be a model call: a POST to a door of a known provider. Cheap; runs for every request."""
        return method == "POST" and self.core.packs.match_call(host, port, path) is not None

    def identify(self, incoming: Incoming, *, host: str, peer: str | None, trusted: bool) -> Exchange | None:
        """The exchange for a model call, or None for everything that passes as without us.

        `host` is the name that the client meant (in transparent mode `incoming.host` is an address).
        """
        found = self.core.packs.match_call(host, incoming.port, incoming.path) if incoming.method == "POST" else None
        if found is None:
            return None
        (provider, endpoint), now = found, self.core.clock.now()
        speech = dialect(endpoint.dialect)
        try:
            body = decoded_body(incoming)
            facts = speech.read_call(path=incoming.path, body=body)
        except ValueError as error:
            # The provider's own words about a malformed request are better than ours (A21).
            log.info("not a readable %s request to %s, passed on as it is: %s", endpoint.dialect, host, error)
            return None
        call = ModelCall(
            provider=provider.id,
            dialect=endpoint.dialect,
            model=facts.model,
            stream=facts.stream,
            session=facts.session,
            tools=facts.tools,
            history_items=facts.history_items,
            body_bytes=len(body),
            client=peer,
            trusted=trusted,
        )
        if self.plugins.listens("identify"):
            seen = {k: v for k, v in as_mapping(incoming.headers).items() if k.encode() not in SECRET_HEADERS}
            call = self.plugins.first("identify", call=call, headers=seen) or call
        return Exchange(
            call=call,
            incoming=incoming,
            body=body,
            dialect=speech,
            model_in_path=facts.model_in_path,
            targets=self._resolve(call, incoming, host, endpoint.auth or provider.auth),
            started_at=now,
            deadline_at=now + self.core.config.settings.deadline_ms / 1000,
            permits=self.warming(),
        )

    def _resolve(self, call: ModelCall, incoming: Incoming, host: str, auth: Auth) -> tuple[Target, ...]:
        secret = client_secret(incoming)
        connection = _own_connection(call.provider, secret)
        # Without the query, which may hold the credential; by name, so that the provider's own door is known as such.
        name = f"[{host}]" if ":" in host else host
        url = f"{incoming.scheme}://{name}:{incoming.port}{incoming.path.partition('?')[0]}"
        own = Target(connection=connection, dialect=call.dialect, url=url, model=call.model, auth=auth)
        if not call.trusted:
            return (own,)
        targets = self.core.config.targets_for(call, own, self.core.packs) or (own,)
        return tuple(self.plugins.first("resolve", call=call, targets=targets) or ()) or targets

    # ------------------------------------------------------------ exclude, order, admit, prepare

    def advance(self, ex: Exchange) -> Step:
        """What to do now. Called at the start, after a pause, and after `failed`."""
        if ex.permits:
            return Pause(permit=ex.permits.pop(0))
        now = self.core.clock.now()
        target, ex.admitted = ex.admitted, None
        if target is None:
            if ex.pause_s:
                seconds, ex.pause_s = ex.pause_s, 0.0
                return Pause(seconds=seconds)
            late = bool(ex.stories) and now >= ex.deadline_at
            target = None if ex.final or late else self._choose(ex, now)
            if target is None:
                return self._wait(ex, now) or self._last_word(ex, now)
            permits = self.plugins.each("admit", call=ex.call, target=target, now=now)
            if permits:
                ex.admitted, ex.permits = target, permits
                return self.advance(ex)
        return self._send(ex, target, now)

    def not_admitted(self, ex: Exchange, reason: str) -> None:
        """A permit was refused: pass the target by."""
        if ex.admitted is not None:
            ex.spent.add(ex.admitted.key)
            ex.exclusions += (Exclusion(target=ex.admitted, label=NOT_ADMITTED, detail=reason),)
        ex.admitted = None
        _let_go(ex.permits)

    def _choose(self, ex: Exchange, now: float) -> Target | None:
        if ex.again is not None:
            target, ex.again = ex.again, None
            return target
        left = [t for t in ex.targets if t.key not in ex.spent]
        if left:
            answers = self.plugins.each("exclude", call=ex.call, targets=tuple(left), now=now)
            refused = (e for e in ex.exclusions if e.label == NOT_ADMITTED)
            ex.exclusions = (*refused, *self._insecure(left), *(e for answer in answers for e in answer))
            barred = {e.target.key for e in ex.exclusions}
            usable = tuple(t for t in left if t.key not in barred)
            if usable:
                return self._order(ex.call, usable, now)
            own = next((t for t in left if t.connection.own), None)
            if own is not None:
                return own
        verdict = ex.last_verdict
        if verdict and verdict.kind in _UNREACHABLE and self._may_try_in_place(ex, verdict):
            self._in_place(ex, verdict)
        return None

    def _insecure(self, targets: Sequence[Target]) -> list[Exclusion]:
        """A configured credential travels over verified TLS, or to this machine, or with the operator's consent."""
        if self.verified_tls:
            return []
        return [
            Exclusion(
                target=t, label="unverified_tls", detail="ssl_insecure is on; say `allow_insecure: true` to consent"
            )
            for t in targets
            if not t.connection.own
            and not t.connection.allow_insecure
            and not is_loopback(urlsplit(t.url).hostname or "")
        ]

    def _order(self, call: ModelCall, usable: Sequence[Target], now: float) -> Target:
        if len(usable) > 1:
            ordered = self.plugins.first("order", call=call, targets=usable, now=now)
            first: Target | None = next((t for t in ordered or () if t in usable), None)
            if first is not None:
                return first
        return usable[0]

    def _last_word(self, ex: Exchange, now: float) -> Reply:
        reply = final_reply(ex, now)
        log.info(
            "gave up: provider=%s model=%s attempts=%d status=%d %s",
            *(ex.call.provider, _on_one_line(ex.call.model), ex.attempts, reply.status),
            " ".join(f"{e.target.connection.id}={e.label}" for e in ex.exclusions),
        )
        return reply

    def _wait(self, ex: Exchange, now: float) -> Pause | None:
        if ex.pause_s:
            seconds, ex.pause_s = ex.pause_s, 0.0
            return Pause(seconds=seconds)
        if ex.final or now >= ex.deadline_at or ex.waits >= _MAX_WAITS:
            return None
        seconds = self.plugins.first("wait", call=ex.call, exclusions=ex.exclusions, now=now)
        if seconds is None:
            return None
        ex.waits += 1
        return Pause(seconds=max(0.0, min(float(seconds), ex.deadline_at - now)))

    def _send(self, ex: Exchange, target: Target, now: float) -> Send:
        tries = 1 + sum(s.attempt.target.key == target.key for s in ex.stories)
        ex.attempt = Attempt(number=ex.attempts + 1, target=target, tries=tries, started_at=now)
        return Send(attempt=ex.attempt, outgoing=self._prepare(ex, target), alternatives=self._alternatives(ex, target))

    def watch(self, ex: Exchange, step: Send) -> Watch:
        """The watch over the answer to this attempt."""
        deadlines = Deadlines(
            call=ex.call,
            settings=self.core.config.settings,
            started_at=step.attempt.started_at,
            call_deadline_at=ex.deadline_at,
            alternatives=step.alternatives,
        )
        return Watch(dialect=ex.dialect, deadlines=deadlines, trusted=self._native(step.attempt.target))

    def _native(self, target: Target) -> bool:
        """The provider's own door, over verified TLS: no gateway, no `base_url` (`ST-63`)."""
        provider = self.core.packs.providers.get(target.connection.provider)
        url = urlsplit(target.url)
        if (
            provider is None
            or url.scheme != "https"
            or not self.verified_tls
            or "passthrough_models" in provider.traits
        ):
            return False
        found = self.core.packs.match_call(url.hostname or "", url.port or 443, url.path)
        return found is not None and found[0].id == provider.id

    def _prepare(self, ex: Exchange, target: Target) -> Outgoing:
        incoming = ex.incoming
        # Another provider need not know the client's coding (Codex sends zstd), so it gets the plain text.
        as_sent = not ex.repaired and (target.connection.own or incoming.body == ex.body)
        body = incoming.body if as_sent else ex.body
        if not target.connection.own and (target.model != ex.call.model or ex.model_in_path):
            _, body = ex.dialect.rename_model(path=incoming.path, body=ex.body, model=target.model)
        changes = self._changes(ex, target) if self.plugins.listens("prepare") else None
        return outgoing(incoming, target=target, body=body, stream=ex.call.stream, changes=changes)

    def _changes(self, ex: Exchange, target: Target) -> Mapping[str, str | None]:
        before = as_mapping(visible_headers(ex.incoming, target=target))
        after = dict(before)
        self.plugins.each("prepare", call=ex.call, target=target, headers=after)
        forbidden = {"host", "content-length", "content-encoding", "transfer-encoding", "connection"}
        changed = {k.lower(): v for k, v in after.items() if before.get(k) != v and k.lower() not in forbidden}
        return {**dict.fromkeys(before.keys() - after.keys()), **changed}

    def _alternatives(self, ex: Exchange, target: Target) -> bool:
        others = (t for t in ex.targets if t.key not in ex.spent and t.key != target.key)
        barred = {e.target.key for e in ex.exclusions}
        return any(t.key not in barred for t in others)

    # ------------------------------------------------------------ restate, classify, learn, next

    def failed(self, ex: Exchange, answer: Answer, raw: RawAnswer | None) -> Verdict:
        """An attempt ended badly before anything of it was shown. Decides what `advance` will say next."""
        assert ex.attempt
        answer, raw = unquoted(ex.attempt.target.connection, answer, raw)
        verdict = self._learn(ex, answer)
        if raw is not None:
            ex.raw[ex.attempt.number] = raw
        ex.last_verdict = verdict
        target = ex.attempt.target
        if self._repaired(ex, verdict) or self._tried_in_place(ex, verdict, answer):
            return verdict
        ex.final = not verdict.retry_other
        ex.spent.add(target.key)
        if verdict.scope in ("connection", "egress_ip"):
            ex.spent |= {t.key for t in ex.targets if t.connection.id == target.connection.id}
        if holds_for_the_address(verdict, answer):
            ex.spent |= {t.key for t in ex.targets if origin(t) == origin(target)}
        return verdict

    def _repaired(self, ex: Exchange, verdict: Verdict) -> bool:
        """Once per call, the same target may be sent a request that suits it better (`A29`)."""
        assert ex.attempt
        if ex.repaired or verdict.repair is None:
            return False
        target = ex.attempt.target
        body = self.plugins.first("repair", call=ex.call, target=target, verdict=verdict, body=ex.body)
        if body is None:
            return False
        ex.repaired, ex.body, ex.again = True, body, target
        return True

    def _tried_in_place(self, ex: Exchange, verdict: Verdict, answer: Answer) -> bool:
        """An HTTP status that says 'try again' is tried in place; what we found wrong ourselves goes elsewhere at once."""
        said = answer.fault is None and answer.phase != "stream" and verdict.kind not in _UNREACHABLE
        if not (said and verdict.retry_same and self._may_try_in_place(ex, verdict)):
            return False
        self._in_place(ex, verdict)
        return True

    def stale(self, ex: Exchange) -> None:
        """The upstream had closed a kept-alive connection before our request reached it: nobody's failure, send again."""
        assert ex.attempt
        ex.again = ex.attempt.target

    def _judge(self, ex: Exchange, answer: Answer, now: float) -> Verdict:
        assert ex.attempt
        target = ex.attempt.target
        restatement = self.plugins.first("restate", call=ex.call, target=target, answer=answer)
        verdict: Verdict | None = self.plugins.first(
            "classify", call=ex.call, target=target, answer=answer, restatement=restatement, now=now
        )
        return verdict if verdict is not None else by_status(answer)

    def _learn(self, ex: Exchange, answer: Answer) -> Verdict:
        assert ex.attempt
        now = self.core.clock.now()
        verdict = self._judge(ex, answer, now)
        story = Story(attempt=ex.attempt, answer=replace(answer, body=b""), verdict=verdict, ended_at=now)
        ex.stories.append(story)
        if verdict.scope != "request":
            with self.core.store.transaction():  # `FC-92`: all effects of one failure, or none
                self.plugins.each("failed", call=ex.call, story=story, now=now)
        log.info(
            "attempt failed: provider=%s model=%s connection=%s attempt=%d status=%s kind=%s scope=%s rule=%s",
            *(ex.call.provider, _on_one_line(ex.call.model), ex.attempt.target.connection.id, ex.attempt.number),
            *(answer.status or answer.fault, verdict.kind, verdict.scope, verdict.rule.id),
        )
        return verdict

    def _may_try_in_place(self, ex: Exchange, verdict: Verdict) -> bool:
        settings = self.core.config.settings
        return ex.in_place < settings.retries_in_place and _hint_s(verdict) * 1000 <= settings.retry_pause_max_ms

    def _in_place(self, ex: Exchange, verdict: Verdict) -> None:
        assert ex.attempt
        settings, clock = self.core.config.settings, self.core.clock
        ladder = min(settings.retry_pause_ms * 2**ex.in_place, settings.retry_pause_max_ms) / 1000
        ex.in_place += 1
        ex.pause_s = max(_hint_s(verdict), ladder / 2) + clock.chance() * ladder / 2
        ex.again = ex.attempt.target

    # ------------------------------------------------------------ after commit, finish

    def failed_after_commit(self, ex: Exchange, answer: Answer) -> Verdict:
        """The answer broke, or carried an error, while the client was reading: for the record only (`ST-35`)."""
        assert ex.attempt
        return self._learn(ex, unquoted(ex.attempt.target.connection, answer, None)[0])

    def finish(self, ex: Exchange, *, status: int, good: bool) -> None:
        """The request is over (`ST-124`): exactly once, whatever ended it. `good`: the running attempt ended well."""
        if ex.finished:
            return
        ex.finished, ex.status = True, status
        _let_go(ex.permits)
        now = self.core.clock.now()
        if good and ex.attempt is not None:
            if ex.stories:
                told = (ex.call.provider, _on_one_line(ex.call.model), ex.attempt.target.connection.id, ex.attempts)
                log.info("answered after failures: provider=%s model=%s connection=%s attempts=%d", *told)
            self.plugins.each("succeeded", call=ex.call, attempt=ex.attempt, now=now)
        self.plugins.each("finish", call=ex.call, stories=tuple(ex.stories), status=status, now=now)


def _let_go(permits: list[Awaitable[None]]) -> None:
    """Permits that nobody will wait for: a task is cancelled, so that it does not take what it queues for."""
    while permits:
        permit = permits.pop()
        end = getattr(permit, "cancel", None) or getattr(permit, "close", None)
        if end is not None:
            end()


def _on_one_line(text: str) -> str:
    """A client's word for the log, where a line break would begin a line of its own."""
    return "".join(c if c.isprintable() else "?" for c in text[:200])


def _hint_s(verdict: Verdict) -> float:
    return verdict.retry_after.seconds if verdict.retry_after else 0.0


@lru_cache(maxsize=1024)
def _own_connection(provider: str, secret: Secret | None) -> Connection:
    """The client's own credential is a connection, too."""
    return Connection(id=f"client:{secret.digest}" if secret else "client", provider=provider, secret=secret, own=True)
