"""`omniroute rules`: check, test, score, explain, replay."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from omniroute_addon import dialects
from omniroute_addon.cli import cli
from omniroute_addon.dialects import ClientError
from omniroute_addon.final_answer import CODES
from omniroute_addon.model import DIALECTS

CASE: dict[str, Any] = {
    "id": "acme-1",
    "provider": "acme",
    "endpoint": "POST /v1/chat/completions",
    "status": 429,
    "headers": {"retry-after": "5"},
    "body": '{"error":{"message":"Too many requests","type":"rate_limit_error"}}',
    "stream": False,
    "expect": {
        "kind": "rate_limit",
        "scope": "connection",
        "retry_other": True,
        "terminal": False,
        "retry_after_s": 5,
        "retry_after_from": "header:retry-after",
        "breaker": False,
    },
    "debatable": False,
    "note": "",
    "source": "constructed",
}
PACK = """
id: acme
name: Acme
hosts: [api.acme.example]
category: api_key
endpoints: {openai-chat: "https://api.acme.example/v1/chat/completions"}
auth: {header: authorization, scheme: Bearer}
source: ["https://acme.example/docs"]
checked: 2026-11-30
classify:
  - id: acme-teapot
    when: {status: [418]}
    kind: KIND
    examples:
      - {status: 418, body: no tea, expect: {kind: overloaded}}
      - {status: 429, body: no tea, no_match: true}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command with an empty configuration and the packs in `tmp_path/packs`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    packs = tmp_path / "packs"
    packs.mkdir()
    (tmp_path / "omniroute.yaml").write_text("settings: {}\n")

    def runner(*arguments: str, user: str = "", options: bool = True) -> Result:
        if user:
            (packs / "acme.yaml").write_text(user)
        extra = ["--rules", str(packs), "--config", str(tmp_path / "omniroute.yaml")] if options else []
        return CliRunner().invoke(cli, ["rules", *arguments, *extra])

    return runner


def flow(body: bytes, *, status: int = 418, host: str = "api.acme.example", stream: bool = False) -> http.HTTPFlow:
    recorded = tflow.tflow(
        req=http.Request.make("POST", f"https://{host}/v1/chat/completions?key=secret-key-123", b'{"model":"m"}'),
        resp=http.Response.make(status, body, {"content-type": "text/event-stream" if stream else "application/json"}),
    )
    return recorded


def record(path: Path, *flows: http.HTTPFlow) -> str:
    with path.open("wb") as file:
        writer = FlowWriter(file)  # type: ignore[no-untyped-call]
        for each in flows:
            writer.add(each)
    return str(path)


def test_the_bundled_rules_are_without_a_problem(run: Any) -> None:
    result = run("check")
    assert result.exit_code == 0, result.output
    assert "no problem" in result.output


def test_every_bundled_rule_proves_itself(run: Any) -> None:
    """Issue 3, point 8: a bundled rule without both sorts of examples fails."""
    result = run("test")
    assert result.exit_code == 0, result.output
    assert "all as expected" in result.output


def test_check_names_every_problem_and_fails(run: Any) -> None:
    result = run("check", user=PACK.replace("KIND", "overlooded"))
    assert result.exit_code == 1
    assert "acme.yaml" in result.output and "unknown kind 'overlooded'. Did you mean 'overloaded'?" in result.output
    assert result.output.strip().endswith("1 problem")


def test_test_fails_on_a_wrong_example(run: Any) -> None:
    result = run("test", user=PACK.replace("KIND", "timeout"))
    assert result.exit_code == 1
    assert "rule 'acme-teapot', example 1: kind is timeout, expected overloaded" in result.output


def test_test_counts_examples_and_rules_not_lines(run: Any) -> None:
    wrong = PACK.replace("KIND", "timeout").replace("kind: overloaded}", "kind: overloaded, scope: model}")
    unproven = "  - {id: acme-cup, when: {status: [417]}, kind: timeout, examples: [{status: 418, no_match: true}]}\n"
    result = run("test", user=wrong + unproven)
    assert re.search(
        r"^\d+ rules, \d+ examples: 1 wrong example, 1 rule without both sorts of examples$",
        result.output,
        re.MULTILINE,
    ), result.output


def test_check_of_rules_only_warns_of_a_credential_that_is_not_there(run: Any, tmp_path: Path) -> None:
    (tmp_path / "omniroute.yaml").write_text("connections: [{id: a, provider: openai, key: env:NOT_SET_ANYWHERE}]\n")
    result = run("check")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("warning: ") and "NOT_SET_ANYWHERE" in result.stderr
    assert "no problem" in result.stdout


