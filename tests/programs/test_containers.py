"""Real containers: what the guide to containers says of a daemon beside them, and of a sidecar, is so with runc; and
with Podman, where there is that.

All of it lives in a mount namespace of its own, in which propagation is shared as on a host with systemd. The namespace
goes with its last process, and these end with the test.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from memfs.mount.processes import mount_points
from tests.mount.harness import LIMIT, Site, kill, wait_for_end, wait_until
from tests.mount.users import NOBODY
from tests.processes import ROOT, hear, tell

pytestmark = [pytest.mark.mount, pytest.mark.programs]

GUIDE = ROOT / "docs" / "guide" / "containers.md"
FILES = GUIDE.parent / "examples" / "containers"
COMPOSE: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text())["services"]
POD: dict[str, Any] = yaml.safe_load((FILES / "pod.yaml").read_text())["spec"]

AGENT = 1000

OF_DOCKER = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_SETGID"]
OF_DOCKER += ["CAP_SETUID", "CAP_SYS_CHROOT"]
"""What root in a container may where nobody says otherwise, as far as it bears on files."""

SHELL = r"""echo ready; while IFS= read -r line; do sh -c "$line" </dev/null 2>&1; printf '\n=%s\n' $?; done"""


class Host(Site):
    """A machine with a directory for mounts, ``srv``, of which containers get parts."""

    @property
    def srv(self) -> Path:
        """What is /srv/memfs in the guide."""
        return self.directory / "srv"

    @property
    def root(self) -> Path:
        """Where this test mounts: in what the agent's container gets."""
        return self.srv / "agent" / "memory"

    @property
    def namespace(self) -> int:
        """A process in its mount namespace."""
        return int(self.prefix[-1])

    def mounted(self) -> list[Path]:
        """What is mounted below ``srv``."""
        return [point.path for point in mount_points(self.namespace) if self.srv in point.path.parents]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host with a store ``Project notes``, and a directory for one agent that is root's."""
    script = 'mount --bind "$0" "$0" && mount --make-shared "$0" && echo ready && exec cat'
    (tmp_path / "srv" / "agent").mkdir(parents=True)
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(tmp_path / "srv")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert hear(holder) == "ready"
            made = Host(tmp_path, ("nsenter", "--mount", "--target", str(holder.pid)))
            made.run("store", "create", "Project notes")
            try:
                yield made
            finally:
                made.end()
            assert not made.mounted()
        finally:
            holder.kill()


class Container:
    """A container that runs a shell, or something else in the foreground."""

    def __init__(self, process: "subprocess.Popen[str]", pid: int) -> None:
        """``pid`` is that of its first process."""
        self.process = process
        self.pid = pid

    def sh(self, script: str) -> tuple[int, str]:
        """Run a line of shell in it; returns the exit status and what it wrote."""
        tell(self.process, script)
        lines = []
        while not (line := hear(self.process)).startswith("="):
            lines.append(line)
        return int(line[1:]), "\n".join(lines).strip()

    def said(self, script: str) -> str:
        """What a line of shell wrote, that must succeed."""
        status, text = self.sh(script)
        assert status == 0, (script, text)
        return text

    def refused(self, script: str) -> str:
        """What a line of shell wrote, that must fail."""
        status, text = self.sh(script)
        assert status != 0, (script, text)
        return text


def bind(source: Path, place: str, *options: str) -> dict[str, Any]:
    """A bind mount as the OCI runtime specification has it."""
    return {"destination": place, "type": "bind", "source": str(source), "options": ["rbind", *options]}


def system() -> list[dict[str, Any]]:
    """The host's programs, and what runs memfs, read-only."""
    places = [Path("/usr"), *sorted({Path(sys.prefix), Path(sys.base_prefix), ROOT})]
    outer = [place for place in places if not any(other in place.parents for other in places)]
    return [bind(place, str(place), "ro", "rprivate") for place in outer]


