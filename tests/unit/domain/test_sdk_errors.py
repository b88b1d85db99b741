"""`AgentError.from_exception`: exceptions that the providers' own SDKs raise on mocked answers."""

from __future__ import annotations

import asyncio
import importlib
import json
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from eventstore import (
    AgentError,
    AuthErrorKind,
    Cancelled,
    ConfigError,
    ContextOverflow,
    DefaultRetryClassifier,
    ErrorEnvelope,
    Failure,
    InternalError,
    ProviderError,
    ProviderErrorKind,
    ToolError,
    classify,
)

pytestmark = pytest.mark.slow  # seven SDKs are imported

KIND, AUTH = ProviderErrorKind, AuthErrorKind
KEY = "sk-proj-a1B2c3D4e5F6g7H8"
MESSAGES = [{"role": "user", "content": "hello"}]
Answer = Callable[[Any], Any]


def http_of(cls: type) -> Any:
    """Return the HTTP library that an SDK's client class derives from: httpx or httpx2."""
    names = [base.__module__.partition(".")[0] for base in cls.__mro__]
    return importlib.import_module(next(name for name in names if name in ("httpx", "httpx2")))


def openai(http_answer: Callable[[Any], Answer]) -> None:
    """Ask OpenAI's Chat Completions."""
    sdk: Any = pytest.importorskip("openai")
    http = http_of(sdk.DefaultHttpxClient)
    client = http.Client(transport=http.MockTransport(http_answer(http)))
    with sdk.OpenAI(api_key=KEY, max_retries=0, http_client=client) as model:
        model.chat.completions.create(model="m", messages=MESSAGES)


def anthropic(http_answer: Callable[[Any], Answer]) -> None:
    """Ask Anthropic's Messages."""
    sdk: Any = pytest.importorskip("anthropic")
    http = http_of(sdk.DefaultHttpxClient)
    client = http.Client(transport=http.MockTransport(http_answer(http)))
    with sdk.Anthropic(api_key=KEY, max_retries=0, http_client=client) as model:
        model.messages.create(model="m", max_tokens=9, messages=MESSAGES)


def anthropic_stream(http_answer: Callable[[Any], Answer]) -> None:
    """Read a stream of Anthropic's to its end."""
    sdk: Any = pytest.importorskip("anthropic")
    http = http_of(sdk.DefaultHttpxClient)
    client = http.Client(transport=http.MockTransport(http_answer(http)))
    with sdk.Anthropic(api_key=KEY, max_retries=0, http_client=client) as model:
        list(model.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True))


def gemini(http_answer: Callable[[Any], Answer]) -> None:
    """Ask Google's Gemini."""
    sdk: Any = pytest.importorskip("google.genai")
    http: Any = importlib.import_module("httpx")
    client = http.Client(transport=http.MockTransport(http_answer(http)))
    options = sdk.types.HttpOptions(httpx_client=client)
    sdk.Client(api_key=KEY, http_options=options).models.generate_content(
        model="gemini-2.5-flash", contents="hello"
    )
    client.close()


def mistral(http_answer: Callable[[Any], Answer]) -> None:
    """Ask Mistral."""
    sdk: Any = pytest.importorskip("mistralai.client")
    http: Any = importlib.import_module("mistralai.client.httpclient").httpx
    with http.Client(transport=http.MockTransport(http_answer(http))) as client:
        sdk.Mistral(api_key=KEY, client=client).chat.complete(model="m", messages=MESSAGES)


def cohere(http_answer: Callable[[Any], Answer]) -> None:
    """Ask Cohere."""
    sdk: Any = pytest.importorskip("cohere")
    http: Any = importlib.import_module("cohere.core.http_client").httpx
    with http.Client(transport=http.MockTransport(http_answer(http))) as client:
        sdk.ClientV2(api_key=KEY, httpx_client=client).chat(
            model="m", messages=MESSAGES, request_options={"max_retries": 0}
        )


def ollama(http_answer: Callable[[Any], Answer]) -> None:
    """Ask Ollama."""
    sdk: Any = pytest.importorskip("ollama")
    http = http_of(sdk.Client(transport=None)._client.__class__)
    sdk.Client(transport=http.MockTransport(http_answer(http))).chat("m", MESSAGES)


