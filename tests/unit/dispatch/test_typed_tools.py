"""Typed tools: arguments as the types of the function, results as the declared type, schemas."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, get_args

import jsonschema
import msgspec
import pydantic
import pytest
from support.dispatchers import answers, last, make, tags

from eventstore import (
    Conversation,
    ErrorKind,
    Failed,
    Failure,
    FunctionCall,
    FunctionTool,
    Image,
    NonResolvedToolError,
    RetryPolicy,
    Text,
    Tool,
    Toolbox,
    ToolCompleted,
)
from eventstore.providers.registry import ProviderName


class Size(enum.Enum):
    """A size."""

    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Address:
    """An address."""

    city: str
    number: int = 1


class Order(msgspec.Struct):
    """An order."""

    id: int
    to: Address
    placed: dt.date


class Filter(TypedDict, total=False):
    """A filter."""

    city: str


class Line(pydantic.BaseModel):
    """A line of an invoice."""

    price: float = pydantic.Field(gt=0, description="In euros.")
    tags: list[str] = []


class Invoice(pydantic.BaseModel):
    """An invoice."""

    lines: list[Line]


class Tree(msgspec.Struct):
    """A type that contains itself."""

    name: str
    children: list[Tree] = []


@dataclasses.dataclass
class Incomplete:
    """A type with an annotation that does not exist."""

    other: Nothing  # type: ignore[name-defined]  # noqa: F821


class Connection:
    """A type that no JSON value has."""


CONNECTION = Connection()


def add(number: int, other: int = 1) -> int:
    """Add two numbers.

    Args:
        number: The first one.
        other: The second one.
    """
    return number + other


def annotated(function: Callable[..., Any], **annotations: Any) -> Callable[..., Any]:
    """Return a function with annotations, named `f`."""
    function.__annotations__ = annotations
    function.__name__ = "f"
    return function


def place(
    to: Address, at: dt.datetime, size: Size, ids: set[int], price: Decimal, key: uuid.UUID
) -> Order:
    """Place an order."""
    assert isinstance(to, Address)
    assert isinstance(at, dt.datetime)
    assert (size, ids, price) == (Size.LARGE, {1, 2}, Decimal("1.10"))
    assert isinstance(key, uuid.UUID)
    return Order(7, to, at.date())


PLACE = {
    "to": {"city": "Oslo", "number": 2},
    "at": "2026-11-22T20:00:00Z",
    "size": "large",
    "ids": [1, 2],
    "price": "1.10",
    "key": "0e2e3f3c-7f4c-4a39-9f7a-3f8f0f3c1a2b",
}


def find(
    kind: Literal["gift", "sale"] = "sale",
    note: str | None = None,
    where: Filter | None = None,
    *,
    share: Annotated[float, msgspec.Meta(ge=0, le=1, description="From 0 to 1.")] = 1,
) -> dict[str, Any]:
    """Find orders."""
    return {"kind": kind, "note": note, "where": where, "share": share}


FIND = {"note": None, "where": {"city": "Oslo"}, "share": 0.5}


def bill(invoice: Invoice, days: Annotated[int, pydantic.Field(ge=1)] = 30) -> Invoice:
    """Send an invoice."""
    assert isinstance(invoice, Invoice)
    assert isinstance(days, int)
    return invoice


# arguments


@pytest.mark.parametrize("is_async", [True, False])
def test_a_wrong_type_is_one_validation_failure_and_nothing_runs(
    kind: str, chat: Conversation, is_async: bool
) -> None:
    """The failure names the place, and the call is not tried again."""
    ran = []

    def run(number: int) -> int:
        ran.append(number)
        return number + 1

    async def run_async(number: int) -> int:
        return run(number)

    tool = FunctionTool(run_async if is_async else run, "add", retry=RetryPolicy(3))
    call = chat.request("add", {"number": "nine"})
    (done,) = make(kind, chat, [tool]).dispatch([call])
    assert isinstance(done.status, Failed)
    failure = done.status.failure
    assert (failure.kind, failure.code) == (ErrorKind.VALIDATION, "invalid_arguments")
    wrong = "`add` got an invalid argument: Expected `int`, got `str` - at `$.number`"
    assert failure.message == wrong
    assert answers(chat)[call.id] == (f"Not executed: {wrong}. Call it again with other arguments.")
    assert (ran, tags(chat)) == ([], ["pending", "failed"])


def test_arguments_become_the_types_of_the_function(kind: str, chat: Conversation) -> None:
    """The log keeps them as the model wrote them, and the result as JSON of its type."""
    tool = FunctionTool(place)
    call = chat.request("place", PLACE)
    (done,) = make(kind, chat, [tool]).dispatch([call])
    assert done.response is not None, done.status
    assert done.response.result == {
        "id": 7,
        "to": {"city": "Oslo", "number": 2},
        "placed": "2026-11-22",
    }
    assert not last(chat, ToolCompleted).lossy
    assert tool.result(done) == Order(7, Address("Oslo", 2), dt.date(2026, 11, 22))
    assert chat.tools[call.id].call.arguments == PLACE


def test_models_of_pydantic_are_made_and_checked(kind: str, chat: Conversation) -> None:
    """Models inside of each other are checked, too, and so are the constraints of a `Field`."""
    tool = FunctionTool(bill)
    good = {"invoice": {"lines": [{"price": 2}]}, "days": 3}
    calls = [
        chat.request("bill", arguments)
        for arguments in (
            good,
            {"invoice": {"lines": [{"price": 2}, {"price": -1}]}},
            {**good, "days": 0},
        )
    ]
    done, *refused = make(kind, chat, [tool]).dispatch(calls)
    assert done.response is not None, done.status
    assert done.response.result == {"lines": [{"price": 2.0, "tags": []}]}
    assert tool.result(done) == Invoice(lines=[Line(price=2)])
    messages = [call.status.failure.message for call in refused if isinstance(call.status, Failed)]
    assert [message.removeprefix("`bill` got an invalid argument: ") for message in messages] == [
        "Input should be greater than 0 - at `$.invoice.lines[1].price`",
        "Input should be greater than or equal to 1 - at `$.days`",
    ]


@pytest.mark.parametrize(
    ("function", "change", "message"),
    [
        (place, {"to": {"town": "Oslo"}}, "missing required field `city` - at `$.to`"),
        (place, {"to": {"city": 1}}, "Expected `str`, got `int` - at `$.to.city`"),
        (place, {"at": "soon"}, "Invalid RFC3339 encoded datetime - at `$.at`"),
        (place, {"size": "tiny"}, "Invalid enum value 'tiny' - at `$.size`"),
        (place, {"ids": [1, "x"]}, "got `str` - at `$.ids[1]`"),
        (place, {"key": 7}, "Expected `uuid`, got `int` - at `$.key`"),
        (find, {"kind": "loan"}, "at `$.kind`"),
        (find, {"share": 2}, "Expected `float` <= 1.0 - at `$.share`"),
        (find, {"where": {"city": 7}}, "Expected `str`, got `int` - at `$.where.city`"),
        (find, {"note": 7}, "Expected `str | null`, got `int` - at `$.note`"),
    ],
)
def test_every_complaint_names_the_place(
    function: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    """As a path into the arguments."""
    arguments = {**(PLACE if function is place else FIND), **change}
    failure = FunctionTool(function).invalid(FunctionCall.of("f", arguments))
    assert failure is not None
    assert message in failure.message


def test_an_edit_is_checked_as_the_arguments_of_the_model_are(
    kind: str, chat: Conversation
) -> None:
    """A person can mistype, too."""
    call = chat.request("add", {"number": 1})
    chat.approve(call.id, edited_arguments={"number": "nine"}, by="ada")
    (done,) = make(kind, chat, [add]).dispatch([call.id])
    assert isinstance(done.status, Failed)
    assert "got `str` - at `$.number`" in done.status.failure.message


def test_whole_numbers_may_be_written_as_floats() -> None:
    """JSON Schema has one kind of number; Gemini sends floats."""
    tool = FunctionTool(add)
    assert tool.bind({"number": 5.0}) == {"number": 5}
    assert isinstance(tool.bind({"number": 5.0})["number"], int)
    nested = FunctionTool(lambda rows: rows, "f")
    assert nested.bind({"rows": [{"x": 1.0}]}) == {"rows": [{"x": 1.0}]}
    failure = tool.invalid(FunctionCall.of("add", {"number": 5.5}))
    assert failure is not None
    assert "got `float`" in failure.message


@pytest.mark.parametrize("value", ["5", True, None, [5], {"x": 5}])
def test_no_other_value_is_converted_to_fit(value: object) -> None:
    """A value that the schema does not allow is refused."""
    failure = FunctionTool(add).invalid(FunctionCall.of("add", {"number": value}))
    assert failure is not None
    assert failure.message.endswith("- at `$.number`")


def test_arguments_without_annotations_are_taken_as_they_are() -> None:
    """Their names are checked all the same, and so are the types of `**more`."""
    tool = FunctionTool(annotated(lambda a, b=2, **more: (a, b, more), more=int))
    assert tool.bind({"a": [1], "c": 3}) == {"a": [1], "c": 3}
    with pytest.raises(
        msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$\[...\]`"
    ):
        tool.bind({"a": 1, "c": "x"})


def test_a_default_of_none_lets_null_be_passed(kind: str, chat: Conversation) -> None:
    """Models write null for what they leave out, whatever the annotation says."""
    tool = FunctionTool(annotated(lambda note=None: note, note=str))
    calls = [chat.request("f", arguments) for arguments in ({"note": None}, {"note": "x"}, {})]
    done = make(kind, chat, [tool]).dispatch(calls)
    assert [call.response.result for call in done if call.response] == [None, "x", None]


def test_a_parameter_that_json_cannot_give_keeps_its_default(kind: str, chat: Conversation) -> None:
    """The model is not told of it, and cannot pass it."""

    def ask(question: str, connection: Connection = CONNECTION) -> bool:
        return connection is CONNECTION and question == "?"

    calls = [chat.request("ask", {"question": "?"})]
    calls.append(chat.request("ask", {"question": "?", "connection": {}}))
    done, refused = make(kind, chat, [ask]).dispatch(calls)
    assert done.response is not None
    assert done.response.result is True
    assert isinstance(refused.status, Failed)
    assert refused.status.failure.message == "`ask` takes no argument connection"
    assert FunctionTool(ask).parameters["properties"].keys() == {"question"}


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Connection, "tool 'f': parameter 'x' has the type .*Connection.* or pass typed=False"),
        (Incomplete, "tool 'f': parameter 'x' has the type .*Incomplete.* or pass typed=False"),
        ("Nothing", "tool 'f': an annotation names what does not exist .* or pass typed=False"),
    ],
)
def test_a_check_that_cannot_be_made_is_refused(annotation: object, message: str) -> None:
    """Where the tool is made; without types only the names of arguments are checked."""
    function = annotated(lambda x: x, x=annotation)
    with pytest.raises(TypeError, match=message):
        FunctionTool(function)
    tool = FunctionTool(function, typed=False)
    assert tool.parameters["properties"] == {"x": {}}
    assert tool.bind({"x": 5}) == {"x": 5}
    assert tool.invalid(FunctionCall.of("f", {})) is not None


@pytest.mark.parametrize("function", [len, lambda x, /: x])
def test_a_function_that_cannot_be_called_by_name_is_refused(function: Any) -> None:
    """Each of its calls would fail, because a model names its arguments."""
    with pytest.raises(TypeError, match=r"tool 'f': parameter '\w+' has no name"):
        FunctionTool(function, "f")
    assert FunctionTool(lambda x=1, /: x, "f").bind({}) == {}


def test_unions_that_msgspec_does_not_take_are_checked_by_pydantic() -> None:
    """Pydantic is loaded for such a tool."""

    def total(values: list[int] | dict[str, int] | list[str]) -> None:
        del values

    tool = FunctionTool(total)
    assert tool.bind({"values": ["a"]}) == {"values": ["a"]}
    failure = tool.invalid(FunctionCall.of("total", {"values": [None]}))
    assert failure is not None


def test_pydantic_is_not_imported_for_a_tool() -> None:
    """Programs without it do not pay for it, and may not have it."""
    code = (
        "import sys; from eventstore import FunctionTool, Toolbox\n"
        "def f(a: int, b: list[str] | None = None) -> dict[str, int]: return {}\n"
        "Toolbox([f]).schemas('anthropic'); FunctionTool(f).bind({'a': 1})\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_validator_that_raises_anything_is_a_validation_failure() -> None:
    """The turn goes on."""

    class Odd(pydantic.BaseModel):
        """A model whose validator raises."""

        @pydantic.model_validator(mode="before")
        @classmethod
        def odd(cls, value: Any) -> Any:
            raise KeyError(value)

    f = annotated(lambda odd: odd, odd=Odd)
    failure = FunctionTool(f).invalid(FunctionCall.of("f", {"odd": 1}))
    assert failure is not None
    assert "KeyError: 1 - at `$.odd`" in failure.message


def test_methods_partials_and_objects_have_types_too() -> None:
    """The model is told only of what is left to pass."""

    class Shop:
        """A shop."""

        def find(self, number: int) -> int:
            """Find an order."""
            return number

        def __call__(self, number: int) -> int:
            """Open the shop."""
            return number

    for tool, reported in (
        (FunctionTool(Shop().find), "Find an order."),
        (FunctionTool(Shop(), "shop"), "Open the shop."),
        (FunctionTool(partial(Shop.find, Shop()), "find"), "Find an order."),
    ):
        assert tool.description == reported
        assert tool.parameters["properties"] == {"number": {"type": "integer"}}
        assert tool.invalid(FunctionCall.of("f", {"number": "x"})) is not None


# results


def test_results_of_plain_types_are_stored_as_they_are(kind: str, chat: Conversation) -> None:
    """Parts of a message and failures are stored so, too, whatever else is declared."""

    def picture() -> list[Text | Image]:
        return [Text("a chart"), Image(data="aGk=", media_type="image/png")]

    def fail() -> Order | Failure:
        return Failure(ErrorKind.PERMANENT, "closed")

    def lies() -> Order:
        return "not an order"  # type: ignore[return-value]

    def secret() -> set[bytes]:
        return {b"hi"}

    tools = [picture, fail, lies, secret]
    calls = [chat.request(tool.__name__) for tool in tools]
    shown, failed, lie, hidden = make(kind, chat, tools).dispatch(calls)
    events = [r.event for r in chat.events() if isinstance(r.event, ToolCompleted)]
    assert shown.response is not None
    assert events[0].in_parts
    assert isinstance(failed.status, Failed)
    assert lie.response is not None
    assert lie.response.result == "not an order"
    assert hidden.response is not None
    assert hidden.response.result == ["aGk="]
    assert [event.lossy for event in events] == [False, False, False]
    with pytest.raises(msgspec.ValidationError, match="Expected `object`, got `str`"):
        FunctionTool(lies).result(lie)


def test_a_result_is_only_of_a_completed_call(chat: Conversation) -> None:
    """Others have none."""
    with pytest.raises(NonResolvedToolError):
        FunctionTool(add).result(chat.request("add", {"number": 1}))
    done: Tool = chat.complete(chat.request("add", {"number": 1}).id, 2)
    assert FunctionTool(add).result(done) == 2


# schemas


def test_a_schema_comes_from_signature_and_docstring() -> None:
    """With descriptions, defaults and what is required."""
    tool = FunctionTool(add)
    assert tool.description == "Add two numbers."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "description": "The first one."},
            "other": {"type": "integer", "description": "The second one.", "default": 1},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    assert FunctionTool(add, description="Sum up.").schema("anthropic")["description"] == "Sum up."


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(place, PLACE), (find, FIND), (bill, {"invoice": {"lines": [{"price": 2}]}})],
)
def test_a_schema_takes_what_the_tool_takes(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    """The schema is valid, its references lead somewhere, and wrong types are refused."""
    schema = FunctionTool(function).parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json.dumps(arguments)), schema)
    for name in arguments:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**arguments, name: object()}, schema)


def test_two_types_of_one_name_are_refused() -> None:
    """Their definitions would be mixed up."""
    one, two = (msgspec.defstruct("Same", [(name, int)]) for name in "ab")
    twice = annotated(lambda one, two: (one, two), one=one, two=two)
    with pytest.raises(TypeError, match="two types are named 'Same': rename one of them"):
        FunctionTool(twice).schema("openai")


DEFINITION = {"name": "add", "description": "Add two numbers."}
FORMS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "anthropic": lambda p: {**DEFINITION, "input_schema": p},
    "bedrock": lambda p: {"toolSpec": {**DEFINITION, "inputSchema": {"json": p}}},
    "cohere": lambda p: {"type": "function", "function": {**DEFINITION, "parameters": p}},
    "gemini": lambda p: {**DEFINITION, "parameters_json_schema": p},
    "litellm": lambda p: {"type": "function", "function": {**DEFINITION, "parameters": p}},
    "mistral": lambda p: {"type": "function", "function": {**DEFINITION, "parameters": p}},
    "ollama": lambda p: {"type": "function", "function": {**DEFINITION, "parameters": p}},
    "openai": lambda p: {"type": "function", "function": {**DEFINITION, "parameters": p}},
    "openai-responses": lambda p: {
        "type": "function",
        **DEFINITION,
        "parameters": p,
        "strict": False,
    },
}


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_each_provider_has_its_form_of_a_tool(provider: ProviderName) -> None:
    """The schema is the same."""
    tool = FunctionTool(add)
    assert tool.schema(provider) == FORMS[provider](tool.parameters)


def test_an_unknown_provider_is_refused() -> None:
    """The error names those that there are."""
    with pytest.raises(ValueError, match="provider is 'grok': pass one of anthropic"):
        FunctionTool(add).schema("grok")  # type: ignore[arg-type]


Read = list[tuple[str, Any]]
"""Names and schemas of tools, as the SDK's own types of a request read them."""


