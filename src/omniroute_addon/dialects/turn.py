"""One turn, put together from its frames: did it produce anything, did it end, and may it count as a success?

`ST-60` to `ST-68` and `A16` (empty turns), `A18` (half a tool call).
"""

from __future__ import annotations

from .faults import text_fault
from .frames import BodyProblem, Frame, FrameClass, StreamFault, ToolPiece
from .json_body import is_cut

ARGUMENTS_LIMIT_BYTES = 1024 * 1024
"""Tool arguments kept per turn; beyond it they are taken for complete."""

# The provider says itself that it stopped early; an empty or half answer is then honest. Beyond
# `ST-61`: other dialects' words for the same (our decision).
_CUT_SHORT = frozenset({"length", "max_tokens", "content_filter"}) | {
    *("max_output_tokens", "model_length", "model_context_window_exceeded", "refusal", "pause_turn"),
    *("safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety", "language"),
}
_TOOLS = frozenset({"tool_calls", "tool_use", "function_call"})
LEGITIMATE_WHEN_EMPTY = _CUT_SHORT | _TOOLS
"""Terminal reasons with which a turn may be empty (`ST-61`), in lower case."""

_OUTPUT = (FrameClass.OUTPUT, FrameClass.REASONING)


class Turn:
    """What the frames so far add up to."""

    def __init__(self) -> None:
        self.terminal = False
        self.output = False
        self.opened = False
        self.finish: str | None = None
        self.error: StreamFault | None = None
        self._reasons: set[str] = set()
        self._groups: set[int] = set()
        self._finished: set[int] = set()
        self._calls: dict[tuple[int, str], _ToolCall] = {}
        self._room = ARGUMENTS_LIMIT_BYTES

    def take(self, frame: Frame) -> None:
        """Add one frame."""
        self.output = self.output or frame.cls in _OUTPUT
        self.terminal = self.terminal or frame.terminal
        self.opened = self.opened or frame.opened
        self.error = self.error or frame.error
        if frame.finish is not None:
            self.finish = frame.finish
            self._reasons.add(frame.finish.lower())
        self._groups.update(frame.groups)
        self._finished.update(frame.finished)
        for piece in frame.tools:
            self._take_tool(piece)

    def _take_tool(self, piece: ToolPiece) -> None:
        call = self._calls.setdefault((piece.group, piece.key), _ToolCall())
        self._room -= len(piece.text)
        call.add(piece, keep=self._room >= 0)

    @property
    def complete_tool_call(self) -> bool:
        """Some call has all its arguments."""
        return any(call.complete(ended=self.terminal) for call in self._calls.values())

    @property
    def open_tool_call(self) -> bool:
        """Some call lacks arguments. Before the end, one without any is open; after it, one without any needs none."""
        return any(not call.complete(ended=self.terminal) for call in self._calls.values())

    def half_tool_call(self) -> bool:
        """A choice was declared finished with the arguments of a call cut in the middle, and not for lack of room."""
        if self._reasons & _CUT_SHORT:
            return False
        finished = self._finished
        return any(call.cut for (group, _), call in self._calls.items() if not finished or group in finished)

    def empty(self) -> bool:
        """The turn ended nominally, produced nothing, and gave no reason that excuses it (`ST-60`, `ST-61`)."""
        if self.output or not self.terminal or self._reasons & LEGITIMATE_WHEN_EMPTY:
            return False
        return self._groups <= self._finished or not self._finished

    def ended_ordinarily(self, ordinary: frozenset[str]) -> bool:
        """Every reason is one of `ordinary`, and no content block was opened (`ST-64`, `ST-65`)."""
        return bool(self._reasons) and self._reasons <= ordinary and not self.opened


def judge_turn(turn: Turn, ordinary: frozenset[str]) -> BodyProblem | None:
    """What is wrong with a turn that has ended nominally. An error outranks everything (`ST-66`, `ST-68`).

    `ordinary` are the dialect's finish reasons with which a trusted endpoint may send an empty turn.
    """
    if turn.error or not turn.terminal:
        return None
    if turn.half_tool_call():
        fault = text_fault("the provider ended the turn inside a tool call", code="half_tool_call")
        return BodyProblem(kind="half_tool_call", fault=fault, finish=turn.finish)
    if turn.empty():
        fault = text_fault("the provider returned empty content", code="empty_content")
        return BodyProblem(kind="empty", fault=fault, finish=turn.finish, trustable=turn.ended_ordinarily(ordinary))
    return None


class _ToolCall:
    """The arguments of one call."""

    __slots__ = ("_freeform", "_given_up", "_parts", "_whole")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._freeform = False
        self._whole = False
        self._given_up = False

    def add(self, piece: ToolPiece, *, keep: bool) -> None:
        self._freeform = self._freeform or piece.freeform
        self._given_up = self._given_up or not keep
        if piece.whole:
            self._whole = True
            self._parts = []
        if keep:
            self._parts.append(piece.text)

    @property
    def cut(self) -> bool:
        if self._freeform or self._given_up:
            return False
        return is_cut("".join(self._parts).encode("utf-8", "surrogatepass"))

    def complete(self, *, ended: bool) -> bool:
        if self._given_up or ended or self._whole:
            return not self.cut
        return not self._freeform and any(self._parts) and not self.cut
