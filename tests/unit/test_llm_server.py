"""The server as its clients see it: the `openai` package, and requests that no good client sends."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import gguf_files as files
import llm_servers as servers
import llm_vocabularies as vocabularies
import numpy as np
import openai
import pytest

from openinfer.compiler.llm.server import scheduler
from openinfer.compiler.llm.template import CHATML

ANSWERS = {
    "hello": "say hello's world 🦙 now",
    "count": "1 2 3 4 5 6 7 8 9 10",
    "long": "0123456789" * 10,
}
Running = tuple[str, servers.Server]


def client_of(url: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    engine = servers.table_engine(tmp_path_factory.mktemp("m") / "v.gguf", ANSWERS)
    with servers.serving(engine, body=20_000, tokens=300) as found:
        yield found


@pytest.fixture
def client(running: Running) -> openai.OpenAI:
    return client_of(running[0])


def post(url: str, path: str, body: bytes | dict[str, Any], **headers: str) -> tuple[int, Any]:
    """Status and object of a request as it is."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json"} | headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text)


def wait_for(condition: Any) -> None:
    for _ in range(12_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen in a minute")


# What clients ask for


def test_chats(running: Running, client: openai.OpenAI) -> None:
    server = running[1]
    found = client.chat.completions.create(model="tiny", messages=user("hello"))
    choice = found.choices[0]
    assert choice.message.content == ANSWERS["hello"]
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "stop"
    assert found.usage is not None
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert (
        found.usage.completion_tokens == len(server.service.tokenizer.encode(ANSWERS["hello"])) + 1
    )


def test_streams_say_what_whole_answers_say(client: openai.OpenAI) -> None:
    pieces = list(
        client.chat.completions.create(
            model="tiny",
            messages=user("hello"),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert pieces[0].choices[0].delta.role == "assistant"
    texts = [piece.choices[0].delta.content or "" for piece in pieces[:-1]]
    assert "".join(texts) == ANSWERS["hello"]
    assert "🦙" in texts, "a character came in parts"
    assert [p.choices[0].finish_reason for p in pieces[-3:-1]] == [None, "stop"]
    assert pieces[-1].choices == []
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == 19
    assert len({piece.id for piece in pieces}) == 1


def test_completions_and_their_limits(client: openai.OpenAI) -> None:
    found = client.completions.create(model="tiny", prompt="count")
    assert (found.choices[0].text, found.choices[0].finish_reason) == (ANSWERS["count"], "stop")
    cut = client.completions.create(model="tiny", prompt="count", max_tokens=4)
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("1 2 ", "length")
    stopped = client.completions.create(model="tiny", prompt="count", stop=["4 5", "zz"])
    assert (stopped.choices[0].text, stopped.choices[0].finish_reason) == ("1 2 3 ", "stop")
    several = client.completions.create(model="tiny", prompt=["count", "hello"], n=2)
    assert [choice.text for choice in several.choices] == [
        *[ANSWERS["count"]] * 2,
        *[ANSWERS["hello"]] * 2,
    ]
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    streamed = client.completions.create(model="tiny", prompt="count", stream=True, stop="4 5")
    assert "".join(piece.choices[0].text for piece in streamed) == "1 2 3 "


def test_answers_end_with_the_context(running: Running, client: openai.OpenAI) -> None:
    tokens = running[1].service.tokenizer.encode(" " * 366 + "long")
    found = client.completions.create(model="tiny", prompt=tokens)
    assert found.choices[0].finish_reason == "length"
    assert found.usage is not None
    assert found.usage.total_tokens == 400


def test_logprobs(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(
        model="tiny", messages=user("hello"), logprobs=True, top_logprobs=2, max_tokens=5
    )
    logprobs = chat.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [one.token for one in logprobs.content] == ["s", "a", "y", " ", "hello"]
    assert all(one.logprob == one.top_logprobs[0].logprob > -0.1 for one in logprobs.content)
    streamed = client.chat.completions.create(
        model="tiny", messages=user("hello"), logprobs=True, stream=True
    )
    tokens = [
        bytes(one.bytes or [])
        for piece in streamed
        if (found := piece.choices[0].logprobs) is not None
        for one in found.content or []
    ]
    assert b"".join(tokens).decode() == ANSWERS["hello"] + "<|im_end|>"
    text = client.completions.create(model="tiny", prompt="count", logprobs=1, max_tokens=3)
    found = text.choices[0].logprobs
    assert found is not None
    assert (found.tokens, found.text_offset) == (["1", " ", "2"], [0, 1, 2])


def test_embeddings(running: Running, client: openai.OpenAI) -> None:
    # The client asks for base64 by itself.
    found = client.embeddings.create(model="tiny", input=["hello world", "hello"])
    tokens = running[1].service.tokenizer.encode("hello world")
    wanted = np.array([np.mean(tokens), 1.0])
    assert found.data[0].embedding == pytest.approx(wanted / np.linalg.norm(wanted), rel=1e-6)
    assert found.usage.prompt_tokens == len(tokens) + 1
    status, row = post(running[0], "/v1/embeddings", {"input": tokens})
    assert status == 200
    assert row["data"][0]["embedding"] == pytest.approx(found.data[0].embedding)
    _, row = post(running[0], "/v1/embeddings", {"input": "hello", "encoding_format": "base64"})
    data = np.frombuffer(base64.b64decode(row["data"][0]["embedding"]), "<f4")
    assert data == pytest.approx(found.data[1].embedding)
    many = client.embeddings.create(model="tiny", input=["hello"] * 9)
    assert [row.index for row in many.data] == list(range(9))


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="other", prompt="count")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_prompt_is_never_cut(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"450 tokens.*room for 400") as caught:
        client.completions.create(model="tiny", prompt="z" * 450)
    assert caught.value.code == "context_length_exceeded"


def test_tokens(running: Running) -> None:
    url, server = running
    encode = server.service.tokenizer.encode
    assert post(url, "/tokenize", {"content": "hello w"}) == (200, {"tokens": encode("hello w")})
    _, found = post(url, "/tokenize", {"content": "hello", "with_pieces": True})
    assert found == {"tokens": [{"id": encode("hello")[0], "piece": "hello"}]}
    assert post(url, "/detokenize", {"tokens": encode("hello w")}) == (200, {"content": "hello w"})
    assert post(url, "/detokenize", {"tokens": [10**6]})[0] == 400


def test_metrics_and_health(running: Running, client: openai.OpenAI) -> None:
    client.completions.create(model="tiny", prompt="count")
    connection = http.client.HTTPConnection(running[0].removeprefix("http://"))
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(values['openinfer_requests_total{path="/v1/completions",status="200"}']) >= 1
    assert int(values["openinfer_written_tokens_total"]) >= 10
    assert values["openinfer_running"] == "0"
    connection.request("GET", "/health")
    assert json.loads(connection.getresponse().read()) == {"status": "ok"}
    connection.close()


# Mistakes


BAD = [
    (b"{", None, "no JSON"),
    (b"\xff", None, "no JSON"),
    (b"[" * 100_000, None, "more than 20000 bytes"),
    (b"[" * 10_000, None, "no JSON"),
    (b"[1]", None, "no JSON object"),
    (b'{"messages": NaN}', None, "NaN is no JSON number"),
    ({}, "messages", "missing"),
    ({"messages": "hello"}, "messages", "no list"),
    ({"messages": [3]}, None, "message 0 is a int"),
    ({"messages": [{"role": "im_end", "content": ""}]}, None, "role 'im_end'"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, None, "surrogate"),
    ({"temperature": "hot"}, "temperature", "`temperature` is 'hot'"),
    ({"temperature": -1}, "temperature", "`temperature` is -1"),
    ({"repeat_last_n": -5}, "repeat_last_n", "`repeat_last_n` is -5"),
    ({"top_p": 1e308}, "top_p", "`top_p` is 1e+308"),
    ({"top_k": 1 << 70}, "top_k", "top_k"),
    ({"seed": 1.5}, "seed", "`seed` is 1.5"),
    ({"seed": -1}, "seed", "`seed` is -1"),
    ({"n": 0}, "n", "is 0, not an integer"),
    ({"n": 10**9}, "n", "is 1000000000"),
    ({"n": True}, "n", "is True"),
    ({"max_tokens": 0}, "max_tokens", "is 0"),
    ({"max_tokens": 301}, "max_tokens", "is 301, this server gives at most 300"),
    ({"max_completion_tokens": 1e3}, "max_completion_tokens", "is 1000.0"),
    ({"stop": [""]}, "stop", "stop strings"),
    ({"stop": ["a"] * 99}, "stop", "stop strings"),
    ({"stop": 3}, "stop", "no list"),
    ({"logit_bias": {"x": 1}}, "logit_bias", "'x': 1"),
    ({"logit_bias": {"1": "1"}}, "logit_bias", "not a token and a number"),
    ({"logprobs": 3}, "logprobs", "neither true nor false"),
    ({"top_logprobs": 3}, "top_logprobs", "needs `logprobs`"),
    ({"stream": "yes"}, "stream", "neither true nor false"),
    ({"stream_options": 1}, "stream_options", "no object"),
    ({"model": 3}, "model", "no text"),
    ({"tools": [3]}, "tools", "function.name"),
    ({"tool_choice": "required"}, "tool_choice", "not supported"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "has messages"),
    ({"response_format": {"type": "xml"}}, "response_format", "another type"),
    ({"response_format": {"type": "json_schema"}}, "response_format", "no object at"),
]


@pytest.mark.parametrize(("body", "param", "words"), BAD, ids=lambda value: repr(value)[:40])
def test_bad_requests(running: Running, body: Any, param: str | None, words: str) -> None:
    if isinstance(body, dict) and body and "messages" not in body:
        body = {"messages": user("hello")} | body
    status, found = post(running[0], "/v1/chat/completions", body)
    assert status == (413 if "20000 bytes" in words else 400)
    assert words in found["error"]["message"]
    assert found["error"]["param"] == param
    assert found["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/completions", {"prompt": []}, "neither a text"),
        ("/v1/completions", {"prompt": 3}, "neither a text"),
        ("/v1/completions", {"prompt": ["a"] * 300}, "300 entries"),
        ("/v1/completions", {"prompt": ["a", 3]}, "an entry"),
        ("/v1/completions", {"prompt": [10**6]}, "token 1000000"),
        ("/v1/completions", {"prompt": [-1]}, "token -1"),
        ("/v1/completions", {"prompt": ""}, "no token"),
        ("/v1/completions", {"prompt": "a", "echo": True}, "echo"),
        ("/v1/completions", {"prompt": "a", "best_of": 3}, "best_of"),
        ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
        ("/v1/completions", {"prompt": "a", "logprobs": 99}, "logprobs"),
        ("/v1/embeddings", {"input": "a", "dimensions": 3}, "dimensions"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "x"}, "encoding_format"),
        ("/v1/embeddings", {"input": "a" * 500}, "500 tokens"),
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 3}, "content"),
        ("/detokenize", {"tokens": ["a"]}, "tokens"),
    ],
)
def test_bad_fields(running: Running, path: str, body: Any, words: str) -> None:
    status, found = post(running[0], path, body)
    assert status == 400
    assert words in found["error"]["message"]


