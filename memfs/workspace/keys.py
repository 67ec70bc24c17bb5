"""API keys: who may use the HTTP API, for which stores, and whether to write."""

import hmac
import logging
import re
import secrets
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from memfs.engine import Engine
from memfs.model import ids
from memfs.model.errors import AmbiguousName, Busy, InvalidRequest, MemfsError, NotAuthenticated, NotFound, NotPermitted
from memfs.model.records import Access, Actor, ApiKey, Store, now

log = logging.getLogger(__name__)

PREFIX = "sk-memfs-"
"""What every secret begins with, so that people and scanners for secrets know one when they see it."""

MAX_NAME = 255

_SECRET = re.compile(r"sk-memfs-([0-9A-Z]{26})-([A-Za-z0-9_-]{43})")
_NOBODY = sha256(b"").hexdigest()


class Keys:
    """The API keys of a workspace.

    A secret is ``sk-memfs-``, the 26 characters of the key's id, and 256 random bits. Those need no slow hash: nobody
    can try them all.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._used: dict[str, str] = {}

    def create(
        self,
        name: str,
        *,
        access: Access = "read_write",
        stores: Sequence[Store] | None = None,
        expires_at: str | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key; returns it with its secret, which nobody can be shown again.

        ``stores`` None means all, also those to come; ``expires_at`` None means never. Raises InvalidRequest, and
        NotFound where a store is gone.
        """
        if not 1 <= len(name) <= MAX_NAME:
            raise InvalidRequest(f"a key's name has 1 to {MAX_NAME} characters, this one {len(name)}")
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
            raise InvalidRequest("a key's name may not hold control characters, nor what UTF-8 cannot hold")
        moment = now()
        if expires_at is not None and expires_at <= moment:
            raise InvalidRequest(f"a key that expires at {expires_at} has expired already: name a time to come")
        key = ApiKey(
            id=ids.new_id(ids.API_KEY),
            name=name,
            access=access,
            store_ids=None if stores is None else tuple(sorted({store.id for store in stores})),
            created_at=moment,
            expires_at=expires_at,
        )
        secret = f"{PREFIX}{key.id.removeprefix(ids.API_KEY)}-{secrets.token_urlsafe(32)}"
        self._engine.insert_api_key(key, _digest(secret))
        return key, secret

    def list(self) -> list[ApiKey]:
        """All keys, oldest first, also those that are revoked or have expired."""
        return self._engine.api_keys()

    def get(self, key_id: str) -> ApiKey:
        """One key by its id. Raises NotFound."""
        return self._engine.api_key(key_id)[0]

    def resolve(self, id_or_name: str) -> ApiKey:
        """One key by its id, or by its name where no other valid one has it. Raises NotFound, AmbiguousName."""
        if ids.is_id(id_or_name, ids.API_KEY):
            return self.get(id_or_name)
        named = [key for key in self.list() if key.name == id_or_name]
        valid = [key for key in named if is_valid(key)] or named[-1:]
        if not valid:
            raise NotFound(f"there is no API key {id_or_name!r}: 'memfs key list' shows them")
        if len(valid) > 1:
            raise AmbiguousName(f"{len(valid)} keys are named {id_or_name!r}: say which one by its id")
        return valid[0]

    def revoke(self, key_id: str) -> ApiKey:
        """Make a key invalid for ever, at once; a second time changes nothing. Raises NotFound."""
        return self._engine.revoke_api_key(key_id, now())

    def authenticate(self, secret: str) -> ApiKey:
        """The key that a secret is of; the use is noted. Raises NotAuthenticated where it is of none that is valid."""
        found = _SECRET.fullmatch(secret)
        key, expected = None, _NOBODY
        if found is not None:
            with suppress(NotFound):
                key, expected = self._engine.api_key(ids.API_KEY + found[1])
        # Compared in any case, and in the same time for any secret.
        matches = hmac.compare_digest(_digest(secret), expected)
        if key is None or not matches:
            raise NotAuthenticated("the API key is not valid: 'memfs key create NAME' makes one")
        check_valid(key)
        self._used[key.id] = now()
        return key

    def check(self, key_id: str) -> None:
        """Raises NotAuthenticated where a key that was valid is so no more."""
        check_valid(self.get(key_id))

    def record_uses(self) -> None:
        """Put on record when keys were used. Where the database is busy, that stays noted for the next time."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            self._engine.record_api_key_uses(used)
        except MemfsError as error:
            level = logging.DEBUG if isinstance(error, Busy) else logging.WARNING
            log.log(level, "uses of API keys are not on record yet: %s", error)
            self._used = {**used, **self._used}


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def check_valid(key: ApiKey) -> None:
    """Raises NotAuthenticated where a key can be used no more, saying why."""
    if key.revoked_at is not None:
        raise NotAuthenticated(f"the API key was revoked at {key.revoked_at}: 'memfs key create NAME' makes one")
    if not is_valid(key):
        raise NotAuthenticated(f"the API key expired at {key.expires_at}: 'memfs key create NAME' makes one")


def is_valid(key: ApiKey) -> bool:
    """Whether a key can be used now: neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or now() < key.expires_at)


def check_permitted(key: ApiKey, *, store_id: str | None = None, write: bool = False) -> None:
    """Raises NotPermitted where a key may not do something: to one store, or, with None, to the workspace."""
    if write and key.access == "read_only":
        raise NotPermitted(f"the API key {key.id} may only read")
    if key.store_ids is not None and store_id not in key.store_ids:
        # The same for a store that is not there: whoever may not use a store need not learn that it exists.
        what = "do this: it is for certain stores only" if store_id is None else f"use the store {store_id}"
        raise NotPermitted(f"the API key {key.id} may not {what}")


def actor_of(key: ApiKey) -> Actor:
    """Whose changes they are that a key makes."""
    return Actor("api_actor", key.id)
