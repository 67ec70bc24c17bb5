"""API keys: secrets that are shown once, and what a key may do."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.model import ids
from memfs.model.errors import AmbiguousName, InvalidRequest, NotAuthenticated, NotFound, NotPermitted
from memfs.model.records import Actor, Store, format_time
from memfs.workspace import Workspace, keys
from memfs.workspace.keys import actor_of, check_permitted

HOUR = timedelta(hours=1)


def test_the_secret_is_the_key(workspace: Workspace) -> None:
    key, secret = workspace.keys.create("laptop")
    assert ids.is_id(key.id, ids.API_KEY)
    assert workspace.keys.authenticate(secret) == key == workspace.keys.get(key.id)
    assert secret.startswith("sk-memfs-")
    assert actor_of(key) == Actor("api_actor", key.id)


def test_two_keys_have_nothing_in_common(workspace: Workspace) -> None:
    (one, first), (two, second) = workspace.keys.create("same"), workspace.keys.create("same")
    assert workspace.keys.authenticate(first).id == one.id
    assert workspace.keys.authenticate(second).id == two.id
    assert first.split("-", 3)[3] != second.split("-", 3)[3]


def test_the_secret_is_not_in_the_database(workspace: Workspace, db: Path) -> None:
    _, secret = workspace.keys.create("laptop")
    random = secret[len("sk-memfs-") + 27 :]
    assert len(random) == 43
    for file in (db, db.with_name(db.name + "-wal")):
        content = file.read_bytes()
        assert random.encode() not in content
    assert b"laptop" in db.read_bytes() + db.with_name(db.name + "-wal").read_bytes()


def test_what_is_not_quite_the_secret_is_not_the_key(workspace: Workspace) -> None:
    key, secret = workspace.keys.create("laptop")
    _, other = workspace.keys.create("other")
    mixed = secret[: len("sk-memfs-") + 27] + other[len("sk-memfs-") + 27 :]
    wrong = [
        "",
        key.id,
        secret[:-1],
        secret + "A",
        secret.lower(),
        secret.upper(),
        " " + secret,
        secret + "\n",
        secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        mixed,
        secret.replace("sk-memfs-", "sk-ant-"),
        "sk-memfs-" + "0" * 26 + secret[len("sk-memfs-") + 26 :],
        "\ud800",
        "x" * 100_000,
    ]
    for each in wrong:
        with pytest.raises(NotAuthenticated) as refused:
            workspace.keys.authenticate(each)
        assert "laptop" not in str(refused.value)
        assert key.id not in str(refused.value)
    assert workspace.keys.authenticate(secret) == key


def test_a_revoked_key_is_invalid_at_once_everywhere(workspace: Workspace, db: Path) -> None:
    key, secret = workspace.keys.create("laptop")
    with Workspace.open(db) as elsewhere:
        elsewhere.keys.authenticate(secret)
        revoked = workspace.keys.revoke(key.id)
        assert revoked.revoked_at is not None
        with pytest.raises(NotAuthenticated, match="revoked"):
            elsewhere.keys.authenticate(secret)
    assert workspace.keys.revoke(key.id).revoked_at == revoked.revoked_at


def test_a_key_expires(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime.now(UTC) + HOUR
    _, secret = workspace.keys.create("laptop", expires_at=format_time(at))
    workspace.keys.authenticate(secret)
    monkeypatch.setattr(keys, "now", lambda: format_time(at - timedelta(microseconds=1)))
    workspace.keys.authenticate(secret)
    monkeypatch.setattr(keys, "now", lambda: format_time(at))
    with pytest.raises(NotAuthenticated, match="expired"):
        workspace.keys.authenticate(secret)


def test_what_no_key_can_be(workspace: Workspace, store: Store) -> None:
    for name in ("", "x" * 256, "a\nb", "\x7f", "\ud800"):
        with pytest.raises(InvalidRequest):
            workspace.keys.create(name)
    with pytest.raises(InvalidRequest, match="expired already"):
        workspace.keys.create("late", expires_at=format_time(datetime.now(UTC)))
    workspace.stores.delete(store.id)
    with pytest.raises(NotFound):
        workspace.keys.create("for nothing", stores=[store])
    assert workspace.keys.list() == []


def test_what_a_key_may_do(workspace: Workspace) -> None:
    one, two = workspace.stores.create("One"), workspace.stores.create("Two")
    anything, _ = workspace.keys.create("anything")
    reading, _ = workspace.keys.create("reading", access="read_only")
    only_one, _ = workspace.keys.create("one", stores=[one, one])
    reading_one, _ = workspace.keys.create("reading one", stores=[one], access="read_only")
    may = {
        (anything.name, one.id, True),
        (anything.name, two.id, True),
        (anything.name, None, True),
        (anything.name, one.id, False),
        (anything.name, two.id, False),
        (anything.name, None, False),
        (reading.name, one.id, False),
        (reading.name, two.id, False),
        (reading.name, None, False),
        (only_one.name, one.id, True),
        (only_one.name, one.id, False),
        (reading_one.name, one.id, False),
    }
    for key in (anything, reading, only_one, reading_one):
        for store_id in (one.id, two.id, None):
            for write in (True, False):
                if (key.name, store_id, write) in may:
                    check_permitted(key, store_id=store_id, write=write)
                else:
                    with pytest.raises(NotPermitted):
                        check_permitted(key, store_id=store_id, write=write)


def test_a_store_that_is_not_there_is_refused_like_one_that_is(workspace: Workspace, store: Store) -> None:
    key, _ = workspace.keys.create("other", stores=[workspace.stores.create("Other")])
    said = set()
    for store_id in (store.id, "memstore_01M8NMQFRP7HNTABQQHZR3KZM6"):
        with pytest.raises(NotPermitted) as refused:
            check_permitted(key, store_id=store_id)
        said.add(str(refused.value).replace(store_id, "it"))
    assert len(said) == 1


def test_a_key_is_named_by_its_id_or_by_its_name(workspace: Workspace) -> None:
    one, _ = workspace.keys.create("laptop")
    assert workspace.keys.resolve("laptop") == workspace.keys.resolve(one.id) == one
    two, _ = workspace.keys.create("laptop")
    with pytest.raises(AmbiguousName):
        workspace.keys.resolve("laptop")
    revoked = workspace.keys.revoke(one.id)
    assert workspace.keys.resolve("laptop") == two
    workspace.keys.revoke(two.id)
    assert workspace.keys.resolve("laptop").id == two.id
    assert workspace.keys.resolve(one.id) == revoked
    for nobody in ("nobody", ids.new_id(ids.API_KEY)):
        with pytest.raises(NotFound, match="memfs key list"):
            workspace.keys.resolve(nobody)


def test_uses_are_on_record_when_the_workspace_closes(db: Path) -> None:
    with Workspace.open(db, create=True) as workspace:
        used, secret = workspace.keys.create("used")
        workspace.keys.create("unused")
        workspace.keys.authenticate(secret)
    with Workspace.open(db) as workspace:
        first, second = workspace.keys.list()
        assert first.id == used.id
        assert first.last_used_at is not None
        assert second.last_used_at is None


def test_a_use_that_cannot_be_recorded_now_is_recorded_later(workspace: Workspace, db: Path) -> None:
    _, secret = workspace.keys.create("used")
    workspace.keys.authenticate(secret)
    with Workspace.open(db) as other, other.engine.database.write():  # type: ignore[attr-defined]  # SQLite's own
        workspace.keys.record_uses()
    assert workspace.keys.list()[0].last_used_at is None
    workspace.keys.record_uses()
    assert workspace.keys.list()[0].last_used_at is not None
