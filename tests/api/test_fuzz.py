"""Whatever a request is made of, the answer is one of the contract, and neither server nor database comes to harm."""

import base64
import gzip
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.effort import EFFORT, fuzzed
from tests.api.harness import Answer, Server, serving
from tests.api.wire import Wire
from tests.processes import ROOT

KINDS = {
    400: {"invalid_request_error"},
    401: {"authentication_error"},
    404: {"not_found_error"},
    405: {"invalid_request_error"},
    409: {"memory_path_conflict_error", "memory_precondition_failed_error", "conflict_error"},
    413: {"request_too_large"},
}
"""Every refusal that a key for everything may meet, none of it of the server's own fault."""

MAX_BODY = 1_048_576
REFUSED_BY_THE_SERVER = "Invalid HTTP request received."
"""What uvicorn answers, and logs, where bytes are no HTTP request; see MALFORMED."""

pytestmark = pytest.mark.timeout(240 * EFFORT)


# ---- the scene, and what is to be the case after all -----------------------------------------------------------------


@pytest.fixture(scope="module")
def server(server_db: Path) -> Iterator[Server]:
    """After the module's last test its log is judged, and its database, as with every server."""
    with serving(server_db, "--rate", "0", expected_warnings=True) as running:
        yield running
    for line in running.logged.splitlines():
        assert " level=INFO " in line or line.endswith(f" {REFUSED_BY_THE_SERVER}"), line
    check_hidden(running, running.logged)


def check_hidden(server: Server, text: str) -> None:
    """Neither a secret nor a place of this machine is told."""
    assert server.key.split("-", 3)[3] not in text  # random characters, which may be hyphens too
    for place in (server.log.parent, ROOT, sys.prefix, "site-packages", "Traceback"):
        assert str(place) not in text, place


@dataclass(frozen=True)
class Scene:
    """A connection, and what is there to be aimed at."""

    server: Server
    wire: Wire
    ids: dict[str, str]
    tokens: list[str]

    def path(self, template: str) -> str:
        """With the real ids."""
        return template.format(**self.ids)

    def judge(self, answer: Answer) -> Answer:
        """Every answer is of the contract."""
        check_hidden(self.server, answer.body.decode() + str(answer.headers))
        if answer.status == 200:
            assert answer.headers["request-id"]
            return answer
        assert answer.status in KINDS, answer
        if answer.body:  # an answer to HEAD has none
            kind = answer.json["error"]["type"]
            assert kind in KINDS[answer.status], answer
            answer.refused(answer.status, kind)
        return answer

    def ask(self, *request: Any, **how: Any) -> Answer:
        """A request, and an answer that is as it must be."""
        return self.judge(self.wire.ask(*request, **how))


@pytest.fixture(scope="module")
def scene(server: Server) -> Iterator[Scene]:
    """One of everything, and the same once more in another store."""
    ids: dict[str, str] = {}
    tokens = []
    for suffix in ("", "_of_another"):
        store = server.store("Notes")
        made = [server.post(f"{store}/memories", {"path": f"/d{n}/a", "content": f"{n}"}).ok() for n in range(3)]
        store_id = store.rpartition("/")[2]
        resources = [{"type": "memory_store", "memory_store_id": store_id}]
        sessions = [server.post("/v1/sessions", {"resources": resources}).ok() for _ in range(2)]
        ids |= {
            f"store_id{suffix}": store_id,
            f"memory_id{suffix}": made[0]["id"],
            f"version_id{suffix}": made[0]["memory_version_id"],
            f"session_id{suffix}": sessions[0]["id"],
        }
        lists = ("/v1/memory_stores", "/v1/sessions", f"{store}/memories", f"{store}/memory_versions")
        tokens += [server.get(path, limit=1).ok()["next_page"] or "" for path in lists]
    assert all(tokens[2:])
    with Wire(server.url, server.key) as wire:
        yield Scene(server, wire, ids, [token for token in tokens if token])


@pytest.fixture(autouse=True)
def alive(server: Server, scene: Scene) -> Iterator[None]:
    """After each test the server still answers, on a new connection too."""
    yield
    assert server.process.poll() is None
    server.get("/healthz").ok()
    assert server.get(scene.path("/v1/memory_stores/{store_id}")).ok()["id"] == scene.ids["store_id"]


# ---- the requests ----------------------------------------------------------------------------------------------------