def httpx(http_answer: Callable[[Any], Answer]) -> None:
    """Send a plain request, with the key in the URL and in a header."""
    http: Any = pytest.importorskip("httpx")
    with http.Client(transport=http.MockTransport(http_answer(http))) as client:
        client.post(
            f"https://model.example/v1?key={KEY}", headers={"Authorization": f"Bearer {KEY}"}
        ).raise_for_status()


def answered(status: int, body: object, **headers: str) -> Callable[[Any], Answer]:
    """Answer every request like this; a text is a stream of events or a page."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    content = {"text": body} if isinstance(body, str) else {"json": body}
    return lambda http: lambda _: http.Response(status, headers=names, **content)


def broken(name: str, cause: Exception | None = None) -> Callable[[Any], Answer]:
    """Raise the HTTP library's exception of this name in place of an answer."""

    def transport(http: Any) -> Answer:
        def fail(request: Any) -> Any:
            raise getattr(http, name)("no route", request=request) from cause

        return fail

    return transport


def error_of(ask: Callable[..., None], *answer: Callable[[Any], Answer]) -> AgentError:
    """Return the agent's error for what the SDK raises on this answer."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each SDK has its own
        ask(*answer)
    error = AgentError.from_exception(raised.value)
    assert error.__cause__ is raised.value
    assert_consistent(error)
    return error


def assert_consistent(error: AgentError) -> None:
    """The exception and the agent's error say the same to a retry, and neither text has the key."""
    raised = error.__cause__
    assert raised is not None
    classifier = DefaultRetryClassifier()
    assert error.retryable == classify(raised).is_retryable
    assert classifier.classify(error) is classifier.classify(raised)
    assert classifier.classify(Failure.from_exception(raised)) is classifier.classify(raised)
    failure = Failure.from_exception(error)
    for text in (str(error), error.suggestion or "", failure.message, failure.model_text):
        assert KEY not in text
    assert KEY not in error.encode().decode()
    assert AgentError.decode(error.encode()).encode() == error.encode()
    ErrorEnvelope.of(failure)


def openai_body(message: str, code: str | None = None, **more: object) -> object:
    """Return the body of an error of OpenAI's."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


def anthropic_body(word: str, message: str = "m") -> object:
    """Return the body of an error of Anthropic's."""
    return {"type": "error", "error": {"type": word, "message": message}, "request_id": "req_1"}


def gemini_body(code: int, status: str, *details: object, message: str = "m") -> object:
    """Return the body of an error of Google's."""
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
STREAM = "event: error\ndata: " + json.dumps(anthropic_body("overloaded_error")) + "\n\n"

