"""The types of items and of their parts, and those of their members.

Source: the reference of the Responses API, and the types of the openai package.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

__all__ = [
    "CALLS",
    "CALL_OF",
    "CLIENT_MEMBERS",
    "GIVEN",
    "ITEMS",
    "OUTPUTS",
    "PAIRED",
    "PARTS",
    "PREFIXES",
    "RENAMED",
    "SAID",
    "SHOWN",
    "STATUSES",
    "TEXT_OUTPUTS",
    "TYPES",
    "Called",
    "Paired",
]


CLIENT_MEMBERS: Final = frozenset({"parsed", "parsed_arguments"})
"""What the client parses of a text, or of the arguments of a call."""
RENAMED: Final = {
    "custom": "async_",
    "custom_tool_call": "async_",
    "function": "async_",
    "function_call": "async_",
}
"""Type of an item, or of a tool in it, to the member of it that the client names otherwise."""


class _Text(msgspec.Struct):
    text: str


class _Refusal(msgspec.Struct):
    refusal: str


class _Image(msgspec.Struct):
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None


PARTS: Final = {
    "input_text": _Text,
    "output_text": _Text,
    "refusal": _Refusal,
    "input_image": _Image,
    "input_file": _File,
}
"""The members of each type of part."""


class _WebAction(msgspec.Struct):
    type: Literal["search", "open_page", "find", "find_in_page"]
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    pattern: str | None = None
    sources: list[dict[str, Any]] | None = None


class _WebSearch(msgspec.Struct):
    action: _WebAction | None = None
    status: Literal["in_progress", "searching", "completed", "failed", "incomplete"] | None = None


class _FileSearch(msgspec.Struct):
    queries: list[str] | None = None
    results: list[dict[str, Any]] | None = None
    status: str | None = None


class _Code(msgspec.Struct):
    code: str | None = None
    container_id: str | None = None
    outputs: list[dict[str, Any]] | None = None
    status: str | None = None


class _Picture(msgspec.Struct):
    result: str | None = None
    status: str | None = None


class _ServerTool(msgspec.Struct):
    arguments: str
    name: str
    server_label: str
    output: str | None = None
    error: Any = None


ITEMS: Final = {
    "code_interpreter_call": _Code,
    "file_search_call": _FileSearch,
    "image_generation_call": _Picture,
    "mcp_call": _ServerTool,
    "web_search_call": _WebSearch,
}
"""The members of the calls that the API runs itself."""

STATUSES: Final = ("in_progress", "completed", "incomplete", None)
"""What a message may say of itself."""

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of a call of the host's own tools to the member that holds what the model wrote."""
TEXT_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
"""Types of the outputs of those calls: a text, or parts."""

_ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"] | None
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Caller: TypeAlias = "_Direct | _Program | None"


class _Direct(msgspec.Struct, tag="direct"):
    pass


class _Program(msgspec.Struct, tag="program"):
    caller_id: str


class Called(msgspec.Struct):
    """The member of a call and of its output that names the caller."""

    caller: _Caller = None


class _Commands(msgspec.Struct):
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


class _Shell(msgspec.Struct):
    call_id: _Id
    action: _Commands
    environment: dict[str, Any] | None = None
    status: _ItemStatus = None
    caller: _Caller = None


class _Exit(msgspec.Struct, tag="exit"):
    exit_code: int


class _Timeout(msgspec.Struct, tag="timeout"):
    pass


class Printed(msgspec.Struct):
    """What one command of a shell wrote, and how it ended."""

    stdout: str
    stderr: str
    outcome: _Exit | _Timeout


class _ShellOutput(msgspec.Struct):
    call_id: _Id
    output: list[Printed]
    max_output_length: int | None = None
    status: _ItemStatus = None
    caller: _Caller = None


class _Command(msgspec.Struct):
    command: list[str]
    type: Literal["exec"] = "exec"
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class _LocalShell(msgspec.Struct):
    call_id: _Id
    action: _Command
    status: _ItemStatus = None


class _LocalShellOutput(msgspec.Struct):
    output: str
    id: _Id | None = None
    call_id: _Id | None = None  # as the guide has it, where the reference has the id

    def __post_init__(self) -> None:
        if self.id is None and self.call_id is None:
            raise ValueError("Object missing required field `id`")

    status: _ItemStatus = None


