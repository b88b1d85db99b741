"""Signed notes and keys against those of Go's `sumdb/note` and of C2SP, and against bad ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eventstore.seals import BadKey, BadNote, Checkpoint, NotSigned, SigningKey, VerifierKey
from eventstore.seals.checkpoints import Origin, notes_in, opened
from eventstore.seals.keys import COSIGNATURE
from eventstore.seals.notes import Note, sign_note

# The example of Go's package.
SEED = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PETER = f"PRIVATE+KEY+PeterNeumann+c74f20a3+{SEED}"
PETERS = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
ENOCHS = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
BY_PETER = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqf"
    "qdngotpRZb6KE6RyyBwJnAM=\n"
)
BY_ENOCH = (
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwn"
    "WLox33WWd1RvMc+QQ=\n"
)

# The example of C2SP's tlog-checkpoint.
SOFA = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa \
Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""

# Made by aics-tlog: a log's signature and a witness's cosignature.
WITNESSED = """example.com/agents/e/0
3
NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=

— example.com/agents \
42CPrWMmVomWZkdDZ8nRQomUp2GA3oIdXQS2vsbhdr1irery0lIVmWqEqPXN0UNCiMHAwuv/Ktey1xffGFR91bCvxg4=
— wit.example/w1 \
+b3vAAAAAABpUkfAr2g2Z0oFUAPhY28wLeveD/1x/taxZQem2Moi9d+t9KkJEqUIJuDJkVV5coexFKzDUjYoLGJA3Q5SizIfJGPODA==
"""
LOG = "example.com/agents+e3608fad+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
WITNESS = "wit.example/w1+f9bdef00+BHm1Vi6P5lT5QHixEuipi6eQH4U65pW+1+DjkQutBJZk"


def names(note: str, *keys: str) -> list[str]:
    """Return whose signatures of a note are valid."""
    found = Note.parse(note).signed_by([VerifierKey.parse(key) for key in keys])
    return [key.name for key in found]


def test_keys_and_signatures_are_those_of_go() -> None:
    """The published keys sign the published note, to the letter, and are written as they were."""
    key = SigningKey.parse(PETER)
    assert key.secret_text() == PETER
    assert str(key.verifier) == PETERS
    assert str(VerifierKey.parse(ENOCHS)) == ENOCHS
    note = sign_note(TEXT, [key])
    assert str(note) == f"{TEXT}\n{BY_PETER}"
    again = Note.parse(f"{TEXT}\n{BY_PETER}{BY_ENOCH}")
    assert str(sign_note(TEXT, [key], again.signatures)) == f"{TEXT}\n{BY_ENOCH}{BY_PETER}"


def test_signatures_of_unknown_keys_are_kept_and_mean_nothing() -> None:
    """At least one trusted key has to have signed; each line counts once."""
    both = f"{TEXT}\n{BY_PETER}{BY_ENOCH}"
    assert names(both, PETERS) == ["PeterNeumann"]
    assert names(both, ENOCHS, PETERS) == ["PeterNeumann", "EnochRoot"]
    assert names(f"{TEXT}\n{BY_PETER}{BY_PETER}", PETERS) == ["PeterNeumann"]
    assert str(Note.parse(both)) == both
    with pytest.raises(NotSigned, match=r"not signed by EnochRoot\+af0cfe78"):
        names(f"{TEXT}\n{BY_PETER}", ENOCHS)
    with pytest.raises(NotSigned, match="no key at all"):
        names(both)


def test_a_false_line_of_a_trusted_key_rejects_the_note() -> None:
    """A valid one of another trusted key does not help."""
    false = BY_PETER.replace("UPeFD", "UPeFE").replace("G/Sff", "G/Sfg")
    with pytest.raises(NotSigned, match=r"PeterNeumann.* is false, so the note was changed"):
        names(f"{TEXT}\n{false}{BY_ENOCH}", PETERS, ENOCHS)
    assert names(f"{TEXT}\n{false}{BY_ENOCH}", ENOCHS) == ["EnochRoot"]


def test_a_witness_has_signed_text_and_time() -> None:
    """The cosignature is checked where its key is trusted, and no other bytes are taken for it."""
    assert VerifierKey.parse(WITNESS).kind == COSIGNATURE
    assert names(WITNESSED, LOG, WITNESS) == ["example.com/agents", "wit.example/w1"]
    with pytest.raises(NotSigned, match=r"wit\.example/w1.* is false"):
        names(WITNESSED.replace("BpUkfA", "BpUkfB"), LOG, WITNESS)
    assert names(WITNESSED.replace("BpUkfA", "BpUkfB"), LOG) == ["example.com/agents"]


@pytest.mark.parametrize(
    "note",
    [
        TEXT,
        f"{TEXT}\n",
        f"{TEXT}\n{BY_PETER[:-1]}",
        f"\x01{TEXT}\n{BY_PETER}",
        f"\udcff{TEXT}\n{BY_PETER}",
        f"{TEXT}\n{BY_PETER.replace('Neumann', ' Neumann')}",
        f"{TEXT}\n{BY_PETER.replace('Neumann', '+Neumann')}",
        f"{TEXT}\n{BY_PETER}An unexpected line.\n",
        f"{TEXT}\n— PeterNeumann x08gow==\n",
        f"{TEXT}\n{BY_PETER.replace('AM=', 'AN=')}",
        f"{TEXT}\n{BY_PETER.replace('AM=', 'AM')}",
        f"{TEXT}\n" + "".join(BY_PETER.replace("Peter", f"P{n}") for n in range(101)),
    ],
)
def test_a_text_that_is_no_note_is_refused(note: str) -> None:
    """The bad notes of Go's tests, and base64 of another form."""
    with pytest.raises(BadNote, match=r"^the note|^a line"):
        Note.parse(note)