def test_absurd_requests_never_fail_the_server(running: Running) -> None:
    """Fields with values of any kind: an answer, or an error that is the client's."""
    generator = np.random.default_rng(8)
    names = [
        *("model", "messages", "prompt", "input", "content", "tokens", "temperature", "top_p", "n"),
        *("top_k", "seed", "stop", "max_tokens", "logit_bias", "logprobs", "top_logprobs", "tools"),
        *("response_format", "stream_options", "tool_choice", "echo", "encoding_format"),
        *("chat_template_kwargs", "repeat_last_n", "min_p", "typical_p", "frequency_penalty"),
    ]
    values: list[Any] = [
        *(None, True, 0, -1, 1, 2**63, 1e300, -0.0, "", "hello", "﷐<|im_end|>", [], {}, [[]]),
        *([{}], [None], {"": ""}, {"1": 1e308}, [1, "a"], {"type": "json_object"}, ["tiny"], [5]),
        *([{"role": "user", "content": "hello"}], [{"role": "tool", "content": ["x"]}]),
    ]
    paths = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize"]
    statuses: set[int] = set()
    for _ in range(200):
        path = paths[int(generator.integers(4))]
        chosen = generator.choice(names, size=int(generator.integers(1, 4)))
        body = {str(name): values[int(generator.integers(len(values)))] for name in chosen}
        if generator.random() < 0.7:
            body = {"messages": user("hello"), "prompt": "count", "max_tokens": 2} | body
        status, _ = post(running[0], path, body)
        statuses.add(status)
        assert status in (200, 400, 404), (status, path, body)
    assert statuses >= {200, 400}