class _CreateFile(msgspec.Struct, tag="create_file"):
    path: str
    diff: str


class _UpdateFile(msgspec.Struct, tag="update_file"):
    path: str
    diff: str


class _DeleteFile(msgspec.Struct, tag="delete_file"):
    path: str


class _Patch(msgspec.Struct):
    call_id: _Id
    operation: _CreateFile | _UpdateFile | _DeleteFile
    status: _ItemStatus = None
    caller: _Caller = None


class _PatchOutput(msgspec.Struct):
    call_id: _Id
    status: Literal["completed", "failed"]
    output: str | None = None
    caller: _Caller = None


class _Act(msgspec.Struct):
    type: str


class _Check(msgspec.Struct):
    id: str
    code: str | None = None
    message: str | None = None


class _Computer(msgspec.Struct):
    call_id: _Id
    action: _Act | None = None
    actions: list[_Act] | None = None
    pending_safety_checks: list[_Check] | None = None
    status: _ItemStatus = None


class _Screenshot(msgspec.Struct, tag="computer_screenshot"):
    image_url: str | None = None
    file_id: str | None = None


class _ComputerOutput(msgspec.Struct):
    call_id: _Id
    output: _Screenshot
    acknowledged_safety_checks: list[_Check] | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"] | None = None


class _ToolSearch(msgspec.Struct):
    call_id: _Id
    arguments: Any
    status: _ItemStatus = None


class _ToolSearchOutput(msgspec.Struct):
    call_id: _Id
    tools: list[dict[str, Any]]
    status: _ItemStatus = None


class _ApprovalRequest(msgspec.Struct):
    id: _Id
    name: str
    server_label: str
    arguments: str


class _ApprovalResponse(msgspec.Struct):
    approval_request_id: _Id
    approve: bool
    reason: str | None = None


class Paired(msgspec.Struct, frozen=True):
    """A kind of call that the client answers, and its output."""

    output: str
    """The type of the output."""
    shape: Any = None
    output_shape: Any = None
    key: str = "call_id"
    """The member of the call by which its output names it."""
    answers: str = "call_id"
    """The member of the output that names the call."""
    also: str | None = None
    """Another type of output that answers the call, as Codex does it."""
    side: str | None = None
    """What `execution` says of both where the client runs the call; None where it says nothing."""


PAIRED: Final = {
    "function_call": Paired("function_call_output"),
    "custom_tool_call": Paired("custom_tool_call_output"),
    "shell_call": Paired("shell_call_output", _Shell, _ShellOutput),
    "local_shell_call": Paired(
        "local_shell_call_output",
        _LocalShell,
        _LocalShellOutput,
        answers="id",
        also="function_call_output",
    ),
    "apply_patch_call": Paired("apply_patch_call_output", _Patch, _PatchOutput),
    "computer_call": Paired("computer_call_output", _Computer, _ComputerOutput),
    "tool_search_call": Paired("tool_search_output", _ToolSearch, _ToolSearchOutput, side="client"),
    "mcp_approval_request": Paired(
        "mcp_approval_response",
        _ApprovalRequest,
        _ApprovalResponse,
        key="id",
        answers="approval_request_id",
    ),
}
"""Each type of call that the client answers."""
OUTPUTS: Final = {call: kind.output for call, kind in PAIRED.items()}
"""Type of a call to that of its output."""
CALL_OF: Final = {output: call for call, output in OUTPUTS.items()}
"""Type of an output to that of its call."""
TYPES: Final = frozenset(
    {
        *OUTPUTS,
        *CALL_OF,
        "additional_tools",
        "code_interpreter_call",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "program",
        "program_output",
        "reasoning",
        "web_search_call",
    }
)
"""The types of items that the API's reference lists, with those of its own clients."""
PREFIXES: Final = {
    "function_call": ("fc_",),
    "reasoning": ("rs_", "rs-"),  # DeepSeek writes the second
    "message": ("msg_",),
}
"""Type of an item to what its id begins with."""
SAID: Final = ("output_text", "refusal")
"""Types of the parts of an assistant's message."""
SHOWN: Final = ("input_text", "input_image", "input_file", "scoped_content")
"""Types of the parts of an output."""
GIVEN: Final = (
    "input_text",
    "input_image",
    "input_audio",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
)
"""Types of the parts of every other message."""
