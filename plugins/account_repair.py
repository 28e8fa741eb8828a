"""Account repair: a history that another account refuses is sent once more without what only the first one can read (`A29`).

Signed and encrypted thoughts belong to the account that made them. When a call moves to another connection, that one may
refuse them; the conversation is whole without them, so they are taken out and the request goes out once more. Only this
call's copy changes: the client keeps its history, and its own account sees it unchanged.
"""

from __future__ import annotations

from omniroute_addon import hookimpl
from omniroute_addon.dialects import dialect
from omniroute_addon.model import ModelCall, Verdict


@hookimpl
def repair(call: ModelCall, verdict: Verdict, body: bytes) -> bytes | None:
    if verdict.repair != "signed_reasoning":
        return None
    return dialect(call.dialect).without_signed_reasoning(body)
