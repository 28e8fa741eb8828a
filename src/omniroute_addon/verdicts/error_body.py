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
from itertools import islice

from omniroute_addon.model import Answer

from .error_fields import is_error
from .event_stream import read_stream

MOST_BYTES = 65_536
_MOST_FIELDS = 600
_MOST_DEPTH = 8
_MOST_NESTED = 100
_MOST_TOKENS = 8000
_MOST_QUOTED_PARTS = 20
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
    """The JSON of a body, or the event of a stream that is an error; empty for other text and for successful answers.

    JSON that was cut off is read as far as it goes. A successful answer has no error body, whatever it talks about
    (`A11`).
    """
    good = 200 <= answer.status < 300
    body = answer.body[:MOST_BYTES]
    if answer.stream and len(answer.body) > MOST_BYTES:
        body += b"\n\n" + answer.body[-MOST_BYTES:]
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    document = _read(text)
    if document is None and (answer.stream or text.startswith(("data:", "event:"))):
        stream = read_stream(text)
        return (stream.document,) if stream.error else ()
    while isinstance(document, list) and len(document) == 1:
        document = document[0]
    return () if document is None or (good and not is_error(document)) else (document,)


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
    outside, inside = _split_braces(text[: 2 * _MOST_WORDS])
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
        if len(inside) == _MOST_QUOTED_PARTS:
            break
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
        return _read(value[: 2 * _MOST_WORDS]) or value
    return value


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
    closers: list[str] = []
    popped: list[str] = []  # since `cut`; only closing brackets and strings can follow it
    cut = 0
    in_string = False
    for token in islice(_STRING_OR_BRACKET.finditer(text), _MOST_TOKENS):
        mark = token.group()[0]
        if mark in "{[":
            if len(closers) == _MOST_NESTED:
                return
            closers.append("}" if mark == "{" else "]")
            cut, popped = token.end(), []
        elif mark == ",":
            cut, popped = token.start(), []
        elif mark == '"':
            in_string = not token[1]
        elif not closers:
            return
        else:
            popped.append(closers.pop())
    if closers:
        yield text + ('"' if in_string else "") + "".join(reversed(closers))
        yield text[:cut] + "".join([*popped, *reversed(closers)])