def test_explain_of_an_unknown_provider_is_refused(run: Any) -> None:
    result = run("explain", "--status", "429", "--provider", "acne", user=PACK.replace("KIND", "overloaded"))
    assert result.exit_code == 1
    assert result.stderr.startswith("unknown provider 'acne'. Did you mean 'acme'?\n")


def test_explain_counts_one_rule_as_one(run: Any) -> None:
    result = run(
        "explain", "--status", "418", "--provider", "acme", "--body", "no tea", user=PACK.replace("KIND", "overloaded")
    )
    assert "\n1 rule was tried, in this order:\n" in result.output


def written_by_us(dialect: str, *, connection: bool) -> http.HTTPFlow:
    """As `final_answer` makes it."""
    code = "connections_rejected"
    error = ClientError(status=503, code=code, message=f"{CODES[code]} Tried 1: work: auth_invalid.")
    answered = flow(dialects.dialect(dialect).error_body(error), status=503)  # type: ignore[arg-type]
    assert answered.response
    answered.response.headers["x-omniroute-attempts"] = "1"
    if connection:
        answered.response.headers["x-omniroute-connection"] = "work"
    return answered


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("connection", [True, False])
def test_answers_that_omniroute_wrote_itself_are_not_judged(
    run: Any, tmp_path: Path, dialect: str, connection: bool
) -> None:
    theirs = flow(b"no tea")
    assert theirs.response
    theirs.response.headers.update({"x-omniroute-attempts": "1", "x-omniroute-connection": "work"})
    dump = record(tmp_path / "f.mitm", written_by_us(dialect, connection=connection), theirs)
    result = run("replay", dump)
    assert result.exit_code == 0, result.output
    assert "1 flow judged, 1 answered by omniroute itself" in result.output
    assert [line.split()[0] for line in result.output.splitlines() if "answered by" in line and "POST" in line] == ["0"]
    explained = run("explain", "--flow", dump)
    assert explained.exit_code == 1
    assert "flow 0 was answered by omniroute itself. No provider said it" in explained.stderr


