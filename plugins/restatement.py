"""Status restatement: asks the `restate` rules of the packs whether a failed answer's status is a lie (`spec/06`)."""

from __future__ import annotations

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import Answer, ModelCall, Restatement, Target


class StatusRestatement:
    """Holds nothing but the way to the rule book, which is replaced on a reload."""

    def __init__(self) -> None:
        self._core: Core | None = None

    @hookimpl
    def start(self, core: Core) -> None:
        self._core = core

    @hookimpl(trylast=True)
    def restate(self, call: ModelCall, target: Target, answer: Answer) -> Restatement | None:
        assert self._core
        return self._core.rules.restate(answer, provider=target.connection.provider, dialect=call.dialect)


plugin = StatusRestatement()
