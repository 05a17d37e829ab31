"""`epsworth client`: a folder that is whole, or none."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from made_clients import DOMAIN, MODULE, POLICY
from made_tailored import RECORD, WORST

from epsworth.client import Client
from epsworth.files import OutputError
from epsworth.policy import Policy
from epsworth.policy.client_files import write_client


def run(*words):
    code = "import sys; from epsworth.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_writes_all_files_or_none(tmp_path):
    POLICY.save(tmp_path / "policy.toml")
    out = tmp_path / "device"
    done = run("client", tmp_path / "policy.toml", "--output", out, "--vectors", 7)
    assert done.returncode == 0, done.stderr
    names = ["epsworth.d.mts", "epsworth.mjs", "package.json", "policy.json", "vectors.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert (out / "epsworth.mjs").read_bytes() == MODULE.read_bytes()
    assert Client((out / "policy.json").read_text()).fingerprint == POLICY.fingerprint
    assert len(json.loads((out / "vectors.json").read_text())["vectors"]) == 7
    again = run("client", tmp_path / "policy.toml", "--output", out)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "policy.toml"]


@pytest.mark.slow
def test_the_command_writes_tailored_policies(tmp_path):
    WORST.save(tmp_path / "policy.toml")
    done = run("client", tmp_path / "policy.toml", "--output", tmp_path / "device", "--vectors", 7)
    assert done.returncode == 0, done.stderr
    client = Client((tmp_path / "device" / "policy.json").read_text())
    assert client.fingerprint == WORST.fingerprint
    assert dict(client.replay(RECORD, [5])) == dict(WORST.client.replay(RECORD, [5]))


def test_nothing_is_written_of_a_policy_that_devices_cannot_run(tmp_path):
    with pytest.raises(ValueError, match="devices draw from"):
        write_client(Policy.of("laplace_clipped", 1, DOMAIN, per="feature"), tmp_path / "device")
    with pytest.raises(ValueError, match="vectors must be"):
        write_client(POLICY, tmp_path / "device", 0)
    with pytest.raises(OutputError, match="does not exist"):
        write_client(POLICY, tmp_path / "nowhere" / "device")
    assert list(tmp_path.iterdir()) == []