def read_by_anthropic(tools: list[dict[str, Any]]) -> Read:
    """Return what Anthropic's SDK reads."""
    from anthropic.types import ToolParam

    read = pydantic.TypeAdapter(list[ToolParam]).validate_python(tools)
    return [(tool["name"], tool["input_schema"]) for tool in read]


def read_by_bedrock(tools: list[dict[str, Any]]) -> Read:
    """Return what botocore reads."""
    import botocore.session
    from botocore.validate import validate_parameters

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    request = {"modelId": "m", "toolConfig": {"tools": tools}}
    validate_parameters(request, service.operation_model("Converse").input_shape)
    specs = [tool["toolSpec"] for tool in tools]
    return [(spec["name"], spec["inputSchema"]["json"]) for spec in specs]


def read_by_cohere(tools: list[dict[str, Any]]) -> Read:
    """Return what Cohere's SDK reads."""
    from cohere.types import ToolV2

    functions = [ToolV2.model_validate(tool).function for tool in tools]
    return [(found.name, found.parameters) for found in functions if found]


def read_by_gemini(tools: list[dict[str, Any]]) -> Read:
    """Return what Google's SDK reads."""
    from google.genai.types import GenerateContentConfig

    (read,) = GenerateContentConfig.model_validate({"tools": tools}).tools or []
    return [(found.name, found.parameters_json_schema) for found in read.function_declarations]


