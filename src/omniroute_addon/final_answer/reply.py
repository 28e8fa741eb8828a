"""The answer itself: the upstream's bytes where they are true and fit, else our own in the client's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniroute_addon.dialects import ClientError
from omniroute_addon.exchange import Exchange, RawAnswer, Reply
from omniroute_addon.model import Attempt, Restatement, Story
from omniroute_addon.wire import Headers

from .codes import CODES
from .diagnostics import diagnostics
from .form import Put, put
from .stories import MAY_WAIT, about_a_key_of_ours, earliest_way_out, most_useful, of_a_pool, others_rest
from .words import at, sentence, time_of

_DROPPED = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"content-length", b"upgrade"}
)
_RETRY_HEADERS = (b"retry-after", b"retry-after-ms")
_LIMIT_HEADERS = (b"anthropic-ratelimit-", b"x-ratelimit-", b"x-codex-")
_SHOULD_RETRY = b"x-should-retry"
"""What the SDKs of OpenAI and Anthropic obey; an upstream means its own connection only."""


def final_reply(ex: Exchange, now: float, *, survival: bool = True) -> Reply:
    """The last answer for a call that no target served. `now` is epoch seconds; `survival`: as the client's profile says."""
    story = most_useful(ex)
    wait_s = earliest_way_out(ex, now)
    telling = _Telling(ex, now, wait_s, survival)
    if story is None or others_rest(ex, story):
        return _nobody(telling)
    if about_a_key_of_ours(story):
        return telling.ours(status=503, code="connections_rejected", story=story, ends=False)
    raw = ex.raw.get(story.attempt.number)
    if raw is None:
        if story.verdict.kind == "timeout":
            return telling.ours(status=504, code="upstream_timeout", story=story)
        code = "upstream_unreachable" if story.verdict.kind == "network" else "upstream_error"
        return telling.ours(status=max(story.verdict.status, 500), code=code, story=story)
    return telling.theirs(story, raw)


def _nobody(telling: _Telling) -> Reply:
    """Nothing else can be tried. Only what ends by itself is a 429: an agent must not come back for ever to what does not."""
    exclusions = telling.ex.exclusions
    if not exclusions:
        return telling.ours(status=503, code="no_connection", ends=False)
    if any(e.until is not None for e in exclusions):
        return telling.ours(status=429, code="all_targets_cooling_down")
    return telling.ours(status=503, code="all_targets_excluded", ends=False)