def test_bad_http(running: Running) -> None:
    url = running[0]
    assert post(url, "/v1/none", {})[0] == 404
    assert post(url, "/health", {})[0] == 405
    status, found = post(url, "/v1/completions", b"{}", **{"Content-Type": "text/plain"})
    assert (status, found["error"]["message"]) == (
        415,
        "the header Content-Type must be application/json",
    )


def test_a_key_is_asked_for(tmp_path: Any) -> None:
    engine = servers.table_engine(tmp_path / "v.gguf", ANSWERS)
    with servers.serving(engine, key="secret") as (url, _):
        assert client_of(url, "secret").completions.create(model="tiny", prompt="count").choices
        for key in ("wrong", "secre", "sécret"):
            status, found = post(
                url, "/v1/completions", {"prompt": "count"}, Authorization=f"Bearer {key}"
            )
            assert (status, found["error"]["code"]) == (401, "invalid_api_key")
        with pytest.raises(openai.AuthenticationError):
            client_of(url, "wrong").models.list()
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_base_model_does_not_chat(tmp_path: Any) -> None:
    keys = vocabularies.bpe(control=[("<|im_end|>", vocabularies.CONTROL)])
    engine = servers.table_engine(tmp_path / "v.gguf", ANSWERS, keys=keys)
    with servers.serving(engine) as (url, _):
        status, found = post(url, "/v1/chat/completions", {"messages": user("hello")})
        assert (status, found["error"]["code"]) == (400, "OI0746")
        assert post(url, "/v1/completions", {"prompt": "count"})[0] == 200


