"""An answer, read once, in the form that rules ask about."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from omniroute_addon.model import Answer, Category

from .error_fields import ErrorFields, embedded_status, error_fields, fields_of_fragment, implied_status, is_error
from .event_stream import StreamFacts, read_stream
from .text_match import MAX_TEXT, Text

_BOM: Final = "\ufeff"
_ERROR_HEAD = re.compile(r'\s*[\[{]?\s*\{\s*"(?:error"|type"\s*:\s*"error")')
_HTML = re.compile(r"\s*(?:<!doctype html|<html|<head|<\?xml)", re.IGNORECASE)
_UNREAD_TAGS: Final = ("script", "style")
_ECHO = re.compile(r"(?i)\b(?:got|received|input_value|you (?:sent|provided)|but was)\b[:=]?\s*[\[{\"'`]")
_QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,400}'(?!\w)|(?<!\w)`[^`\n]{1,400}`(?!\w)")
_MAX_REFUSAL: Final = 16 * 1024
"""A refusal says why it refuses at once; what comes after this much is an echo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """Everything a rule may ask about one answer. Names are folded to lower case."""

    status: int
    """The true status: as restated, else as an error inside a 2xx says (502 when it says nothing), else as sent."""
    sent_status: int
    embedded: int | None
    """The status that an error inside a 2xx names."""
    headers: dict[str, str]
    document: Any
    """The JSON of the body (of a stream: of the deciding event), a single-member list unwrapped; None without one."""
    error: bool
    """The answer is an error, whatever its status."""
    codes: frozenset[str]
    types: frozenset[str]
    names: frozenset[str]
    params: frozenset[str]
    text: Text
    """The provider's words, one a line: messages, codes, types; of a body that is not JSON, the body."""
    message: str
    """The first message, as written."""
    html: bool
    stream: bool
    output: bool
    """Model output was seen in the stream."""
    cut: bool
    """The answer ends before its end: a stream without a terminal event, JSON that stops in the middle."""
    phase: str
    fault: str
    provider: str
    category: Category | None
    dialect: str

    @property
    def empty(self) -> bool:
        """The answer has no words at all."""
        return not self.text

    def with_status(self, status: int) -> AnswerView:
        """The same answer under its true status (`SR-2`)."""
        return replace(self, status=status)


def view(answer: Answer, *, provider: str | None, category: Category | None, dialect: str | None) -> AnswerView:
    """Read an answer. Never raises, whatever the bytes; looks at 64 KiB of them (of a stream also at the last 64)."""
    text = _text_of(answer)
    good = 200 <= answer.status < 300
    stream = StreamFacts()
    document: Any = None
    broken = False
    if answer.stream and good:
        stream = read_stream(text)
        document = stream.document
    else:
        document, broken = _parsed(text)
        if document is None and (answer.stream or text.lstrip().startswith(("data:", "event:"))):
            stream = read_stream(text)
            document = stream.document
    whole = len(answer.body) <= MAX_TEXT
    if stream.fragment:
        error, fields = True, fields_of_fragment(stream.fragment)
    elif document is None and broken:
        error = not good or (_ERROR_HEAD.match(text) is not None)
        fields = fields_of_fragment(text) if error else ErrorFields()
    elif document is None:
        html = _HTML.match(text) is not None
        error = not good or (html and not answer.stream)
        words = text if error and not (answer.stream and good) else ""
        fields = ErrorFields(messages=[_without_scripts(words) if html else words]) if words.strip() else ErrorFields()
    else:
        error = not good or stream.error or is_error(document)
        fields = error_fields(document) if error else ErrorFields()
    embedded = (embedded_status(document) or implied_status(fields)) if good and error else None
    status = answer.status if not (good and error) else embedded or 502
    if error and (kind := answer.headers.get("x-amzn-errortype")):
        fields.types.append(kind.partition(":")[0].strip())
    return AnswerView(
        status=status,
        sent_status=answer.status,
        embedded=embedded,
        headers=dict(answer.headers),
        document=document,
        error=error,
        codes=_names(fields.codes),
        types=_names(fields.types),
        names=_names(fields.names),
        params=_names(fields.params),
        text=Text(_words(fields, status)),
        message=next((message for message in fields.messages if message.strip()), ""),
        html=document is None and _HTML.match(text) is not None,
        stream=answer.stream,
        output=stream.output,
        cut=good and not error and _is_cut(answer, stream, broken=broken and whole),
        phase=answer.phase,
        fault=(answer.fault or "").lower(),
        provider=(provider or "").lower(),
        category=category,
        dialect=dialect or "",
    )


def _text_of(answer: Answer) -> str:
    body = answer.body
    if len(body) > MAX_TEXT:
        body = body[:MAX_TEXT] + (b"\n\n" + body[-MAX_TEXT:] if answer.stream else b"")
    return body.decode("utf-8", "replace").removeprefix(_BOM)


def _parsed(text: str) -> tuple[Any, bool]:
    """The JSON value, and whether the text begins as JSON but is none (cut off, or too long to be looked at whole)."""
    head = text.lstrip()[:1]
    if head not in ("{", "[", '"'):
        return None, False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None, head in ("{", "[")
    while isinstance(document, list) and len(document) == 1:
        document = document[0]
    return document, False


def _is_cut(answer: Answer, stream: StreamFacts, *, broken: bool) -> bool:
    if answer.stream:
        return answer.phase != "head" and not stream.ended
    return broken


def _names(values: list[str]) -> frozenset[str]:
    return frozenset(value.strip().lower() for value in values)


def _words(fields: ErrorFields, status: int) -> str:
    """The provider's words; of a refusal to read the request, without what it quotes of the request."""
    messages = "\n".join(dict.fromkeys(fields.messages))
    if status in (400, 422):
        messages = "\n".join(_without_echo(line) for line in messages[:_MAX_REFUSAL].split("\n"))
    return "\n".join([messages, *fields.codes, *fields.types, *fields.names]).strip()


def _without_scripts(page: str) -> str:
    """What a page says to people. One pass per tag; an unclosed tag hides the rest."""
    for tag in _UNREAD_TAGS:
        lowered = page.lower()
        if len(lowered) != len(page):  # a few letters change length; such a page is read as it is
            return page
        kept, at = [], 0
        while (start := lowered.find("<" + tag, at)) >= 0:
            kept.append(page[at:start])
            end = lowered.find("</" + tag, start)
            at = len(page) if end < 0 else end + len(tag) + 2
        page = " ".join([*kept, page[at:]])
    return page


def _without_echo(line: str) -> str:
    """A 400 quotes what it did not like; three or more words in quotes are the client's, not the provider's."""
    if "'error'" in line or "'message'" in line:
        return line  # another provider's error, printed as a Python mapping: all of its words are in quotes
    if found := _ECHO.search(line):
        line = line[: found.start()]
    return _QUOTED.sub(lambda match: match[0] if match[0].count(" ") < 2 else "''", line)
