"""A client that refuses our certificate is named once, with what it needs (A39)."""

from __future__ import annotations

from pathlib import Path

from omniroute_addon.bringup.programs import Programs
from omniroute_addon.bringup.refused_certificates import MOST, RefusedCertificates
from omniroute_addon.files import Files

BY_ID = Programs(Files(rules=Path("/nonexistent")).clients().profiles.values()).by_id

UNTRUSTED = "The client does not trust the proxy's certificate for api.anthropic.com (tlsv1 alert unknown ca)"
AWAY = "The client disconnected during the handshake."
CONFDIR = Path("/c")


def refused(
    book: RefusedCertificates, connection: str = "1", host: str = "api.anthropic.com", error: str = UNTRUSTED
) -> str | None:
    return book.refused(connection, host=host, error=error, confdir=CONFDIR)


def test_client_is_called_by_its_name_with_what_it_needs() -> None:
    book = RefusedCertificates()
    book.connected("1", name="claude-code", program=BY_ID["claude-code"])
    assert refused(book) == (
        "claude-code refused our certificate for api.anthropic.com. Where it is started, set "
        "NODE_EXTRA_CA_CERTS=/c/mitmproxy-ca-cert.pem or start it with: omniroute exec -- claude"
    )


def test_client_without_a_command_is_told_the_variable_only() -> None:
    book = RefusedCertificates()
    book.connected("1", name="OpenAI/Python", program=BY_ID["openai-python"])
    told = refused(book)
    assert told and told.endswith("Where it is started, set SSL_CERT_FILE=/c/omniroute-ca-bundle.pem")


def test_unknown_client_gets_all_variables() -> None:
    told = refused(RefusedCertificates())
    assert told and told.startswith("a client refused our certificate") and "SSL_CERT_FILE, NODE_EXTRA_CA_CERTS" in told


def test_connection_that_only_ended_is_not_accused() -> None:
    told = refused(RefusedCertificates(), error=AWAY)
    assert told and "perhaps because of our certificate" in told


def test_it_is_said_once_for_each_client_and_host() -> None:
    book = RefusedCertificates()
    for connection, user in (("1", "codex"), ("2", "codex"), ("3", "gemini-cli")):
        book.connected(connection, name=user, program=BY_ID[user])
    assert refused(book, "1")
    assert refused(book, "2") is None
    assert refused(book, "2", host="api.openai.com")
    assert refused(book, "3")


def test_what_is_remembered_is_bounded() -> None:
    book = RefusedCertificates()
    for number in range(3 * MOST):
        book.connected(str(number), name=f"agent{number}", program=None)
        refused(book, str(number), host=f"{number}.example")
    assert len(book._clients) == len(book._told) == MOST
    book.gone(str(3 * MOST - 1))
    book.gone("never there")
    assert len(book._clients) == MOST - 1


def test_names_from_outside_stay_on_one_line_and_no_token_is_repeated() -> None:
    book = RefusedCertificates()
    book.connected("1", name="x\ny/1", program=None)
    told = refused(book)
    assert told and "\n" not in told
    book.connected("2", name="sk-ant-api03-secretsecret", program=None)
    told = refused(book, "2")
    assert told and "secretsecret" not in told