# Tools and schemas


def test_tool_calls(tmp_path: Any) -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": [2]}}\n</tool_call>'
    broken = "<tool_call>{not json}</tool_call>"
    answers = {"add": f"I add. {call}\n{call}", "break": f"so {broken} end", "hello": "no < call"}
    template = "{% for t in tools or [] %}<tool_call>{{ t.function.name }}{% endfor %}" + CHATML
    keys = vocabularies.bpe() | {"tokenizer.chat_template": (files.TEXT, template)}
    engine = servers.table_engine(tmp_path / "v.gguf", answers, keys=keys)
    tools: Any = [{"type": "function", "function": {"name": "sum", "parameters": {}}}]
    with servers.serving(engine) as (url, _):
        create = client_of(url).chat.completions.create
        choice = create(model="tiny", messages=user("add"), tools=tools).choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "I add."
        calls: Any = choice.message.tool_calls
        assert [one.function.name for one in calls] == ["add", "add"]
        assert json.loads(calls[0].function.arguments) == {"a": 1, "b": [2]}
        assert calls[0].id != calls[1].id
        pieces = list(create(model="tiny", messages=user("add"), tools=tools, stream=True))
        deltas = [piece.choices[0].delta for piece in pieces]
        assert "".join(delta.content or "" for delta in deltas) == "I add."
        streamed: Any = [one for delta in deltas for one in delta.tool_calls or []]
        assert [(one.index, one.function.name) for one in streamed] == [(0, "add"), (1, "add")]
        assert pieces[-1].choices[0].finish_reason == "tool_calls"
        # What is no call is text, and without tools everything is.
        choice = create(model="tiny", messages=user("break"), tools=tools).choices[0]
        assert (choice.message.content, choice.finish_reason) == (f"so {broken} end", "stop")
        choice = create(model="tiny", messages=user("add")).choices[0]
        assert choice.message.content == answers["add"]
        # The conversation goes on with what the function gave.
        more: Any = [
            *user("add"),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [one.model_dump() for one in calls],
            },
            {"role": "tool", "tool_call_id": calls[0].id, "content": "hello"},
        ]
        choice = create(model="tiny", messages=more, tools=tools).choices[0]
        assert choice.message.content == "no < call"


@pytest.mark.skipif(find_spec("llguidance") is None, reason="the extra `grammar` is not installed")
def test_answers_in_json(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"x": {"enum": ["say"]}}, "required": ["x"]}
    schema |= {"additionalProperties": False}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    found = client.chat.completions.create(
        model="tiny", messages=user("hello"), response_format=wanted, max_tokens=60, temperature=0
    )
    text = found.choices[0].message.content or ""
    # The table never writes JSON: only the schema can have made it.
    assert text.lstrip().startswith("{")
    wanted["json_schema"]["schema"] = {"type": "nonsense"}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=user("hello"), response_format=wanted)
    assert caught.value.code == "OI0585"


# Many at once


@pytest.fixture
def slow(tmp_path: Any) -> servers.TableEngine:
    """A model with two slots that takes 10 ms for a step."""
    return servers.table_engine(
        tmp_path / "v.gguf", ANSWERS, slots=2, delay=0.01, context=2000, chunk=16
    )


