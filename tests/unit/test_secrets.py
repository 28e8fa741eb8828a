"""Credentials come by reference only, and their text is nowhere but in `Secret.value`."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from omniroute_addon.secrets import MAX_SECRET_BYTES, SecretProblem, Vault, parse_reference, secret_of

PLANTED = "sk-planted-0123456789abcdef"


def vault(tmp_path: Path, **environ: str) -> Vault:
    return Vault(environ=environ, folder=tmp_path, keyring={"work": PLANTED}.get)


def why(vault: Vault, reference: str) -> str:
    with pytest.raises(SecretProblem) as caught:
        vault.resolve(parse_reference(reference))
    assert PLANTED not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_secret_shows_its_digest_only() -> None:
    secret = secret_of(PLANTED)
    assert secret.value == PLANTED
    assert secret.digest == hashlib.sha256(PLANTED.encode()).hexdigest()[:12]
    assert PLANTED not in f"{secret} {secret!r}"
    assert str(secret) == f"secret:{secret.digest}"


def test_a_vault_shows_nothing() -> None:
    assert PLANTED not in repr(Vault(environ={"KEY": PLANTED}))


def test_env(tmp_path: Path) -> None:
    reference = parse_reference(" env:KEY ")
    assert vault(tmp_path, KEY=f" {PLANTED}\n").resolve(reference) == (secret_of(PLANTED), "")
    assert str(reference) == "env:KEY"
    assert vault(tmp_path).path(reference) is None
    assert why(vault(tmp_path), "env:KEY") == ("environment variable KEY is not set. Set it before the proxy starts.")
    assert why(vault(tmp_path, KEY=" "), "env:KEY") == "env:KEY is empty. Put the credential there."


@pytest.mark.parametrize("text", [f"{PLANTED}\nsecond", "schlüssel", "a\x00b"])
def test_what_no_header_can_carry_is_refused(tmp_path: Path, text: str) -> None:
    assert why(vault(tmp_path, KEY=text), "env:KEY") == (
        "env:KEY holds more than one line or characters that no header can carry. Put only the credential there."
    )


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"\ufeff{PLANTED}\n", encoding="utf-8")
    path.chmod(0o600)
    reference = parse_reference("file:key")
    assert vault(tmp_path).resolve(reference) == (secret_of(PLANTED), "")
    assert vault(tmp_path).path(reference) == path
    assert vault(tmp_path / "elsewhere").resolve(parse_reference(f"file:{path}"))[0] == secret_of(PLANTED)


def test_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert vault(tmp_path / "x").path(parse_reference("file:~/key")) == tmp_path / "key"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_gets_a_warning(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_text(PLANTED)
    path.chmod(mode)
    assert vault(tmp_path).resolve(parse_reference("file:key")) == (
        secret_of(PLANTED),
        f"the file {path} can be read by others. Run: chmod 600 {path}",
    )


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert why(vault(tmp_path), "file:key") == (
        f"the file {path} cannot be read (No such file or directory). Check its name and permissions."
    )
    path.write_bytes(b"\xff" + PLANTED.encode())
    assert why(vault(tmp_path), "file:key") == f"the file {path} is not UTF-8 text. Put only the credential there."
    path.write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    assert why(vault(tmp_path), "file:key") == (
        f"the file {path} has more than {MAX_SECRET_BYTES} bytes. Put only the credential there."
    )


def test_keyring(tmp_path: Path) -> None:
    assert vault(tmp_path).resolve(parse_reference("keyring:work")) == (secret_of(PLANTED), "")
    assert why(vault(tmp_path), "keyring:home") == (
        "the keyring has no password for 'home' in service 'omniroute'. Store it: keyring set omniroute home"
    )


def test_the_real_keyring_is_imported_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def get_password(service: str, name: str) -> str | None:
        asked.append((service, name))
        return PLANTED if name == "work" else None

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=get_password))
    assert Vault().resolve(parse_reference("keyring:work"))[0] == secret_of(PLANTED)
    assert asked == [("omniroute", "work")]
    assert why(Vault(), "keyring:none").startswith("the keyring has no password for 'none'")


def test_a_keyring_that_is_missing_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert why(Vault(), "keyring:work") == (
        "keyring: needs the package keyring. Install it: pip install 'omniroute-addon[keyring]'"
    )

    def get_password(service: str, name: str) -> str:
        raise RuntimeError(f"locked, and here is the secret: {PLANTED}")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=get_password))
    assert why(Vault(), "keyring:work") == "the keyring cannot be read (RuntimeError). Unlock it."


@pytest.mark.parametrize("text", [PLANTED, "", "password", f"ENV:{PLANTED}", f"literal:{PLANTED}"])
def test_a_literal_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(SecretProblem) as caught:
        parse_reference(text)
    assert str(caught.value) == (
        "a credential is given by reference, never written here. Write env:NAME, file:PATH or keyring:NAME, "
        "and if what stood here is a real key, replace it."
    )


@pytest.mark.parametrize("text", ["env:", f"env:{PLANTED}", "env:A B", "file: ", "file:a\0b", "keyring:"])
def test_a_name_that_cannot_be_one_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(SecretProblem) as caught:
        parse_reference(text)
    kind = text.partition(":")[0]
    assert str(caught.value) == (f"the name after '{kind}:' cannot be used. Write env:NAME, file:PATH or keyring:NAME.")
