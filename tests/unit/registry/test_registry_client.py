"""The registry's client against a server of the standard library that answers as a test wants."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from parley.errors import (
    ConfigError,
    KafkaError,
    NetworkError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachable,
    RemoteProtocolError,
    RequestTimedOut,
    SchemaNotFoundError,
)
from parley.registry import RegistryOptions, Schema, SchemaRegistryClient
from parley.serdes import GlobalId, SchemaGuid

GUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
STRING = {"schema": '"string"'}

Answer = tuple[int, object]


@dataclass
class Registry:
    """Answers what `answers` says for a path: the next one, the last one again and again."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    act: Callable[[BaseHTTPRequestHandler], None] | None = None
    url: str = ""

    def paths(self) -> list[str]:
        return [path for _, path in self.asked]


def serve(registry: Registry) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            registry.asked.append((self.command, self.path))
            registry.headers.append({name.lower(): text for name, text in self.headers.items()})
            registry.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if registry.act is not None:
                registry.act(self)
                return
            found = registry.answers.get(self.path.partition("?")[0], [(404, {"error_code": 404})])
            status, said = found.pop(0) if len(found) > 1 else found[0]
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "https://elsewhere.test/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    return server


@pytest.fixture
def registries() -> Iterator[Callable[..., Registry]]:
    servers: list[ThreadingHTTPServer] = []

    def make(**answers: list[Answer]) -> Registry:
        made = Registry({"/" + name.replace("__", "/"): one for name, one in answers.items()})
        servers.append(serve(made))
        return made

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def patient(url: str) -> tuple[SchemaRegistryClient, list[float]]:
    """Return a client that does not wait, and how long it would have."""
    client, pauses = SchemaRegistryClient(url), []
    client._rest._pause = pauses.append
    return client, pauses


def test_a_schema_is_asked_for_once_by_all_threads(registries: Callable[..., Registry]) -> None:
    registry = registries(schemas__ids__7=[(200, STRING)])
    barrier = threading.Barrier(8)
    found: list[Schema] = []
    client = SchemaRegistryClient(registry.url)

    def ask() -> None:
        barrier.wait()
        found.append(client.get_schema(7))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Schema('"string"')] * 8
    assert registry.paths() == ["/schemas/ids/7"]
    copy = pickle.loads(pickle.dumps(client))
    assert copy.get_schema(7) == Schema('"string"')
    assert len(registry.asked) == 1, "a copy takes along what is known"


def test_what_changes_is_asked_for_each_time(registries: Callable[..., Registry]) -> None:
    one = {**STRING, "id": 1, "version": 1, "subject": "s"}
    registry = registries(
        subjects__s__versions__latest=[(200, one), (200, {**one, "version": 2})],
        subjects__s__versions__1=[(200, one)],
    )
    client = SchemaRegistryClient(registry.url)
    assert [client.get_latest_version("s").version for _ in range(2)] == [1, 2]
    assert [client.get_version("s", 1).id for _ in range(3)] == [1, 1, 1]
    assert len(registry.asked) == 3


def test_a_missing_id_is_asked_for_once_more_after_a_pause(
    registries: Callable[..., Registry],
) -> None:
    missing = (404, {"error_code": 40403, "message": "Schema 7 not found"})
    registry = registries(schemas__ids__7=[missing, (200, STRING)], schemas__ids__8=[missing])
    client, pauses = patient(registry.url)
    assert client.get_schema(7).text == '"string"'
    assert pauses == [1.0]
    with pytest.raises(SchemaNotFoundError, match=r"40403.*the id is of another registry"):
        client.get_schema(8)
    assert registry.paths().count("/schemas/ids/8") == 2
    with pytest.raises(SchemaNotFoundError):
        client.get_schema(8)
    assert registry.paths().count("/schemas/ids/8") == 4, "what is not there is not remembered"