def begun(url: str, engine: servers.TableEngine, prompt: str) -> Any:
    """A stream whose first token came; the model has made one step and waits."""
    engine.runner.hold(1)
    stream = client_of(url).completions.create(model="tiny", prompt=prompt, stream=True)
    return stream, next(stream).choices[0].text


def test_answers_share_steps_and_keep_their_texts(tmp_path: Any) -> None:
    engine = servers.table_engine(tmp_path / "v.gguf", ANSWERS)
    names = list(ANSWERS) * 4
    with servers.serving(engine) as (url, server), ThreadPoolExecutor(len(names)) as pool:
        complete = client_of(url).completions.create
        engine.runner.hold()
        asked = [pool.submit(complete, model="tiny", prompt=name) for name in names]
        wait_for(lambda: sum(server.service.scheduler.load) == len(names))
        engine.runner.go()
        found = [one.result() for one in asked]
    assert [one.choices[0].text for one in found] == [ANSWERS[name] for name in names]
    assert max(engine.runner.widths) == 4
    # One token of each answer a step: as many steps as the longest chain of answers, not their sum.
    assert len(engine.runner.widths) < sum(engine.runner.widths) / 2


def test_a_long_prompt_delays_nobody(slow: servers.TableEngine) -> None:
    with servers.serving(slow) as (url, server):
        complete = client_of(url).completions.create
        stream, text = begun(url, slow, "long")
        texts = [text]
        start = len(slow.runner.tokens)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(complete, model="tiny", prompt="z" * 1000 + "count", max_tokens=3)
            wait_for(lambda: sum(server.service.scheduler.load) == 2)
            slow.runner.go()
            texts += [piece.choices[0].text for piece in stream]
            assert other.result().choices[0].text == "1 2"
        assert "".join(texts) == ANSWERS["long"]
    tokens = slow.runner.tokens[start:]
    # Each step had the next token of the answer, and at most a chunk of the prompt.
    assert max(tokens) == 17
    assert tokens.count(17) >= 60


