"""Providers' messages to neutral items and turns, and back: one folder per provider.

    message list ──parse──► items ──► events … turns ──render──► request

`validate` is written apart from parsing and rendering, so that they cannot share a mistake. Shared
are only the types that an API declares, in the `shapes.py` of its provider.
A provider is an adapter and a rule book: `register` adds one that is not built in.
"""

from __future__ import annotations

from eventstore.domain.finish_reasons import register_finish_reason
from eventstore.domain.messages import ROLES
from eventstore.providers.adapter_protocol import FormatSignature, ProviderAdapter
from eventstore.providers.call_count import has_all_results
from eventstore.providers.crossing import Reasoning
from eventstore.providers.detection import ForeignForm, is_continued, request_of, unwrapped
from eventstore.providers.json_values import copy
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.model import (
    Answer,
    Call,
    Change,
    Rendered,
    ResultsMessage,
    Turn,
    stored_parts,
)
from eventstore.providers.models import ModelFact
from eventstore.providers.parsing import parse, parse_in_place
from eventstore.providers.parts_as_text import answer_text, plain_text, shown_text
from eventstore.providers.preparation import LaterSystem
from eventstore.providers.registry import (
    PROVIDERS,
    AnyProvider,
    ProviderName,
    RegisteredProvider,
    adapter_of,
    known_provider,
    list_key,
    register,
)
from eventstore.providers.rendering import LastRequest, render
from eventstore.providers.rule_book import RuleBook
from eventstore.providers.server_kept_calls import references_server_call
from eventstore.providers.server_kept_data import ServerKept
from eventstore.providers.to_events import Finding, events_of_history
from eventstore.providers.validation import Violation, is_valid, validate

__all__ = [
    "PROVIDERS",
    "ROLES",
    "Answer",
    "AnyProvider",
    "Call",
    "Change",
    "Finding",
    "ForeignForm",
    "FormatSignature",
    "KeptMessages",
    "LastRequest",
    "LaterSystem",
    "ModelFact",
    "ProviderAdapter",
    "ProviderName",
    "Reasoning",
    "RegisteredProvider",
    "Rendered",
    "ResultsMessage",
    "RuleBook",
    "ServerKept",
    "Turn",
    "Violation",
    "adapter_of",
    "answer_text",
    "copy",
    "events_of_history",
    "has_all_results",
    "is_continued",
    "is_valid",
    "known_provider",
    "list_key",
    "parse",
    "parse_in_place",
    "plain_text",
    "references_server_call",
    "register",
    "register_finish_reason",
    "render",
    "request_of",
    "shown_text",
    "stored_parts",
    "unwrapped",
    "validate",
]
