"""Mounts of which nobody takes care any more: finding them, and clearing them away.

A mount is stale where its supervisor died and left its record, or where it has no record at all and the kernel says
that the process that served it is gone (ENOTCONN). One that lives is never touched: what is found by its record is
cleared with the lock held that a supervisor holds, and what is found by asking is unmounted by the very descriptor
through which it was asked.
"""

import errno
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MountFailed
from memfs.model.findings import Finding
from memfs.mount.control import end_dead_run, prepare
from memfs.mount.processes import MountPoint, detach, mount_points, mounted_below
from memfs.mount.root import SOURCES, unmount
from memfs.mount.runtime import ROOTS, RUNS, RootRecord, RootState, records

ANSWER_SECONDS = 2.0

_GOOD_FOR = "mounting there again, and a clean system"


@dataclass(frozen=True, slots=True)
class Stale:
    """What is found. Paths are of roots, mount points and files."""

    roots: Sequence[tuple[RootState, RootRecord]]
    """Records whose supervisors are gone."""
    runs: Sequence[tuple[RootState, RootRecord]]
    """Records of ``memfs run`` of which nobody is left: nothing is mounted, but their sessions have no end."""
    points: Sequence[Path]
    """Mounts without a process and without a record, the newest first."""
    scratch: Sequence[Path]
    """What lies below such mounts: a root's scratch, which is gone at unmount."""
    logs: Sequence[Path]
    """Logs of roots that are gone."""
    damaged: Sequence[Path]
    """Records that cannot be read."""

    def __bool__(self) -> bool:
        return bool(self.roots or self.runs or self.points or self.logs or self.damaged)


def look(directory: Path, points: Sequence[MountPoint], uid: int) -> Stale:
    """What is stale of the records in ``directory`` and of what is mounted, as far as it is the user ``uid``'s.

    Root sees to what is everybody's. Changes nothing.
    """
    known = records(directory) if directory.is_dir() else []
    living = [record for state, record in known if state.alive()]
    dead = [(state, record) for state, record in known if record not in living]
    recorded = [Path(place) for _, record in known for place in (record.root, record.place)]
    unknown = [
        point
        for point in points
        if point.source in SOURCES and not any(point.path.is_relative_to(place) for place in recorded)
    ]
    ours = [point.path for point in unknown if point.kind.startswith("fuse") and uid in (0, point.owner)]
    asked = _opened_dead(list(dict.fromkeys(ours)))
    for descriptor in asked.values():
        os.close(descriptor)
    alone = [path for path in reversed(list(dict.fromkeys(ours))) if path in asked]
    scratch = [point.path for point in unknown if point.kind == "tmpfs"] if uid == 0 else []
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    runs = records(directory, RUNS) if directory.is_dir() else []
    read = {state.record_path for state, _ in (*known, *runs)}
    return Stale(
        roots=dead,
        runs=[(state, record) for state, record in runs if not state.alive()],
        points=alone,
        scratch=[path for path in dict.fromkeys(scratch) if any(each.is_relative_to(path) for each in alone)],
        logs=_unused_logs([path for path in files if path.suffix == ".log"]),
        damaged=[path for path in files if path.suffix in (ROOTS, RUNS) and path not in read and path.exists()],
    )


def _unused_logs(logs: Sequence[Path]) -> list[Path]:
    """Those to which nobody writes any more: their root has no record and no lock, and no process has them open."""
    left = {
        os.path.realpath(log): log
        for log in logs
        if not any(log.with_suffix(end).exists() for end in (ROOTS, RUNS, ".lock"))
    }
    for entry in os.listdir("/proc") if left else ():
        if entry.isdecimal():
            try:
                for descriptor in os.listdir(f"/proc/{entry}/fd"):
                    left.pop(os.readlink(f"/proc/{entry}/fd/{descriptor}"), None)
            except OSError:
                continue  # gone, or another user's
    return list(left.values())


