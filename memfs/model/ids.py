"""Identifiers: a prefix and 26 characters that sort by creation and cannot collide.

The 26 characters are a ULID (48 bits of milliseconds, 80 random bits, Crockford base 32). Within a process ids are
strictly increasing, even when the clock stands still or jumps back: the next one is then the last one plus a random
step. An identifier made under the database's writer lock passes the newest stored one as ``after``, so that the order
holds between processes too.
"""

import re
import secrets
import threading
import time

MEMORY_STORE = "memstore_"
MEMORY = "mem_"
MEMORY_VERSION = "memver_"
SESSION = "sesn_"
WORKSPACE = "wrk_"
API_KEY = "apikey_"
REQUEST = "req_"

PREFIXES = (MEMORY_STORE, MEMORY, MEMORY_VERSION, SESSION, WORKSPACE, API_KEY, REQUEST)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUE = {character: value for value, character in enumerate(_ALPHABET)}
_LENGTH = 26
_RANDOM_BITS = 80
_END_OF_TIME = 253_402_300_800_000
"""Milliseconds until the year 10000; there are 48 bits for them, which end in the year 10889."""
_BODY = re.compile(f"[0-7][{_ALPHABET}]{{{_LENGTH - 1}}}")

_lock = threading.Lock()
_last = 0


def _encode(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range((_LENGTH - 1) * 5, -1, -5))


def _decode(body: str) -> int:
    number = 0
    for character in body:
        number = number << 5 | _VALUE[character]
    return number


def new_id(prefix: str, *, after: str | None = None) -> str:
    """Make an identifier that sorts after every one made before by this process, and after ``after`` where given."""
    global _last
    candidate = time.time_ns() // 1_000_000 << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    with _lock:
        floor = _last
        if after is not None:
            floor = max(floor, _decode(after.removeprefix(prefix)))
        if candidate <= floor:
            # The step is random, not one: two processes that continue from the same id must not meet.
            candidate = floor + 1 + secrets.randbits(64)
        _last = candidate
    return prefix + _encode(candidate)


def leaves_no_room(text: str) -> bool:
    """Whether an identifier says that it was made at the end of time, so that none can be made that sorts after it.

    One from a clock that was only ahead is good: those made later go on from it.
    """
    return _decode(text[-_LENGTH:]) >> _RANDOM_BITS >= _END_OF_TIME


def is_id(text: str, prefix: str) -> bool:
    """Whether ``text`` has the form of an identifier with this prefix."""
    return text.startswith(prefix) and _BODY.fullmatch(text.removeprefix(prefix)) is not None
