"""Follow what is written to a store, as diffs.

Run it with ``python docs/guide/examples/follow_store.py STORE_ID [AFTER]``. ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY
say where and as whom. AFTER is the id of an event to go on after, 0 for all of the history; without it the program
begins with what comes next. It needs nothing but Python, and ends when the store is deleted, or at Ctrl-C.

A connection that breaks is made again from the last event on: nothing is missed, and nothing is told twice.
"""

import difflib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

BASE_URL = os.environ["ANTHROPIC_BASE_URL"].rstrip("/")
SILENCE_SECONDS = 60
"""The server says something every 15 seconds: after this long without a word the connection is dead."""

Object = dict[str, Any]


def opened(path: str, query: dict[str, str], **headers: str) -> HTTPResponse:
    """Send a GET. Raises OSError, of which HTTPError is one."""
    url = f"{BASE_URL}{path}?{urlencode(query)}"
    request = Request(url, headers={"x-api-key": os.environ["ANTHROPIC_API_KEY"], **headers})
    response: HTTPResponse = urlopen(request, timeout=SILENCE_SECONDS)
    return response


def events(lines: Iterator[bytes]) -> Iterator[dict[str, str]]:
    """The events of a stream, by their fields; a line that begins with a colon is a comment."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name and not line.startswith(b":"):
            fields[name] = value
        elif not name:  # an empty line ends an event; one that was cut off before that does not count
            if "event" in fields:
                yield fields
            fields = {}


def before(version: Object) -> Object | None:
    """The version of the same memory that came before this one, with its text."""
    query = {"memory_id": version["memory_id"], "created_at[lte]": version["created_at"], "view": "full"}
    found = False
    while True:
        with opened(f"/v1/memory_stores/{version['memory_store_id']}/memory_versions", query) as answer:
            page = json.load(answer)
        for other in page["data"]:
            if found:
                return dict(other)
            found = other["id"] == version["id"]
        if page["next_page"] is None:
            return None
        query["page"] = page["next_page"]


def show(version: Object) -> None:
    """Print who did what, and the difference that it made."""
    author = version["created_by"]
    who = next(value for name, value in author.items() if name != "type")
    print(f"{version['created_at']} {version['operation']} {version['path']} by {who} ({version['id']})")
    if version["redacted_at"] is not None:
        print("redacted")
        return
    former = before(version)
    if former is not None and former["path"] not in (None, version["path"]):
        print(f"was at {former['path']}")
    old = (former or {}).get("content") or ""
    new = version["content"] or ""
    for line in list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm=""))[2:]:
        print(line)
    sys.stdout.flush()


def follow(store: str, after: str | None) -> None:
    """Print each change until the store is deleted."""
    path, seconds = f"/v1/memory_stores/{store}/changes", 1.0
    while True:
        try:
            headers = {} if after is None else {"last-event-id": after}
            with opened(path, {"view": "full"}, **headers) as stream:
                for event in events(iter(stream)):
                    if event["event"] == "memory_version":
                        show(json.loads(event["data"]))
                    elif event["event"] == "memory_store_deleted":
                        print("the store was deleted")
                        return
                    after = event.get("id", after)
        except HTTPError as error:
            if error.code not in (429, 503):  # nothing that goes away by itself: a key, a store that is not there
                sys.exit(f"{error.code}: {json.load(error)['error']['message']}")
        except (OSError, HTTPException):
            pass  # the server is away, or the connection broke
        time.sleep(seconds)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    follow(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
