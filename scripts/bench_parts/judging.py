"""Bodies made to hurt the rule book: 10 MB each, of the kinds that a careless pattern or parser drowns in."""

from __future__ import annotations

import time
from collections.abc import Iterator

from omniroute_addon.model import Answer
from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import load_packs
from omniroute_addon.verdicts import RuleBook

SIZE = 10_000_000
REPEATS = 7


def _bodies() -> Iterator[tuple[str, bytes]]:
    yield (
        "one message that nearly matches",
        b'{"error":{"message":"' + _filled(b"you have exceeded your curren quota ") + b'"}}',
    )
    yield "spaces", b'{"error":' + _filled(b" ") + b'"x"}'
    yield "open brackets", _filled(b'{"error":[')
    yield "quotes and backslashes", b'{"error":{"message":"' + _filled(b'\\"') + b'"}}'
    yield "digits", b'{"error":{"message":"try again in ' + _filled(b"1") + b' seconds"}}'
    yield "a stream of small events", _filled(b'data: {"choices":[{"delta":{"content":"quota"}}]}\n\n')


def _filled(piece: bytes) -> bytes:
    return piece * (SIZE // len(piece))


def judging_ms() -> Iterator[tuple[str, list[float]]]:
    """For each body: its name, and the CPU milliseconds of some judgements of it as an error."""
    packs, _ = load_packs(pack_folders())
    book = RuleBook.build(packs.rules)
    for label, body in _bodies():
        answer = Answer(status=429, headers={"content-type": "application/json"}, body=body, stream=body[:1] == b"d")
        times = []
        for _ in range(REPEATS):
            before = time.process_time()
            book.judge(answer, provider="openai", dialect="openai-chat", now=1_700_000_000.0)
            times.append((time.process_time() - before) * 1000)
        yield label, times