# ask, the answer, then: cause, detail of an authentication error, status, hint in seconds
ANSWERS = [
    (openai, answered(401, openai_body("m", "invalid_api_key")), KIND.AUTHENTICATION, 401, None),
    (openai, answered(403, openai_body("m")), KIND.AUTHENTICATION, 403, None),
    (openai, answered(400, openai_body("m")), KIND.INVALID_REQUEST, 400, None),
    (openai, answered(404, openai_body("m", "model_not_found")), KIND.UNKNOWN, 404, None),
    (openai, answered(422, openai_body("m")), KIND.INVALID_REQUEST, 422, None),
    (openai, answered(400, openai_body("m", "content_filter")), KIND.CONTENT_FILTERED, 400, None),
    (openai, answered(429, openai_body("m", "rate_limit_exceeded")), KIND.RATE_LIMIT, 429, None),
    (openai, answered(429, openai_body("m"), retry_after="7"), KIND.RATE_LIMIT, 429, 7),
    (openai, answered(429, openai_body("m"), retry_after_ms="250"), KIND.RATE_LIMIT, 429, 0.25),
    (
        openai,
        answered(429, openai_body("m", "insufficient_quota"), retry_after="7"),
        KIND.QUOTA_EXCEEDED,
        429,
        7,
    ),
    (openai, answered(429, openai_body("m")), KIND.QUOTA_EXCEEDED, 429, None),
    (openai, answered(500, "<html>"), KIND.SERVER_ERROR, 500, None),
    (openai, answered(503, openai_body("m"), retry_after="2"), KIND.SERVER_ERROR, 503, 2),
    (
        openai,
        answered(200, "{", content_type="application/json"),
        KIND.INVALID_RESPONSE,
        None,
        None,
    ),
    (openai, broken("ConnectError"), KIND.TRANSPORT, None, None),
    (openai, broken("ReadTimeout"), KIND.TRANSPORT, None, None),
    (
        anthropic,
        answered(401, anthropic_body("authentication_error")),
        KIND.AUTHENTICATION,
        401,
        None,
    ),
    (anthropic, answered(402, anthropic_body("billing_error")), KIND.QUOTA_EXCEEDED, 402, None),
    (anthropic, answered(400, anthropic_body("x")), KIND.INVALID_REQUEST, 400, None),
    (anthropic, answered(429, anthropic_body("rate_limit_error")), KIND.RATE_LIMIT, 429, None),
    (anthropic, answered(529, anthropic_body("overloaded_error")), KIND.SERVER_ERROR, 529, None),
    (
        anthropic_stream,
        answered(200, STREAM, content_type="text/event-stream"),
        KIND.SERVER_ERROR,
        None,
        None,
    ),
    (anthropic, broken("ReadError"), KIND.TRANSPORT, None, None),
    (gemini, answered(400, gemini_body(400, "INVALID_ARGUMENT")), KIND.INVALID_REQUEST, 400, None),
    (
        gemini,
        answered(400, gemini_body(400, "INVALID_ARGUMENT", BAD_KEY)),
        KIND.AUTHENTICATION,
        400,
        None,
    ),
    (gemini, answered(403, gemini_body(403, "PERMISSION_DENIED")), KIND.AUTHENTICATION, 403, None),
    (
        gemini,
        answered(429, gemini_body(429, "RESOURCE_EXHAUSTED", RETRY_INFO)),
        KIND.RATE_LIMIT,
        429,
        34.5,
    ),
    (
        gemini,
        answered(429, gemini_body(429, "RESOURCE_EXHAUSTED", PER_DAY, RETRY_INFO)),
        KIND.QUOTA_EXCEEDED,
        429,
        34.5,
    ),
    (
        gemini,
        answered(429, gemini_body(429, "RESOURCE_EXHAUSTED")),
        KIND.QUOTA_EXCEEDED,
        429,
        None,
    ),
    (gemini, answered(503, gemini_body(503, "UNAVAILABLE")), KIND.SERVER_ERROR, 503, None),
    (gemini, broken("ConnectError"), KIND.TRANSPORT, None, None),
    (mistral, answered(401, {"detail": "Unauthorized"}), KIND.AUTHENTICATION, 401, None),
    (
        mistral,
        answered(422, {"detail": [{"loc": ["body"], "msg": "m", "type": "missing"}]}),
        KIND.INVALID_REQUEST,
        422,
        None,
    ),
    (
        mistral,
        answered(429, {"message": "m", "type": "rate_limited"}),
        KIND.RATE_LIMIT,
        429,
        None,
    ),
    (mistral, answered(502, {"message": "m"}), KIND.SERVER_ERROR, 502, None),
    (mistral, answered(200, {"odd": 1}), KIND.INVALID_RESPONSE, None, None),
    (cohere, answered(401, {"message": "invalid api token"}), KIND.AUTHENTICATION, 401, None),
    (cohere, answered(429, {"message": "m"}, retry_after="3"), KIND.RATE_LIMIT, 429, 3),
    (ollama, answered(404, {"error": "no such model"}), KIND.UNKNOWN, 404, None),
    (ollama, answered(500, {"error": "m"}), KIND.SERVER_ERROR, 500, None),
    (httpx, answered(503, {}, retry_after="4"), KIND.SERVER_ERROR, 503, 4),
    (httpx, answered(408, {}), KIND.TRANSPORT, 408, None),
    (httpx, broken("ConnectTimeout"), KIND.TRANSPORT, None, None),
]


@pytest.mark.parametrize(
    ("ask", "answer", "kind", "status", "hint"),
    ANSWERS,
    ids=[
        f"{ask.__name__}-{status or 'none'}-{number}"
        for number, (ask, _, _, status, _) in enumerate(ANSWERS)
    ],
)
def test_an_answer_of_a_provider_has_a_cause_a_status_and_a_hint(
    ask: Callable[..., None],
    answer: Callable[[Any], Answer],
    kind: ProviderErrorKind,
    status: int | None,
    hint: float | None,
) -> None:
    """The error is what the provider says; the SDK's own exception is its cause."""
    error = error_of(ask, answer)
    assert isinstance(error, ProviderError)
    assert (error.kind, error.status) == (kind, status)
    assert error.retry_after_hint == hint
    if error.retryable and error.kind is KIND.RATE_LIMIT:
        assert error.retry_after == (hint or 30)
    assert str(error).count("Error code") == 0 or status == 500