ONE = "/v1/memory_stores/{store_id}"
READS = (
    "/v1/memory_stores",
    ONE,
    f"{ONE}/memories",
    f"{ONE}/memories/{{memory_id}}",
    f"{ONE}/memory_versions",
    f"{ONE}/memory_versions/{{version_id}}",
    "/v1/sessions",
    "/v1/sessions/{session_id}",
)
WRITES = {
    "/v1/memory_stores": {"name": "n", "description": "d", "metadata": {"k": "v"}},
    ONE: {"name": "n", "description": "d", "metadata": {"k": None}},
    f"{ONE}/memories": {"path": "/a/{n}", "content": "text"},
    f"{ONE}/memories/{{memory_id}}": {
        "path": "/c",
        "content": "t",
        "precondition": {"type": "content_sha256", "content_sha256": "0" * 64},
    },
    "/v1/sessions": {
        "resources": [
            {"type": "memory_store", "memory_store_id": "{store_id}", "access": "read_only", "instructions": "i"}
        ],
        "title": "t",
        "metadata": {"k": "v"},
        "agent": {"id": "a"},
        "environment_id": "e",
    },
}
"""A body for each operation that takes one; it is mutated."""

ANY_TEXT = st.text(st.characters(codec=None), max_size=60)
"""Lone surrogates included."""

ODD_TEXT = ANY_TEXT | st.sampled_from(
    [
        "",
        " ",
        "\0",
        "a\0b",
        "null",
        "true",
        "0",
        "-1",
        "1e400",
        "NaN",
        "..",
        "../../etc/passwd",
        "%2e%2e%2f",
        "%00",
        "\ud800",
        "'; DROP TABLE memories; --",
        "{store_id}",
        "mem_",
        "mem_" + "0" * 26,
        "mem_" + "Z" * 26,
        "memstore_" + "0" * 26,
        "x" * 5_000,
        "é" * 3_000,
        "/",
        "//",
        "a/b",
        "?",
        "#",
        "\u202e",
        "\ufeff",
        "\r\nx: y",
        "9" * 400,
        "\U0010ffff",
    ]
)


def sent(text: str) -> str:
    """Percent-encoded, whatever it is."""
    return quote(text.encode(errors="surrogatepass"), safe="")


RAW = st.text(string.ascii_letters + string.digits + "%/.~;:@&=+$,!*'()-_\\|^`{}[]<>\"", max_size=80)
"""Part of a request target as it is."""

METHODS = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "QUERY", "get", "X" * 300]


@fuzzed(150)
@given(st.data())
def test_ids(scene: Scene, data: st.DataObject) -> None:
    real = st.sampled_from(sorted(scene.ids.values()))
    mutated = st.builds(
        lambda text, at, new: text[: at % 30] + new + text[at % 30 + 1 :], real, st.integers(0), ANY_TEXT
    )
    segment = st.one_of(
        real, real.map(str.lower), real.map(lambda text: text + "/"), (ODD_TEXT | mutated).map(sent), RAW
    )
    method = data.draw(st.sampled_from(METHODS[:5]))
    target = data.draw(st.sampled_from(sorted({*READS, *WRITES, f"{ONE}/memory_versions/{{version_id}}/redact"})))
    target = re.sub(r"\{(\w+)\}", lambda found: data.draw(segment), target)
    if method in ("DELETE", "POST") and target == scene.path(ONE):
        return  # the scene stays
    scene.ask(method, target, b'{"content": "x"}' if method in ("POST", "PATCH") else None)