def _opened_dead(paths: Sequence[Path]) -> dict[Path, int]:
    """Descriptors of the mounts at ``paths`` of which the kernel says that their process is gone.

    Asked from threads, all at once: a mount that lives but does not answer must not hold us, and is not ours to clear.
    """
    found: dict[Path, int] = {}

    def ask(path: Path) -> None:
        try:
            # O_PATH asks the filesystem nothing, so this opens a dead one too.
            descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.statvfs(descriptor)  # which no cache of the kernel's answers
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                found[path] = descriptor
                return
        os.close(descriptor)

    threads = [threading.Thread(target=ask, args=(path,), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def clear(stale: Stale) -> tuple[list[str], list[str]]:
    """Take away what was found; returns what was cleared, and what could not be and why, a line each."""
    cleared, failed = [], []
    for state, record in stale.roots:
        try:
            with state.hold() as lock:
                prepare(state)
                state.remove(lock)
        except (MountFailed, OSError) as error:
            failed.append(f"{record.root}: {error}")
            continue
        state.log_path.unlink(missing_ok=True)
        cleared.append(record.root)
    for state, record in stale.runs:
        try:
            end_dead_run(state)
        except (MountFailed, OSError) as error:
            failed.append(f"the run of {record.session_id}: {error}")
            continue
        state.log_path.unlink(missing_ok=True)
        cleared.append(record.session_id)
    for path in stale.points:
        said = _take_down(path)
        if said is None:
            cleared.append(os.fspath(path))
        elif said:
            failed.append(f"{path}: {said}")
    for path in stale.scratch:
        # With something else below it, that is somebody's who lives.
        if [point.path for point in mounted_below(path)] == [path]:
            unmount(path)
            cleared.append(os.fspath(path))
    for log in _unused_logs(stale.logs):
        log.unlink(missing_ok=True)
        cleared.append(os.fspath(log))
    failed += [f"{path}: it cannot be read; unmount its root, then remove it" for path in stale.damaged]
    return cleared, failed


def _take_down(path: Path) -> str | None:
    """Unmount a mount that is still dead; None where that was done, "" where it is none any more, else why not."""
    descriptor = _opened_dead([path]).get(path)
    if descriptor is None:
        return ""
    try:
        # By the descriptor: what somebody may have mounted over it meanwhile is not this one.
        detach(Path(f"/proc/self/fd/{descriptor}"))
    except PermissionError:
        pass
    except OSError as error:
        return error.strerror or str(error)
    else:
        return None
    finally:
        os.close(descriptor)
    try:
        done = subprocess.run(
            ["fusermount3", "-u", "-z", "-q", "--", os.fspath(path)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"fusermount3: {error.strerror}"
    return None if done.returncode == 0 else done.stderr.strip() or "it may not be unmounted by this user"


def finding(directory: Path) -> Finding:
    """What is stale, for a person. Never raises."""
    try:
        found = look(directory, mount_points(), os.getuid())
    except OSError as error:
        where = os.fsdecode(error.filename) if error.filename else os.fspath(directory)
        step = "look as the user whose mounts they are"
        return Finding("stale-mounts", "warning", f"{where}: {error.strerror}", _GOOD_FOR, step)
    names = [record.root for _, record in found.roots] + [os.fspath(path) for path in found.points]
    names += [f"the run of {record.session_id}" for _, record in found.runs]
    if names:
        step = "'memfs umount --stale' clears them away"
        return Finding("stale-mounts", "warning", f"nobody serves {', '.join(names)}", _GOOD_FOR, step)
    if found.damaged:
        listed = ", ".join(map(os.fspath, found.damaged))
        step = "unmount their roots, then remove them"
        return Finding("stale-mounts", "warning", f"records that cannot be read: {listed}", _GOOD_FOR, step)
    if found.logs:
        step = "'memfs umount --stale' takes them away; after a week they go by themselves"
        count = len(found.logs)
        return Finding("stale-mounts", "ok", f"none; {count} logs of roots that are gone", _GOOD_FOR, step)
    return Finding("stale-mounts", "ok", "none", _GOOD_FOR)