@pytest.mark.parametrize(
    ("ask", "status", "body", "used", "limit"),
    [
        (
            openai,
            400,
            openai_body(
                "This model's maximum context length is 128000 tokens. However, your messages "
                "resulted in 130512 tokens. Please reduce the length of the messages.",
                "context_length_exceeded",
            ),
            130512,
            128000,
        ),
        (openai, 400, openai_body("too long", "context_length_exceeded"), None, None),
        (
            anthropic,
            400,
            anthropic_body(
                "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"
            ),
            213462,
            200000,
        ),
        (
            anthropic,
            400,
            anthropic_body(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
            210000,
            200000,
        ),
        (
            gemini,
            400,
            gemini_body(
                400,
                "INVALID_ARGUMENT",
                message="The input token count (1200000) exceeds the maximum number of tokens "
                "allowed (1048576).",
            ),
            1200000,
            1048576,
        ),
        (
            mistral,
            400,
            {
                "message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model "
                "with 32768 maximum context length",
                "type": "invalid_request_prompt",
            },
            65673,
            32768,
        ),
    ],
)
def test_a_prompt_that_is_too_long_is_a_context_overflow(
    ask: Callable[..., None], status: int, body: object, used: int | None, limit: int | None
) -> None:
    """The sizes are those that the provider names; None where it names none."""
    error = error_of(ask, answered(status, body))
    assert isinstance(error, ContextOverflow)
    assert (error.used, error.limit) == (used, limit)
    assert str(error) == (
        "context overflow: unknown/unknown tokens"
        if used is None
        else f"context overflow: {used}/{limit} tokens"
    )
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.used, again.limit) == (used, limit)


def bedrock_error(code: str, status: int, message: str = "m", **headers: str) -> Exception:
    """Return what botocore raises when Bedrock answers like this."""
    session: Any = pytest.importorskip("botocore.session")
    stub: Any = importlib.import_module("botocore.stub")
    config: Any = importlib.import_module("botocore.config")
    client = session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-central-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key=KEY,
        config=config.Config(retries={"max_attempts": 0}),
    )
    with stub.Stubber(client) as stubber:
        stubber.add_client_error(
            "converse",
            code,
            message,
            status,
            response_meta={"HTTPHeaders": {k.replace("_", "-"): v for k, v in headers.items()}},
        )
        with pytest.raises(client.exceptions.ClientError) as raised:
            client.converse(modelId="m", messages=[])
    client.close()
    return raised.value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("code", "status", "kind", "auth"),
    [
        ("ThrottlingException", 429, KIND.RATE_LIMIT, None),
        ("ThrottlingException", 400, KIND.RATE_LIMIT, None),
        ("ServiceQuotaExceededException", 400, KIND.QUOTA_EXCEEDED, None),
        ("AccessDeniedException", 403, KIND.AUTHENTICATION, AUTH.INSUFFICIENT_PERMISSIONS),
        ("UnrecognizedClientException", 403, KIND.AUTHENTICATION, AUTH.INVALID),
        ("ExpiredTokenException", 403, KIND.AUTHENTICATION, AUTH.EXPIRED),
        ("ExpiredToken", 400, KIND.AUTHENTICATION, AUTH.EXPIRED),
        ("ValidationException", 400, KIND.INVALID_REQUEST, None),
        ("ResourceNotFoundException", 404, KIND.UNKNOWN, None),
        ("ModelTimeoutException", 408, KIND.TRANSPORT, None),
        ("ModelNotReadyException", 429, KIND.SERVER_ERROR, None),
        ("InternalServerException", 500, KIND.SERVER_ERROR, None),
        ("ServiceUnavailableException", 503, KIND.SERVER_ERROR, None),
    ],
)
def test_an_error_of_bedrock_has_the_cause_of_its_code(
    code: str, status: int, kind: ProviderErrorKind, auth: AuthErrorKind | None
) -> None:
    """AWS names the cause in a code; the HTTP status decides where it names none."""
    error = AgentError.from_exception(bedrock_error(code, status))
    assert_consistent(error)
    assert isinstance(error, ProviderError)
    assert (error.kind, error.auth, error.status) == (kind, auth, status)
    assert error.message == "m"