def test_the_next_url_is_asked_and_kept(registries: Callable[..., Registry]) -> None:
    down, broken, well = registries(), registries(), registries(schemas__ids__1=[(200, STRING)])
    broken.answers["/schemas/ids/1"] = [(503, b"<html>no</html>")]
    well.answers["/subjects"] = [(200, ["s"])]

    def reset(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.close()

    down.act = reset
    client, pauses = patient(f"{down.url}, {broken.url},{well.url}/")
    assert client.get_schema(1) == Schema('"string"')
    assert client.get_subjects() == ["s"]
    assert [len(one.asked) for one in (down, broken, well)] == [1, 1, 2]
    assert pauses == []


def test_all_urls_are_tried_again_after_growing_pauses(
    registries: Callable[..., Registry],
) -> None:
    busy = (429, {"error_code": 429, "message": "too many"})
    registry = registries(subjects=[busy, (500, b""), (200, [])])
    client, pauses = patient(registry.url)
    assert client.get_subjects() == []
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2
    registry.answers["/subjects"] = [busy]
    with pytest.raises(RegistryError, match=r"HTTP 429.*too many") as caught:
        client.get_subjects()
    assert caught.value.retriable
    assert len(registry.asked) == 3 + 4


def test_a_refusal_is_not_asked_for_again(registries: Callable[..., Registry]) -> None:
    first, second = registries(), registries(subjects=[(200, [])])
    first.answers["/subjects"] = [(401, {"error_code": 401, "message": "Unauthorized"})]
    client, pauses = patient(f"{first.url},{second.url}")
    with pytest.raises(RegistryAuthenticationError, match="check basic_auth_user_info"):
        client.get_subjects()
    assert pauses == second.asked == []


@pytest.mark.parametrize(
    ("status", "body", "error", "why"),
    [
        (200, b"<html>", RemoteProtocolError, "no JSON; is a schema registry there"),
        (200, b'["a", 1]', RemoteProtocolError, "no list of texts"),
        (200, b"[" * 100_000, RemoteProtocolError, "no JSON"),
        (404, b"<html>", RegistryError, "check url"),
        (404, b'{"error_code": "x", "message": 7}', RegistryError, "check url"),
        (301, b"", RegistryError, "redirects to https://elsewhere.test/"),
        (418, b'{"message": "\\u001b[31m\\n"}', RegistryError, r"\\x1b\[31m\\n"),
    ],
)
def test_strange_answers(
    registries: Callable[..., Registry],
    status: int,
    body: bytes,
    error: type[KafkaError],
    why: str,
) -> None:
    client, pauses = patient(registries(subjects=[(status, body)]).url)
    with pytest.raises(error, match=why) as caught:
        client.get_subjects()
    assert "\x1b" not in str(caught.value)
    assert pauses == []
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no text of a schema"),
        ({"schema": 7}, "no text of a schema"),
        ({"schema": "x", "schemaType": "XML"}, "type XML"),
        ({"schema": "x", "references": 1}, "references are no list"),
        ({"schema": "x", "references": [{"name": "n"}]}, "lacks its name, subject or version"),
        ([], "no JSON object"),
    ],
)
def test_answers_that_are_no_schema(
    registries: Callable[..., Registry], said: object, why: str
) -> None:
    client, _ = patient(registries(schemas__ids__1=[(200, said)]).url)
    with pytest.raises(RemoteProtocolError, match=why):
        client.get_schema(1)


def test_references_in_a_circle_end(registries: Callable[..., Registry]) -> None:
    def version(uses: str) -> list[Answer]:
        reference = {"name": uses, "subject": uses, "version": 1}
        return [(200, {**STRING, "id": 1, "version": 1, "references": [reference]})]

    registry = registries(subjects__a__versions__1=version("b"))
    registry.answers["/subjects/b/versions/1"] = version("a")
    client, _ = patient(registry.url)
    with pytest.raises(RemoteProtocolError, match="refers to itself"):
        client.get_references(client.get_version("a", 1).schema)
    assert len(registry.asked) == 2


def test_an_answer_without_end_is_refused(registries: Callable[..., Registry]) -> None:
    registry = registries()

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"[" * 65_536)
        except OSError:
            pass

    registry.act = flood
    client = SchemaRegistryClient(registry.url, max_retries=0, max_answer_bytes=1_000_000)
    with pytest.raises(RegistryUnreachable, match="longer than 1000000 bytes"):
        client.get_subjects()


