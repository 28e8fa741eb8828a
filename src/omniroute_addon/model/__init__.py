"""The values that travel through a request's life.

Everything here is frozen, keyword-only and free of behaviour that needs a clock, a network or a disk. Units are in the
names (`_ms`, `_s`, `_at`, `_bytes`); a point in time is epoch seconds as a float, read from the injected clock.
"""

from __future__ import annotations

from .answers import Answer, Restatement, RetryAfter, RuleRef, Story, Verdict
from .calls import Attempt, Exclusion, ModelCall, Target
from .clients import AnswerForm, ClientProfile, ClientRetries, ClientStart, ClientWaits, KeepAlive, StreamEnding
from .parties import Auth, Connection, Endpoint, Login, Provider, Secret
from .timers import Cleared, Part, ResetOrder, Timer
from .words import DIALECTS, KINDS, SCOPES, Category, DialectName, Kind, Phase, Repair, Scope

__all__ = [
    "DIALECTS",
    "KINDS",
    "SCOPES",
    "Answer",
    "AnswerForm",
    "Attempt",
    "Auth",
    "Category",
    "Cleared",
    "ClientProfile",
    "ClientRetries",
    "ClientStart",
    "ClientWaits",
    "Connection",
    "DialectName",
    "Endpoint",
    "Exclusion",
    "KeepAlive",
    "Kind",
    "Login",
    "ModelCall",
    "Part",
    "Phase",
    "Provider",
    "Repair",
    "ResetOrder",
    "Restatement",
    "RetryAfter",
    "RuleRef",
    "Scope",
    "Secret",
    "Story",
    "StreamEnding",
    "Target",
    "Timer",
    "Verdict",
]
