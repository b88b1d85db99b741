"""The mark of a copy: which ids have it, and which never do."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore, MessageAdded, Recorded, Text
from eventstore.append.event_ids import event_ids
from eventstore.append.stored_once import event_id_of, has_stem, is_of_stem, stem_of
from eventstore.domain.copies import MARK, copy_id, is_copy_id


@given(
    st.uuids(version=None) | st.sampled_from([1, 3, 4, 5]).flatmap(lambda v: st.uuids(version=v))
)
def test_no_uuid_of_a_known_variant_is_that_of_a_copy(id_: UUID) -> None:
    """Whichever its version, and with the mark at its beginning."""
    assert is_copy_id(copy_id(id_.bytes).hex())
    variant = id_.bytes[8] & 0x3F | 0x80
    marked = bytes.fromhex(MARK) + id_.bytes[3:8] + bytes([variant]) + id_.bytes[9:]
    assert not is_copy_id(marked.hex())
    assert UUID(bytes=copy_id(id_.bytes)).variant == "reserved for future definition"


@given(st.integers(1, 300), st.integers(1, 2**40))
def test_ids_of_copies_differ_as_the_ids_do(count: int, at: int) -> None:
    """Those of one fork, and those of the events of one message."""
    ids = event_ids(count, at) + [event_id_of(stem_of(b"one"), number) for number in range(count)]
    assert len({copy_id(each) for each in ids}) == 2 * count
    assert [copy_id(copy_id(each)) for each in ids] == [copy_id(each) for each in ids]


def test_a_stem_names_its_events_and_their_copies() -> None:
    """An import knows again what it has stored, as its own or as a copy."""
    one, other = stem_of(b"one"), stem_of(b"other")
    event_id = event_id_of(one, 7)
    for each in (event_id, copy_id(event_id)):
        assert is_of_stem(each, one)
        assert not is_of_stem(each, other)
        assert has_stem(each)


def test_a_copy_is_known_by_the_row_alone() -> None:
    """The property looks at the id, and at nothing else."""
    said = MessageAdded("user", (Text("hi"),))
    for event_id, expected in (("c0b1ed" + "0" * 10 + "e" + "0" * 15, True), ("c0" * 16, False)):
        assert Recorded(0, 1, "a", 1, event_id, 5, None, None, said).is_copy is expected


@pytest.mark.parametrize("form", [bytes, bytes.hex, lambda raw: UUID(bytes=raw)])
def test_a_caller_may_not_mark_an_event(store: EventStore, form: object) -> None:
    """Nothing is written, and the error says what else makes copies."""
    marked = copy_id(event_ids(1, 5)[0])
    chat = store.conversation("a")
    with pytest.raises(ValueError, match=r"is that of a copy.*fork that one"):
        chat.append(MessageAdded("user", (Text("hi"),)), event_ids=[form(marked)])  # type: ignore[operator]
    with pytest.raises(ValueError, match="is that of a copy"):
        chat.record({"role": "user", "content": "hi"}, event_ids=[form(marked)])  # type: ignore[operator]
    assert chat.version == 0