def test_an_answer_cut_short_and_a_silent_server(registries: Callable[..., Registry]) -> None:
    registry = registries()

    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"[")
        handler.close_connection = True

    registry.act = cut
    client = SchemaRegistryClient(registry.url, max_retries=0)
    with pytest.raises(RegistryUnreachable, match=r"ends early|IncompleteRead"):
        client.get_subjects()
    woken = threading.Event()
    registry.act = lambda handler: (woken.wait(60), None)[1]
    slow = SchemaRegistryClient(registry.url, max_retries=0, http_read_timeout_ms=50)
    began = time.monotonic()
    with pytest.raises(RegistryUnreachable, match="http_read_timeout_ms=50") as caught:
        slow.get_subjects()
    woken.set()
    assert isinstance(caught.value.failures[registry.url], RequestTimedOut)
    assert time.monotonic() - began < 30


def test_who_asks_is_in_headers_only(
    registries: Callable[..., Registry], caplog: pytest.LogCaptureFixture
) -> None:
    registry = registries(subjects=[(200, [])])
    SchemaRegistryClient(registry.url, basic_auth_user_info="ann:ca:nary").get_subjects()
    in_url = registry.url.replace("//", "//ann:ca%3Anary@")
    with_url = SchemaRegistryClient(in_url)
    with_url.get_subjects()
    expected = "Basic " + base64.b64encode(b"ann:ca:nary").decode()
    assert [one["authorization"] for one in registry.headers] == [expected] * 2
    tokens = iter(["first", "second"])
    cloud = SchemaRegistryClient(
        registry.url,
        bearer_auth_token_source=lambda: next(tokens),
        bearer_auth_logical_cluster="lsrc-1",
        bearer_auth_identity_pool_id="pool-1",
    )
    cloud.get_subjects()
    cloud.get_subjects()
    assert [one["authorization"] for one in registry.headers[2:]] == [
        "Bearer first",
        "Bearer second",
    ]
    assert registry.headers[3]["target-sr-cluster"] == "lsrc-1"
    assert registry.headers[3]["confluent-identity-pool-id"] == "pool-1"
    registry.answers.clear()
    with pytest.raises(RegistryError) as caught:
        with_url.get_subjects()
    options = RegistryOptions(url=in_url, max_retries=0, bearer_auth_token=None)
    shown = [repr(with_url), repr(options), str(caught.value), caplog.text, options.url]
    assert not any("nary" in text for text in shown)
    bad = SchemaRegistryClient(registry.url, bearer_auth_token="canary\r\nX: y")
    with pytest.raises(KafkaError, match="no header can carry") as refused:
        bad.get_subjects()
    assert "canary" not in str(refused.value)


def test_credentials_over_http_to_another_machine_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = SchemaRegistryClient(
        "http://registry.invalid:1", basic_auth_user_info="a:b", max_retries=0
    )
    with caplog.at_level(logging.WARNING), pytest.raises(RegistryUnreachable, match="DNS"):
        client.get_subjects()
    assert "everybody on the way can read the credentials" in caplog.text


def test_nobody_listens() -> None:
    client, pauses = patient("http://127.0.0.1:1,http://localhost:1")
    with pytest.raises(RegistryUnreachable, match=r"refused.*Check url") as caught:
        client.get_subjects()
    assert isinstance(caught.value, NetworkError)
    assert set(caught.value.failures) == {"http://127.0.0.1:1", "http://localhost:1"}
    assert len(pauses) == 3