def test_score_prints_tables_and_json(run: Any, tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(json.dumps(CASE) + "\n")
    tables = run("score", str(corpus))
    assert tables.exit_code == 0, tables.output
    assert "Cases: 1" in tables.output and "provider not known" in tables.output and "costly mistake" in tables.output
    report = json.loads(run("score", str(corpus), "--json").output)
    assert report["cases"] == 1
    assert report["fields"]["retry_after_s"]["strict"] == 1.0
    assert report["without_provider"]["costly"]["wait_wrong"] == []


def test_score_tells_bad_lines(run: Any, tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"id": 5}\n')
    result = run("score", str(corpus))
    assert result.exit_code == 1
    assert "c.jsonl:1: 'provider' is missing" in result.output


def test_explain_names_the_deciding_rule_and_why_others_did_not(run: Any) -> None:
    result = run(
        "explain", "--status", "418", "--provider", "acme", "--body", "no tea", "--header", "Retry-After: 7",
        user=PACK.replace("KIND", "overloaded"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "overloaded" in result.output and "7 s (header:retry-after)" in result.output
    assert "acme-teapot" in result.output and "decides" in result.output


def test_explain_as_json_from_a_file(run: Any, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(CASE["body"])
    result = run("explain", "--status", "429", "--body-file", str(body), "--dialect", "openai-chat", "--json")
    data = json.loads(result.output)
    assert data["verdict"]["kind"] == "rate_limit" and data["delivered"] is False
    assert data["tried"][-1]["missed"] is None


def test_explain_says_when_the_proxy_would_not_ask(run: Any) -> None:
    body = '{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    result = run("explain", "--status", "200", "--body", body)
    assert result.exit_code == 0, result.output
    assert "delivers this answer without asking" in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((), "Give --status"), (("--status", "429", "--header", "nonsense"), "write NAME:VALUE")],
)
def test_explain_says_what_is_missing(run: Any, arguments: tuple[str, ...], text: str) -> None:
    result = run("explain", *arguments)
    assert result.exit_code == 2
    assert text in result.output


def test_explain_reads_a_recorded_flow(run: Any, tmp_path: Path) -> None:
    dump = record(tmp_path / "f.mitm", flow(b"no", status=200), flow(b"no tea"))
    result = run("explain", "--flow", dump, "--index", "1", user=PACK.replace("KIND", "overloaded"))
    assert result.exit_code == 0, result.output
    assert "acme-teapot" in result.output
    missing = run("explain", "--flow", dump, "--index", "9")
    assert missing.exit_code == 1 and "no finished HTTP flow number 9" in missing.output


def test_replay_lists_verdicts_without_credentials(run: Any, tmp_path: Path) -> None:
    broken = tflow.tflow(req=flow(b"").request, err=True)
    broken.error = Error("connection refused")
    sse = flow(b'data: {"error":{"message":"x","code":500}}\n\n', status=200, stream=True)
    dump = record(tmp_path / "f.mitm", flow(b"no tea"), broken, sse, tflow.ttcpflow())  # type: ignore[arg-type]
    result = run("replay", dump, user=PACK.replace("KIND", "overloaded"))
    assert result.exit_code == 0, result.output
    assert "acme-teapot" in result.output and "POST api.acme.example/v1/chat/completions" in result.output
    assert "3 flows judged" in result.output
    assert "secret-key-123" not in result.output


def test_replay_against_another_folder_shows_what_differs(run: Any, tmp_path: Path) -> None:
    dump = record(tmp_path / "f.mitm", flow(b"no tea"), flow(b"{}", status=429))
    own = tmp_path / "own"
    own.mkdir()
    (own / "acme.yaml").write_text(PACK.replace("KIND", "server_error"))
    result = run("replay", dump, "--against", str(own), user=PACK.replace("KIND", "overloaded"))
    assert result.exit_code == 0, result.output
    line = next(line for line in result.output.splitlines() if " kind " in line)
    assert "overloaded" in line and "server_error" in line
    assert "2 flows judged, 1 differs" in result.output
    same = run("replay", dump, "--against", str(tmp_path / "packs"))
    assert same.output.strip() == "2 flows judged, 0 differ"


def test_replay_against_a_whole_set_of_rules(run: Any, tmp_path: Path) -> None:
    dump = record(tmp_path / "f.mitm", flow(b"no tea"))
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "_generic.yaml").write_text(
        "classify:\n  - id: teapots\n    when: {status: [418]}\n    kind: server_error\n"
        "    examples:\n      - {status: 418, expect: {kind: server_error}}\n      - {status: 419, no_match: true}\n"
    )
    result = run("replay", dump, "--against", str(whole), user=PACK.replace("KIND", "overloaded"))
    assert result.exit_code == 0, result.output
    assert "teapots" in result.output
    (whole / "_generic.yaml").write_text("classify: [5]\n")
    assert run("replay", dump, "--against", str(whole)).exit_code == 1


def test_a_file_that_is_no_dump_is_told(run: Any, tmp_path: Path) -> None:
    (tmp_path / "f.mitm").write_bytes(b"not flows")
    result = run("replay", str(tmp_path / "f.mitm"))
    assert result.exit_code == 1
    assert "cannot read the flows: Invalid data format. Record them with" in result.output


def test_score_as_json_has_the_fields_that_the_issue_names(run: Any, tmp_path: Path) -> None:
    """Issue 3 point 8: other people's scripts read them."""
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(json.dumps(CASE) + "\n", encoding="utf-8")
    report = json.loads(run("score", str(corpus), "--json", user=PACK).stdout)
    for part in (report, report["without_provider"]):
        assert part["cases"] == 1
        for name in ("kind", "scope", "retry_other", "terminal", "retry_after_s", "breaker"):
            assert set(part["fields"][name]) == {"strict", "lenient", "macro_strict", "macro_lenient"}
            assert all(0 <= share <= 1 for share in part["fields"][name].values())
        assert set(part["per_kind"]) == {"rate_limit"} and set(part["per_provider"]) == {"acme"}
        assert part["costly"] == {
            name: []
            for name in (
                "healthy_taken_out",
                "dead_kept",
                "lookalike_misread",
                "too_wide",
                "wasted_retry",
                "lost_request",
                "breaker_wrong",
                "wait_wrong",
            )
        }


BROKEN = "id: acme\nclassify:\n  - {id: a, when: {status: 4299}, kind: rate_limit}\n"


def test_a_file_that_cannot_be_used_is_said_by_every_command(run: Any, tmp_path: Path) -> None:
    """A person who mends a rule must not read a verdict of the rules without it and not know."""
    sentence = "status 4299 is outside 100 to 599"
    for arguments in (("check",), ("test",)):
        told = run(*arguments, user=BROKEN)
        assert told.exit_code == 1 and sentence in told.output
    asked = run("explain", "--status", "429", user=BROKEN)
    assert asked.exit_code == 0 and "warning: left out: " in asked.stderr and sentence in asked.stderr


def test_a_folder_that_is_named_must_be_there(run: Any, tmp_path: Path) -> None:
    told = run("check", "--rules", str(tmp_path / "nowhere"), options=False)
    assert told.exit_code == 2 and "does not exist" in told.output


def test_a_wrong_file_is_not_told_line_by_line(run: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# no corpus\n" * 500, encoding="utf-8")
    told = run("score", str(tmp_path / "README.md"))
    assert told.exit_code == 1 and len(told.output.splitlines()) == 21
    assert "README.md: … and 480 more. Is it a corpus (corpus/README.md)?" in told.output
