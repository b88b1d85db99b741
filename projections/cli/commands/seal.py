"""`seal` and `prove`: signed heads of the log, and proofs that a stranger checks without us."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eventstore.backup import permissions_of
from projections.cli.options import URL, Json, Url, file_name, named, open_store
from projections.cli.output import binary_output, print_json, say, whole_file

if TYPE_CHECKING:
    from eventstore import EventStore
    from eventstore.seals import Anchor, Consistency, Inclusion, Seal, SigningKey, VerifierKey

_SECRET = "PRIVATE+KEY+"  # noqa: S105 - how the text of a secret key begins


def _secret_file(text: str) -> Path:
    if text.startswith(_SECRET):
        raise typer.BadParameter("this is a key itself: pass the name of the file that holds it")
    return file_name(text)


VerifierKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VKEY",
        envvar="TOOLLEDGER_VERIFIER_KEY",
        help="A verifier key that is trusted, NAME+ID+KEY; may be repeated.",
    ),
]


def seal_key(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name of yours, such as example.com/agents.")
    ],
    path: Annotated[
        Path, typer.Argument(metavar="FILE", parser=file_name, help="The file of the secret key.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Make a secret key that signs seals; print the verifier key, by which others check them."""
    from eventstore.seals import SigningKey

    key = SigningKey.generate(name)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, f"{key.secret_text()}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
    if as_json:
        print_json({"file": str(path), "key": str(key.verifier)})
    else:
        say(str(key.verifier))


def seal(
    key: Annotated[
        Path,
        typer.Option(
            "--key", metavar="FILE", parser=_secret_file, help="The file of the secret key."
        ),
    ],
    anchor: Annotated[
        list[Path] | None,
        typer.Option(
            "--anchor",
            metavar="FILE",
            parser=file_name,
            help="A file that the notes are appended to; may be repeated.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="FOLDER", parser=file_name, help="A folder: a file for each note."
        ),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(
            "--authority",
            metavar="URL",
            help="Have the notes in --folder stamped by this authority (RFC 3161).",
        ),
    ] = None,
    trusted: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted", metavar="VKEY", help="An older key of the same name; may be repeated."
        ),
    ] = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Sign what the log holds now, and hand the notes to the anchors.

    Where the log is not what was sealed before, or an anchor knows a later seal, nothing is signed.
    """
    signing, older = _signing_key(key), verifier_keys(trusted or ())
    with open_store(url) as store:
        seals = store.seal(
            signing, anchors=_anchors(anchor or (), folder, authority), trusted=older
        )
    if as_json:
        print_json({"key": str(signing.verifier), "seals": [_members(each) for each in seals]})
        return
    for each in seals:
        say(f"lane {each.lane}: sealed up to position {each.size:,}")
    if not seals:
        say("the log has no events: nothing to seal")


def prove(
    conversation_id: Annotated[
        str | None, typer.Argument(metavar="[ID", help="A conversation's id.")
    ] = None,
    version: Annotated[
        int | None, typer.Argument(metavar="VERSION]", min=1, help="The event's version.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="NOTE",
            parser=file_name,
            help="Prove that the log of this older note is the beginning of today's.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            parser=file_name,
            help="The file to write. [default: the output]",
        ),
    ] = None,
    payload: Annotated[
        Path | None,
        typer.Option(
            "--payload",
            metavar="FILE",
            parser=file_name,
            help="Write the payload with its salt to this file, to be compared with the leaf.",
        ),
    ] = None,
    key: VerifierKeys = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Prove that an event is in the sealed log, or that a log is the beginning of a later one.

    The forms are C2SP tlog-proof, and what C2SP tlog-witness sends to a witness.
    """
    if (since is None) == (conversation_id is None or version is None):
        raise typer.BadParameter("pass a conversation's id and a version, or --since NOTE")
    from eventstore.seals import prove as prove_event
    from eventstore.seals import prove_since

    keys = given_keys(key)
    with open_store(url) as store:
        if conversation_id is None or version is None:
            assert since is not None  # noqa: S101 - checked above
            proof: Consistency | Inclusion = prove_since(store, _only_note(since), keys)
        else:
            name = named(store, conversation_id).id
            proof = prove_event(store, name, version, keys)
            if payload is not None:
                _write_payload(store, payload, name, version)
        if out is not None:
            with whole_file(out, permissions_of(store.url)) as file:
                file.write(str(proof).encode())
    if as_json:
        print_json({"proof": str(proof)})
    elif out is not None:
        say(f"{out}: a proof up to {_size_of(proof.note):,} events")
    else:
        output = binary_output()
        output.write(str(proof).encode())
        output.flush()


def verifier_keys(texts: Sequence[str]) -> list[VerifierKey]:
    """Return the keys of their texts.

    Raises:
        BadKey: one has not the form of a verifier key.
    """
    from eventstore.seals import VerifierKey

    return [VerifierKey.parse(text) for text in texts]


def given_keys(texts: Sequence[str] | None) -> list[VerifierKey]:
    """Return the keys that a check needs; see `verifier_keys`.

    Raises:
        BadParameter: there is none.
    """
    if not texts:
        raise typer.BadParameter(
            "pass the verifier key that is trusted, NAME+ID+KEY", param_hint="--key"
        )
    return verifier_keys(texts)


def read_note(path: Path) -> str:
    """Return what a file of notes holds."""
    return path.read_text("utf-8", "replace")


def _only_note(path: Path) -> str:
    from eventstore.seals import notes_in

    found = list(notes_in(read_note(path)))
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} notes: pass a file with the older note alone")
    return found[0]


def _signing_key(path: Path) -> SigningKey:
    from eventstore.seals import SigningKey

    return SigningKey.parse(path.read_text("utf-8", "replace"))


def _anchors(files: Sequence[Path], folder: Path | None, authority: str | None) -> list[Anchor]:
    from eventstore.seals import FileAnchor, FolderStore, ObjectAnchor

    anchors: list[Anchor] = [FileAnchor(path) for path in files]
    if authority is not None:
        if folder is None:
            raise typer.BadParameter("pass --folder too, for the stamps", param_hint="--authority")
        from eventstore.seals.time_stamps import TimeStampAnchor, http_authority

        anchors.append(TimeStampAnchor(http_authority(authority), FolderStore(folder)))
    elif folder is not None:
        anchors.append(ObjectAnchor(FolderStore(folder)))
    return anchors


def _members(each: Seal) -> dict[str, object]:
    return {"lane": each.lane, "size": each.size, "root": each.root.hex(), "note": each.note}


def _write_payload(store: EventStore, path: Path, name: str, version: int) -> None:
    import msgspec

    from eventstore.seals import openings

    found = next((each for each in openings(store, name) if each.version == version), None)
    if found is None:
        raise ValueError(
            f"version {version} of conversation {name!r} was redacted, so its payload is gone: "
            "pass no --payload"
        )
    with whole_file(path, permissions_of(store.url)) as file:
        file.write(msgspec.json.encode(found) + b"\n")


def _size_of(note: str) -> int:
    from eventstore.seals import Checkpoint

    return Checkpoint.parse(note.partition("\n\n")[0] + "\n").size
