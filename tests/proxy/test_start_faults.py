"""What people write wrongly must not keep a real `mitmdump` from starting, unless all of it is unusable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MITMDUMP = Path(sys.executable).parent / "mitmdump"
GOOD = "connections:\n  - {id: spare, provider: openai, key: 'env:SPARE_KEY'}\n"


def start(folder: Path, config: str) -> tuple[bool, str]:
    """Whether it came to listen and stayed, and what it said."""
    (folder / "omniroute.yaml").write_text(config, encoding="utf-8")
    for name in ("rules", "plugins"):
        (folder / name).mkdir(exist_ok=True)
    options = {"config": folder / "omniroute.yaml", "rules": folder / "rules", "plugins": folder / "plugins"}
    command = [MITMDUMP, "-s", ROOT / "omniroute_addon", "--set", "listen_port=0", "--set", f"confdir={folder}"]
    for name, path in options.items():
        command += ["--set", f"omniroute_{name}={path}"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PYTHONUNBUFFERED": "1", "SPARE_KEY": "sk-spare", "HOME": str(folder)},
    )
    assert process.stdout
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "listening at 127.0.0.1" in line:  # the last thing that a good start says
            break
    try:
        process.wait(1.0)
        said.append(process.stdout.read())
        return False, "".join(said)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate(timeout=20)
        return True, "".join(said)


FAULTS = {
    "a variable that is not set": ("omniroute.yaml", GOOD + "  - {id: x, provider: openai, key: 'env:NOT_SET'}\n"),
    "a pack with a typing error": ("rules/acme.yaml", "id: acme\nhosts: [a.example]\ncategroy: api_key\n"),
    "a plugin that cannot be imported": ("plugins/broken.py", "import nothing_of_that_name\n"),
    "a plugin with an unknown hook": (
        "plugins/typo.py",
        "from omniroute_addon import hookimpl\n@hookimpl\ndef exclud(call): return None\n",
    ),
}
TOLD = ["env", "categroy", "nothing_of_that_name", "exclud"]


@pytest.mark.parametrize(("fault", "told"), zip(FAULTS, TOLD, strict=True))
def test_one_fault_is_told_and_everything_else_is_in_force(fault: str, told: str, tmp_path: Path) -> None:
    name, text = FAULTS[fault]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    started, said = start(tmp_path, text if name == "omniroute.yaml" else GOOD)
    assert started, said
    assert told in said and "in force: 1 connection," in said


def test_a_configuration_that_cannot_be_used_at_all_is_no_start(tmp_path: Path) -> None:
    """Running without what was asked for would send requests where nobody wanted them."""
    started, said = start(tmp_path, "connections:\n  - {id: spare, provider: opnai, key: 'env:SPARE_KEY'}\n")
    assert not started
    assert "Did you mean 'openai'?" in said and "not started: the configuration cannot be used." in said