def test_options_have_confluents_names() -> None:
    python = {
        "url": "https://a:8081",
        "basic.auth.user.info": "u:p",
        "ssl.ca.location": "ca.pem",
        "timeout": 5,
    }
    java = {
        "schema.registry.url": "https://a:8081",
        "schema.registry.basic.auth.credentials.source": "USER_INFO",
        "schema.registry.basic.auth.user.info": "u:p",
        "schema.registry.ssl.truststore.location": "ca.pem",
        "schema.registry.http.read.timeout.ms": "5000",
        "schema.registry.ssl.endpoint.identification.algorithm": "https",
    }
    for config in (python, java):
        options = RegistryOptions.from_config(config)
        assert (options.ssl_cafile, options.http_read_timeout_ms) == ("ca.pem", 5000)
        assert options.ssl_check_hostname
    off = {"ssl.endpoint.identification.algorithm": ""}
    assert not RegistryOptions.from_config({**python, **off}).ssl_check_hostname


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"url": ""}, "names no schema registry"),
        ({"url": "localhost:8081"}, "no URL of the form"),
        ({"url": "ftp://a"}, "no URL of the form"),
        ({"url": "http://a:b"}, "no URL of the form"),
        ({"url": "http://u:p/q@a"}, r'"http://...@a" is no URL .* %2F %23 %3F %40 and %2C'),
        ({"url": "http://a/?x=1"}, "more than host, port and path"),
        ({"url": "http://u:p@a", "basic_auth_user_info": "u:p"}, "give one"),
        ({"url": "http://u:p@a,http://v:p@b"}, "several user names"),
        ({"url": "http://a", "basic_auth_user_info": "u"}, "not of the form user:password"),
        ({"url": "http://a", "basic_auth_user_info": "u:p", "bearer_auth_token": "t"}, "give one"),
        ({"url": "http://a", "basic_auth_credentials_source": "SASL_INHERIT"}, "give USER_INFO"),
        ({"url": "http://a", "bearer_auth_credentials_source": "STATIC_TOKEN"}, "needs bearer"),
        ({"url": "http://a", "ssl_cafile": "x"}, "url has no https"),
        ({"url": "http://a", "max_retries": -1}, "max_retries=-1"),
        ({"url": "http://a", "http_read_timeout_ms": "5"}, "http_read_timeout_ms='5'"),
        ({"url": 7}, "url is a text"),
    ],
)
def test_options_that_cannot_be(named: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        RegistryOptions(**named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:SECRET/x@h:1",
        "https://ann:1/SECRET@h:1",
        "https://ann:SECRET#x@h",
        "https://ann:SECRET?x@h",
        "https://ann:x,SECRET@h",
        "https://a:1,https://ann:x,SECRET@h",
        "ann:SECRET@h:8081",
        "ann:SECRET://x@h:8081",
        "htps://ann:SECRET@h",
        "http://ann:SECRET@h:99999",
        "http://ann:SECRET@[::1",
    ],
)
@pytest.mark.parametrize("more", [{}, {"ssl_cafile": "x"}], ids=["", "tls"])
def test_no_error_shows_the_password_of_a_url(url: str, more: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        RegistryOptions(url=url, **more)  # type: ignore[arg-type]
    assert "SECRET" not in str(refused.value)


def test_a_misspelt_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match='Did you mean "basic_auth_user_info"'):
        SchemaRegistryClient("http://a", basic_auth_userinfo="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r'Did you mean "basic\.auth\.user\.info"'):
        RegistryOptions.from_config({"url": "http://a", "basic.auth.userinfo": "x"})
    with pytest.raises(ConfigError, match="url is missing"):
        RegistryOptions.from_config({})
    with pytest.raises(ConfigError, match="finds schemas by id and GUID only"):
        SchemaRegistryClient("http://a").get_schema_for(GlobalId(1))


def test_guids_in_all_their_forms(registries: Callable[..., Registry]) -> None:
    registry = registries(**{f"schemas__guids__{GUID}": [(200, {**STRING, "id": 4})]})
    for form in (GUID, bytes(range(16)), SchemaGuid(bytes(range(16)))):
        client = SchemaRegistryClient(registry.url)
        assert client.get_schema_by_guid(form) == Schema('"string"')
    assert client.get_schema_for(SchemaGuid(bytes(range(16)))) == Schema('"string"')
    assert len(registry.asked) == 3


def test_subjects_of_any_letters_stay_one_segment(registries: Callable[..., Registry]) -> None:
    registry = registries()
    client, _ = patient(registry.url)
    with pytest.raises(RegistryError):
        client.get_versions("../a b/ü?x#y")
    assert registry.paths() == ["/subjects/..%2Fa%20b%2F%C3%BC%3Fx%23y/versions"]


def test_a_registration_is_sent_as_the_protocol_has_it(
    registries: Callable[..., Registry],
) -> None:
    registry = registries(subjects__s__versions=[(200, {"id": 3})])
    client, _ = patient(registry.url)
    made = client.register_schema("s", Schema("syntax...", "PROTOBUF"), normalize=True)
    assert (made.id, made.version, made.schema.schema_type) == (3, None, "PROTOBUF")
    assert registry.asked == [("POST", "/subjects/s/versions?normalize=true")]
    assert json.loads(registry.bodies[0]) == {"schema": "syntax...", "schemaType": "PROTOBUF"}
    assert registry.headers[0]["content-type"] == "application/vnd.schemaregistry.v1+json"
    client.register_schema("s", Schema("syntax...", "PROTOBUF"), normalize=True)
    assert len(registry.asked) == 1
