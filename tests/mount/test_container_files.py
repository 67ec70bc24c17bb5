"""The files for containers and services: well-formed, as the guide says, and run where they can be."""

import configparser
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from memfs.cli.main import main
from memfs.mount.processes import mount_points
from tests.mount.harness import LIMIT, Site, kill, wait_for_end, wait_until
from tests.mount.users import NOBODY
from tests.processes import ROOT, hear, tell

pytestmark = pytest.mark.mount

FILES = ROOT / "docs" / "guide" / "examples" / "containers"
GUIDE = (ROOT / "docs" / "guide" / "containers.md").read_text()
UNIT = FILES / "memfs@.service"
HELPER = FILES / "mount.memfs"

OF_UNIT = {
    *("Type", "NotifyAccess", "Environment", "EnvironmentFile", "ExecStart", "ExecStopPost", "KillMode"),
    *("TimeoutStartSec", "TimeoutStopSec", "Restart", "RestartSec", "CapabilityBoundingSet", "NoNewPrivileges"),
}
"""None of these gives a service a mount namespace of its own (systemd.exec(5))."""


def unit() -> dict[str, str]:
    """The section Service."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # the names have capitals
    parser.read_string(UNIT.read_text())
    return dict(parser["Service"])


def parses(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Fail where memfs would not take these arguments."""
    monkeypatch.setattr(click.Command, "invoke", lambda command, context: None)
    assert main.main(words, prog_name="memfs", standalone_mode=False) in (None, 0)


def test_the_guide_tells_of_every_file() -> None:
    assert {f"(examples/containers/{path.name})" for path in FILES.iterdir()} <= set(re.findall(r"\([^)]+\)", GUIDE))


def test_the_image_has_what_memfs_needs() -> None:
    steps = [line.split() for line in (FILES / "Dockerfile").read_text().replace("\\\n", " ").splitlines()]
    steps = [words for words in steps if words and not words[0].startswith("#")]
    assert {words[0] for words in steps} == {"FROM", "RUN", "COPY", "ENV", "ENTRYPOINT"}
    for words in steps:
        if words[0] == "COPY" and not words[1].startswith("--from"):
            assert all((ROOT / source).exists() for source in words[1:-1])
    setup = (ROOT / "scripts" / "setup").read_text()
    installed = re.findall(r"--no-install-recommends ([^&\n]+)", (FILES / "Dockerfile").read_text())
    assert set(installed[0].split()) == {"gcc", "libc6-dev", "libfuse3-dev", "pkg-config"}
    assert all(package in setup for package in installed[0].split())
    assert {"fuse3", "libfuse3-3"} == set(installed[1].split())
    assert steps[-1] == ["ENTRYPOINT", '["memfs"]']


def test_what_the_image_copies_is_enough_to_build(tmp_path: Path) -> None:
    for words in map(str.split, (FILES / "Dockerfile").read_text().splitlines()):
        if words[:1] == ["COPY"] and not words[1].startswith("--from"):
            target = tmp_path / words[-1].removeprefix("/")
            for source in (ROOT / name for name in words[1:-1]):
                if source.is_dir():  # its contents, as COPY does
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
                else:
                    target.mkdir(exist_ok=True)
                    shutil.copy(source, target)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=tmp_path / "src",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("memfs_agent-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {"memfs/cli/__main__.py", "memfs/mount/fuse_hints.so"} <= set(archive.namelist())


def test_the_compose_file_gives_the_agent_the_mounts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    services: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text())["services"]
    daemon, agent = services["memfs"], services["agent"]
    parses(monkeypatch, daemon["command"])
    (shared,) = [volume for volume in daemon["volumes"] if isinstance(volume, dict)]
    assert shared["bind"] == {"propagation": "rshared"}
    assert shared["source"] == shared["target"]  # so the paths that memfs knows are the host's
    root = next(word for word in daemon["command"] if word.startswith("--root=")).removeprefix("--root=")
    (bound,) = agent["volumes"]
    assert bound["source"] == str(Path(root).parent)
    assert Path(bound["target"], Path(root).name) == Path("/mnt/memory")
    assert bound["read_only"] is True
    assert bound["bind"] == {"propagation": "rslave", "recursive": "writable", "create_host_path": False}
    assert agent["cap_drop"] == ["ALL"]
    assert not agent.keys() & {"cap_add", "devices", "privileged", "pid"}
    assert f"--uid={agent['user'].split(':')[0]}" in daemon["command"]
    assert sorted(daemon["cap_add"]) == sorted(
        name.removeprefix("CAP_") for name in unit()["CapabilityBoundingSet"].split()
    )
    assert all(f"`{name}`" in GUIDE for name in daemon["cap_add"])


