"""The four API formats: how each speaks, what its frames mean, how it says that something went wrong.

`dialect(name)` is the only door. Everything behind it is pure: bytes and values in, values and bytes out.
"""

from __future__ import annotations

from omniroute_addon.model import DialectName

from .anthropic import Anthropic
from .base import Dialect
from .frames import (
    BodyProblem,
    CallFacts,
    ClientError,
    Frame,
    FrameClass,
    Framing,
    StreamEnd,
    StreamFault,
)
from .gemini import Gemini
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .reader import StreamReader

__all__ = [
    "BodyProblem",
    "CallFacts",
    "ClientError",
    "Dialect",
    "Frame",
    "FrameClass",
    "Framing",
    "StreamEnd",
    "StreamFault",
    "StreamReader",
    "dialect",
]

_DIALECTS: dict[DialectName, Dialect] = {it.name: it for it in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini())}


def dialect(name: DialectName) -> Dialect:
    """The dialect of that name."""
    return _DIALECTS[name]