@pytest.mark.parametrize(
    ("text", "parse"), [(PETER, SigningKey.parse), (PETERS, VerifierKey.parse)]
)
def test_a_mangled_key_is_refused_and_never_repeated(
    text: str, parse: Callable[[str], object]
) -> None:
    """No part of a key, and no key with another letter, is a key; no error holds the secret."""
    parts = [text[i:j] for i in range(len(text)) for j in (i + 1, len(text) - 1, len(text))]
    others = [text[:i] + chr(ord(text[i]) + 1) + text[i + 1 :] for i in range(len(text))]
    for bad in {*parts, *others, "", "\udfff+00000000+AAAA", "x+00000000+é"} - {text}:
        with pytest.raises(BadKey) as raised:
            parse(bad)
        assert not any(SEED[i : i + 8] in str(raised.value) for i in range(len(SEED) - 8))
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_a_secret_is_in_no_representation() -> None:
    """A new key has a good name, and its text is all that has the secret."""
    key = SigningKey.generate("example.com/agents")
    assert SigningKey.parse(key.secret_text()).verifier == key.verifier
    secret = key.secret_text().split("+", 4)[4]
    assert secret not in repr(key)
    for name in ("", "a b", "a+b", "a\u2003b", "a\nb"):
        with pytest.raises(BadKey, match="the name of a key"):
            SigningKey.generate(name)
    with pytest.raises(BadKey, match="3 bytes: pass 32"):
        SigningKey("a", b"abc")
    with pytest.raises(BadNote, match="does not end in a line feed"):
        sign_note("abc", [key])


def test_a_checkpoint_is_that_of_c2sp() -> None:
    """The published one is read and written as it is; the origin of a lane has three parts."""
    note = Note.parse(SOFA)
    head = Checkpoint.parse(note.text)
    assert (head.origin, head.size, head.root[:2]) == (
        "example.com/behind-the-sofa",
        20852163,
        b"\x0a\xc5",
    )
    assert f"{head}\n{note.signatures[0]}" == SOFA == str(note)
    assert opened(WITNESSED, [VerifierKey.parse(LOG)]).lane_in("e") == 0
    assert Origin.parse("example.com/agents/0f/12") == Origin("example.com/agents", "0f", 12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\n1\n", "a line each"),
        ("a\n\n1\nb\n", "a line each"),
        ("a\n1\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=", "a line each"),
        ("a\n01\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n", "the size"),
        ("a\n-1\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n", "the size"),
        ("a\n²\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n", "the size"),
        ("a\n1\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsF=\n", "the root"),
        ("a\n1\nAAAA\n", "the root"),
    ],
)
def test_a_text_that_is_no_checkpoint_is_refused(text: str, reason: str) -> None:
    """Sizes have one form, roots 32 bytes, and no line is empty."""
    with pytest.raises(BadNote, match=reason):
        Checkpoint.parse(text)


@pytest.mark.parametrize("origin", ["a/b", "a//1", "/b/1", "a/b/x", "a/b/01", "a b/c/1", ""])
def test_an_origin_of_no_lane_is_refused(origin: str) -> None:
    """The name, the store and the lane are all there."""
    with pytest.raises(BadNote, match="no lane's"):
        Origin.parse(origin)


def test_a_file_holds_several_notes() -> None:
    """Between them there may be empty lines, or what was torn in a crash; nothing else is lost."""
    torn = "example.com/agents/e/0\n17\n\n"
    for between in ("", "\n", "\n\n", f"\n{torn}", f"\n{torn}\n", f"{torn}"):
        data = f"{between}{SOFA}{between}{WITNESSED}{between}{SOFA}"
        assert list(notes_in(data)) == [SOFA, WITNESSED, SOFA]
    assert list(notes_in(torn)) == list(notes_in("")) == []
