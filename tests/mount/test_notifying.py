"""A service manager is told when every mount answers, and when they go (sd_notify(3))."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.mount.harness import LIMIT, Site

pytestmark = pytest.mark.mount


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told(at: Site, abstract: bool) -> None:
    """K07: ready only when every mount answers, by the process that it started, and once; then that it stops."""
    at.store("ro")
    name = f"\0memfs-test-{os.getpid()}" if abstract else str(at.directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        told.bind(name)
        told.settimeout(LIMIT)
        process = subprocess.Popen(
            at.command("mount", "--foreground", "--root", at.root, "-s", "notes", "-s", "ro:read_only"),
            env=at.environment() | {"NOTIFY_SOCKET": name.replace("\0", "@")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                said, credentials, _, _ = told.recvmsg(4096, socket.CMSG_SPACE(12))
                assert said.decode() == f"READY=1\nSTATUS=Serving 2 stores at {at.root}"
                assert int.from_bytes(credentials[0][2][:4], "little") == process.pid
                assert sorted(os.listdir(at.root)) == ["notes", "ro"]
                (at.root / "notes" / "a.md").write_text("a")
                process.send_signal(signal.SIGTERM)
                assert told.recv(4096) == b"STOPPING=1"
                process.wait(LIMIT)
            finally:
                process.kill()
            assert process.stderr is not None
            assert "level=WARNING" not in process.stderr.read()
        told.setblocking(False)
        with pytest.raises(BlockingIOError):
            told.recv(4096)
    assert process.returncode == 0
    assert at.heads("notes") == {"/a.md": b"a"}


def test_a_service_manager_that_is_gone_does_no_harm(at: Site) -> None:
    process = subprocess.Popen(
        at.command("mount", "--foreground", "--root", at.root, "-s", "notes"),
        env=at.environment() | {"NOTIFY_SOCKET": str(at.directory / "nowhere")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            directory = Path(process.stdout.readline().strip())
            (directory / "a.md").write_text("a")
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)
        finally:
            process.kill()
        assert process.stderr is not None
        assert "could not be told" in process.stderr.read()
    assert process.returncode == 0


def test_what_cannot_be_mounted_is_never_ready(at: Site) -> None:
    at.root.mkdir()
    (at.root / "full").write_text("")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(at.directory / "notify"))
        told.setblocking(False)
        at.extra["NOTIFY_SOCKET"] = str(at.directory / "notify")
        assert at.run("mount", "--foreground", "--root", at.root, "-s", "notes", check=False).returncode == 1
        with pytest.raises(BlockingIOError):
            told.recv(4096)
    del at.extra["NOTIFY_SOCKET"]
