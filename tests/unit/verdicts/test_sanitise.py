from __future__ import annotations

import pytest

from omniroute_addon.verdicts.sanitise import MAX_MESSAGE, sanitised


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Incorrect API key provided: sk-abc123def456ghi789.", "Incorrect API key provided: […]"),
        ("token eyJhbGciOi1234567.abc1.def2 expired", "token […] expired"),
        ("Authorization: Bearer abcdef123456789", "Authorization: Bearer […]"),
        ("api_key=abcdef1234567890 refused", "api_key=[…] refused"),
        ("key_model_access_denied", "key_model_access_denied"),
        ("invalid token provided", "invalid token provided"),
        ("a\n b\x00\tc", "a b c"),
        ("令牌额度已用尽 TokenStatusExhausted[sk-XXX***XXX12]", "令牌额度已用尽 TokenStatusExhausted[[…]]"),
    ],
)
def test_the_words_stay_and_credentials_do_not(message: str, shown: str) -> None:
    assert sanitised(message) == shown


def test_a_message_is_short_and_on_one_line() -> None:
    assert len(sanitised("word " * 1000)) == MAX_MESSAGE