def test_pieces_of_prompts_are_as_long_as_the_machine_is_fast(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = servers.table_engine(tmp_path / "v.gguf", ANSWERS, slots=2, context=2000, chunk=64)
    tokens = engine.runner.tokens
    # A token takes 10 ms.
    clock = SimpleNamespace(monotonic=time.monotonic, perf_counter=lambda: 0.01 * sum(tokens))
    monkeypatch.setattr(scheduler, "time", clock)
    with servers.serving(engine) as (url, server), ThreadPoolExecutor(1) as pool:
        complete = client_of(url).completions.create
        stream, _ = begun(url, engine, "z" * 40 + "long")
        assert tokens == [44]
        other = pool.submit(complete, model="tiny", prompt="y" * 100 + "count", max_tokens=1)
        wait_for(lambda: sum(server.service.scheduler.load) == 2)
        engine.runner.go()
        other.result()
        stream.close()
    # 25 of them in the quarter of a second that the other answer waits, whose own is the last one.
    assert max(tokens[1:]) in (25, 26)


def test_the_beginning_of_a_prompt_is_computed_once(slow: servers.TableEngine) -> None:
    with servers.serving(slow) as (url, _):
        create = client_of(url).chat.completions.create
        messages = user("hello " * 20)
        first = create(model="tiny", messages=messages)
        messages += [
            {"role": "assistant", "content": first.choices[0].message.content},
            *user("count"),
        ]
        second = create(model="tiny", messages=messages)
        assert second.choices[0].message.content == ANSWERS["count"]
        assert first.usage is not None
        assert second.usage is not None
        details = second.usage.prompt_tokens_details
        assert details is not None
        assert details.cached_tokens is not None
        # All of the first exchange but its last token, which was never fed.
        assert details.cached_tokens >= first.usage.total_tokens - 1
        # Another conversation takes the other slot, so that this one can go on.
        create(model="tiny", messages=user("long"))
        third = create(model="tiny", messages=messages)
        assert third.usage is not None
        assert third.usage.prompt_tokens_details is not None
        assert third.usage.prompt_tokens_details.cached_tokens == third.usage.prompt_tokens - 1


def test_a_flood(slow: servers.TableEngine) -> None:
    with servers.serving(slow, queue=3) as (url, server), ThreadPoolExecutor(20) as pool:
        slow.runner.hold()
        asked = [pool.submit(post, url, "/v1/completions", {"prompt": "count"}) for _ in range(20)]
        # Two slots and three that wait.
        wait_for(lambda: sum(one.done() for one in asked) == 15)
        slow.runner.go()
        found = [one.result() for one in asked]
        statuses = [status for status, _ in found]
        assert (statuses.count(200), statuses.count(429)) == (5, 15)
        for status, row in found:
            if status == 200:
                assert row["choices"][0]["text"] == ANSWERS["count"]
            else:
                assert row["error"]["code"] == "queue_full"
        assert post(url, "/v1/completions", {"prompt": "count"})[0] == 200
        assert server.service.scheduler.load == (0, 0)
        # More answers than can ever wait.
        status, _ = post(url, "/v1/completions", {"prompt": ["count"] * 6})
        assert status == 429


def test_a_flood_of_bodies_that_do_not_come(slow: servers.TableEngine) -> None:
    """They do not hold connections for ever."""
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    with servers.serving(slow, queue=1, body_seconds=2.0) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        held = [socket.create_connection((host, int(port)), timeout=60) for _ in range(5)]
        for connection in held:
            connection.sendall(head)
        # Two slots and one that waits: the fourth and the fifth are too many.
        found = [connection.recv(4096).split()[1] for connection in held]
        assert sorted(found) == [b"408"] * 3 + [b"429"] * 2
        for connection in held:
            connection.close()
        assert post(url, "/v1/completions", {"prompt": "count"})[0] == 200


def test_clients_that_leave(slow: servers.TableEngine) -> None:
    with servers.serving(slow) as (url, server):
        work = server.service.scheduler

        def leaves() -> None:
            (running,) = work._running  # pyright: ignore[reportPrivateUsage]
            wait_for(lambda: running.job.cancelled)
            steps = len(slow.runner.tokens)
            slow.runner.go()
            wait_for(lambda: work.load == (0, 0))
            assert len(slow.runner.tokens) <= steps + 1, "the answer was computed to its end"

        stream, _ = begun(url, slow, "long")
        stream.close()
        leaves()
        slow.runner.hold(1)
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        body = json.dumps({"prompt": "long"})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        wait_for(lambda: work.load == (1, 0))
        connection.close()
        leaves()
        assert work.counts.ended == {"cancelled": 2}
        assert post(url, "/v1/completions", {"prompt": "count"})[0] == 200


def test_a_stop_loses_no_answer_that_has_begun(slow: servers.TableEngine) -> None:
    with servers.serving(slow) as (url, server), ThreadPoolExecutor(8) as pool:
        work = server.service.scheduler
        request = {"prompt": "long", "stream": True}
        slow.runner.hold()
        running = [pool.submit(stream_text, url, request) for _ in range(2)]
        wait_for(lambda: sum(work.load) == 2)
        slow.runner.go(1)
        wait_for(lambda: work.load == (2, 0))
        waiting = [pool.submit(post, url, "/v1/completions", {"prompt": "count"}) for _ in range(3)]
        wait_for(lambda: work.load == (2, 3))
        server.stop()
        wait_for(lambda: work.load == (2, 0))
        slow.runner.go()
        assert [one.result() for one in running] == [ANSWERS["long"]] * 2
        assert [one.result()[0] for one in waiting] == [503] * 3
        assert work.join(60)
        with pytest.raises(OSError):
            post(url, "/v1/completions", {"prompt": "count"})


def stream_text(url: str, request: dict[str, Any]) -> str:
    pieces = client_of(url).completions.create(model="tiny", **request)
    return "".join(piece.choices[0].text for piece in pieces)


def test_requests_that_take_too_long(slow: servers.TableEngine) -> None:
    with servers.serving(slow, seconds=0.4) as (url, server):
        status, found = post(url, "/v1/completions", {"prompt": "long"})
        assert (status, found["error"]["code"]) == (504, "timeout")
        with pytest.raises(openai.APIError, match="took longer"):
            stream_text(url, {"prompt": "long", "stream": True})
        assert server.service.scheduler.load == (0, 0)


def test_a_step_that_fails(slow: servers.TableEngine) -> None:
    with servers.serving(slow) as (url, _):
        slow.runner.fails = True
        status, found = post(url, "/v1/completions", {"prompt": "count"})
        assert status == 500
        assert found["error"]["type"] == "server_error"
        assert "step failed" not in json.dumps(found), "what went wrong inside is not told"
        status, found = post(url, "/v1/completions", {"prompt": "count"})
        assert (status, found["choices"][0]["text"]) == (200, ANSWERS["count"])


def test_threads_end(slow: servers.TableEngine) -> None:
    before = threading.active_count()
    with servers.serving(slow):
        pass
    wait_for(lambda: threading.active_count() <= before)
