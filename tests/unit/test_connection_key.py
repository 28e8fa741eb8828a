"""Names under which state is kept."""

from __future__ import annotations

from omniroute_addon.connection_key import SharedCredentials, connection_id, connection_key, is_guest, is_shared_rule
from omniroute_addon.testing.calls import make_connection, make_secret


def test_a_key_is_the_id_and_the_credential() -> None:
    one = make_connection("a")
    assert connection_key(one) == f"a#{one.secret.digest}" if one.secret else ""
    assert connection_key(make_connection("a", secret=None)) == "a"
    assert (connection_id(connection_key(one)), connection_id("a")) == ("a", "a")
    assert [is_guest(k) for k in ("client", "client:1#1", "client#1", "client-two#1", "a")] == [True] * 3 + [False] * 2


def test_connections_with_one_credential_at_one_provider_know_each_other() -> None:
    """A06"""
    secret = make_secret("sk-shared")
    a, b, other = (
        make_connection("a", secret=secret),
        make_connection("b", secret=secret),
        make_connection("c", secret=secret, provider="groq"),
    )
    shared = SharedCredentials([a, b, other, make_connection("d", secret=None)])
    guest = make_connection("client:1", secret=secret, own=True)
    assert shared.keys(a) == (connection_key(a), connection_key(b))
    assert shared.keys(guest) == (connection_key(guest), connection_key(a), connection_key(b))
    assert shared.keys(make_connection("d", secret=None)) == ("d",)


def test_whose_rule_it_is() -> None:
    files = [
        "",
        "_generic.yaml",
        "rules/_openai.yaml",
        "C:\\rules\\_openai.yaml",
        "rules/openai.yaml",
        "omniroute.yaml",
    ]
    assert [is_shared_rule(f) for f in files] == [True, True, True, True, False, False]