def read_by_mistral(tools: list[dict[str, Any]]) -> Read:
    """Return what Mistral's SDK reads."""
    from mistralai.client.models import Tool as MistralTool

    functions = [MistralTool.model_validate(tool).function for tool in tools]
    return [(found.name, found.parameters) for found in functions]


def read_by_ollama(tools: list[dict[str, Any]]) -> Read:
    """Return what Ollama's SDK keeps."""
    from ollama import Tool as OllamaTool

    functions = [OllamaTool.model_validate(tool).function for tool in tools]
    return [
        (str(found.name), found.parameters.model_dump(exclude_unset=True))
        for found in functions
        if found and found.parameters
    ]


def read_by_openai(tools: list[dict[str, Any]]) -> Read:
    """Return what OpenAI's SDK reads for Chat Completions."""
    from openai.types.chat import ChatCompletionFunctionToolParam

    read = pydantic.TypeAdapter(list[ChatCompletionFunctionToolParam]).validate_python(tools)
    return [(tool["function"]["name"], tool["function"]["parameters"]) for tool in read]


def read_by_openai_responses(tools: list[dict[str, Any]]) -> Read:
    """Return what OpenAI's SDK reads for Responses."""
    from openai.types.responses import FunctionToolParam

    read = pydantic.TypeAdapter(list[FunctionToolParam]).validate_python(tools)
    return [(tool["name"], tool["parameters"]) for tool in read]