def test_bedrock_says_how_long_to_wait_and_that_a_prompt_is_too_long() -> None:
    """The hint is in a header of the answer, the overflow in a sentence."""
    error = AgentError.from_exception(bedrock_error("ThrottlingException", 429, retry_after="9"))
    assert error.retry_after == 9
    too_long = "Input is too long for requested model."
    overflow = AgentError.from_exception(bedrock_error("ValidationException", 400, too_long))
    assert isinstance(overflow, ContextOverflow)
    assert (overflow.used, overflow.limit) == (None, None)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "auth"),
    [
        ("NoCredentialsError", {}, KIND.AUTHENTICATION, AUTH.MISSING),
        ("UnauthorizedSSOTokenError", {}, KIND.AUTHENTICATION, AUTH.EXPIRED),
        ("EndpointConnectionError", {"endpoint_url": "https://e"}, KIND.TRANSPORT, None),
        ("ReadTimeoutError", {"endpoint_url": "https://e"}, KIND.TRANSPORT, None),
        ("ParamValidationError", {"report": "modelId"}, KIND.INVALID_REQUEST, None),
    ],
)
def test_an_error_of_botocore_before_an_answer_has_a_cause(
    name: str, arguments: dict[str, str], kind: ProviderErrorKind, auth: AuthErrorKind | None
) -> None:
    """No request was sent, or no answer came."""
    exceptions: Any = pytest.importorskip("botocore.exceptions")
    error = AgentError.from_exception(getattr(exceptions, name)(**arguments))
    assert_consistent(error)
    assert isinstance(error, ProviderError)
    assert (error.kind, error.auth, error.status) == (kind, auth, None)


# --- credentials


def openai_without_key() -> None:
    """Make a client of OpenAI's without a key."""
    pytest.importorskip("openai").OpenAI()


def anthropic_without_key() -> None:
    """Ask Anthropic without a key."""
    sdk: Any = pytest.importorskip("anthropic")
    with sdk.Anthropic(max_retries=0) as model:
        model.messages.create(model="m", max_tokens=9, messages=MESSAGES)


def gemini_without_key() -> None:
    """Make a client of Google's without a key."""
    pytest.importorskip("google.genai").Client()


