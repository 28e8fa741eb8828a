"""The providers' documented code tables, written so that a reader can lay them beside the document.

A table is text, one row a line: `status  codes  verdict | message`. Codes that mean the same stand together, joined by
commas; `-` is an answer without a code. A verdict is a kind and what differs from the kind's own row: `scope=model`,
`terminal=no`, `retry_other=yes`. Without a message the code stands alone, so that no sentence helps to judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from omniroute_addon.model import Verdict
from omniroute_addon.verdicts.kinds import BY_KIND

Judge = Callable[..., Verdict]
Shape = Callable[[int, str, str], tuple[Any, dict[str, str]]]
"""(status, code, message) -> body, headers: as the provider writes an error."""


@dataclass(frozen=True, kw_only=True)
class Row:
    provider: str
    status: int
    code: str
    message: str
    shape: Shape
    want: dict[str, object]
    coded: bool

    def check(self, judge: Judge) -> None:
        """The verdict is the wanted one, and a code was known as a code: no rule about statuses and phrases guessed."""
        body, headers = self.shape(self.status, self.code, self.message)
        verdict = judge(self.status, body, headers=headers, provider=self.provider)
        assert {name: getattr(verdict, name) for name in self.want} == self.want
        if self.coded and self.code:
            assert not verdict.rule.file.endswith("_generic.yaml"), verdict.rule


def rows(provider: str, shape: Shape, table: str, *, door: str = "", coded: bool = True) -> Iterator[Any]:
    """The rows of one provider's table as test parameters, one for each code.

    `coded=False`: the provider's statuses are its codes, and so is a rule that goes by the status.
    """
    for line in table.strip().splitlines():
        if not line.strip():
            continue
        said, _, message = line.partition(" | ")
        status, codes, kind, *differs = said.split()
        want = _verdict(kind, differs)
        for code in codes.split(","):
            row = Row(
                provider=provider,
                status=int(status),
                code="" if code == "-" else code,
                message=message.strip(),
                shape=shape,
                want=want,
                coded=coded,
            )
            hint = f"-{message.strip()[:24]}" if message else ""
            yield pytest.param(row, id=f"{provider}{door}-{status}-{code}{hint}")


def _verdict(kind: str, differs: list[str]) -> dict[str, object]:
    own = BY_KIND[kind]  # type: ignore[index]
    want: dict[str, object] = {
        "kind": kind,
        "scope": own.scope,
        "terminal": own.terminal,
        "retry_other": own.retry_other,
    }
    for difference in differs:
        name, _, value = difference.partition("=")
        assert name in want, difference
        want[name] = value if name == "scope" else value == "yes"
    return want


def openai_shape(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    """`{"error": {"message", "code"}}`."""
    return {"error": {"message": message, "type": None, "param": None, "code": code or None}}, {}


def typed_shape(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    """The same with the word in `type`."""
    return {"error": {"message": message, "type": code or None}}, {}


def message_shape(_status: int, _code: str, message: str) -> tuple[Any, dict[str, str]]:
    """`{"message"}` alone: the status is the code."""
    return {"message": message}, {}
