"""Check a bundle of events: `python check.py FOLDER VERIFIER_KEY`. It needs only `cryptography`."""

import json
import sys
from base64 import b64decode
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def head_of(note: str, key: str) -> tuple[int, bytes]:
    """Return size and root of a note, if the key has signed it (C2SP signed-note)."""
    name, key_id, encoded = key.split("+", 2)
    public = Ed25519PublicKey.from_public_bytes(b64decode(encoded)[1:])
    text, _, lines = note.rpartition("\n\n")
    for _, signer, value in (line.split(" ") for line in lines.splitlines()):
        if signer == name and b64decode(value)[:4].hex() == key_id:
            public.verify(b64decode(value)[4:], f"{text}\n".encode())  # raises if it is false
            return int(text.split("\n")[1]), b64decode(text.split("\n")[2])
    raise ValueError(f"{name} has not signed a note: pass the key that has")


def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """Return the root that a leaf leads to (RFC 9162, section 2.1.3.2)."""
    node, last = sha256(b"\0" + leaf).digest(), size - 1
    for other in path:
        if index & 1 or index == last:
            node = sha256(b"\1" + other + node).digest()
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + other).digest()
        index, last = index >> 1, last >> 1
    return node if last == 0 else None


def digest_of(event: dict[str, Any]) -> str:
    """Return the digest of an event's payload, as its leaf has it."""
    payload, mark = event["payload"].encode(), bytes.fromhex(event["fingerprint"] or "")
    if not event["salt"]:  # of an older version of the log
        return blake2b(payload, digest_size=16).hexdigest()
    data = bytes.fromhex(event["salt"]) + mark + payload
    return blake2b(data, digest_size=32, person=b"toolledger/salt").hexdigest()


def main(folder: Path, key: str) -> int:
    """Print what is at fault; return 1 where anything is."""
    faults: list[str] = []
    proven = others = 0
    heads = {each.name: head_of(each.read_text("utf-8"), key) for each in folder.glob("notes/*")}
    for event in map(json.loads, (folder / "events.jsonl").read_bytes().splitlines()):
        leaf = json.loads(event["leaf"])
        place = f"{leaf['conversation']!r} version {leaf['version']}: the "
        if event["payload"] is not None and digest_of(event) != leaf["payload"]:
            faults.append(f"{place}payload is not that of its leaf")
        if event["path"] is None:
            others += 1
            continue
        (size, root), path = heads[event["note"]], [b64decode(each) for each in event["path"]]
        if root_of(event["leaf"].encode(), leaf["position"] - 1, size, path) == root:
            proven += 1
        else:
            faults.append(f"{place}leaf does not lead to the note")
    said = f"{proven} events proven, {others} after the last seal, {len(faults)} faults"
    sys.stdout.write("\n".join([*faults, said, ""]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