class _Telling:
    """One final answer in the making."""

    def __init__(self, ex: Exchange, now: float, wait_s: float | None, survival: bool) -> None:
        self.ex, self.now, self.wait_s, self.survival = ex, now, wait_s, survival

    def theirs(self, story: Story, raw: RawAnswer) -> Reply:
        """The upstream's bytes; where its status lied, its words in the shape that belongs to the true status (`SR-21`)."""
        verdict = story.verdict
        again = verdict.retry_other
        form = self._put(verdict.status, again=again, ends=not verdict.terminal)
        lied = verdict.status != raw.status or (verdict.kind == "context_overflow" and raw.status >= 500)
        if lied or (form.ours and again):
            # Who is told to stop is told the limit's own figures, too (`A25`); who is to come back, ours alone.
            told_all = form.status == raw.status and form.form is self.ex.profile.far
            return self.ours(
                status=verdict.status,
                story=story,
                message=verdict.message,
                ends=not verdict.terminal,
                again=again,
                limits=_limits(raw) if told_all else (),
            )
        headers = [(k, v) for k, v in raw.headers if k.lower() not in _DROPPED]
        if of_a_pool(self.ex) and again and verdict.status in MAY_WAIT:
            headers = self._timed(headers, form)
        headers.append((b"content-length", str(len(raw.body)).encode()))
        return Reply(
            status=verdict.status,
            headers=(*headers, *_story_marks(self.ex, story)),
            body=raw.body,
            attempt=story.attempt.number,
        )

    def _timed(self, headers: list[tuple[bytes, bytes]], form: Put) -> list[tuple[bytes, bytes]]:
        said = next((v for k, v in headers if k.lower() == b"retry-after"), None)
        shown = form.retry_after_s
        if not form.form.retry_after or (shown is not None and _sooner(said, shown, self.ex)):
            headers = [(k, v) for k, v in headers if k.lower() not in _RETRY_HEADERS]
            headers += [(b"retry-after", str(shown).encode())] if shown is not None else []
        if self.survival:
            headers = [(k, v) for k, v in headers if k.lower() != _SHOULD_RETRY]
        return [*headers, *_fields(form)]

    def ours(
        self,
        *,
        status: int,
        code: str = "",
        story: Story | None = None,
        message: str = "",
        ends: bool = True,
        again: bool = True,
        limits: Headers = (),
    ) -> Reply:
        """An error of our own. `again`: another try may help, so the time is worth saying."""
        form = self._put(status, again=again, ends=ends)
        ex, words = self.ex, message or sentence(self.ex, code or "upstream_error", story)
        if form.form.brief:
            words = CODES[code or ("upstream_error" if form.told_s is None else "all_targets_cooling_down")]
        if form.told_s is not None and of_a_pool(ex):
            words = f"{words.rstrip('. ')}. {time_of(form.told_s, self.now)}"
        limited = form.status == 429
        error = ex.dialect.shown(
            ClientError(
                status=form.status,
                type=form.form.type if limited else "",
                code=(limited and form.form.code) or code,
                kind=story.verdict.kind if story else "",
                message=words,
                retry_after_s=form.told_s,
                diagnostics=diagnostics(ex, code, self.wait_s, self.now) if code and not form.form.brief else None,
                extra=self._times(form) if form.told_s is not None and of_a_pool(ex) and not form.form.brief else {},
                details=form.form.details if limited else (),
            )
        )
        body = ex.dialect.error_body(error)
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        if form.retry_after_s is not None and error.status in MAY_WAIT:
            headers.append((b"retry-after", str(form.retry_after_s).encode()))
        return Reply(
            status=error.status, headers=(*headers, *limits, *_fields(form), *_story_marks(ex, story)), body=body
        )

    def _put(self, status: int, *, again: bool, ends: bool) -> Put:
        return put(
            self.ex, status=status, wait_s=self.wait_s if again else None, ends=ends, survival=self.survival and again
        )

    def _times(self, form: Put) -> Mapping[str, Any]:
        """The true time once more, for programs (`CT-118`). A client that reads the type reads these two beside it."""
        assert form.told_s is not None
        free = at(form.told_s, self.now)
        seconds = max(1, int(free.timestamp() - self.now))
        times: dict[str, Any] = {"retry_after": seconds, "reset_at": f"{free:%Y-%m-%dT%H:%M:%SZ}"}
        if form.form.type:
            times |= {"resets_at": int(free.timestamp()), "resets_in_seconds": seconds}
        return times


def _sooner(said: bytes | None, wait_s: int, ex: Exchange) -> bool:
    """The upstream's own `Retry-After` stands unless it said none, or another connection is free earlier."""
    if said is None:
        return True
    if len({s.attempt.target.connection.id for s in ex.stories}) + len(ex.exclusions) < 2:
        return False
    try:
        return wait_s < float(said)
    except ValueError:
        return False


def _limits(raw: RawAnswer) -> Headers:
    """What the upstream says of its limits in headers: its figures and when they begin anew."""
    return tuple((k, v) for k, v in raw.headers if k.lower().startswith(_LIMIT_HEADERS))


def _fields(form: Put) -> Headers:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in form.form.headers.items())


def marks(ex: Exchange, attempt: Attempt | None, restatement: Restatement | None = None) -> Headers:
    """Response headers that say where an answer came from (`design.md` §8)."""
    out = [(b"x-omniroute-attempts", str(ex.attempts).encode())]
    if ex.id:
        out.append((b"x-omniroute-request", ex.id.encode()))
    if attempt is not None:
        out.append((b"x-omniroute-connection", attempt.target.connection.id.encode()))
    if restatement is not None:
        out.append((b"x-omniroute-restated-from", str(restatement.from_status).encode()))
    return tuple(out)


def _story_marks(ex: Exchange, story: Story | None) -> Headers:
    return marks(ex, story.attempt, story.verdict.restatement) if story else marks(ex, None)


def broken_engine(ex: Exchange) -> Reply:
    """Our own fault, told honestly in the client's dialect. Nothing is asked of the engine for this call any more."""
    ex.final = True
    return _Telling(ex, 0.0, None, survival=False).ours(status=502, code="internal_error", again=False)