@pytest.mark.parametrize("ask", [openai_without_key, anthropic_without_key, gemini_without_key])
def test_a_missing_key_is_missing_credentials_with_a_suggestion(
    ask: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The SDKs raise errors of no class of their own; their sentences are known."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    error = error_of(ask)
    assert isinstance(error, ProviderError)
    assert (error.kind, error.auth) == (KIND.AUTHENTICATION, AUTH.MISSING)
    assert error.suggestion == "set the API key or the credentials of the provider"


@pytest.mark.parametrize("ask", [openai, anthropic, gemini, mistral, cohere, httpx])
def test_no_text_holds_the_key_of_the_request(ask: Callable[..., None]) -> None:
    """An answer that repeats the key, alone or in a URL, is shown without it."""
    said = f"bad key {KEY}, see https://u:{KEY}@h.example/?key={KEY}&x=1"
    body = {"error": {"message": said, "type": "e", "code": None}, "message": said}
    error = error_of(ask, answered(401, body))  # asserts that the key is nowhere
    assert "[hidden]" in str(error)
    assert "h.example" in str(error) or ask is httpx


def test_a_key_of_any_form_is_hidden_where_the_request_is_known() -> None:
    """The request's own headers say what must not be shown."""
    sdk: Any = pytest.importorskip("openai")
    http = http_of(sdk.DefaultHttpxClient)
    answer = answered(401, openai_body("no such key: plainwords-and-42"))(http)
    client = http.Client(transport=http.MockTransport(answer))
    model = sdk.OpenAI(api_key="plainwords-and-42", max_retries=0, http_client=client)
    with model, pytest.raises(sdk.AuthenticationError) as raised:
        model.models.list()
    assert AgentError.from_exception(raised.value).message == "no such key: [hidden]"


def test_a_long_page_is_cut_off() -> None:
    """A proxy may answer with a page of HTML."""
    error = error_of(cohere, answered(502, {"message": "x" * 100_000}))
    assert isinstance(error, ProviderError)
    assert len(error.message) == 2_001


# --- everything else


def test_an_error_of_the_agent_is_returned_as_it_is() -> None:
    """Its suggestion, its hint and its kind are its own."""
    for error in (
        ProviderError(KIND.RATE_LIMIT, "m", retry_after=5, suggestion="wait"),
        ToolError("t", "1", "m"),
        Cancelled(),
    ):
        assert AgentError.from_exception(error, suggestion="other") is error


def test_a_suggestion_is_kept() -> None:
    """The caller's is first, then the exception's own, then that of the cause."""
    refused = PermissionError("no")
    assert AgentError.from_exception(refused).suggestion is None
    refused.suggestion = "ask Ada"  # type: ignore[attr-defined]
    assert AgentError.from_exception(refused).suggestion == "ask Ada"
    assert AgentError.from_exception(refused, suggestion="run /login").suggestion == "run /login"
    error = AgentError.from_exception(bedrock_error("ServiceQuotaExceededException", 400))
    assert error.suggestion == "raise the budget, or wait until its next period begins"


@pytest.mark.parametrize(
    ("exception", "cls"),
    [
        (asyncio.CancelledError(), Cancelled),
        (KeyboardInterrupt(), Cancelled),
        (ValueError("odd"), InternalError),
        (PermissionError("a file"), InternalError),
        (ExceptionGroup("both", [ValueError("a"), KeyError("b")]), InternalError),
        (TimeoutError(), ProviderError),
        (ConnectionResetError("reset"), ProviderError),
    ],
    ids=repr,
)
def test_any_other_exception_has_an_error(exception: BaseException, cls: type[AgentError]) -> None:
    """Stops are cancellations, networks are transport, the rest are defects."""
    error = AgentError.from_exception(exception)
    assert type(error) is cls
    assert error.__cause__ is exception
    if isinstance(error, InternalError):
        assert error.exception == type(exception).__qualname__


def test_a_url_that_cannot_be_asked_is_a_configuration_error() -> None:
    """No request can be sent until the user corrects it."""
    http: Any = pytest.importorskip("httpx")
    with pytest.raises(http.UnsupportedProtocol) as raised:
        http.get("model.example")
    assert isinstance(AgentError.from_exception(raised.value), ConfigError)


def test_a_date_is_counted_from_now() -> None:
    """A Retry-After header with a date, and no Date header to count from."""
    date = "Wed, 21 Oct 2026 07:28:30 GMT"
    http: Any = pytest.importorskip("httpx")
    answer = http.Response(
        503, headers={"Retry-After": date}, request=http.Request("GET", "https://e")
    )
    with pytest.raises(http.HTTPStatusError) as raised:
        answer.raise_for_status()
    now = 1_792_567_690_000_000  # 20 seconds before
    assert AgentError.from_exception(raised.value, now=now).retry_after == 20
    assert AgentError.from_exception(raised.value).retry_after == 20  # the default, by chance
    assert AgentError.from_exception(raised.value, now=now + 5_000_000).retry_after == 15


def test_the_name_that_was_not_found_is_reported_through_the_layers() -> None:
    """The SDK wraps the HTTP library, which wraps the socket's error."""
    unknown = socket.gaierror("unknown name")
    assert error_of(openai, broken("ConnectError", unknown)).code == "dns_failure"


class Touchy(BaseException):
    """An exception whose every attribute and text raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name != "__str__":
            return super().__getattribute__(name)
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_hostile_exception_is_an_internal_error() -> None:
    """Nothing is raised, whatever the exception does."""
    error = AgentError.from_exception(Touchy())
    assert isinstance(error, InternalError)
    assert "Touchy" in str(error)


def test_no_sdk_is_imported() -> None:
    """The rules know exceptions by name alone."""
    program = (
        "import sys; from eventstore import AgentError; AgentError.from_exception(OSError('x'));"
        "print(sorted({'openai', 'anthropic', 'google', 'mistralai', 'botocore', 'httpx', 'cohere',"
        "'ollama'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