LATIN_1 = st.characters(max_codepoint=0xFF)
HUGE = "<huge>"
"""Stands for an integer that Python refuses to write and to read."""

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXT | st.just(HUGE),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT | st.sampled_from(["type", "id"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def dumped(value: Any) -> bytes:
    """As JSON."""
    return json.dumps(value).replace(f'"{HUGE}"', "9" * 5_000).encode()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of an object is."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """An object with another value in one place."""
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], new)
    return copy


def test_bodies(scene: Scene) -> None:
    found: Counter[int] = Counter()

    @fuzzed(250)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        template = data.draw(st.sampled_from(sorted(WRITES)))
        text = json.dumps(WRITES[template]).replace("{store_id}", scene.ids["store_id"])
        body = json.loads(text.replace("{n}", str(data.draw(st.integers(0, 999)))))
        for _ in range(data.draw(st.integers(0, 2))):
            body = changed(body, data.draw(st.sampled_from(list(places(body)))), data.draw(json_values))
        if isinstance(body, dict) and data.draw(st.integers(0, 3)) == 3:
            body[data.draw(ODD_TEXT)] = data.draw(json_values)
        raw = dumped(body)
        how = data.draw(st.integers(0, 7))
        if how == 6:
            raw = raw[: data.draw(st.integers(0, len(raw)))]
        elif how == 7:
            at = data.draw(st.integers(0, len(raw)))
            raw = raw[:at] + data.draw(st.text(LATIN_1, max_size=8)).encode("latin-1") + raw[at:]
        odd = st.sampled_from(["application/json; charset=utf-16", "text/plain", "", "é/*"])
        kind = data.draw(st.just("application/json") | odd)
        view = data.draw(st.sampled_from(["", "?view=full", "?beta=true"]))
        found[scene.ask("POST", scene.path(template) + view, raw, [("content-type", kind)]).status] += 1

    ask()
    assert found[200] > 10, "else the form was all that was judged"
    assert found[400] > 50


FORM = b'--b\r\ncontent-disposition: form-data; name="name"\r\n\r\nx\r\n--b--\r\n'
OBJECT = b'{"name": "x"}'
BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "empty": (b"", {}),
    "blank": (b" \n", {}),
    "a scalar": (b"1", {}),
    "a list": (b"[]", {}),
    "not ended": (b'{"name": "x', {}),
    "two objects": (OBJECT * 2, {}),
    "duplicate keys": (b'{"name": 1, "name": "x"}', {}),
    "duplicate keys, the last one wrong": (b'{"name": "x", "name": 1}', {}),
    "NaN": (b'{"name": NaN}', {}),
    "infinite": (b'{"name": -Infinity}', {}),
    "a huge integer": (b'{"name": ' + b"9" * 100_000 + b"}", {}),
    "a huge exponent": (b'{"name": 1e999999999}', {}),
    "deep lists": (b"[" * 500_000, {}),
    "deep lists, ended": (b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}),
    "deep objects": (b'{"a":' * 150_000 + b"1" + b"}" * 150_000, {}),
    "deep metadata": (b'{"name": "x", "metadata": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}", {}),
    "a lone surrogate": (b'{"name": "\\ud800"}', {}),
    "a lone surrogate as a key": (b'{"name": "x", "metadata": {"\\udfff": "x"}}', {}),
    "a lone surrogate as a field": (b'{"name": "x", "\\ud800": 1}', {}),
    "a NUL": (b'{"name": "a\\u0000b"}', {}),
    "a BOM": (b"\xef\xbb\xbf" + OBJECT, {}),
    "UTF-16": (OBJECT.decode().encode("utf-16"), {}),
    "UTF-16 without a BOM": (OBJECT.decode().encode("utf-16-le"), {}),
    "UTF-32": (OBJECT.decode().encode("utf-32"), {}),
    "no UTF-8": (b'{"name": "\xff\xfe"}', {}),
    "an encoded surrogate": (b'{"name": "\xed\xa0\x80"}', {}),
    "an overlong slash": (b'{"name": "\xc0\xaf"}', {}),
    "Latin-1": ('{"name": "é"}'.encode("latin-1"), {"content-type": "application/json; charset=latin-1"}),
    "a charset that there is not": (OBJECT, {"content-type": "application/json; charset=klingon"}),
    "gzip": (gzip.compress(OBJECT), {"content-encoding": "gzip"}),
    "said to be gzip": (OBJECT, {"content-encoding": "gzip"}),
    "a form": (b"name=x", {"content-type": "application/x-www-form-urlencoded"}),
    "multipart": (FORM, {"content-type": "multipart/form-data; boundary=b"}),
    "multipart without a boundary": (FORM, {"content-type": "multipart/form-data"}),
    "multipart without an end": (FORM[:40], {"content-type": "multipart/form-data; boundary=b"}),
    "XML": (b'<!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>', {"content-type": "text/xml"}),
    "no type": (OBJECT, {"content-type": ""}),
    "a wrong type": (OBJECT, {"content-type": "image/png"}),
    "a long type": (OBJECT, {"content-type": "application/json; " + "x" * 20_000}),
    "a pickle": (b"\x80\x04K\x01.", {"content-type": "application/octet-stream"}),
}


@pytest.mark.parametrize("name", BODIES)
def test_odd_bodies(scene: Scene, name: str) -> None:
    body, headers = BODIES[name]
    sent_headers = list(({"content-type": "application/json"} | headers).items())
    accepted = {
        "duplicate keys",
        "a BOM",
        "UTF-16",
        "UTF-16 without a BOM",
        "UTF-32",
        "said to be gzip",
        "no type",
        "a wrong type",
        "a charset that there is not",
        "a long type",
    }
    for template in sorted(WRITES):
        answer = scene.ask("POST", scene.path(template), body, sent_headers)
        assert answer.status == 400 or (name in accepted and answer.status == 200), answer
    for template in READS[:4]:  # a body where none belongs
        scene.ask("GET", scene.path(template), body, sent_headers)


@fuzzed(200)
@given(st.data())
def test_page_tokens(scene: Scene, data: st.DataObject) -> None:
    real = st.sampled_from(scene.tokens)
    cut = st.builds(lambda text, at: text[: at % len(text)], real, st.integers(0))
    mutated = st.builds(
        lambda text, at, new: text[: at % len(text)] + new + text[at % len(text) + 1 :], real, st.integers(0), RAW
    )
    cursors = (
        st.lists(json_values, max_size=3)
        | json_values
        | st.sampled_from(
            [
                [2**63],
                [2**63 - 1],
                [-1],
                [True],
                [1.0],
                ["\ud800"],
                ["\ud800", "x"],
                ["\0"],
                [None],
                [""],
                ["", ""],
                [[]],
                [10**400],
            ]
        )
    )
    forged = cursors.map(lambda cursor: base64.urlsafe_b64encode(dumped(cursor)).decode().rstrip("="))
    nested = st.just(base64.urlsafe_b64encode(b"[" * 2_900).decode())
    token = data.draw(st.one_of(real, cut, mutated, forged, nested, ODD_TEXT))
    path = data.draw(st.sampled_from([scene.path(path) for path in READS if not path.endswith("}") or path == ONE]))
    scene.ask("GET", f"{path}?limit=1&page={sent(token)}")


FRACTIONS = st.sampled_from(["", ".", ".1", ".123456", ".1234567", ".000000000000", ",5", "." + "9" * 300])
ZONES = st.sampled_from(
    [
        "",
        "Z",
        "z",
        "+00:00",
        "-00:00",
        "+23:59",
        "-23:59",
        "+24:00",
        "+14:00",
        " 01:00",
        "+0100",
        "+01",
        "UTC",
        "Z+01:00",
        "−01:00",
    ]
)
TIMES = st.builds(
    lambda day, gap, clock, fraction, zone: f"{day}{gap}{clock}{fraction}{zone}",
    st.sampled_from(
        [
            "2026-11-30",
            "0001-01-01",
            "0000-01-01",
            "9999-12-31",
            "2026-02-29",
            "2024-02-29",
            "10000-01-01",
            "٢٠٢٦-01-01",
            "20261130",
            "-2026-01-01",
        ]
    ),
    st.sampled_from(["T", "t", " ", "", "_"]),
    st.sampled_from(["00:00:00", "23:59:59", "23:59:60", "24:00:00", "12:00", "000000", "99:99:99", ""]),
    FRACTIONS,
    ZONES,
)
VALUES = {
    "limit": st.sampled_from(
        ["0", "1", "100", "101", "-1", "1.0", "1e2", "９", "+1", " 1", "9" * 5_000, "0x10", "1_0", "true"]
    )
    | ODD_TEXT,
    "page": ODD_TEXT,
    "view": st.sampled_from(["basic", "full", "FULL"]) | ODD_TEXT,
    "depth": st.sampled_from(["0", "1", "2", "-1", "1.0", "9" * 400]) | ODD_TEXT,
    "path_prefix": st.sampled_from(["/", "/d0/", "/d0", "d0/", "/%/", "/_0/", "/d0//", "/../"]) | ODD_TEXT,
    "order": st.sampled_from(["asc", "desc", "ASC"]) | ODD_TEXT,
    "operation": st.sampled_from(["created", "modified", "deleted", "redacted"]) | ODD_TEXT,
    "include_archived": st.sampled_from(["true", "1", "yes", "on", "2"]) | ODD_TEXT,
    **dict.fromkeys(
        ("memory_id", "memory_store_id", "session_id", "api_key_id", "service_account_id", "beta"), ODD_TEXT
    ),
    **{f"created_at[{name}]": TIMES | ODD_TEXT for name in ("gt", "gte", "lt", "lte", "")},
}


@fuzzed(300)
@given(st.data())
def test_queries(scene: Scene, data: st.DataObject) -> None:
    path = scene.path(data.draw(st.sampled_from(READS)))
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=5))  # the same one twice, too
    query = [(name, data.draw(VALUES[name]).encode(errors="surrogatepass")) for name in names]
    text = data.draw(st.sampled_from([urlencode(query), urlencode(query).replace("%5B", "[").replace("%5D", "]")]))
    scene.ask("GET", f"{path}?{text}{data.draw(st.just('') | RAW)}")


def test_times_at_the_ends(scene: Scene) -> None:
    """A zone may take them out of the years that there are: they are all the earlier, or the later, for it."""
    first, last = quote("0001-01-01T00:00:00+23:59"), quote("9999-12-31T23:59:59.9999999-23:59")
    everything = scene.ask("GET", scene.path(f"{ONE}/memory_versions")).json
    assert everything["data"]
    for ends in (f"created_at[gte]={first}", f"created_at[lte]={last}"):
        assert scene.ask("GET", scene.path(f"{ONE}/memory_versions?{ends}")).json == everything
    for ends in (f"created_at[lte]={first}", f"created_at[gte]={last}"):
        assert scene.ask("GET", scene.path(f"{ONE}/memory_versions?{ends}")).json["data"] == []


@pytest.mark.parametrize("name", ["after", "last-event-id"])
def test_positions_of_the_stream(scene: Scene, name: str) -> None:
    for text in ("x", "-1", "1.0", "9" * 18, "9" * 19, "9" * 5_000, "é", "+1", " 1 1", "1,1", "0x1"):
        target = scene.path(f"{ONE}/changes")
        if name == "after":
            answer = scene.ask("GET", f"{target}?after={sent(text)}")
        else:
            answer = scene.ask("GET", target, None, [(name, text.encode())])
        assert answer.status == 400, text


HEADERS = [
    "authorization",
    "Authorization",
    "x-api-key",
    "anthropic-beta",
    "anthropic-version",
    "last-event-id",
    "accept",
    "cookie",
    "content-type",
    "expect",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-http-method-override",
    "range",
    "if-none-match",
    "accept-encoding",
    "origin",
    "access-control-request-method",
    "x-request-id",
    "upgrade",
    "connection",
    "te",
    "host2",
]
LATIN = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=80).map(
    str.strip
)


@fuzzed(250)
@given(st.data())
def test_headers(scene: Scene, data: st.DataObject) -> None:
    key = scene.server.key
    values = LATIN | st.sampled_from(
        [
            key,
            f"Bearer {key}",
            f"bearer  {key} ",
            f"Basic {key}",
            f"Bearer {key}x",
            f"Bearer {key[:-1]}",
            "Bearer",
            "Bearer  ",
            f"Bearer {key},Bearer {key}",
            "Bearer " + "x" * 30_000,
            "Basic dXNlcjpwYXNz",
            "x" * 30_000,
            "managed-agents-2026-04-01",
            "agent-memory-2026-07-22",
            "agent-memory-2026-07-22,managed-agents-2026-04-01",
            ",",
            "websocket",
            "keep-alive, upgrade",
            "100-continue",
            "gzip;q=0",
            "bytes=0-0",
            "*",
            "text/html",
            "q=é",
            "h2c",
            "trailers",
        ]
    )
    headers = data.draw(st.lists(st.tuples(st.sampled_from(HEADERS), values), max_size=5))
    path = scene.path(data.draw(st.sampled_from([*READS, "/metrics", "/openapi.json", "/healthz", "/none"])))
    own = data.draw(st.booleans())
    answer = scene.wire.ask("GET", path, None, headers, key=own)
    if not (answer.status == 200 and path in ("/metrics", "/openapi.json", "/healthz")):
        scene.judge(answer)
    given = [value for name, value in headers if name.lower() in ("authorization", "x-api-key")]
    if not (own or any(key in value for value in given)):
        assert answer.status == (200 if path == "/healthz" else 401)


TARGETS = [
    "/",
    "//",
    "///v1/memory_stores",
    "/v1//memory_stores",
    "/v1/memory_stores/",
    "/v1/memory_stores/.",
    "/v1/./memory_stores",
    "/v1/x/../memory_stores",
    "/%76%31/memory_stores",
    "/v1%2Fmemory_stores",
    "/V1/memory_stores",
    "*",
    "http://memfs/v1/sessions",
    "https://user:pw@elsewhere/v1/sessions",
    "http://",
    "memfs:80",
    "v1/memory_stores",
    "?",
    "/?",
    "/??",
    "/#x",
    "/v1/sessions#x",
    "/v1/sessions;a=b",
    "/v1/sessions?",
    "/v1/sessions?&&&",
    "/v1/sessions?=",
    "/v1/sessions?%",
    "/v1/sessions?limit",
    "/%",
    "/%zz",
    "/%00",
    "/%0d%0a",
    "/%ff",
    "/%ed%a0%80",
    "/%c3%a9",
    "/v1/memory_stores/%2e%2e",
    "/" + "a" * 20_000,
    "/" + "a/" * 15_000,
    "/" + "%41" * 10_000,
    "/v1/sessions?" + "a=b&" * 10_000,
    "/static/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/.env",
    "/docs",
    "/openapi.json/",
    "/favicon.ico",
    "/v1/memory_stores\\x",
    "/{store_id}",
    "/'\"<>",
]


def test_targets_and_methods(scene: Scene) -> None:
    for target in TARGETS:
        for method in METHODS if len(target) < 60 else METHODS[:3]:
            scene.ask(method, target)


@fuzzed(150)
@given(st.sampled_from(METHODS), RAW, RAW)
def test_any_target(scene: Scene, method: str, path: str, query: str) -> None:
    scene.ask(method, f"/{path}?{query}")


# ---- how a request is framed -----------------------------------------------------------------------------------------

VALID = b'{"path": "/framed/%d", "content": "x"}'
CHUNKED = ("transfer-encoding", "chunked")


def chunked(body: bytes, size: int) -> bytes:
    """A body in chunks."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_the_largest_body(scene: Scene) -> None:
    target = scene.path(f"{ONE}/memories")
    body = VALID % 1
    assert scene.ask("POST", target, body + b" " * (MAX_BODY - len(body))).status == 200
    assert scene.ask("POST", target, body + b" " * (MAX_BODY - len(body) + 1)).status == 413
    for size, status in ((MAX_BODY, 409), (MAX_BODY + 1, 413), (3 * MAX_BODY, 413)):
        for pieces in (4_096, 1_000_000):
            scene.wire.send(scene.wire.request("POST", target, None, [CHUNKED]))
            scene.wire.send(chunked(body.ljust(size), pieces))
            answer = scene.wire.receive("POST")
            assert answer is not None
            assert scene.judge(answer).status == status
            scene.wire.close()
    for said in ("9" * 18, str(2**63), str(10**19), str(MAX_BODY + 1)):  # and then nothing of it
        scene.wire.send(scene.wire.request("POST", target, None, [("content-length", said)]))
        answer = scene.wire.receive("POST")
        assert answer is not None
        assert scene.judge(answer).status == 413
        scene.wire.close()


def test_more_and_less_than_was_said(scene: Scene) -> None:
    target = scene.path(f"{ONE}/memories")
    body = VALID % 2
    # Less: what is missing is waited for, and then nobody is there to be answered.
    scene.wire.send(scene.wire.request("POST", target, None, [("content-length", str(len(body)))]) + body[:-1])
    scene.wire.end()
    assert scene.wire.receive("POST") is None
    # More: the rest is no request.
    scene.wire.send(scene.wire.request("POST", target, body) + b"garbage\r\n\r\n")
    first = scene.wire.receive("POST")
    assert first is not None
    assert scene.judge(first).status == 200
    check_refused_by_the_server(scene, scene.wire.receive())
    assert scene.ask("POST", target, body).status == 409


def test_requests_in_a_row_without_waiting(scene: Scene) -> None:
    requests = [
        ("GET", scene.path(ONE), None),
        ("POST", scene.path(f"{ONE}/memories"), b'{"path": "/row", "content": "1"}'),
        ("POST", scene.path(f"{ONE}/memories"), b'{"path": "/row", "content": "2"}'),
        ("GET", "/none", None),
        ("POST", scene.path(f"{ONE}/memories"), b"{"),
        ("DELETE", scene.path(f"{ONE}/memories/mem_x"), None),
    ] * 10
    scene.wire.send(b"".join(scene.wire.request(*request) for request in requests))
    found = []
    for method, _, _ in requests:
        answer = scene.wire.receive(method)
        assert answer is not None
        found.append(scene.judge(answer).status)
    assert found == [200, 200, 409, 404, 400, 404] + [200, 409, 409, 404, 400, 404] * 9


def test_requests_that_break_off(scene: Scene) -> None:
    request = scene.wire.request("POST", scene.path(f"{ONE}/memories"), b'{"path": "/half", "content": "x"}')
    for end in range(1, len(request), 7):
        scene.wire.send(request[:end])
        scene.wire.close()
    stream = scene.wire.request("POST", scene.path(f"{ONE}/memories"), None, [CHUNKED]) + chunked(b" " * 100, 10)
    for end in range(len(stream) - 60, len(stream)):
        scene.wire.send(stream[:end])
        scene.wire.close()
    listed = scene.ask("GET", scene.path(f"{ONE}/memories?path_prefix=/half/")).json
    assert listed["data"] == []


def test_answers_that_nobody_waits_for(scene: Scene) -> None:
    for path in (*READS, f"{ONE}/changes", "/metrics"):
        for _ in range(5):
            scene.wire.send(scene.wire.request("GET", scene.path(path)))
            scene.wire.close()


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.9", b"HTTP/2.0", b"HTTP/9.9"])
def test_other_versions_of_http(scene: Scene, version: bytes) -> None:
    scene.wire.close()
    scene.wire.send(b"GET /v1/sessions %s\r\nhost: x\r\nconnection: close\r\n\r\n" % version)
    answer = scene.wire.receive()
    assert answer is not None
    assert scene.judge(answer).status == 401


MALFORMED: dict[str, bytes] = {
    "no request line": b"\r\n\r\nx\r\n\r\n",
    "a word": b"hello\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n",
    "a control character in the target": b"GET /\x01 HTTP/1.1\r\nhost: x\r\n\r\n",
    "a target that is not ASCII": "GET /é HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
    "a method that is not ASCII": "GÉT / HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
    "a NUL in a header": b"GET / HTTP/1.1\r\nhost: x\r\na: \0\r\n\r\n",
    "a space before a colon": b"GET / HTTP/1.1\r\nhost: x\r\na : b\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nhost: x\r\n: b\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
    "a negative length": b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
    "a length that is no number": b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1x\r\n\r\n",
    "a length of many digits": b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: " + b"9" * 30 + b"\r\n\r\n",
    "an encoding that there is not": b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    "headers over 64 KiB": b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"x" * 70_000,
    "a target over 64 KiB": b"GET /" + b"x" * 70_000,
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\0" * 100 + b"\r\n\r\n",
}
"""What is no HTTP request, so that it never gets as far as the interface: the server refuses it in its own words."""


def check_refused_by_the_server(scene: Scene, answer: Answer | None) -> None:
    """Refused in uvicorn's words, and then it hung up."""
    assert answer is not None
    assert (answer.status, answer.body.decode()) == (400, REFUSED_BY_THE_SERVER)
    assert answer.headers["connection"] == "close"
    scene.wire.close()


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request(scene: Scene, name: str) -> None:
    scene.wire.close()
    scene.wire.send(MALFORMED[name])
    check_refused_by_the_server(scene, scene.wire.receive())


def test_chunks_that_are_none(scene: Scene) -> None:
    request = scene.wire.request("POST", scene.path(f"{ONE}/memories"), None, [CHUNKED])
    for chunk in (b"x\r\n", b"-1\r\n", b"5;" + b"x" * 70_000, b"2\r\nabcd\r\n0\r\n\r\n", b"f" * 30 + b"\r\n"):
        scene.wire.send(request + chunk)
        answer = scene.wire.receive("POST")
        assert answer is None or answer.status == 400
        scene.wire.close()


def test_nothing_of_the_framing_was_written(scene: Scene) -> None:
    listed = scene.ask("GET", scene.path(f"{ONE}/memories?path_prefix=/framed/")).json
    assert [each["path"] for each in listed["data"]] == ["/framed/1", "/framed/2"]
