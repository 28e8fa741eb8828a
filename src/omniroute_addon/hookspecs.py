"""The contract for plugin authors: a request's life as questions, in the order in which they are asked.

A plugin is one Python file (in `plugins/`, in the user's plugin folder, or behind the entry point group `omniroute`).
It implements the questions that it has an opinion on, and nothing else:

    # ~/.config/omniroute/plugins/night_shift.py
    from omniroute_addon import hookimpl
    from omniroute_addon.model import Exclusion

    VERSION = "1.0"

    @hookimpl
    def exclude(call, targets, now):
        return [Exclusion(target=t, label="night_shift") for t in targets if t.connection.id == "office"]

What holds for every hook:

* Arguments are passed by name; take only those that you need. All values are frozen (`omniroute_addon.model`).
* Hooks are synchronous and must not block: no file, database or network call. Where an answer may be an awaitable, it says so.
* A hook that raises is logged with the plugin's name, its answer is skipped and the request goes on. After
  `plugins.max_faults` faults (default 10) in a row the plugin is quarantined; `omniroute plugins` shows it.
* Order: user's plugins before entry points before bundled ones; `@hookimpl(tryfirst=True)` and `trylast=True` move one.
* "First answer wins" stops at the first result that is not None. "All are merged" asks everybody.
* `now` is epoch seconds from the injected clock. Never read a clock of your own: tests turn theirs by hand.

A plugin module may also define `VERSION` (shown by `omniroute plugins`), and may be a class: `plugin = MyPlugin()` at
module level registers that object in place of the module, so that state lives in an instance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

from .model import (
    Answer,
    Attempt,
    Cleared,
    Exclusion,
    ModelCall,
    ResetOrder,
    Restatement,
    Story,
    Target,
    Timer,
    Verdict,
)

if TYPE_CHECKING:
    from .core import Core

PROJECT = "omniroute"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


# ---------------------------------------------------------------- life of the proxy


@hookspec
def start(core: Core) -> None:
    """Take what you need from the core: settings, packs, clock, rules. Called once per load, before any request.

    Everybody is asked. Called again, with the same `core`, after a configuration or pack reload, and when what the store
    remembers from before a restart has been read (a moment after the first call); keep your state.

        @hookimpl
        def start(core):
            state.settings = core.config.settings
    """


@hookspec
def stop() -> None:
    """Let go of what you hold. Called once when the proxy ends or the plugin is switched off. Everybody is asked."""


# ---------------------------------------------------------------- 1 tls


@hookspec(firstresult=True)
def intercept(host: str, port: int) -> bool | None:
    """Say whether a TLS connection to this host is decrypted. First answer wins; None leaves it to the packs.

    Not called with `omniroute_intercept=all`. A host that nobody claims passes through untouched, never decrypted.

        @hookimpl
        def intercept(host, port):
            return True if host.endswith(".corp.example") else None
    """


# ---------------------------------------------------------------- 2 identify


@hookspec(firstresult=True)
def upgrade(call: ModelCall, alternatives: bool) -> bool | None:
    """Say whether a client that opens a WebSocket at a model's door is asked to use HTTP instead. First answer wins.

    True answers it with 426 before anything is dialled; False or None lets the WebSocket pass, unwatched. `call` knows
    the door and who calls; its `model` is empty, because that comes later, inside the WebSocket. `alternatives`: the
    configuration has connections of this caller's that speak the door's dialect. Not called for any other request.

        @hookimpl
        def upgrade(call, alternatives):
            return alternatives and call.provider == "codex"
    """


@hookspec(firstresult=True)
def identify(call: ModelCall, headers: Mapping[str, str]) -> ModelCall | None:
    """Refine who is calling and for which session; the packs and dialects have filled in the rest.

    Runs once per model call, after the request body was read. Not called for anything that is not a model call.
    Header names are lower case; credential headers are not among them. First answer wins and replaces `call`.

        @hookimpl
        def identify(call, headers):
            return replace(call, session=headers["x-my-session"]) if "x-my-session" in headers else None
    """


# ---------------------------------------------------------------- 3 resolve


@hookspec(firstresult=True)
def resolve(call: ModelCall, targets: Sequence[Target]) -> Sequence[Target] | None:
    """Say which targets could serve the call. First answer wins and replaces `targets`.

    `targets` is what the configuration says: the connections of the matching route, else the provider's own, and the
    client's own credential last where it was allowed. All of them speak the call's dialect. An empty answer is ignored.

        @hookimpl
        def resolve(call, targets):
            return [t for t in targets if "free" not in t.connection.id] if call.tools else None
    """


# ---------------------------------------------------------------- 4 exclude


@hookspec
def exclude(call: ModelCall, targets: Sequence[Target], now: float) -> Sequence[Exclusion] | None:
    """Say which targets may not be used now, why, and until when. All answers are merged.

    Asked before every choice of a target, so also between two attempts of one call. The client's own credential, when
    it is the only target, is sent even if excluded: a request never ends worse than it would without the proxy.

        @hookimpl
        def exclude(call, targets, now):
            return [Exclusion(target=t, label="maintenance", until=1e10) for t in targets if t.connection.id == "b"]
    """


# ---------------------------------------------------------------- 5 order


@hookspec(firstresult=True)
def order(call: ModelCall, targets: Sequence[Target], now: float) -> Sequence[Target] | None:
    """Put the targets that are left into the order in which they are tried. First answer wins.

    Must return the same targets; one that is missing is appended at the end, one that is new is ignored. Without an
    answer: by `priority`, then as configured.

        @hookimpl
        def order(call, targets, now):
            return sorted(targets, key=lambda t: t.connection.weight, reverse=True)
    """


# ---------------------------------------------------------------- 6 admit


@hookspec
def admit(call: ModelCall, target: Target, now: float) -> Awaitable[None] | None:
    """Hold the attempt until it may go: a permit, a queue. Everybody is asked, one after the other.

    None admits at once. An awaitable is awaited while only this request pauses; it is cancelled when the client goes
    away. Raise `omniroute_addon.errors.NotAdmitted(reason)` in it to pass this target by. Give back in `finish`.

        @hookimpl
        def admit(call, target, now):
            return semaphore[target.connection.id].acquire()
    """


# ---------------------------------------------------------------- 7 prepare


@hookspec(firstresult=True)
def bound(call: ModelCall) -> str | None:
    """Say which connection gave the conversation its last answer: its id. First answer wins; None is unknown.

    Only what that account handed out may travel back to it, and to no other. Asked before `prepare`, for a request
    that repeats something of an answer in its headers (Codex's `x-codex-turn-state`); not for any other.

        @hookimpl
        def bound(call):
            return homes.get(call.session)
    """


@hookspec
def prepare(call: ModelCall, target: Target, headers: dict[str, str]) -> None:
    """Change the headers of the copy that goes on the wire: set, replace or delete in place. Everybody is asked.

    Runs once per attempt, after credential headers of the client were taken away, before those of the target are set:
    a plugin never sees a credential. Hop-by-hop headers, `host` and `content-length` are not yours to set.

        @hookimpl
        def prepare(call, target, headers):
            headers["x-team"] = "research"
    """


# ---------------------------------------------------------------- 8 watch, 9 restate, 10 classify


@hookspec(firstresult=True)
def restate(call: ModelCall, target: Target, answer: Answer) -> Restatement | None:
    """Say that the status of a failed answer is a lie, and what it should have been. First answer wins (`SR-1`).

    Runs once per failed attempt, also for an error inside a 200 that was found before commit, before `classify`.

        @hookimpl
        def restate(call, target, answer):
            if answer.status == 403 and b"allowance used" in answer.body: return Restatement(…, status=429)
    """


@hookspec(firstresult=True)
def classify(
    call: ModelCall, target: Target, answer: Answer, restatement: Restatement | None, now: float
) -> Verdict | None:
    """Say what a failed answer means, for whom, and for how long. First answer wins (`FC-1`).

    Runs once per failed attempt. `answer.status` is the upstream's own; a verdict's `status` is the corrected one.
    Without an answer the status alone decides.

        @hookimpl
        def classify(call, target, answer, restatement, now):
            return my_verdict if answer.status == 418 else None
    """


@hookspec(firstresult=True)
def repair(call: ModelCall, target: Target, verdict: Verdict, body: bytes) -> bytes | None:
    """The target refuses something in the request that belongs to another account: say what to send instead.

    Runs after `classify`, at most once per call gets an answer: the repaired body is sent once more to the same target,
    and if that fails the client gets that failure. `body` is decoded. First answer wins; None leaves the failure as it is.

        @hookimpl
        def repair(call, target, verdict, body):
            return body.replace(b'"beta":true,', b"") if "beta" in verdict.message else None
    """


# ---------------------------------------------------------------- 11 learn


@hookspec
def failed(call: ModelCall, story: Story, now: float) -> None:
    """Remember a failed attempt. Everybody is told, once per attempt, also for errors after commit (`ST-35`).

    Not called when the client went away (`FC-4`, `ST-126`), nor for verdicts of scope `request` (`A21`).

        @hookimpl
        def failed(call, story, now):
            streak[story.attempt.target.connection.id] += 1
    """


@hookspec
def succeeded(call: ModelCall, attempt: Attempt, now: float) -> None:
    """Remember a success. Everybody is told, once, when the answer has ended well (not when it was committed).

    Not called for an answer that broke on its way to the client: that is `failed`.

        @hookimpl
        def succeeded(call, attempt, now):
            streak.pop(attempt.target.connection.id, None)
    """


# ---------------------------------------------------------------- 12 next


@hookspec(firstresult=True)
def wait(
    call: ModelCall,
    targets: Sequence[Target],
    exclusions: Sequence[Exclusion],
    stories: Sequence[Story],
    waited: Sequence[float],
    patience_s: float | None,
    now: float,
) -> float | None:
    """Nothing can be used now: say how many seconds to wait before asking again. First answer wins; None gives up.

    Runs when every target is excluded or was tried. `exclusions` are those of all `targets`, tried or not, as of now;
    `stories` are the failed attempts of this call, `waited` its waits so far. `patience_s` is how long its client will
    wait still, None for ever. The deadline over all attempts bounds the wait. It holds no permit, ends when the client
    leaves, and afterwards every target that may have come back is looked at afresh (`CW-29`, `CW-31`, `CW-33`). After
    None the client's own credential is sent where it was only excluded; else the client gets the final answer.

        @hookimpl
        def wait(call, exclusions, now):
            soonest = min((e.until for e in exclusions if e.until), default=None)
            return soonest - now if soonest and soonest - now < 5 else None
    """


# ---------------------------------------------------------------- 13 finish


@hookspec
def finish(call: ModelCall, stories: Sequence[Story], status: int, now: float) -> None:
    """The request is over: release, account, log. Everybody is told, exactly once, whatever ended it (`ST-124`).

    `stories` are the failed attempts in order. `status` is what the client saw; 0 when it went away before an answer.

        @hookimpl
        def finish(call, stories, status, now):
            semaphore.release()
    """


# ---------------------------------------------------------------- for people: seeing and steering


@hookspec
def timers(now: float) -> Sequence[Timer] | None:
    """Show everything that you hold against a provider, a connection or a model. All answers are merged.

    Asked when a person looks (`omniroute status`, the management API), never for a request. Show what `exclude` would
    say, and what it soon may say; leave out what is over. Nothing in a row may hold a secret.

        @hookimpl
        def timers(now):
            return [Timer(part="connection", mechanism="night_shift", provider="x", connection="b", state="asleep")]
    """


@hookspec
def reset(order: ResetOrder, now: float) -> Sequence[Cleared] | None:
    """Forget what a person wants forgotten, and say what that was. All answers are merged.

    Runs inside one transaction of the store. Clear only what the order names: `part="provider"` is what you hold
    against a provider as a whole, `part="connection"` what you hold against a connection or its models, `part="model"`
    the locks of models, `part="all"` everything. What is terminal stays, unless `order.terminal` is set.

        @hookimpl
        def reset(order, now):
            if order.part not in ("connection", "all") or order.connections not in (None, {"b"}):
                return None
            awake.add("b")
            return [Cleared(part="connection", mechanism="night_shift", provider="x", connection="b")]
    """
