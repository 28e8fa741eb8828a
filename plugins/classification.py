"""Failure classification: asks the `classify` rules of the packs what a failed answer means (`spec/05`)."""

from __future__ import annotations

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import Answer, ModelCall, Restatement, Target, Verdict


class FailureClassification:
    """Holds nothing but the way to the rule book, which is replaced on a reload."""

    def __init__(self) -> None:
        self._core: Core | None = None

    @hookimpl
    def start(self, core: Core) -> None:
        self._core = core

    @hookimpl(trylast=True)
    def classify(
        self, call: ModelCall, target: Target, answer: Answer, restatement: Restatement | None, now: float
    ) -> Verdict:
        assert self._core
        return self._core.rules.classify(
            answer,
            provider=target.connection.provider,
            dialect=call.dialect,
            restatement=restatement,
            now=now,
        )


plugin = FailureClassification()
