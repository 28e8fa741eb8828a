"""What an error body itself says: its JSON documents, their fields, and the words that are the provider's own.

Providers echo requests in their errors, routers nest the errors of others, streams are cut off. So words are taken from
message fields only, never from fields that carry the request, and quoted material inside a message is cut out where it
may be the user's text. Everything looks at no more than 64 KiB and walks no more than a fixed number of fields.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from omniroute_addon.model import Answer

MOST_BYTES = 65_536
_MOST_FIELDS = 600
_MOST_DEPTH = 8
_MOST_WORDS = 8192

_ECHOES = frozenset({
    "messages", "message_history", "input", "inputs", "contents", "content", "prompt", "request", "request_body",
    "requestbody", "choices", "candidates", "output", "outputs", "tools", "tool_calls", "instructions", "system",
    "arguments", "parameters", "query",
})  # fmt: skip
"""Fields that hold the request or generated text; nothing below them is the provider's own word."""
_WORDS = frozenset({
    "message", "msg", "detail", "details", "error", "error_description", "error_message", "errormessage", "error_msg",
    "err_msg", "errormsg", "description", "title", "reason", "status_msg", "status_message", "raw", "uimessage", "hint",
    "suggestion", "cause",
})  # fmt: skip
"""Fields whose text is meant to be read by a person."""
_CHECKS_REQUESTS = frozenset({400, 413, 422})
"""Statuses whose messages quote the request that they refuse."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+("?)|[{}\[\],]', re.DOTALL)
_BRACE = re.compile(r"[{}]")
_QUOTED = re.compile(r'"[^"\n]{0,2000}"|`[^`\n]{0,2000}`|\'[^\'\n]{20,2000}\'')


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One scalar or object of a JSON document."""

    path: str
    """`error.details[RetryInfo].retryDelay`; list items by the end of their `@type`, else by number."""
    key: str
    """Last part of the path as written."""
    value: object
    siblings: dict[str, object]
    """The object that holds it."""


def read_documents(answer: Answer) -> tuple[object, ...]:
    """The JSON documents of a body: the body itself, or the documents of its stream's events. Empty for other text.

    A document that was cut off is read as far as it goes.
    """
    body = answer.body[-MOST_BYTES:] if answer.stream else answer.body[:MOST_BYTES]
    text = body.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if text[:1] in ("{", "["):
        document = _read(text)
        return () if document is None else (document,)
    return tuple(_stream_documents(text)) if answer.stream else ()


def holds_error(document: object) -> bool:
    """Whether a document inside a 2xx is an error after all (`A11`: a successful answer says nothing about waiting)."""
    if isinstance(document, list):
        return any(holds_error(item) for item in document[:20])
    if not isinstance(document, dict):
        return False
    if document.get("error") or document.get("errors") or document.get("type") in ("error", "response.failed"):
        return True
    base = document.get("base_resp")
    if isinstance(base, dict):
        return base.get("status_code") not in (0, None)
    return document.get("success") is False


def fields(document: object) -> Iterator[Field]:
    """Every field that is not part of an echoed request, breadth first; JSON inside word fields is entered."""
    waiting: deque[tuple[str, object, int]] = deque([("", document, 0)])
    seen = 0
    while waiting and seen < _MOST_FIELDS:
        path, node, depth = waiting.popleft()
        if isinstance(node, list):
            for number, item in enumerate(node[:50]):
                if depth < _MOST_DEPTH:
                    waiting.append((f"{path}[{_item_name(item, number)}]", item, depth + 1))
            continue
        if not isinstance(node, dict):
            continue
        for key, value in node.items():
            if key.lower() in _ECHOES or seen >= _MOST_FIELDS:
                continue
            seen += 1
            here = f"{path}.{key}" if path else key
            yield Field(path=here, key=key, value=value, siblings=node)
            inner = _inner_document(key, value)
            if depth < _MOST_DEPTH and isinstance(inner, (dict, list)):
                waiting.append((here, inner, depth + 1))


