"""The bundled packs say what the providers' own reference pages say.

The table below was written from those pages, not from the packs: two hands have to make the same mistake before a wrong
address gets through.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from omniroute_addon.input_problems import validate
from omniroute_addon.model import Auth, DialectName
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.pack_schema import PackFile, is_loopback
from omniroute_addon.packs import Packs, load_packs
from omniroute_addon.yaml_source import read_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "rules").glob("[!_]*.yaml"))
IDS = [file.stem for file in FILES]

SHARED_HOSTS = {"opencode.ai": {"opencode-zen", "opencode-go"}}
"""Hosts that belong to more than one provider on purpose; their doors differ by path."""

# fmt: off
WITHOUT_PACK = frozenset({
    # the way there
    "network", "aws-alb", "cloudflare-edge", "nginx-edge", "vercel-edge",
    # gateways that pass other providers' errors on, or are known by an operator's `base_url` only
    "antigravity-manager", "chat2api", "chatgpt-proxy", "claude-code-router", "claude-relay-service", "cliproxyapi",
    "cursor-proxy", "flux-router", "grok2api", "kilo-gateway", "legacy-relay", "litellm", "llm-gateway-envoy",
    "mimocode", "nextchat-proxy", "omniroute", "poe-like-router", "routstr", "runpod", "sub2api", "teamclaude",
    "truefoundry", "v-api", "zenmux",
    # services without a door in one of our dialects
    "cursor", "exa-search", "kiro", "pollinations",
})
# fmt: on
"""Names in the corpus that need no pack."""

BEARER = "authorization: Bearer"
FACTS: list[tuple[str, DialectName, str, str]] = [
    ("openai", "openai-chat", "https://api.openai.com/v1/chat/completions", BEARER),
    ("openai", "openai-responses", "https://api.openai.com/v1/responses", BEARER),
    ("anthropic", "anthropic-messages", "https://api.anthropic.com/v1/messages", "x-api-key:"),
    ("anthropic", "openai-chat", "https://api.anthropic.com/v1/chat/completions", BEARER),
    (
        "gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/models/{model}:{method}",
        "x-goog-api-key:",
    ),
    ("gemini", "openai-chat", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", BEARER),
    (
        "vertex",
        "gemini",
        "https://aiplatform.googleapis.com/v1/publishers/google/models/{model}:{method}",
        "x-goog-api-key:",
    ),
    ("codex", "openai-responses", "https://chatgpt.com/backend-api/codex/responses", BEARER),
    ("openrouter", "openai-chat", "https://openrouter.ai/api/v1/chat/completions", BEARER),
    ("openrouter", "openai-responses", "https://openrouter.ai/api/v1/responses", BEARER),
    ("openrouter", "anthropic-messages", "https://openrouter.ai/api/v1/messages", BEARER),
    ("groq", "openai-chat", "https://api.groq.com/openai/v1/chat/completions", BEARER),
    ("groq", "openai-responses", "https://api.groq.com/openai/v1/responses", BEARER),
    ("mistral", "openai-chat", "https://api.mistral.ai/v1/chat/completions", BEARER),
    ("xai", "openai-chat", "https://api.x.ai/v1/chat/completions", BEARER),
    ("xai", "openai-responses", "https://api.x.ai/v1/responses", BEARER),
    ("deepseek", "openai-chat", "https://api.deepseek.com/chat/completions", BEARER),
    ("deepseek", "anthropic-messages", "https://api.deepseek.com/anthropic/v1/messages", "x-api-key:"),
    ("cohere", "openai-chat", "https://api.cohere.ai/compatibility/v1/chat/completions", BEARER),
    ("together", "openai-chat", "https://api.together.ai/v1/chat/completions", BEARER),
    ("fireworks", "openai-chat", "https://api.fireworks.ai/inference/v1/chat/completions", BEARER),
    ("fireworks", "anthropic-messages", "https://api.fireworks.ai/inference/v1/messages", BEARER),
    ("deepinfra", "openai-chat", "https://api.deepinfra.com/v1/openai/chat/completions", BEARER),
    ("deepinfra", "anthropic-messages", "https://api.deepinfra.com/anthropic/v1/messages", BEARER),
    ("cerebras", "openai-chat", "https://api.cerebras.ai/v1/chat/completions", BEARER),
    ("perplexity", "openai-chat", "https://api.perplexity.ai/chat/completions", BEARER),
    ("nvidia-nim", "openai-chat", "https://integrate.api.nvidia.com/v1/chat/completions", BEARER),
    ("github-models", "openai-chat", "https://models.github.ai/inference/chat/completions", BEARER),
    ("github-copilot", "openai-chat", "https://api.githubcopilot.com/chat/completions", BEARER),
    ("github-copilot", "anthropic-messages", "https://api.githubcopilot.com/v1/messages", BEARER),
    ("huggingface", "openai-chat", "https://router.huggingface.co/v1/chat/completions", BEARER),
    ("zhipu", "openai-chat", "https://open.bigmodel.cn/api/paas/v4/chat/completions", BEARER),
    ("zhipu", "anthropic-messages", "https://open.bigmodel.cn/api/anthropic/v1/messages", BEARER),
    ("zai", "openai-chat", "https://api.z.ai/api/paas/v4/chat/completions", BEARER),
    ("zai", "anthropic-messages", "https://api.z.ai/api/anthropic/v1/messages", BEARER),
    ("minimax", "openai-chat", "https://api.minimax.io/v1/chat/completions", BEARER),
    ("minimax", "anthropic-messages", "https://api.minimax.io/anthropic/v1/messages", BEARER),
    ("moonshot", "openai-chat", "https://api.moonshot.ai/v1/chat/completions", BEARER),
    ("moonshot", "anthropic-messages", "https://api.moonshot.ai/anthropic/v1/messages", BEARER),
    ("kimi-coding", "anthropic-messages", "https://api.kimi.com/coding/v1/messages", "x-api-key:"),
    ("kimi-coding", "openai-chat", "https://api.kimi.com/coding/v1/chat/completions", BEARER),
    (
        "dashscope",
        "openai-chat",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
        BEARER,
    ),
    ("dashscope", "anthropic-messages", "https://dashscope-intl.aliyuncs.com/apps/anthropic/v1/messages", BEARER),
    ("qwen-portal", "openai-chat", "https://portal.qwen.ai/v1/chat/completions", BEARER),
    ("siliconflow", "openai-chat", "https://api.siliconflow.com/v1/chat/completions", BEARER),
    ("volcengine-ark", "openai-chat", "https://ark.cn-beijing.volces.com/api/v3/chat/completions", BEARER),
    ("opencode-zen", "openai-chat", "https://opencode.ai/zen/v1/chat/completions", BEARER),
    ("opencode-zen", "anthropic-messages", "https://opencode.ai/zen/v1/messages", "x-api-key:"),
    ("opencode-go", "openai-chat", "https://opencode.ai/zen/go/v1/chat/completions", BEARER),
    ("opencode-go", "anthropic-messages", "https://opencode.ai/zen/go/v1/messages", "x-api-key:"),
    ("agentrouter", "anthropic-messages", "https://agentrouter.org/v1/messages", BEARER),
    ("vercel-ai-gateway", "openai-chat", "https://ai-gateway.vercel.sh/v1/chat/completions", BEARER),
    ("vercel-ai-gateway", "anthropic-messages", "https://ai-gateway.vercel.sh/v1/messages", BEARER),
    ("ollama", "openai-chat", "http://localhost:11434/v1/chat/completions", BEARER),
    ("ollama-cloud", "openai-chat", "https://ollama.com/v1/chat/completions", BEARER),
    ("lm-studio", "openai-chat", "http://localhost:1234/v1/chat/completions", BEARER),
    ("vllm", "openai-chat", "http://localhost:8000/v1/chat/completions", BEARER),
    ("llama.cpp", "openai-chat", "http://localhost:8080/v1/chat/completions", BEARER),
    ("modelscope", "openai-chat", "https://api-inference.modelscope.cn/v1/chat/completions", BEARER),
    ("qianfan", "openai-chat", "https://qianfan.baidubce.com/v2/chat/completions", BEARER),
    ("qianfan", "anthropic-messages", "https://qianfan.baidubce.com/anthropic/v1/messages", "x-api-key:"),
    ("azure-openai", "openai-responses", "https://{host}/openai/v1/responses", "api-key:"),
]

CALLS: list[tuple[str, str, str, DialectName]] = [
    ("api.openai.com", "/v1/chat/completions", "openai", "openai-chat"),
    ("eu.api.openai.com", "/v1/responses", "openai", "openai-responses"),
    ("api.anthropic.com", "/v1/messages?beta=true", "anthropic", "anthropic-messages"),
    ("chatgpt.com", "/backend-api/codex/responses", "codex", "openai-responses"),
    ("generativelanguage.googleapis.com", "/v1/models/gemini-3-pro:generateContent", "gemini", "gemini"),
    ("generativelanguage.googleapis.com", "/v1beta/models/g:streamGenerateContent?alt=sse", "gemini", "gemini"),
    ("generativelanguage.googleapis.com", "/v1beta/openai/chat/completions", "gemini", "openai-chat"),
    (
        "us-east5-aiplatform.googleapis.com",
        "/v1/projects/p/locations/us-east5/publishers/google/models/g:generateContent",
        "vertex",
        "gemini",
    ),
    ("aiplatform.googleapis.com", "/v1beta1/publishers/google/models/g:streamGenerateContent", "vertex", "gemini"),
    (
        "contoso.openai.azure.com",
        "/openai/deployments/d/chat/completions?api-version=2024-10-21",
        "azure-openai",
        "openai-chat",
    ),
    ("contoso.openai.azure.com", "/openai/v1/responses", "azure-openai", "openai-responses"),
    ("contoso.services.ai.azure.com", "/anthropic/v1/messages", "azure-openai", "anthropic-messages"),
    ("openrouter.ai", "/api/v1/chat/completions", "openrouter", "openai-chat"),
    ("opencode.ai", "/zen/v1/messages", "opencode-zen", "anthropic-messages"),
    ("opencode.ai", "/zen/v1/models/gemini-3-pro:streamGenerateContent?alt=sse", "opencode-zen", "gemini"),
    ("opencode.ai", "/zen/go/v1/chat/completions", "opencode-go", "openai-chat"),
    ("api.cloudflare.com", "/client/v4/accounts/0a1b/ai/v1/chat/completions", "cloudflare-workers-ai", "openai-chat"),
    ("api.deepseek.com", "/v1/chat/completions", "deepseek", "openai-chat"),
    ("open.bigmodel.cn", "/api/coding/paas/v4/chat/completions", "zhipu", "openai-chat"),
    ("api.z.ai", "/api/coding/paas/v4/chat/completions", "zai", "openai-chat"),
    ("api.minimaxi.com", "/anthropic/v1/messages", "minimax", "anthropic-messages"),
    ("api.minimax.io", "/v1/text/chatcompletion_v2", "minimax", "openai-chat"),
    ("api.moonshot.cn", "/v1/chat/completions", "moonshot", "openai-chat"),
    ("coding.dashscope.aliyuncs.com", "/v1/chat/completions", "dashscope", "openai-chat"),
    ("ark.cn-beijing.volces.com", "/api/coding/v3/chat/completions", "volcengine-ark", "openai-chat"),
    ("qianfan.baidubce.com", "/v2/coding/chat/completions", "qianfan", "openai-chat"),
    ("models.github.ai", "/orgs/acme/inference/chat/completions", "github-models", "openai-chat"),
    ("api.business.githubcopilot.com", "/chat/completions", "github-copilot", "openai-chat"),
    ("127.0.0.1:11434", "/v1/chat/completions", "ollama", "openai-chat"),
    ("localhost:1234", "/v1/responses", "lm-studio", "openai-responses"),
]
"""What clients really send (`clients.md` 1, corpus), and whose call it is."""

NOT_OURS = [
    ("api.anthropic.com", "/v1/messages/count_tokens"),
    ("api.anthropic.com", "/api/claude_code/settings"),
    ("api.openai.com", "/v1/embeddings"),
    ("api.openai.com", "/v1/models"),
    ("api.openai.com", "/v1/responses/resp_1/cancel"),
    ("chatgpt.com", "/backend-api/wham/accounts/check"),
    ("chatgpt.com", "/backend-api/codex/models"),
    ("generativelanguage.googleapis.com", "/v1beta/models/g:countTokens"),
    ("api.cloudflare.com", "/client/v4/accounts/0a1b/ai/run/@cf/baai/bge-base-en-v1.5"),
    ("us-east5-aiplatform.googleapis.com", "/v1/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict"),
    ("bedrock-runtime.us-east-1.amazonaws.com", "/model/m/converse"),
    ("cloudcode-pa.googleapis.com", "/v1internal:generateContent"),
    ("opencode.ai", "/docs/zen"),
    ("localhost:11434", "/api/chat"),
    ("localhost:3000", "/v1/chat/completions"),
]

TRAITS = {
    "full_text": {"agentrouter", "cloudflare-workers-ai", "opencode-go", "opencode-zen"},
    "honor_scope": {"agentrouter", "opencode-go", "opencode-zen"},
    "identify_only": {"antigravity", "bedrock", "gemini-cli"},
    "per_model_quota": {"antigravity", "codex", "gemini", "github-copilot", "nvidia-nim"},
}
OAUTH = {"antigravity", "codex", "gemini-cli", "github-copilot", "qwen-portal"}
LOCAL = {"llama.cpp", "lm-studio", "ollama", "vllm"}


def load(file: Path) -> PackFile:
    document = read_yaml(file.read_bytes(), file=file.name)
    pack, problems = validate(PackFile, document)
    assert not [*document.problems, *problems]
    assert pack is not None
    return pack


@pytest.fixture(scope="module")
def packs() -> dict[str, PackFile]:
    return {file.stem: load(file) for file in FILES}


@pytest.fixture(scope="module")
def loaded() -> Packs:
    packs, problems = load_packs([PackFolder(path=ROOT / "rules", label="rules")])
    assert problems == []
    return packs


def place(netloc: str) -> tuple[str, int]:
    host, _, port = netloc.partition(":")
    return host, int(port or 443)


def written(auth: Auth) -> str:
    return f"{auth.header}: {auth.scheme}".rstrip()


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_pack_names_itself_its_source_and_the_day_it_was_checked(file: Path) -> None:
    pack = load(file)
    assert pack.id == file.stem
    assert pack.name
    assert pack.category
    assert pack.endpoints is not None
    assert pack.source
    assert all(urlsplit(source).scheme == "https" for source in pack.source)
    assert pack.checked


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_door_is_on_a_host_of_its_provider_and_encrypted_unless_local(file: Path) -> None:
    pack = load(file)
    for dialect, endpoint in (pack.endpoints or {}).items():
        url = urlsplit(endpoint.url)
        assert url.hostname
        assert url.scheme == ("http" if pack.category == "local" else "https"), dialect
        assert is_loopback(url.hostname) is (pack.category == "local")
        if url.netloc != "{host}":
            assert url.netloc in (pack.hosts or ()), dialect
        assert ("{model}" in url.path and "{method}" in url.path) is (dialect == "gemini")


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_pack_claims_model_calls_only(file: Path) -> None:
    """Listing models, counting tokens, embeddings and files pass through (`clients.md` 3)."""
    pack = load(file)
    last = {
        "openai-chat": ("/chat/completions", "/chatcompletion_v2"),
        "openai-responses": ("/responses",),
        "anthropic-messages": ("/messages",),
        "gemini": ("/models/{model}:{method}",),
    }
    for dialect, endpoint in (pack.endpoints or {}).items():
        for path in (urlsplit(endpoint.url).path, *endpoint.aliases):
            assert path.endswith(last[dialect]), path


def test_a_host_belongs_to_one_provider(packs: dict[str, PackFile]) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for pack in packs.values():
        for host in pack.hosts or ():
            owners[host].add(pack.id)
    assert {host: ids for host, ids in owners.items() if len(ids) > 1} == SHARED_HOSTS


def test_no_wildcard_swallows_a_host_of_another_provider(packs: dict[str, PackFile]) -> None:
    hosts = [(host, pack.id) for pack in packs.values() for host in pack.hosts or ()]
    for wildcard, owner in hosts:
        if wildcard.startswith("*."):
            assert [host for host, other in hosts if other != owner and host.endswith(wildcard[1:])] == []


def test_providers_on_a_shared_host_have_no_path_in_common(packs: dict[str, PackFile]) -> None:
    for host, ids in SHARED_HOSTS.items():
        paths: list[str] = []
        for provider in ids:
            for endpoint in (packs[provider].endpoints or {}).values():
                assert urlsplit(endpoint.url).netloc == host
                paths += [urlsplit(endpoint.url).path, *endpoint.aliases]
        assert len(paths) == len(set(paths))


@pytest.mark.parametrize(("provider", "dialect", "url", "auth"), FACTS, ids=[f"{row[0]}-{row[1]}" for row in FACTS])
def test_the_facts_agree_with_a_second_source(
    packs: dict[str, PackFile], provider: str, dialect: DialectName, url: str, auth: str
) -> None:
    pack = packs[provider]
    endpoint = (pack.endpoints or {})[dialect].endpoint(dialect)
    default = pack.auth.auth() if pack.auth else Auth()
    assert endpoint.url == url
    assert written(endpoint.auth or default) == auth


def test_all_bundled_packs_load_together(loaded: Packs) -> None:
    assert set(loaded.providers) == set(IDS)


@pytest.mark.parametrize(("netloc", "path", "provider", "dialect"), CALLS)
def test_real_requests_find_their_door(
    loaded: Packs, netloc: str, path: str, provider: str, dialect: DialectName
) -> None:
    found = loaded.match_call(*place(netloc), path)
    assert found
    assert (found[0].id, found[1].dialect) == (provider, dialect)


@pytest.mark.parametrize(("netloc", "path"), NOT_OURS)
def test_everything_else_passes_through(loaded: Packs, netloc: str, path: str) -> None:
    """`A30`, `clients.md` 3: side calls on a provider's own host are not ours."""
    assert loaded.match_call(*place(netloc), path) is None


