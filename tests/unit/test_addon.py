"""The addon inside mitmproxy's own machinery: options, lifecycle, and the few hooks that the engine needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mitmproxy.proxy.layers.http as http_layers
import pytest
from mitmproxy import exceptions, version
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons
from mitmproxy.test.tflow import tflow

from omniroute_addon import addon as module
from omniroute_addon import dispatch
from omniroute_addon.addon import OPTIONS, Omniroute
from omniroute_addon.certificate_help import CertificateHelp
from omniroute_addon.clock import Clock
from omniroute_addon.errors import NotAdmitted
from omniroute_addon.exchange import Pause
from omniroute_addon.pack_files import bundled_rules
from omniroute_addon.stream import AttemptStream, Waiting
from omniroute_addon.wire import HIDDEN

MITMS_OWN = http_layers.HttpStream
CONFIG = """
connections:
  - {id: a, provider: openai, key: "env:OMNIROUTE_TEST_KEY"}
"""
PLUGIN = """
from omniroute_addon import hookimpl
from pathlib import Path
HERE = Path(__file__)

@hookimpl
def start(core):
    (HERE.parent / "started").open("a").write(f"{len(core.config.connections)} ")

@hookimpl
def stop():
    (HERE.parent / "stopped").touch()
"""


class Proxyserver:
    """The part of mitmproxy's own addon of that name that ours looks at."""

    name = "proxyserver"
    servers: Any = ()

    def load(self, loader: Loader) -> None:
        loader.add_option("connection_strategy", str, "eager", "When to dial.", ("eager", "lazy"))


@contextmanager
def mitmproxy_with(addon: Omniroute, **options: Any) -> Iterator[taddons.context]:
    """A mitmproxy whose user has set these options before our addon is loaded."""
    with taddons.context(Proxyserver()) as context:
        # Before the addon is there: its own options are kept until it registers them, as with `--set`.
        context.options.set(*[f"{name}={value}" for name, value in options.items()], defer=True)
        context.master.addons.add(addon)
        yield context