def test_the_pod_gives_the_agent_the_mounts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pod: dict[str, Any] = yaml.safe_load((FILES / "pod.yaml").read_text())
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    ((daemon,), (agent,)) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    parses(monkeypatch, daemon["args"])
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in daemon["volumeMounts"]} == volumes
    assert daemon["restartPolicy"] == "Always"
    assert daemon["securityContext"] == {"privileged": True}
    (shared,) = [mount for mount in daemon["volumeMounts"] if mount.get("mountPropagation") == "Bidirectional"]
    assert f"--root={shared['mountPath']}/memory" in daemon["args"]
    assert agent["volumeMounts"] == [
        {"name": shared["name"], "mountPath": "/mnt", "mountPropagation": "HostToContainer", "readOnly": True}
    ]
    security = agent["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert f"--uid={security['runAsUser']}" in daemon["args"]


def test_the_unit_is_well_formed_and_hides_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """K07: no option that gives it a mount namespace, ready when it says so, workers that may commit at its end."""
    service = unit()
    assert service.keys() == OF_UNIT
    assert (service["Type"], service["NotifyAccess"], service["KillMode"]) == ("notify", "main", "mixed")
    for line in (service["ExecStart"], service["ExecStopPost"]):
        words = shlex.split(line.removeprefix("-").replace("$MEMFS_MOUNT_OPTIONS", "--uid 1000 --gid 1000"))
        assert words[0] == "/usr/local/bin/memfs"
        parses(monkeypatch, [word.replace("%i", "sesn_01M8NMQFRQEHGZHQHXSA2763V0") for word in words[1:]])
    if shutil.which("systemd-analyze") is None:
        return
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/local/bin/memfs", shutil.which("true") or "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert UNIT.name not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


@contextmanager
def namespace(script: str, *arguments: Path) -> Iterator[int]:
    """A mount namespace that a shell script has made ready; gives a process in it, and ends with the test."""
    holder = subprocess.Popen(
        [
            *("unshare", "--mount", "--propagation", "private"),
            *("sh", "-euc", f"{script}; echo ready; exec cat", "sh", *map(str, arguments)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert hear(holder) == "ready"
            yield holder.pid
        finally:
            holder.kill()


def test_the_unit_s_commands_run_with_its_capabilities(at: Site) -> None:
    """K07, J01: the mounts are seen from outside; after the death of all, what is left goes, and it starts again."""
    service = unit()
    srv = at.directory / "srv"
    srv.mkdir()
    session = at.run("session", "create", "-q", "-s", "notes").stdout.strip()
    root = srv / session / "memory"

    def command(line: str) -> list[str]:
        line = line.removeprefix("-").replace("%i", session).replace("/srv/memfs", str(srv))
        words = shlex.split(line.replace("$MEMFS_MOUNT_OPTIONS", "--uid 1000 --gid 1000"))
        return at.command(*words[1:])

    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in service["CapabilityBoundingSet"].split())
    with namespace('mount --bind "$1" "$1"; mount --make-shared "$1"', srv) as pid:
        # As systemd has it without a namespace of the unit's own: the host's.
        host = ("nsenter", "--mount", "--target", str(pid))
        limited = ("setpriv", "--no-new-privs", "--inh-caps", f"-all,{kept}", "--bounding-set", f"-all,{kept}")
        at.prefix = (*host, *limited)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(at.directory / "notify"))
            told.settimeout(LIMIT)
            for number in range(2):
                process = subprocess.Popen(
                    command(service["ExecStart"]),
                    env=at.environment() | {"NOTIFY_SOCKET": str(at.directory / "notify")},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                try:
                    assert told.recv(4096).startswith(b"READY=1\n")
                    found = {point.path: point.source for point in mount_points(pid)}
                    assert found[root] == "memfs-scratch"
                    assert found[root / "notes"] == "memfs"
                    agent = ("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "sh", "-ec")
                    directory = f"/proc/{pid}/root{root}/notes"
                    script = f"echo {number} >> a; cat a"
                    # The directories of a test are closed to others, so it is entered before.
                    done = subprocess.run(
                        [*agent, script], cwd=directory, capture_output=True, text=True, timeout=LIMIT, check=False
                    )
                    assert done.stdout.split() == ["0", "1"][: number + 1], done.stderr
                    if number == 0:
                        workers = [int(mount["pid"]) for mount in status(at, root)]
                        process.send_signal(signal.SIGSTOP)
                        for worker in workers:
                            kill(worker)
                    else:
                        process.send_signal(signal.SIGTERM)
                        process.wait(LIMIT)
                finally:
                    process.kill()
                    process.wait(LIMIT)
                if number == 0:
                    for worker in workers:
                        wait_for_end(worker)
                    assert (root / "notes") in {point.path for point in mount_points(pid)}
                # After a good end there is nothing to clear, which the unit's "-" takes.
                stopped = subprocess.run(
                    command(service["ExecStopPost"]),
                    env=at.environment(),
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                    check=False,
                )
                assert stopped.returncode == number, stopped.stderr
                assert not [point for point in mount_points(pid) if srv in point.path.parents]
            assert process.returncode == 0
        at.prefix = ()
    assert [version.content for version in at.history("notes", "/a")] == [b"0\n", b"0\n1\n"]
    assert {version.created_by.id for version in at.history("notes")} == {session}


def status(at: Site, root: Path) -> list[dict[str, Any]]:
    """What is mounted at another root than the site's."""
    found: list[dict[str, Any]] = yaml.safe_load(at.run("status", "--format", "json").stdout)
    return [mount for mount in found if mount["root"] == str(root)]


ROOTLESS = """mount --rbind "$0" /mnt; mount -o remount,bind,ro /mnt; echo ready
while IFS= read -r line; do if sh -c "$line" </dev/null 2>&1; then echo =0; else echo =1; fi; done"""
"""What a rootless container is made of: the directory bound in, read-only itself, and a shell."""


def test_an_ordinary_user_s_mounts_come_into_a_rootless_container(user: Site) -> None:
    """K01, K02, K06: without any privilege, as the namespace's root, by the directory above a root on a tmpfs."""
    user.expected_log.append("a worker died")
    place = user.directory / "tmpfs"
    place.mkdir()
    before = user.prefix
    script = f'mount -t tmpfs -o mode=755,uid={NOBODY.pw_uid} memfs-test "$1"; mount --make-shared "$1"'
    with namespace(script, place) as pid:
        user.prefix = ("nsenter", "--mount", "--target", str(pid), *before)
        root = place / "agent" / "memory"
        subprocess.run([*user.prefix, "mkdir", root.parent], check=True, timeout=LIMIT)
        unshare = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "slave")
        agent = subprocess.Popen(
            [*user.prefix, *unshare, "sh", "-euc", ROOTLESS, str(root.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def sh(line: str) -> list[str]:
            tell(agent, line)
            said = [hear(agent)]
            while not said[-1].startswith("="):
                said.append(hear(agent))
            return said

        with agent:
            try:
                assert hear(agent) == "ready"
                assert sh("mkdir /mnt/memory")[-1] != "=0"
                user.run("mount", "--root", root, "-s", "notes")
                try:
                    (log,) = {mount["log"] for mount in status(user, root)}
                    user.note_log(Path(log))
                    notes = "/mnt/memory/notes"
                    assert sh(f"id -u; stat -c %u {notes}; echo a > {notes}/a; cat {notes}/a") == ["0", "0", "a", "=0"]
                    kill(int(status(user, root)[0]["pid"]))
                    wait_until(lambda: sh(f"cat {notes}/a") == ["a", "=0"], "the worker to come back")
                finally:
                    user.run("umount", root)
                assert sh(f"mkdir -p {notes}")[-1] != "=0"
                assert sh("echo lost > /mnt/lost")[-1] != "=0"
            finally:
                agent.kill()
        user.prefix = before
    assert user.heads("notes") == {"/a": b"a\n"}


OVERLAY = (
    'mount --bind "$1" "$1"; mount --make-shared "$1"; mount -t overlay memfs-test -o "lowerdir=$2:/usr/sbin" /usr/sbin'
)
"""Puts a helper where mount(8) looks for it, seen in this namespace alone."""


@pytest.fixture
def helped(at: Site) -> Iterator[Site]:
    """A site in a namespace where mount(8) has the helper, and finds memfs."""
    at.store("Team standards", a_md="agreed\n")
    at.shell("memfs --version")  # which makes the command; mount(8) looks for it in directories of its own choice
    helpers, srv = at.directory / "helpers", at.directory / "srv"
    helpers.mkdir()
    srv.mkdir()
    shutil.copy(HELPER, helpers)
    shutil.copy(at.directory / "bin" / "memfs", helpers)
    with namespace(OVERLAY, srv, helpers) as pid:
        at.prefix = ("nsenter", "--mount", "--target", str(pid))
        yield at
        for mount in {mount["root"] for mount in yaml.safe_load(at.run("status", "--format", "json").stdout)}:
            if str(srv) in mount:
                at.run("umount", mount)
        at.prefix = ()


def mount8(at: Site, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Call mount(8)."""
    variables = at.environment()
    del variables["MEMFS_DB"]  # an fstab has none
    return subprocess.run(
        [*at.prefix, "mount", *map(str, words)],
        env=variables,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_mount_8_mounts_what_fstab_says(helped: Site) -> None:
    root = helped.directory / "srv" / "memory"
    root.mkdir()
    fstab = helped.directory / "fstab"
    options = f"db={helped.db},uid=1000,gid=1001,umask=027,scratch-size=1M,noatime,nofail,x-systemd.requires=/srv"
    fstab.write_text(f"notes,team-standards:read_only {root} memfs {options} 0 0\n")
    done = mount8(helped, "--fstab", fstab, root)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    pid = int(helped.prefix[-1])
    inside = Path(f"/proc/{pid}/root{root}")
    found = inside.joinpath("notes").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1000, 1001, 0o750)
    (inside / "notes" / "a.md").write_text("a\n")
    assert (inside / "team-standards" / "a.md").read_text() == "agreed\n"
    with pytest.raises(OSError, match="Read-only"):
        (inside / "team-standards" / "a.md").write_text("no")
    assert os.statvfs(inside).f_blocks * os.statvfs(inside).f_frsize == 1024 * 1024
    assert helped.heads("notes") == {"/a.md": b"a\n"}


def test_mount_8_mounts_a_session_and_read_only_stores(helped: Site) -> None:
    session = helped.run("session", "create", "-q", "-s", "notes").stdout.strip()
    srv = helped.directory / "srv"
    inside = Path(f"/proc/{helped.prefix[-1]}/root{srv}")
    for name, spec, options in (("one", session, "rw"), ("two", "notes", "ro")):
        done = mount8(helped, "-v", "-t", "memfs", spec, srv / name, "-o", f"{options},db={helped.db}")
        assert done.returncode == 0, done.stderr
        assert str(srv / name / "notes") in done.stdout
    (inside / "one" / "notes" / "a.md").write_text("a\n")
    assert helped.history("notes")[0].created_by.id == session
    with pytest.raises(OSError, match="Read-only"):
        (inside / "two" / "notes" / "a.md").write_text("no")


REFUSED = {
    "-t memfs notes ROOT": "add the option db=FILE",
    "-t memfs notes ROOT -o db=DB,noexec": "'noexec' is not for memfs",
    "-t memfs notes ROOT -o remount,db=DB": "'remount' is not for memfs",
    "-t memfs notes ROOT -o db=DB,umask=9": "octal",
    "-t memfs sesn_01M8NMQFRQEHGZHQHXSA2763V0 ROOT -o db=DB,ro": "leave out ro",
    "-t memfs missing ROOT -o db=DB": "missing",
}


def test_mount_8_is_told_what_cannot_be(helped: Site) -> None:
    root = helped.directory / "srv" / "memory"

    def call(words: str) -> "subprocess.CompletedProcess[str]":
        return mount8(helped, *words.replace("ROOT", str(root)).replace("DB", str(helped.db)).split())

    for words, reason in REFUSED.items():
        done = call(words)
        assert done.returncode == 32, (words, done.stderr)
        assert reason in done.stderr
    assert call("-f -t memfs notes ROOT -o db=DB").returncode == 0  # "fake"
    assert not status(helped, root)
    assert call("-s -t memfs notes ROOT -o db=DB,unheard").returncode == 0  # "sloppy"
    assert status(helped, root)
