"""The bundle of authorities: the system's, the user's and ours, whole and fresh."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi
import pytest

from omniroute_addon.bringup import bundle as module
from omniroute_addon.bringup.bundle import certificates, find_sources, holds, replace_file, write_bundle


def pem(word: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{word}\n-----END CERTIFICATE-----\n"


@pytest.fixture
def confdir(tmp_path: Path) -> Path:
    """mitmproxy's folder with an authority."""
    folder = tmp_path / "confdir"
    folder.mkdir()
    (folder / "mitmproxy-ca-cert.pem").write_text(pem("ours"))
    return folder


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only file of the system."""
    file = tmp_path / "system.pem"
    file.write_text(pem("world"))
    monkeypatch.setattr(module, "_system_file", lambda candidates: file)
    return file


def build(confdir: Path, environ: dict[str, str] | None = None) -> Path:
    return write_bundle(confdir, confdir / "mitmproxy-ca-cert.pem", environ)


def test_bundle_trusts_the_proxy_and_everybody_else(tmp_path: Path) -> None:
    """Hosts of no pack show their real certificates, and SSL_CERT_FILE replaces the system's authorities."""
    from omniroute_addon.cli.trust import own_authority

    file = write_bundle(tmp_path, own_authority(tmp_path))
    trusted = ssl.create_default_context(cafile=str(file)).get_ca_certs()
    names = [dict(pair[0] for pair in ca["subject"]).get("commonName") for ca in trusted]
    assert "mitmproxy" in names
    assert len(names) > 50


def test_bundle_is_rebuilt_when_either_side_changed_and_only_then(confdir: Path, system: Path) -> None:
    file = build(confdir)
    assert certificates(file.read_bytes()) == {b"world", b"ours"}
    before = file.stat().st_ino
    assert build(confdir).stat().st_ino == before
    system.write_text(pem("new-world"))
    assert certificates(build(confdir).read_bytes()) == {b"new-world", b"ours"}
    (confdir / "mitmproxy-ca-cert.pem").write_text(pem("new-ours"))
    assert certificates(build(confdir).read_bytes()) == {b"new-world", b"new-ours"}


def test_bundle_never_becomes_a_source_of_itself(confdir: Path, system: Path) -> None:
    """A terminal in which the variables are set already must not make the bundle grow."""
    file = build(confdir)
    size = file.stat().st_size
    environ = {"SSL_CERT_FILE": str(file), "NODE_EXTRA_CA_CERTS": str(confdir / "mitmproxy-ca-cert.pem")}
    assert build(confdir, environ) == file
    assert file.stat().st_size == size


def test_what_the_user_trusts_stays_trusted_in_a_bundle_of_its_own(confdir: Path, system: Path, tmp_path: Path) -> None:
    """Behind a company's authority the agent must reach everything that it reached before."""
    company, node = tmp_path / "company.pem", tmp_path / "node.pem"
    company.write_text(pem("company"))
    node.write_text(pem("node"))
    plain = build(confdir)
    special = build(confdir, {"SSL_CERT_FILE": str(company), "NODE_EXTRA_CA_CERTS": str(node), "CURL_CA_BUNDLE": "/no"})
    assert certificates(special.read_bytes()) == {b"company", b"node", b"ours"}
    assert special != plain and certificates(plain.read_bytes()) == {b"world", b"ours"}
    again = build(confdir, {"SSL_CERT_FILE": str(special)})
    assert again == plain


def test_variable_that_names_the_systems_file_changes_nothing(confdir: Path, system: Path) -> None:
    assert build(confdir, {"SSL_CERT_FILE": str(system), "REQUESTS_CA_BUNDLE": str(system)}) == build(confdir)


def test_system_authority_that_holds_ours_already_is_not_doubled(confdir: Path, system: Path) -> None:
    system.write_text(pem("world") + pem("ou\nrs"))
    assert build(confdir).read_text().count("BEGIN") == 2


def test_without_any_system_file_certifis_is_taken(
    confdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = ssl.get_default_verify_paths()._replace(openssl_cafile=str(tmp_path / "none"))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    empty = tmp_path / "empty.pem"
    empty.touch()
    assert find_sources({}, confdir, [str(empty), "/nowhere"]).base == Path(certifi.where())


def test_first_system_file_with_certificates_wins(confdir: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.pem", tmp_path / "2.pem"
    second.write_text(pem("b"))
    assert find_sources({}, confdir, [str(first), str(second)]).base == second


def test_file_is_replaced_in_one_step_and_nothing_is_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "a"
    replace_file(file, b"one", mode=0o600)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(IsADirectoryError):
        (tmp_path / "folder" / "x").mkdir(parents=True)
        replace_file(tmp_path / "folder", b"two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]
    assert file.read_bytes() == b"one"


def test_holding_a_certificate_is_yes_no_or_unknown(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.write_text(pem("ours"))
    other.write_text(f"# text\n{pem('x')}{pem('ours')}")
    assert holds(other, ours) is True
    assert holds(ours, other) is False
    assert holds(tmp_path / "none", ours) is None
    other.write_text("no certificate")
    assert holds(ours, other) is False