class Scene:
    """One addon in one mitmproxy; its files are in `folder`."""

    def __init__(self, folder: Path, addon: Omniroute, context: taddons.context) -> None:
        self.folder, self.addon, self.context = folder, addon, context
        self.options = context.options

    def configure(self, **options: Any) -> None:
        self.context.configure(self.addon, **options)

    def begin(self, **options: Any) -> None:
        """What `mitmdump -s` does: one `configure` with everything."""
        for name, value in options.items():
            self.options._options[name].set(value)  # told to nobody yet
        self.addon.configure(set(self.options.keys()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's files, and one bundled pack: the others only cost time here."""
    monkeypatch.setenv("OMNIROUTE_TEST_KEY", "sk-configured-secret")
    monkeypatch.setattr("omniroute_addon.places.config_dir", lambda: tmp_path / "standard")
    monkeypatch.setattr("omniroute_addon.pack_files.bundled_rules", lambda: tmp_path / "rules")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "openai.yaml").write_bytes((bundled_rules() / "openai.yaml").read_bytes())
    (tmp_path / "omniroute.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "witness.py").write_text(PLUGIN, encoding="utf-8")
    return tmp_path


@pytest.fixture
async def scene(folder: Path) -> AsyncIterator[Scene]:
    addon = Omniroute()
    files = {
        "omniroute_config": folder / "omniroute.yaml",
        "omniroute_plugins": folder / "plugins",
        "omniroute_state": folder / "state.db",
    }
    with mitmproxy_with(addon, **files) as context:
        yield Scene(folder, addon, context)
        await (addon.done() or asyncio.sleep(0))
    assert http_layers.HttpStream is MITMS_OWN


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What `running` would do to the process, as words."""
    done: list[str] = []

    def said(word: str) -> Callable[..., Callable[[], None]]:
        return lambda *_: done.append(word) or (lambda: done.append(f"undo {word}"))

    monkeypatch.setattr(dispatch, "install", said("dispatch"))
    monkeypatch.setattr(dispatch, "freeze_gc", said("gc"))
    monkeypatch.setattr(module, "RELOAD_EVERY_S", 0.0)
    yield done


# ---------------------------------------------------------------- load


def test_every_option_is_registered_with_its_default(folder: Path) -> None:
    with mitmproxy_with(Omniroute()) as context:
        for name, (kind, default, text, choices) in OPTIONS.items():
            option = context.options._options[name]
            assert (option.typespec, option.default, option.choices) == (kind, default, choices)
            assert option.help and " ".join(option.help.split()) == " ".join(text.split())


@pytest.mark.parametrize("name", ["omniroute_enabled", "omniroute_fast_dispatch"])
def test_it_is_on_unless_somebody_switches_it_off(name: str) -> None:
    assert OPTIONS[name][:2] == (bool, True)


def test_the_original_host_is_dialled_late_and_only_loopback_is_listened_on(caplog: pytest.LogCaptureFixture) -> None:
    """`design.md` §2 and §7.1: it is said in the log."""
    caplog.set_level(logging.INFO)
    with mitmproxy_with(Omniroute()) as context:
        assert (context.options.connection_strategy, context.options.listen_host) == ("lazy", "127.0.0.1")
    assert "connection_strategy is now lazy" in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", ""])
def test_what_the_user_set_is_left_alone(host: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    addon = Omniroute()
    with mitmproxy_with(addon, connection_strategy="eager", listen_host=host) as context:
        expected = host or "127.0.0.1"  # the empty one is mitmproxy's default
        assert (context.options.listen_host, addon._moves) == (expected, not host)


def test_a_strategy_that_the_user_chose_stays(caplog: pytest.LogCaptureFixture) -> None:
    with mitmproxy_with(Omniroute(), connection_strategy="lazy"):
        assert "connection_strategy" not in caplog.text


# ---------------------------------------------------------------- configure


async def test_configured_it_has_an_engine_and_is_installed(scene: Scene) -> None:
    scene.begin()
    engine = scene.addon.engine
    assert engine is not None and AttemptStream.engine is engine
    assert http_layers.HttpStream is AttemptStream
    assert [c.id for c in engine.core.config.connections] == ["a"]
    assert [*engine.core.packs.providers] == ["openai"]
    assert (scene.folder / "plugins" / "started").read_text() == "1 "
    assert {p.name for p in engine.plugins.plugins()} >= {"witness", "classification", "restatement"}


async def test_without_any_file_it_is_useful_too(folder: Path) -> None:
    addon = Omniroute()
    with mitmproxy_with(addon) as context:
        Scene(folder, addon, context).begin()
        assert addon.engine is not None and addon.engine.core.config.connections == ()
        addon.done()


async def test_no_credential_is_in_any_text_of_the_addon(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """`design.md` §7.2."""
    caplog.set_level(logging.DEBUG)
    scene.begin()
    assert scene.addon.engine is not None
    for value in (vars(scene.addon), scene.addon.engine.core, scene.addon.engine.core.config):
        assert "sk-configured-secret" not in repr(value)
    assert "sk-configured-secret" not in caplog.text


async def test_switched_off_mitmproxy_is_as_it_was(scene: Scene) -> None:
    scene.begin(omniroute_enabled=False)
    assert http_layers.HttpStream is MITMS_OWN
    scene.configure(omniroute_enabled=True)
    assert http_layers.HttpStream is AttemptStream
    scene.configure(omniroute_enabled=False)
    assert http_layers.HttpStream is MITMS_OWN


async def test_an_option_that_is_set_before_everything_else_waits(scene: Scene) -> None:
    """A program may set options before mitmproxy runs."""
    scene.configure(omniroute_enabled=True)
    assert scene.addon.engine is None and http_layers.HttpStream is MITMS_OWN


async def test_a_mitmproxy_that_does_not_fit_is_refused_as_a_bad_option(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "VERSION", "99.0")
    with pytest.raises(exceptions.OptionsError, match=r"mitmproxy 99\.0 does not fit"):
        scene.begin()
    assert http_layers.HttpStream is MITMS_OWN


async def test_unverified_tls_is_known_to_the_engine(scene: Scene) -> None:
    """`design.md` §7.4: at start and whenever it changes."""
    scene.begin(ssl_insecure=True)
    assert scene.addon.engine is not None and not scene.addon.engine.verified_tls
    scene.configure(ssl_insecure=False)
    assert scene.addon.engine.verified_tls


async def test_another_configuration_file_is_read_at_once_and_the_plugins_are_told(scene: Scene) -> None:
    scene.begin()
    engine = scene.addon.engine
    other = scene.folder / "other.yaml"
    other.write_text("connections: []\n", encoding="utf-8")
    scene.configure(omniroute_config=str(other))
    assert engine is not None and scene.addon.engine is engine
    assert engine.core.config.connections == ()
    assert (scene.folder / "plugins" / "started").read_text() == "1 0 "


async def test_other_plugins_need_a_restart(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.begin()
    assert "after a restart" not in caplog.text
    scene.configure(omniroute_plugins="")
    assert "omniroute_plugins takes effect after a restart." in caplog.text


async def test_every_problem_is_told_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    bad = scene.folder / "bad.yaml"
    bad.write_text("connections:\n  - {id: a, provider: opnai, key: 'env:X'}\n", encoding="utf-8")
    scene.begin(omniroute_config=str(bad))
    assert "not started: the configuration cannot be used." in caplog.text
    told = [r for r in caplog.records if r.levelname == "WARNING" and "Did you mean 'openai'?" in r.message]
    assert len(told) == 1
    bad.write_text("connections: []\n", encoding="utf-8")
    scene.addon._load_sources()
    bad.write_text("connections:\n  - {id: a, provider: opnai, key: 'env:X'}\n", encoding="utf-8")
    caplog.clear()
    scene.addon._load_sources()
    assert [r.levelname for r in caplog.records if "Did you mean 'openai'?" in r.message].count("WARNING") == 1


async def test_a_typing_error_in_a_choice_is_refused(scene: Scene) -> None:
    with pytest.raises(exceptions.OptionsError, match="omniroute_intercept: unknown value 'provider'"):
        scene.configure(omniroute_intercept="provider")
    assert scene.options.omniroute_intercept == "providers"


# ---------------------------------------------------------------- running, reload, done


async def turns(condition: Callable[[], bool]) -> None:
    """Let other tasks run until it holds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came")


async def test_running_speeds_up_dispatch_and_done_puts_everything_back(scene: Scene, quick: list[str]) -> None:
    scene.addon._moves = False
    scene.begin()
    scene.addon.running()
    watcher = scene.addon._watcher
    assert quick == ["dispatch", "gc"] and watcher is not None
    scene.addon.done()
    assert quick == ["dispatch", "gc", "undo gc", "undo dispatch"] and AttemptStream.run_hook is None
    await turns(watcher.done)
    assert watcher.cancelled() and scene.addon.engine is None
    assert (scene.folder / "plugins" / "stopped").exists()
    assert http_layers.HttpStream is MITMS_OWN


async def test_dispatch_is_left_alone_on_request_or_when_it_is_a_strange_one(
    scene: Scene, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.addon._moves = False
    scene.begin(omniroute_fast_dispatch=False)
    scene.addon.running()
    assert quick == []
    scene.addon._watcher.cancel()  # type: ignore[union-attr]
    scene.options.update(omniroute_fast_dispatch=True)
    monkeypatch.setattr(dispatch, "install", lambda *_: None)
    scene.addon.running()
    scene.addon.done()
    assert quick == ["gc", "undo gc"]


async def test_added_by_a_program_it_configures_itself(scene: Scene, quick: list[str]) -> None:
    scene.addon._moves = False
    scene.addon.running()
    assert scene.addon.engine is not None and http_layers.HttpStream is AttemptStream


async def test_done_without_a_beginning_does_no_harm() -> None:
    Omniroute().done()


async def test_an_edit_is_noticed_while_it_runs(
    scene: Scene, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene.addon._moves = False
    scene.begin()
    scene.addon.running()
    engine = scene.addon.engine
    assert engine is not None
    (scene.folder / "omniroute.yaml").write_text("connections: []\n# now empty\n", encoding="utf-8")
    await turns(lambda: engine.core.config.connections == ())
    await turns(lambda: "in force: 0 connections, 0 routes" in caplog.text and "were reloaded" in caplog.text)


async def test_a_bad_edit_is_told_as_a_problem_and_not_as_a_reload(
    scene: Scene, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """`design.md` §6: the last good version stays in force."""
    caplog.set_level(logging.INFO)
    scene.addon._moves = False
    scene.begin()
    scene.addon.running()
    await remembered(scene)
    (scene.folder / "omniroute.yaml").write_text("connections: [", encoding="utf-8")
    started = scene.folder / "plugins" / "started"
    await turns(lambda: started.read_text() == "1 1 1 ")
    await turns(lambda: "stays in force" in caplog.text)
    assert "were reloaded" not in caplog.text


async def remembered(scene: Scene) -> None:
    """Until the state's file was read, and the plugins heard of it."""
    state = scene.addon._state
    assert state is not None
    await turns(lambda: not state.warming())


class Polled:
    """Sources that do as told, one answer for each look."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.looks = 0

    def poll(self) -> Any:
        self.looks += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


async def test_a_fault_while_reloading_keeps_the_last_good_version_and_the_watch(
    scene: Scene, quick: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    scene.addon._moves = False
    scene.begin()
    assert scene.addon._sources is not None
    await remembered(scene)
    loaded = scene.addon._sources.load()
    sources: Any = Polled(OSError("disk"), None, loaded)
    scene.addon._sources = None
    scene.addon.running()
    for _ in range(5):
        await asyncio.sleep(0)
    scene.addon._sources = sources
    await turns(lambda: not sources.answers)
    assert "could not reload configuration and packs; the last good version stays in force" in caplog.text
    started = scene.folder / "plugins" / "started"
    await turns(lambda: started.read_text() == "1 1 1 ")


async def test_what_was_read_for_files_that_are_no_longer_meant_is_dropped(scene: Scene, quick: list[str]) -> None:
    scene.addon._moves = False
    scene.begin()
    assert scene.addon._sources is not None
    await remembered(scene)
    loaded, other = scene.addon._sources.load(), Polled()

    def replaced_meanwhile() -> Any:
        scene.addon._sources = other  # type: ignore[assignment]
        return loaded

    scene.addon._sources = Polled(replaced_meanwhile)  # type: ignore[assignment]
    scene.addon.running()
    await turns(lambda: other.looks > 1)
    assert (scene.folder / "plugins" / "started").read_text() == "1 1 "


class Servers:
    """mitmproxy's servers: what they listen on, and what they were told to become."""

    def __init__(self, *servers: tuple[str, str]) -> None:
        self.running = [
            SimpleNamespace(mode=ProxyMode.parse(mode), listen_addrs=[(address, 8080)]) for mode, address in servers
        ]
        self.updates: list[list[str]] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.running)

    async def update(self, modes: list[Any]) -> None:
        self.updates.append([mode.full_spec for mode in modes])


@pytest.mark.parametrize(
    ("servers", "updates"),
    [
        ([("regular", "127.0.0.1"), ("reverse:https://h.example@9", "::1")], []),
        (
            [("regular", "0.0.0.0"), ("socks5", "127.0.0.1")],
            [["socks5"], ["regular", "socks5"]],
        ),
        ([("regular@0.0.0.0:8080", "0.0.0.0"), ("wireguard", "0.0.0.0")], []),
    ],
)
async def test_what_stands_open_to_every_interface_is_closed_again(
    scene: Scene, quick: list[str], servers: list[tuple[str, str]], updates: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """`design.md` §7.1: but not what the user gave an address, nor WireGuard, which knows whom it lets in."""
    caplog.set_level(logging.INFO)
    fake = Servers(*servers)
    scene.context.master.addons.get("proxyserver").servers = fake
    scene.begin()
    scene.addon.running()
    await turns(lambda: "listening on loopback only" in caplog.text)
    assert fake.updates == updates
    scene.addon.running()
    await asyncio.sleep(0.005)
    assert caplog.text.count("listening on loopback only") == 1


# ---------------------------------------------------------------- tls_clienthello


def hello(sni: str | None, address: tuple[str, int] | None = None, mode: str = "regular") -> Any:
    client = SimpleNamespace(proxy_mode=ProxyMode.parse(mode))
    context = SimpleNamespace(client=client, server=SimpleNamespace(address=address))
    return SimpleNamespace(context=context, client_hello=SimpleNamespace(sni=sni), ignore_connection=False)


@pytest.mark.parametrize(
    ("sni", "address", "opened"),
    [
        ("api.openai.com", ("api.openai.com", 443), True),
        ("api.openai.com", ("203.0.113.5", 443), True),
        (None, ("api.openai.com", 443), True),
        ("api.openai.com", None, True),
        ("bank.example", ("bank.example", 443), False),
        ("bank.example", None, False),
        (None, None, False),
        (None, ("203.0.113.5", 443), False),
    ],
)
async def test_a30_only_hosts_that_a_pack_names_are_decrypted(
    scene: Scene, sni: str | None, address: tuple[str, int] | None, opened: bool
) -> None:
    """A30, `design.md` §7.3: by the name in the handshake or by the one that was dialled."""
    scene.begin()
    data = hello(sni, address)
    scene.addon.tls_clienthello(data)
    assert data.ignore_connection is not opened


@pytest.mark.parametrize("option", [{"omniroute_intercept": "all"}, {"omniroute_enabled": False}])
async def test_everything_is_decrypted_on_request_or_when_switched_off(scene: Scene, option: dict[str, Any]) -> None:
    scene.begin(**option)
    scene.addon.tls_clienthello(data := hello("bank.example"))
    assert not data.ignore_connection


async def test_before_the_configuration_and_in_reverse_mode_mitmproxy_decides(scene: Scene) -> None:
    scene.addon.tls_clienthello(data := hello("bank.example"))
    assert not data.ignore_connection
    scene.begin()
    scene.addon.tls_clienthello(data := hello("bank.example", mode="reverse:https://bank.example"))
    assert not data.ignore_connection


# ---------------------------------------------------------------- requestheaders


def flow_to(host: str = "api.openai.com", path: str = "/v1/chat/completions", method: str = "POST") -> Any:
    flow = tflow()
    flow.request.url = f"https://{host}{path}"
    flow.request.headers["host"] = host
    flow.request.method = method
    flow.request.stream = True
    return flow


@pytest.mark.parametrize(
    ("where", "streamed"),
    [
        ({}, False),
        ({"host": "bank.example"}, True),
        ({"path": "/v1/models"}, True),
        ({"method": "GET"}, True),
    ],
)
async def test_a_model_call_is_read_whole_whatever_another_addon_says(
    scene: Scene, where: dict[str, str], streamed: bool
) -> None:
    scene.begin()
    flow = flow_to(**where)
    scene.addon.requestheaders(flow)
    assert flow.request.stream is streamed


async def test_without_us_a_request_streams_as_it_was_told(scene: Scene) -> None:
    scene.addon.requestheaders(flow := flow_to())
    assert flow.request.stream
    scene.begin(omniroute_enabled=False)
    scene.addon.requestheaders(flow)
    assert flow.request.stream


async def test_a_password_of_the_proxy_is_in_no_dump_of_a_model_call(scene: Scene) -> None:
    scene.begin()
    for stream in (True, False):
        flow, other = flow_to(), flow_to("bank.example")
        for one in (flow, other):
            one.request.stream = stream
            one.metadata["proxyauth"] = ("me", "secret")
            scene.addon.requestheaders(one)
        assert flow.metadata["proxyauth"] == ("me", HIDDEN) and flow.request.stream is False
        assert other.metadata["proxyauth"] == ("me", "secret") and other.request.stream is stream


async def test_a_request_that_is_read_whole_anyway_costs_no_look(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.begin()
    flow = flow_to()
    flow.request.stream = False
    monkeypatch.setattr(scene.addon.engine, "is_ours", lambda *_: pytest.fail("was asked"))
    scene.addon.requestheaders(flow)


# ---------------------------------------------------------------- omniroute_pause


class Refused:
    """An engine that remembers refusals."""

    def __init__(self) -> None:
        self.refusals: list[tuple[Any, str]] = []
        self.core = SimpleNamespace(clock=Clock(now=lambda: 100.0))

    def not_admitted(self, exchange: Any, reason: str) -> None:
        self.refusals.append((exchange, reason))


@pytest.fixture
def engine() -> Refused:
    return Refused()


def waiting(pause: Pause, *, deadline_at: float = 1e9) -> Waiting:
    exchange: Any = SimpleNamespace(deadline_at=deadline_at)
    return Waiting(exchange, pause)


async def sit_out(engine: Refused, wait: Waiting) -> None:
    addon = Omniroute()
    addon.engine = engine  # type: ignore[assignment]
    await asyncio.wait_for(addon.omniroute_pause(wait), timeout=5)


async def test_a_pause_is_sat_out(engine: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await sit_out(engine, waiting(Pause(seconds=7.5)))
    assert slept == [7.5] and engine.refusals == []


async def test_a_client_that_leaves_ends_a_pause(engine: Refused) -> None:
    wait = waiting(Pause(seconds=1e6))
    asyncio.get_running_loop().call_soon(wait.gone.set)
    await sit_out(engine, wait)


async def test_a27_a_client_that_leaves_ends_its_place_in_a_queue(engine: Refused) -> None:
    """A27: no leak of permits."""
    permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wait = waiting(Pause(permit=permit))
    asyncio.get_running_loop().call_soon(wait.gone.set)
    await sit_out(engine, wait)
    assert permit.cancelled() and engine.refusals == []


async def test_a_permit_that_comes_lets_the_request_go(engine: Refused) -> None:
    taken = asyncio.Semaphore(1)
    await sit_out(engine, waiting(Pause(permit=taken.acquire())))  # type: ignore[arg-type]
    assert taken.locked() and engine.refusals == []


async def _refuse() -> None:
    raise NotAdmitted("the queue is full")


async def _fail() -> None:
    raise RuntimeError("a plugin's bug")


async def test_a_refused_permit_is_told_to_the_engine_with_its_reason(engine: Refused) -> None:
    wait = waiting(Pause(permit=_refuse()))
    await sit_out(engine, wait)
    assert engine.refusals == [(wait.exchange, "the queue is full")]


@pytest.mark.parametrize("deadline_at", [99.0, 100.01])
async def test_the_time_for_all_attempts_ends_the_wait_for_a_permit(engine: Refused, deadline_at: float) -> None:
    permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wait = waiting(Pause(permit=permit), deadline_at=deadline_at)
    await sit_out(engine, wait)
    assert permit.cancelled() and engine.refusals == [(wait.exchange, "the time for all attempts is over")]


async def test_a_permit_that_fails_is_the_plugins_fault_and_not_the_requests(
    engine: Refused, caplog: pytest.LogCaptureFixture
) -> None:
    await sit_out(engine, waiting(Pause(permit=_fail())))
    assert engine.refusals == []
    assert "a plugin's permit failed; the request goes on without it" in caplog.text and "a plugin's bug" in caplog.text


async def test_a_permit_that_its_plugin_cancelled_is_no_permit_either(
    engine: Refused, caplog: pytest.LogCaptureFixture
) -> None:
    permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(permit.cancel)
    await sit_out(engine, waiting(Pause(permit=permit)))
    assert "was cancelled; the request goes on without it" in caplog.text and engine.refusals == []


async def test_a_shutdown_ends_a_pause_and_its_permit(engine: Refused) -> None:
    permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(sit_out(engine, waiting(Pause(permit=permit))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert permit.cancelled()


def test_the_script_hands_out_our_addons() -> None:
    """The one that hides what a client logged in with comes last: the other wants its name first."""
    assert [type(entry) for entry in module.addons] == [CertificateHelp, Omniroute] and Omniroute.name == "omniroute"
