"""The formats of files that can be read: one line each."""

from __future__ import annotations

from typing import Final

from eventstore.importers.frameworks.ai_sdk import InterfaceMessages, ModelMessages
from eventstore.importers.frameworks.autogen import AutogenStates
from eventstore.importers.frameworks.block_messages import BLOCK_MESSAGES
from eventstore.importers.frameworks.checkpoint_files import Checkpoints
from eventstore.importers.frameworks.langchain import LangChainMessages
from eventstore.importers.frameworks.openai_agents import AgentRuns
from eventstore.importers.frameworks.openai_agents_js import AgentItems
from eventstore.importers.frameworks.openai_agents_sessions import AgentSessions
from eventstore.importers.frameworks.pydantic_ai import PydanticMessages
from eventstore.importers.message_files import Conversations, Messages
from eventstore.importers.programs.atif import AtifTrajectories
from eventstore.importers.programs.claude_code import SessionLogs
from eventstore.importers.programs.cline import ClineSessions, ClineTasks
from eventstore.importers.programs.codex import CodexRollouts
from eventstore.importers.programs.continue_cli import ContinueSessions
from eventstore.importers.programs.copilot_cli import CopilotSessions
from eventstore.importers.programs.crush import CrushSessions
from eventstore.importers.programs.droid import DroidSessions
from eventstore.importers.programs.gemini_cli import GeminiSessions
from eventstore.importers.programs.goose import GooseDatabase, GooseSessions
from eventstore.importers.programs.kimi_code import KimiSessions
from eventstore.importers.programs.librechat import LibreChatConversations
from eventstore.importers.programs.mini_swe_agent import MiniSweAgentRuns
from eventstore.importers.programs.open_webui import OpenWebUiChats
from eventstore.importers.programs.opencode import OpenCodeExports
from eventstore.importers.programs.opencode_database import OpenCodeDatabase
from eventstore.importers.programs.openhands import OpenHandsEvents
from eventstore.importers.programs.pi import PiSessions
from eventstore.importers.programs.qwen_code import QwenSessions
from eventstore.importers.programs.swe_agent import SweAgentTrajectories
from eventstore.importers.reading.about import About
from eventstore.importers.reading.database_format import DatabaseFormat
from eventstore.importers.reading.file_format import FileFormat, KnownFormat
from eventstore.importers.traces.inspect_logs import InspectLogs
from eventstore.importers.traces.langfuse import LangfuseTraces
from eventstore.importers.traces.langsmith import LangSmithRuns
from eventstore.importers.traces.otlp import OpenTelemetrySpans

KNOWN_FORMATS: Final[tuple[KnownFormat, ...]] = (
    SessionLogs(),
    CodexRollouts(),
    GeminiSessions(),
    QwenSessions(),
    OpenCodeExports(),
    GooseSessions(),
    CopilotSessions(),
    KimiSessions(),
    ContinueSessions(),
    ClineTasks(),
    ClineSessions(),
    DroidSessions(),
    PiSessions(),
    OpenWebUiChats(),
    LibreChatConversations(),
    OpenHandsEvents(),
    SweAgentTrajectories(),
    MiniSweAgentRuns(),
    AtifTrajectories(),
    InspectLogs(),
    OpenTelemetrySpans(),
    LangfuseTraces(),
    LangSmithRuns(),
    PydanticMessages(),
    AgentRuns(),
    AgentItems(),
    InterfaceMessages(),
    ModelMessages(),
    LangChainMessages(),
    AutogenStates(),
    *BLOCK_MESSAGES,
)
"""The formats of programs' text files, in the order in which they are asked."""

FORMATS: Final[tuple[FileFormat, ...]] = (*KNOWN_FORMATS, Conversations(), Messages())
"""The formats of text files, in the order in which they are asked."""

DATABASE_FORMATS: Final[tuple[DatabaseFormat, ...]] = (
    AgentSessions(),
    Checkpoints(),
    OpenCodeDatabase(),
    GooseDatabase(),
    CrushSessions(),
)
"""The forms of SQLite databases, in the order in which they are asked."""


def programs_read() -> tuple[str, ...]:
    """Return the programs whose files are read, each once, in the order of the formats."""
    return tuple(dict.fromkeys(each.program for each in about_formats().values()))


def about_formats() -> dict[str, About]:
    """Return what each format of a program says of itself, by its name."""
    texts = {each.name: each.about for each in KNOWN_FORMATS}
    return texts | {each.name: each.about for each in DATABASE_FORMATS}