READERS: dict[str, Callable[[list[dict[str, Any]]], Read]] = {
    "anthropic": read_by_anthropic,
    "bedrock": read_by_bedrock,
    "cohere": read_by_cohere,
    "gemini": read_by_gemini,
    "litellm": read_by_openai,
    "mistral": read_by_mistral,
    "ollama": read_by_ollama,
    "openai": read_by_openai,
    "openai-responses": read_by_openai_responses,
}


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_the_request_types_of_each_sdk_take_the_tools(provider: ProviderName) -> None:
    """Names and schemas arrive whole; Ollama's SDK keeps less, and loses no type by it."""
    toolbox = Toolbox([add, place, bill, find])
    read = READERS[provider](toolbox.schemas(provider))
    assert [name for name, _ in read] == ["add", "place", "bill", "find"]
    if provider != "ollama":
        assert [schema for _, schema in read] == [tool.parameters for tool in toolbox.values()]
        return
    properties = read[1][1]["properties"]
    assert properties["to"]["type"] == "object"
    assert properties["size"]["type"] == "string"
    assert properties["size"]["enum"] == ["large", "small"]
    assert list(read[3][1]["properties"]["note"]["type"]) == ["string", "null"]
    assert read[2][1]["properties"]["invoice"]["type"] == "object"


