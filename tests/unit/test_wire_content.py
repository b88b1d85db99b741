"""What a part of one provider says to another."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Opaque
from eventstore.wire.content import foreign_text
from eventstore.wire.items import Change

DOCUMENT = {"type": "document", "source": {"type": "text", "data": "the whole text"}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"type": "input_text", "text": "hello"}, "hello"),
        ({"text": "hm", "thought": True}, None),
        ({"thoughtSignature": "c2ln"}, None),
        ({"type": "reasoning", "summary": []}, None),
        ({"type": "item_reference", "id": "fc_1"}, None),
        ({"type": "refusal", "refusal": "I will not"}, "I will not"),
        ({"type": "refusal"}, "[refusal of them, not shown here]"),
        ({"thoughtSignature": "s", "code": {"code": "1+1"}}, "[code of them]\n1+1"),
        ({"codeExecutionResult": {"output": "2"}}, "[codeExecutionResult of them]\n2"),
        ({"codeExecutionResult": {"output": ""}}, "[codeExecutionResult of them, not shown here]"),
        ({"fileData": {"fileUri": "gs://b/f"}}, "[fileData of them: gs://b/f]"),
        ({"type": "input_file", "filename": "a.pdf"}, "[input_file of them: a.pdf]"),
        ({"type": "input_file", "file_url": "data:,x"}, "[input_file of them, not shown here]"),
        (DOCUMENT, "[document of them]\nthe whole text"),
        (
            {"type": "document", "source": {"type": "content", "content": [{"text": "a"}]}},
            "[document of them]\na",
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://a.b"}},
            "[document of them: https://a.b]",
        ),
        (
            {"type": "search_result", "source": "https://a.b", "content": [{"text": "found"}]},
            "[search_result of them]\nfound",
        ),
        ({"type": "citationsContent"}, "[citationsContent of them, not shown here]"),
        ({"type": ["x"], "inlineData": 5}, "[type of them, not shown here]"),
        ({}, "[part of them, not shown here]"),
        ("junk", "[part of them, not shown here]"),
    ],
)  # fmt: skip
def test_a_part_tells_its_words_or_where_it_is(data: Any, said: str | None) -> None:
    """Words as they are, what only its maker reads not at all; whatever is lost is listed."""
    changes: list[Change] = []
    assert foreign_text(Opaque("them", data), changes) == said
    assert len(changes) == (said not in ("hello", "I will not"))