@pytest.mark.parametrize("trait", TRAITS)
def test_traits_are_those_of_the_specification(packs: dict[str, PackFile], trait: str) -> None:
    """`ML-12` (per-model quota), `FC-54` (full text), `FC-55` (honoured scope)."""
    assert {pack.id for pack in packs.values() if trait in (pack.traits or ())} == TRAITS[trait]


def test_a_provider_that_is_only_identified_has_no_door(packs: dict[str, PackFile]) -> None:
    assert {pack.id for pack in packs.values() if not pack.endpoints} == TRAITS["identify_only"]


def test_categories_pick_the_default_figures(packs: dict[str, PackFile]) -> None:
    """`CC-12`, `CC-13`: how connections log in."""
    assert {pack.id for pack in packs.values() if pack.category == "oauth"} == OAUTH
    assert {pack.id for pack in packs.values() if pack.category == "local"} == LOCAL


def test_quota_families_of_codex_and_antigravity(packs: dict[str, PackFile]) -> None:
    """`ML-9`, `ML-10`: which models share one quota; the first family that matches counts."""
    assert list(packs["codex"].quota_families or {}) == ["spark", "codex"]
    assert list(packs["antigravity"].quota_families or {}) == ["gemini", "claude"]
    assert {pack.id for pack in packs.values() if pack.quota_families} == {"codex", "antigravity"}


def test_anthropic_gets_its_version_header(packs: dict[str, PackFile]) -> None:
    assert packs["anthropic"].headers == {"anthropic-version": "2023-06-01"}


def test_gemini_answers_on_both_versions_of_its_path(packs: dict[str, PackFile]) -> None:
    """`clients.md` 1.2: google-genai calls `/v1/`, Gemini CLI `/v1beta/`."""
    assert (packs["gemini"].endpoints or {})["gemini"].aliases == ["/v1/models/{model}:{method}"]


def test_every_model_provider_of_the_corpus_has_a_pack(packs: dict[str, PackFile]) -> None:
    """Rules are keyed by provider: one without a pack could have none."""
    named = {
        json.loads(line)["provider"]
        for file in (ROOT / "corpus").glob("*.jsonl")
        for line in file.read_text("utf-8").splitlines()
    }
    assert named
    assert named - set(packs) <= WITHOUT_PACK
