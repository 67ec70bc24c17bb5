"""What every engine must do for the HTTP API: keys, lists of sessions, and the stores that a key may see."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from memfs.engine import Engine, SessionFilter
from memfs.model import ids
from memfs.model.errors import NotFound
from memfs.model.records import ApiKey, Attachment, Session, now
from tests.engine.harness import new_store

DIGEST = "0" * 64


def make_key(engine: Engine, *store_ids: str, everything: bool = False, name: str = "laptop") -> ApiKey:
    key = ApiKey(ids.new_id(ids.API_KEY), name, "read_write", None if everything else tuple(sorted(store_ids)), now())
    engine.insert_api_key(key, DIGEST)
    return key


def begin(engine: Engine, *store_ids: str, at: str | None = None) -> Session:
    attachments = (Attachment(each, "read_write", "Name", "", f"/mnt/memory/{each}") for each in store_ids)
    session = Session(ids.new_id(ids.SESSION), at or now(), tuple(attachments))
    engine.insert_session(session)
    return session


# Keys


def test_a_key_is_found_with_the_hash_of_its_secret(engine: Engine) -> None:
    one, two = new_store(engine), new_store(engine)
    made = [make_key(engine, one, two), make_key(engine, everything=True), make_key(engine)]
    assert engine.api_keys() == made
    assert [engine.api_key(key.id) for key in made] == [(key, DIGEST) for key in made]
    full = ApiKey(ids.new_id(ids.API_KEY), "x", "read_only", None, now(), now(), now(), now())
    engine.insert_api_key(full, "f" * 64)
    assert engine.api_key(full.id) == (full, "f" * 64)


def test_there_is_no_key_that_was_not_made(engine: Engine) -> None:
    for ask in (engine.api_key, lambda key_id: engine.revoke_api_key(key_id, now())):
        with pytest.raises(NotFound):
            ask(ids.new_id(ids.API_KEY))


def test_a_key_for_a_store_that_is_gone_is_not_made(engine: Engine) -> None:
    with pytest.raises(NotFound):
        make_key(engine, new_store(engine), ids.new_id(ids.MEMORY_STORE))
    assert engine.api_keys() == []


def test_a_key_whose_stores_are_deleted_is_not_for_all_of_them(engine: Engine) -> None:
    one, two = new_store(engine), new_store(engine)
    key, all_of_them = make_key(engine, one, two), make_key(engine, everything=True)
    engine.delete_store(one)
    assert engine.api_key(key.id)[0].store_ids == (two,)
    engine.delete_store(two)
    assert engine.api_key(key.id)[0].store_ids == ()
    assert engine.api_key(all_of_them.id)[0].store_ids is None


def test_revoking_is_for_ever(engine: Engine) -> None:
    key, other = make_key(engine, everything=True), make_key(engine, everything=True)
    at = now()
    assert engine.revoke_api_key(key.id, at) == replace(key, revoked_at=at)
    assert engine.revoke_api_key(key.id, now()) == replace(key, revoked_at=at)
    assert engine.api_keys() == [replace(key, revoked_at=at), other]


def test_uses_of_keys_are_remembered_and_go_forward_only(engine: Engine) -> None:
    key, other = make_key(engine, everything=True), make_key(engine, everything=True)
    early, late = now(), now()
    engine.record_api_key_uses({key.id: late, ids.new_id(ids.API_KEY): late})
    engine.record_api_key_uses({key.id: early})
    assert [found.last_used_at for found in engine.api_keys()] == [late, None]
    assert engine.api_key(other.id)[0] == other


# Sessions


def test_a_session_keeps_what_was_said_about_it(engine: Engine) -> None:
    told = replace(
        begin(engine),
        id=ids.new_id(ids.SESSION),
        title="Tïtle",
        metadata={"k": "“v”", "": ""},
        agent_id="agent_1",
        environment_id="env_1",
    )
    engine.insert_session(told)
    assert engine.session(told.id) == told


def test_archiving_a_session_ends_it_once(engine: Engine) -> None:
    session, ended = begin(engine), begin(engine)
    at = now()
    assert engine.archive_session(session.id, at) == replace(session, archived_at=at, ended_at=at)
    assert engine.archive_session(session.id, now()) == replace(session, archived_at=at, ended_at=at)
    engine.end_session(ended.id, at)
    later = now()
    assert engine.archive_session(ended.id, later) == replace(ended, archived_at=later, ended_at=at)
    with pytest.raises(NotFound):
        engine.archive_session(ids.new_id(ids.SESSION), at)


def test_a_session_that_ended_can_go_on_unless_it_is_archived(engine: Engine) -> None:
    session, archived = begin(engine), begin(engine)
    engine.end_session(session.id, now())
    engine.resume_session(session.id)
    assert engine.session(session.id) == session
    at = now()
    engine.archive_session(archived.id, at)
    engine.resume_session(archived.id)
    assert engine.session(archived.id) == replace(archived, archived_at=at, ended_at=at)


def test_sessions_are_listed_by_time_and_then_by_id(engine: Engine) -> None:
    moment = now()
    made = [begin(engine, at=moment) for _ in range(3)] + [begin(engine)]
    made.append(begin(engine, at="2001-01-01T00:00:00.000000Z"))
    ordered = sorted(made, key=lambda session: (session.created_at, session.id))
    assert engine.sessions(SessionFilter(), newest_first=False) == ordered
    assert engine.sessions(SessionFilter()) == ordered[::-1]
    assert engine.sessions(SessionFilter(), limit=2) == ordered[:-3:-1]


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_of_sessions_hold_each_once(engine: Engine, newest_first: bool) -> None:
    moment = now()
    whole = {begin(engine, at=moment).id for _ in range(7)}
    seen: list[Session] = []
    where = SessionFilter()
    while page := engine.sessions(where, newest_first=newest_first, limit=3):
        seen += page
        where = SessionFilter(after=(page[-1].created_at, page[-1].id))
    assert len(seen) == 7
    assert {session.id for session in seen} == whole
    assert all((one.id < two.id) != newest_first for one, two in pairwise(seen))


def test_sessions_by_time_store_and_state(engine: Engine) -> None:
    one, two = new_store(engine), new_store(engine)
    first, second, third = begin(engine, one), begin(engine, one, two), begin(engine, two)
    engine.archive_session(third.id, now())

    def found(**fields: object) -> list[str]:
        return [session.id for session in engine.sessions(SessionFilter(**fields), newest_first=False)]  # type: ignore[arg-type]  # by name

    assert found() == [first.id, second.id, third.id]
    assert found(include_archived=False) == [first.id, second.id]
    assert found(store_id=one) == [first.id, second.id]
    assert found(store_id=two) == [second.id, third.id]
    named = replace(begin(engine), id=ids.new_id(ids.SESSION), agent_id="agent_1")
    engine.insert_session(named)
    assert found(agent_id="agent_1") == [named.id]
    assert found(agent_id="agent_2") == []
    assert found(ended=True) == [third.id]
    assert third.id not in found(ended=False)
    assert named.id in found(ended=False)
    assert found(created_from=second.created_at, store_id=two) == [second.id, third.id]
    assert found(created_to=second.created_at) == [first.id, second.id]
    assert found(created_from=second.created_at, created_to=second.created_at, store_id=one) == [second.id]


def test_sessions_within_stores_have_no_others(engine: Engine) -> None:
    one, two = new_store(engine), new_store(engine)
    first, second, third = begin(engine, one), begin(engine, one, two), begin(engine, two)
    begin(engine)

    def found(*within: str) -> list[str]:
        return [session.id for session in engine.sessions(SessionFilter(within=within), newest_first=False)]

    assert found(one) == [first.id]
    assert found(one, two) == [first.id, second.id, third.id]
    assert found() == []
    engine.delete_store(one)
    assert found(two) == [second.id, third.id], "what is left of the second is a store that may be seen"


# Stores


def test_stores_within_some_are_no_others(engine: Engine) -> None:
    one, two, three = new_store(engine), new_store(engine), new_store(engine)

    def found(*within: str, after: str | None = None) -> list[str]:
        return [store.id for store in engine.stores(include_archived=True, within=within, after=after)]

    assert found(three, one, ids.new_id(ids.MEMORY_STORE)) == [one, three]
    assert found(three, one, after=one) == [three]
    assert found() == []
    assert [store.id for store in engine.stores(include_archived=True)] == [one, two, three]


# Listening


def test_the_feed_tells_of_a_commit(engine: Engine, reopen: Callable[[], Engine]) -> None:
    with engine.feed() as feed:
        feed.clear()
        assert not feed.clear()
        new_store(reopen())
        assert feed.clear()
    feed.close()
