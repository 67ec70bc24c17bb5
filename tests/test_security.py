"""What docs/security.md claims and no other test shows; and that each of its claims names tests that are there."""

import ast
import os
import re
import stat
from pathlib import Path

import pytest

from memfs.model.errors import MountFailed
from memfs.mount.runtime import RootState, runtime_directory
from tests.api.harness import Server, serving
from tests.mount.harness import site, wait_until

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/security.md").read_text()

SECRET = "the-safe-opens-with-4711"


def claims() -> list[tuple[str, str]]:
    """Claims and what is named beside each, of all tables that have the column."""
    found = []
    for table in re.split(r"^\| claim \| shown by \|\n\|---\|---\|\n", PAGE, flags=re.MULTILINE)[1:]:
        for line in re.match(r"(?:\|.*\n)+", table + "\n")[0].splitlines():  # type: ignore[index]  # a row follows
            claim, named = line.strip("| ").rsplit(" | ", 1)
            found.append((claim, named))
    return found


CLAIMS = claims()


def test_the_page_has_claims() -> None:
    assert len(CLAIMS) >= 30
    assert PAGE.count("`tests/") == sum(named.count("`tests/") for _, named in CLAIMS)


@pytest.mark.parametrize("claim, named", CLAIMS, ids=range(len(CLAIMS)))
def test_each_claim_names_tests_that_are_there(claim: str, named: str) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", named)
    assert tests, claim
    assert len(tests) == named.count("`") / 2, f"something else is named: {named}"
    for path, name in tests:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


# The runtime directory


def test_the_runtime_directory_is_its_owner_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() or 1234)  # root has /run/memfs
    monkeypatch.setattr(Path, "lstat", _owned_by_us)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = os.umask(0)
    try:
        made = runtime_directory()
    finally:
        os.umask(before)
    assert made == tmp_path / "memfs"
    assert stat.S_IMODE(os.stat(made).st_mode) == 0o700


def _owned_by_us(path: Path) -> os.stat_result:
    found = list(os.lstat(path))
    found[stat.ST_UID] = os.getuid()
    return os.stat_result(found)


@pytest.mark.parametrize("how", ["a link", "written by all", "of another user", "a file"])
def test_a_runtime_directory_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    uid = os.geteuid() or 1234
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = tmp_path / "memfs"
    if how == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    elif how == "a file":
        place.write_text("")
    else:
        place.mkdir(mode=0o700)
        if how == "written by all":
            place.chmod(0o777)
    if how == "of another user":
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    elif how != "a link":
        monkeypatch.setattr(Path, "lstat", _owned_by_us)
    with pytest.raises(MountFailed, match="set XDG_RUNTIME_DIR"):
        runtime_directory()


@pytest.mark.mount
def test_records_locks_and_logs_are_their_owner_s_alone(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        at.store("notes")
        before = os.umask(0)
        try:
            at.mount("notes")
        finally:
            os.umask(before)
        state = RootState(at.root)
        for path in (state.record_path, state.lock_path, state.log_path):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert stat.S_IMODE(state.record_path.parent.stat().st_mode) & 0o022 == 0


# Logs


@pytest.mark.mount
def test_a_mount_logs_no_text(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        at.store("notes")
        at.run("store", "guard", "notes", "--secrets", "reject")
        (notes,) = at.mount("notes")
        at.expected_log += ["dropped ", "a guard of the store refuses the text: AWS access key"]
        (notes / "a.md").write_text(SECRET)
        for text in (f"{SECRET}\xff".encode("latin-1"), f"{SECRET} AKIAIOSFODNN7EXAMPLE".encode(), b"x" * 200_000):
            with pytest.raises(OSError, match=r"^\[Errno "), open(notes / "b.md", "wb", buffering=0) as file:
                file.write(text)
        log = Path(at.status()[0]["log"])
        wait_until(lambda: "EILSEQ" in log.read_text() and "EACCES" in log.read_text(), "the refusals")
        assert SECRET not in log.read_text()
        assert "AKIA" not in log.read_text()
        assert SECRET not in at.run("status").stdout


@pytest.fixture
def server(tmp_path: Path) -> Server:
    with serving(tmp_path / "memfs.db") as running:
        store = running.store()
        for body in ({"path": "/a", "content": SECRET}, {"path": "bad", "content": SECRET}, f'{{"{SECRET}'.encode()):
            running.post(f"{store}/memories", body)
        running.get(f"{store}/memories", view="full", path_prefix="/a")
        for key in (running.key, "sk-memfs-WRONG", None):
            for headers in ({}, {"x-api-key": running.key}):
                running.request("GET", store, headers=headers, key=key)
        return running


def test_a_server_logs_no_key_and_no_text(server: Server) -> None:
    """It has ended by now, so that everything is in its log."""
    assert "method=GET path=/v1/memory_stores" in server.logged
    for secret in (server.key, SECRET, "WRONG"):
        assert secret not in server.logged


def test_no_other_origin_is_let_in(tmp_path: Path) -> None:
    """A browser shows an answer to a page of another origin where a header says so, and asks before it sends a key."""
    with serving(tmp_path / "memfs.db") as running:
        store = running.store()
        for method in ("GET", "OPTIONS"):
            for asked in ({}, {"access-control-request-method": "GET", "access-control-request-headers": "x-api-key"}):
                answer = running.request(method, store, headers={"origin": "https://example.com", **asked})
                assert not [name for name in answer.headers if name.startswith("access-control-")]
                assert method == "GET" or answer.status >= 400