def test_definitions_are_inlined_for_ollama_except_those_that_contain_themselves() -> None:
    """A reference to itself has no end."""

    def plant(tree: Tree, address: Address) -> None:
        del tree, address

    schema = FunctionTool(plant).schema("ollama")["function"]["parameters"]
    assert schema["properties"]["address"]["properties"]["city"] == {"type": "string"}
    assert schema["properties"]["tree"]["properties"]["children"]["items"] == {
        "$ref": "#/$defs/Tree"
    }
    assert "Tree" in schema["$defs"]
    jsonschema.validate(
        {"tree": {"name": "a", "children": [{"name": "b"}]}, "address": {"city": "x"}}, schema
    )


# the toolbox


def test_a_toolbox_is_what_a_dispatcher_and_a_request_take(kind: str, chat: Conversation) -> None:
    """In the order of the tools; of an offer only what is visible."""
    toolbox = Toolbox({"plus": add, "place": FunctionTool(place)})
    assert list(toolbox) == ["plus", "place"]
    assert (len(toolbox), repr(toolbox)) == (2, "<Toolbox plus, place>")
    assert toolbox["plus"].name == "plus"
    shown = toolbox.schemas("anthropic", names=["place"])
    assert [tool["name"] for tool in shown] == ["place"]
    (done,) = make(kind, chat, toolbox).dispatch([chat.request("plus", {"number": 1})])
    assert done.response is not None
    with pytest.raises(ValueError, match=r"names has \['minus'\]: the tools are \['plus', 'place'"):
        toolbox.schemas("anthropic", names=["minus"])


@pytest.mark.parametrize("provider", get_args(ProviderName))
def test_no_tools_are_an_empty_list(provider: ProviderName) -> None:
    """No provider takes a tool without functions."""
    assert Toolbox([]).schemas(provider) == []