def own_words(answer: Answer, documents: tuple[object, ...]) -> Iterator[str]:
    """The provider's own sentences, in the order of the document; the whole body when it is not JSON (CC, "Beyond").

    What a message quotes is left out where it may be the request, and so are the errors of several upstreams that a
    router lists in one message: none of them speaks for the answer.
    """
    left = _MOST_WORDS
    for text in _texts(answer, documents):
        words = _without_quotes(text, answer.status)[:left]
        left -= len(words)
        if words:
            yield words
        if left <= 0:
            return


def _texts(answer: Answer, documents: tuple[object, ...]) -> Iterator[str]:
    if not documents:
        if not answer.stream:
            yield answer.body[:MOST_BYTES].decode("utf-8", "replace")
        return
    for document in documents:
        if isinstance(document, str):
            yield document
        for field in fields(document):
            if field.key.lower() in _WORDS:
                items = field.value if isinstance(field.value, list) else [field.value]
                yield from (item for item in items[:20] if isinstance(item, str) and _inner_document("", item) is item)


def _without_quotes(text: str, status: int) -> str:
    outside, inside = _split_braces(text[:MOST_BYTES])
    if status in _CHECKS_REQUESTS:
        return _QUOTED.sub(" … ", outside)
    if len(inside) == 1 and '"role"' not in inside[0] and "'role'" not in inside[0]:
        return f"{outside} {inside[0]}"
    return outside


def _split_braces(text: str) -> tuple[str, list[str]]:
    """Text outside of curly braces, and the outermost braced parts; an unclosed part runs to the end."""
    outside: list[str] = []
    inside: list[str] = []
    depth = start = 0
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            if depth == 0:
                outside.append(text[start : brace.start()])
                start = brace.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                inside.append(text[start : brace.end()])
                start = brace.end()
    (inside if depth else outside).append(text[start:])
    return " … ".join(outside), inside


def _item_name(item: object, number: int) -> str:
    kind = item.get("@type") if isinstance(item, dict) else None
    return kind.rpartition(".")[2][:40] if isinstance(kind, str) else str(number)


def _inner_document(key: str, value: object) -> object:
    """A string that is itself a JSON document, read; anything else as it is. `key` "" asks whether it would be."""
    if isinstance(value, str) and value[:1] in ("{", "[") and (not key or key.lower() in _WORDS):
        return _read(value[:MOST_BYTES]) or value
    return value


def _stream_documents(text: str) -> Iterator[object]:
    """Documents of the events in an event stream, and of bare JSON that some providers put between events."""
    bare: list[str] = []
    data: list[str] = []
    for line in [*re.split(r"\r\n|\n|\r", text), ""]:
        if line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line.strip():
            if data and (document := _read("\n".join(data))) is not None:
                yield document
            data = []
        elif not line.startswith((":", "event:", "id:", "retry:")):
            bare.append(line)
    if bare and (document := _read("\n".join(bare).strip())) is not None:
        yield document


def _read(text: str) -> object | None:
    """A JSON document, also one whose end is missing. None when it is none or `null`."""
    if text[:1] not in ("{", "["):
        return None
    for candidate in _completed(text):
        try:
            document: object = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return document
    return None


def _completed(text: str) -> Iterator[str]:
    """The text; the text with what is open closed; the text cut at its last whole member, closed."""
    yield text
    open_brackets: list[str] = []
    cut = 0
    cut_brackets = ""
    in_string = False
    for token in _STRING_OR_BRACKET.finditer(text):
        mark = token.group()[0]
        if mark in "{[":
            open_brackets.append("}" if mark == "{" else "]")
            cut, cut_brackets = token.end(), "".join(reversed(open_brackets[-200:]))
        elif mark in "}]":
            if not open_brackets:
                return
            open_brackets.pop()
        elif mark == ",":
            cut, cut_brackets = token.start(), "".join(reversed(open_brackets[-200:]))
        else:
            in_string = not token[1]
    if not open_brackets or len(open_brackets) > 200:
        return
    yield text + ('"' if in_string else "") + "".join(reversed(open_brackets))
    yield text[:cut] + cut_brackets
