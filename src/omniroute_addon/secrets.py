"""Credential references -> credentials. Runs at load and reload, never for a request (it reads files and keyrings)."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from .model import Secret

FORMS = "env:NAME, file:PATH or keyring:NAME"
KEYRING_SERVICE = "omniroute"
MAX_SECRET_BYTES = 65_536
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretProblem(ValueError):
    """A reference leads nowhere. The text never contains a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """Where a credential is kept. Parsed, not yet looked up."""

    kind: str
    """`env`, `file` or `keyring`."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """Where references are looked up; tests bring their own."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    folder: Path = Path()
    """What a relative `file:` is relative to: the configuration file's folder."""
    keyring: Callable[[str], str | None] = field(default_factory=lambda: _from_keyring)

    def path(self, reference: SecretReference) -> Path | None:
        """The file that a `file:` reference names, so that a change to it can be noticed."""
        return self.folder / Path(reference.name).expanduser() if reference.kind == "file" else None

    def resolve(self, reference: SecretReference) -> tuple[Secret, str]:
        """The credential and a warning, which is empty when there is nothing to say. Raises `SecretProblem`."""
        text, warning = self.text(reference)
        return secret_of(text), warning

    def text(self, reference: SecretReference) -> tuple[str, str]:
        """As `resolve`, but nothing remembers the text: for what is only hashed."""
        warning = ""
        if reference.kind == "env":
            text = self.environ.get(reference.name)
            if text is None:
                raise SecretProblem(
                    f"environment variable {reference.name} is not set. Set it before the proxy starts."
                )
        elif reference.kind == "file":
            text, warning = _from_file(self.folder / Path(reference.name).expanduser())
        else:
            text = self.keyring(reference.name)
            if text is None:
                raise SecretProblem(
                    f"the keyring has no password for '{reference.name}' in service '{KEYRING_SERVICE}'. "
                    f"Store it: keyring set {KEYRING_SERVICE} {reference.name}"
                )
        text = text.strip()
        if not text:
            raise SecretProblem(f"{reference} is empty. Put the credential there.")
        if not text.isascii() or not text.isprintable():
            raise SecretProblem(
                f"{reference} holds more than one line or characters that no header can carry. "
                "Put only the credential there."
            )
        return text, warning


@lru_cache(maxsize=1024)
def secret_of(value: str) -> Secret:
    """A credential with the identity under which it may be shown."""
    digest = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return Secret(value=value, digest=digest)


def parse_reference(text: str) -> SecretReference:
    """`env:NAME`, `file:PATH`, `keyring:NAME`. Raises `SecretProblem`; the text itself is never repeated."""
    kind, colon, name = text.strip().partition(":")
    if not colon or kind not in ("env", "file", "keyring"):
        raise SecretProblem(
            f"a credential is given by reference, never written here. Write {FORMS}, "
            "and if what stood here is a real key, replace it."
        )
    name = name.strip()
    if not name or "\0" in name or (kind == "env" and not _ENV_NAME.fullmatch(name)):
        raise SecretProblem(f"the name after '{kind}:' cannot be used. Write {FORMS}.")
    return SecretReference(kind=kind, name=name)


def _from_file(path: Path) -> tuple[str, str]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise SecretProblem(
            f"the file {path} cannot be read ({error.strerror}). Check its name and permissions."
        ) from None
    if len(raw) > MAX_SECRET_BYTES:
        raise SecretProblem(f"the file {path} has more than {MAX_SECRET_BYTES} bytes. Put only the credential there.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # `from None`: the exception would carry the file's content along.
        raise SecretProblem(f"the file {path} is not UTF-8 text. Put only the credential there.") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        return text, f"the file {path} can be read by others. Run: chmod 600 {path}"
    return text, ""


def _from_keyring(name: str) -> str | None:
    try:
        keyring = importlib.import_module("keyring")  # when used: start-up matters, and it is an extra
    except ImportError:
        raise SecretProblem(
            "keyring: needs the package keyring. Install it: pip install 'omniroute-addon[keyring]'"
        ) from None
    try:
        found = keyring.get_password(KEYRING_SERVICE, name)
    except Exception as error:  # noqa: BLE001 - back ends raise what they like; told by type only, texts may hold secrets
        raise SecretProblem(f"the keyring cannot be read ({type(error).__name__}). Unlock it.") from None
    return None if found is None else str(found)


__all__ = ["FORMS", "SecretProblem", "SecretReference", "Vault", "parse_reference", "secret_of"]
