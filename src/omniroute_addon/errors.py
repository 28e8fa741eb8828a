"""The exception tree: our fault, their fault, and what the user wrote."""

from __future__ import annotations


class OmnirouteError(Exception):
    """Root of everything that this package raises on purpose."""


class InputError(OmnirouteError):
    """Something that a person wrote cannot be used. `str()` is the whole text: where, what, what is allowed, what to do.

    Holds *all* errors of one source, one a line.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UnsupportedMitmproxy(OmnirouteError):
    """This mitmproxy's internals are not those that the attempt loop needs."""


class NotAdmitted(OmnirouteError):
    """A plugin's `admit` passes a target by; the text says why."""
