"""What only chat completions have."""

from __future__ import annotations

from omniroute_addon.dialects import dialect


def test_azures_older_door_names_the_model_in_the_path() -> None:
    chat = dialect("openai-chat")
    path = "/openai/deployments/gpt%2D5/chat/completions?api-version=1"
    facts = chat.read_call(path=path, body=b'{"messages":[]}')
    assert (facts.model, facts.model_in_path) == ("gpt-5", True)
    assert chat.rename_model(path=path, body=b'{"messages":[]}', model="m")[1] == b'{"model":"m","messages":[]}'
    assert chat.rename_model(path=path, body=b" { } ", model="m")[1] == b' {"model":"m" } '
    named = chat.read_call(path=path, body=b'{"model":"other"}')
    assert (named.model, named.model_in_path) == ("other", False)