@contextmanager
def container(
    host: Host,
    name: str,
    *mounts: dict[str, Any],
    uid: int,
    args: list[str] | None = None,
    capabilities: list[str] | None = None,
    env: dict[str, str] | None = None,
    device: bool = False,
    propagation: str = "slave",
) -> Iterator[Container]:
    """Run a container with a root filesystem of its own, which is read-only, and namespaces of its own."""
    bundle = host.directory / f"bundle-{name}"
    rootfs = bundle / "rootfs"
    rootfs.mkdir(parents=True, exist_ok=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        if Path("/", link).is_symlink() and not (rootfs / link).is_symlink():
            (rootfs / link).symlink_to(f"usr/{link}")
    caps = capabilities or []
    fuse = {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o666}
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": uid},
            "args": args or ["sh", "-c", SHELL],
            "env": [f"{key}={value}" for key, value in ({"PATH": os.environ["PATH"]} | (env or {})).items()],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), caps),
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]},
            {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            *system(),
            *mounts,
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")],
            "devices": [fuse] if device else [],
            "resources": {"devices": [{"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rwm"}]},
            "rootfsPropagation": propagation,
        },
    }
    (bundle / "config.json").write_text(json.dumps(config))
    runc = [*host.prefix, "runc", "--root", str(host.directory / "runc")]
    ident = f"memfs-{os.getpid()}-{name}"
    pid_file = bundle / "pid"
    pid_file.unlink(missing_ok=True)
    process = subprocess.Popen(
        [*runc, "run", "--bundle", str(bundle), "--pid-file", str(pid_file), ident],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            first = hear(process)
            assert first == "ready" or args, first
            # Written a moment after the first process began.
            pid = wait_until(lambda: pid_file.exists() and pid_file.read_text(), "the container's process")
            yield Container(process, int(pid))
        finally:
            deleted = subprocess.run(
                [*runc, "delete", "--force", ident], capture_output=True, text=True, timeout=LIMIT, check=False
            )
            process.kill()
    assert deleted.returncode == 0, deleted.stderr


def kill_all(host: Host) -> None:
    """End every process of the daemon at once; what it left mounted stays dead."""
    supervisor, workers = host.supervisor(), [int(mount["pid"]) for mount in host.status()]
    os.kill(supervisor, signal.SIGSTOP)  # it must not start another worker before it is killed itself
    for pid in [*workers, supervisor]:
        kill(pid)
        wait_for_end(pid)


WAYS = {
    "a user": (AGENT, "rw", []),
    "root, read-only": (0, "ro", OF_DOCKER),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_has_nothing_but_the_mounts(host: Host, way: str) -> None:
    """K01, K02, K08: bound in by propagation before anything is mounted, through every end and start of the daemon."""
    uid, access, capabilities = WAYS[way]
    host.expected_log.append("a worker died")
    host.store("Team standards", a_md="as agreed\n")
    memory, notes = "/mnt/memory", "/mnt/memory/project-notes"
    with container(
        host, "agent", bind(host.srv / "agent", "/mnt", "rslave", access), uid=uid, capabilities=capabilities
    ) as agent:
        # Nothing is mounted yet, so nothing can be written.
        assert agent.said("id -u; ls -A /mnt") == str(uid)
        assert agent.refused("echo lost > /mnt/lost")
        assert agent.refused(f"mkdir -p {notes}")

        # What is mounted later is there.
        host.mount("project-notes", "team-standards:read_only", uid=AGENT, gid=AGENT)
        assert agent.said(f"ls {memory}").split() == ["project-notes", "team-standards"]
        assert agent.said(f"cd {notes}; echo one > a; echo two >> a; sed -i s/one/ONE/ a; cat a") == "ONE\ntwo"
        assert agent.said(f"stat -c %u {notes} {notes}/a").split() == [str(AGENT)] * 2
        assert agent.said(f"cat {memory}/team-standards/a.md") == "as agreed"
        assert "Read-only file system" in agent.refused(f"echo no > {memory}/team-standards/a.md")
        assert agent.said(f"echo draft > {memory}/draft; cat {memory}/draft") == "draft"
        assert host.heads("project-notes") == {"/a": b"ONE\ntwo\n"}

        # The database is not there by any path, and the mounts cannot be taken away or made.
        assert agent.said("ls -A /mnt") == "memory"
        assert agent.said("find / -name 'memfs.db*' 2>/dev/null; true") == ""
        assert agent.said("for p in /proc/[0-9]*; do ls $p/root/mnt; done | sort -u") == "memory"
        assert agent.refused(f"test -e {host.db} || ls {host.directory}")
        assert agent.refused(f"umount {notes}")
        assert agent.refused(f"unshare --user --map-root-user --mount umount {notes}")
        agent.refused("test -e /dev/fuse")

        # A worker dies.
        before = host.worker("Project notes")
        kill(before)
        wait_until(lambda: agent.sh(f"echo back > {notes}/b")[0] == 0, "the store to be back in the container")
        wait_until(lambda: host.worker("Project notes") != before, "the new worker's record")

        # All of the daemon dies; what was mounted fails until it is mounted again.
        kill_all(host)
        for script in (f"echo lost > {notes}/lost", f"echo lost >> {notes}/a", f"mkdir {notes}/lost"):
            assert "not connected" in agent.refused(script)
        host.mount("project-notes", uid=AGENT, gid=AGENT)
        assert agent.said(f"cat {notes}/a {notes}/b") == "ONE\ntwo\nback"
        agent.said(f"echo again > {notes}/c")

        # It is stopped, as for an update; nothing is left to write to, until it is started.
        host.run("umount", host.root)
        assert agent.said("ls -A /mnt") == ""
        for script in (f"echo lost > {notes}/lost", f"mkdir -p {notes}", "echo lost > /mnt/lost"):
            assert agent.refused(script)
        host.mount("project-notes", uid=AGENT, gid=AGENT)
        agent.said(f"echo last > {notes}/d")
        assert agent.said(f"ls {notes}").split() == ["a", "b", "c", "d"]
    found = {version.path: version.created_by.type for version in host.history("project-notes")}
    assert found == dict.fromkeys(("/a", "/b", "/c", "/d"), "session_actor")
    assert os.listdir(host.srv / "agent") == ["memory"]


CAPABILITIES = [f"CAP_{name}" for name in COMPOSE["memfs"]["cap_add"]]
SIDECARS = {"compose": (COMPOSE["memfs"]["command"], "agent"), "pod": (POD["initContainers"][0]["args"], "")}
"""The command, and what below the shared directory the agent gets. A privileged container may more than these need."""


@pytest.mark.parametrize("kind", SIDECARS)
def test_a_sidecar_shows_its_mounts_to_the_agent(host: Host, kind: str) -> None:
    """K01, K02, K08: with the command and the capabilities of the examples, as the first process of its container."""
    command, below = SIDECARS[kind]
    records = host.directory / "records"
    records.mkdir()
    if kind == "pod":
        host.srv.chmod(0o777)  # as Kubernetes makes an emptyDir

    def sidecar() -> Any:
        return container(
            host,
            "memfs",
            bind(host.srv, "/srv/memfs", "rshared"),
            bind(host.db.parent, "/var/lib/memfs"),
            bind(records, "/run/memfs"),
            uid=0,
            args=[sys.executable, "-bb", "-m", "memfs.cli", *command],
            capabilities=CAPABILITIES,
            env={"MEMFS_DB": "/var/lib/memfs/memfs.db", "PYTHONPATH": str(ROOT)},
            device=True,
            propagation="shared",
        )

    notes = "/mnt/memory/project-notes"
    with ExitStack() as stack:
        agent = stack.enter_context(container(host, "agent", bind(host.srv / below, "/mnt", "rslave", "ro"), uid=AGENT))
        assert agent.refused("echo lost > /mnt/lost")
        with sidecar() as daemon:
            agent.said(f"echo one > {notes}/a")
            assert agent.said(f"stat -c %u:%g {notes}/a") == f"{AGENT}:{AGENT}"
            assert agent.refused("ls /var/lib/memfs /proc/1/root/var/lib/memfs")
            kill(daemon.pid)
            wait_for_end(daemon.pid)
            assert "not connected" in agent.refused(f"echo lost > {notes}/lost")
        with sidecar() as daemon:
            agent.said(f"echo two >> {notes}/a")
            os.kill(daemon.pid, signal.SIGTERM)
            assert daemon.process.wait(LIMIT) == 0
            for script in (f"echo lost > {notes}/lost", f"mkdir -p {notes}", "echo lost > /mnt/lost"):
                assert agent.refused(script)
    assert host.heads("project-notes") == {"/a": b"one\ntwo\n"}
    assert not host.mounted()


class Podman:
    """Podman with a storage of its own, for who a site's commands run as, in the site's mount namespace."""

    def __init__(self, at: Site, home: Path, *options: str, runtime: Path | None = None) -> None:
        """``options`` are those of ``podman run`` in each; ``runtime`` is where it is to find XDG_RUNTIME_DIR."""
        self.prefix = at.prefix
        self.home = home
        self.rootfs = self.home / "rootfs"
        _make_rootfs(self.rootfs)
        if runtime is not None:
            for path in (self.home, *self.home.rglob("*")):
                os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
        self.env = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(runtime or self.home)}
        self.words = ["podman", "--root", f"{self.home}/store", "--runroot", f"{self.home}/run", "--tmpdir"]
        self.words += [
            f"{self.home}/tmp",
            "--storage-driver",
            "vfs",
            "--runtime",
            "runc",
            "--cgroup-manager",
            "cgroupfs",
        ]
        self.words += ["--events-backend", "none"]
        self.options = [
            "--interactive",
            "--read-only",
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
            *options,
        ]
        # Not what runs memfs: an agent needs none of it, and a checkout can lie where this user may not go.
        self.options += ["--volume", "/usr:/usr:ro"]

    def command(self, *words: str) -> list[str]:
        """The command line for some words."""
        return [*self.prefix, *self.words, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*words), env=self.env, cwd="/", capture_output=True, text=True, timeout=LIMIT, check=False
        )

    @contextmanager
    def container(self, line: str, source: Path) -> Iterator[Container]:
        """Run a shell by a line of the guide, whose image is our files, and whose directory is ``source``.

        Podman itself waits long for the end of a container where nobody reaps its orphans, so it is removed.
        """
        words = line.split()
        words = words[2 : words.index("debian:bookworm-slim")]
        given = words.index("--mount") + 1
        kept = words[given].strip('"').split(",")
        words[given] = ",".join(f"src={source}" if option.startswith("src=") else option for option in kept)
        shell = ["--rootfs", str(self.rootfs), "sh", "-c", SHELL]
        process = subprocess.Popen(
            self.command("run", "--rm", "--name", "agent", *self.options, *words, *shell),
            env=self.env,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                if hear(process) != "ready":
                    # Nothing is mounted yet: Podman can run no container, or none like this one.
                    assert process.stderr is not None
                    pytest.skip(f"podman runs no container here: {process.stderr.read().strip().splitlines()[-1]}")
                yield Container(process, 0)
            finally:
                removed = self.run("rm", "--force", "--time", "0", "agent")
                process.kill()
        assert removed.returncode == 0, removed.stderr


def _make_rootfs(rootfs: Path) -> None:
    """An empty root filesystem that takes the host's /usr."""
    rootfs.mkdir()
    for link in ("bin", "sbin", "lib", "lib64"):
        if Path("/", link).is_symlink():
            (rootfs / link).symlink_to(f"usr/{link}")
    for mount in (*system(), {"destination": "/mnt"}):
        (rootfs / mount["destination"].lstrip("/")).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def storage() -> Iterator[Path]:
    """A directory for Podman's own files, of which it takes no path of more than 50 characters."""
    made = Path(tempfile.mkdtemp(prefix="memfs-podman-"))
    yield made
    # An ordinary user's Podman leaves processes that keep its namespaces.
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.fsencode(made) in Path(f"/proc/{entry}/environ").read_bytes():
                kill(int(entry))
                wait_for_end(int(entry))
    shutil.rmtree(made)


needs_podman = pytest.mark.skipif(shutil.which("podman") is None, reason="there is no podman here")
OF_PODMAN = [line for line in GUIDE.read_text().splitlines() if line.startswith("podman run ")]


@needs_podman
def test_an_agent_of_podman_has_nothing_but_the_mounts(host: Host, storage: Path) -> None:
    """K01, K02, K08: by the guide's line, as another user, through the ends and starts of the daemon."""
    podman = Podman(host, storage, "--network", "none")
    host.store("Team standards", a_md="as agreed\n")
    memory, notes = "/mnt/memory", "/mnt/memory/project-notes"
    line = next(line for line in OF_PODMAN if "--user 1000:1000" in line)
    with podman.container(line, host.srv / "agent") as agent:
        assert agent.said("id -u; ls -A /mnt") == str(AGENT)
        assert agent.refused("echo lost > /mnt/lost")
        host.mount("project-notes", "team-standards:read_only", uid=AGENT, gid=AGENT)
        assert agent.said(f"cd {notes}; echo one > a; sed -i s/one/ONE/ a; cat a; stat -c %u a") == f"ONE\n{AGENT}"
        assert agent.said(f"cat {memory}/team-standards/a.md") == "as agreed"
        assert "Read-only file system" in agent.refused(f"echo no > {memory}/team-standards/a.md")
        assert agent.said("find / -name 'memfs.db*' 2>/dev/null; true") == ""
        assert agent.refused(f"test -e {host.db} || ls {host.directory}")
        assert agent.refused(f"umount {notes}")
        kill_all(host)
        assert "not connected" in agent.refused(f"echo lost > {notes}/lost")
        host.mount("project-notes", uid=AGENT, gid=AGENT)
        agent.said(f"echo two >> {notes}/a")
        host.run("umount", host.root)
        for script in (f"echo lost > {notes}/lost", f"mkdir -p {notes}", "echo lost > /mnt/lost"):
            assert agent.refused(script)
    assert host.heads("project-notes") == {"/a": b"ONE\ntwo\n"}


@needs_podman
def test_an_ordinary_user_s_podman_has_the_user_s_mounts(user: Site, storage: Path) -> None:
    """K01, K06: by the guide's line, without root, where the user is root in the container."""
    place = user.directory / "tmpfs"
    place.mkdir()
    before = user.prefix
    script = f'mount -t tmpfs -o mode=700,uid={NOBODY.pw_uid} memfs-test "$0"; mount --make-shared "$0"'
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", f"{script}; echo ready; exec cat", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert hear(holder) == "ready"
            user.prefix = ("nsenter", "--mount", "--target", str(holder.pid), *before)
            _rootless(user, place, storage)
        finally:
            user.prefix = before
            holder.kill()
    assert user.heads("notes") == {"/a": b"a\n"}


def _rootless(user: Site, place: Path, storage: Path) -> None:
    podman = Podman(user, storage, "--network", "host", runtime=place)
    root = place / "agent" / "memory"
    subprocess.run([*user.prefix, "mkdir", root.parent], check=True, timeout=LIMIT)
    line = next(line for line in OF_PODMAN if "--user" not in line)
    with podman.container(line, root.parent) as agent:
        assert agent.refused("mkdir /mnt/memory")
        user.run("mount", "--root", root, "-s", "notes")
        try:
            said = agent.said("cd /mnt/memory/notes; id -u; echo a > a; stat -c %u a; cat a")
            assert said.split() == ["0", "0", "a"]
            assert agent.refused("echo lost > /mnt/lost")
            assert agent.refused(f"test -e {user.db} || ls {user.directory}")
            assert agent.refused("umount /mnt/memory/notes")
        finally:
            user.run("umount", root)
        assert agent.refused("mkdir -p /mnt/memory/notes")
