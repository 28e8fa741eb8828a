"""Account repair: what belongs to one account stays behind when a conversation moves to another (`A29`, `clients.md` 11).

Two things do. Some headers repeat what the last answer gave the client (`x-codex-turn-state`); they go back to the
connection that gave it, and to no other. And signed or encrypted thoughts in the history: when the new account refuses
them, the conversation is whole without them, so they are taken out and the request goes out once more. Only this call's
copy changes: the client keeps its history, and its own account sees it unchanged.
"""

from __future__ import annotations

from collections import OrderedDict

from omniroute_addon import hookimpl
from omniroute_addon.dialects import dialect
from omniroute_addon.model import Attempt, ModelCall, Verdict

REMEMBERED = 4096
"""Conversations; of the longest silent one it is then unknown where it was. In memory only: a turn outlives no restart."""


class AccountRepair:
    """The mechanism."""

    def __init__(self) -> None:
        self._homes: OrderedDict[tuple[str, str], str] = OrderedDict()
        """Provider and session -> connection that answered last."""

    @hookimpl
    def bound(self, call: ModelCall) -> str | None:
        return self._homes.get((call.provider, call.session)) if call.session else None

    @hookimpl
    def succeeded(self, call: ModelCall, attempt: Attempt) -> None:
        if call.session:
            self._homes[call.provider, call.session] = attempt.target.connection.id
            self._homes.move_to_end((call.provider, call.session))
            if len(self._homes) > REMEMBERED:
                self._homes.popitem(last=False)

    @hookimpl
    def repair(self, call: ModelCall, verdict: Verdict, body: bytes) -> bytes | None:
        if verdict.repair != "signed_reasoning":
            return None
        return dialect(call.dialect).without_signed_reasoning(body)


plugin = AccountRepair()
