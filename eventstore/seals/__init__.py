"""Seals: signed heads of the log, kept outside, by which others see that nothing was changed.

`seal` and `Sealer` sign what the log holds, `check` compares the log with notes that were kept, and
`prove` and `prove_since` make proofs that a stranger checks without the database. Forms and hashes
are those of RFC 6962 and C2SP: signed-note, tlog-checkpoint, tlog-proof. To sign and to check
a signature takes the extra `seal`; `eventstore.seals.time_stamps` has time stamps, with the extra
`time-stamp`.
"""

from __future__ import annotations

from eventstore.seals.anchors import Anchor, FileAnchor, FolderStore, ObjectAnchor, ObjectStore
from eventstore.seals.checking import Checked, CheckedLane, check
from eventstore.seals.checkpoints import Checkpoint, notes_in
from eventstore.seals.errors import (
    AnchorFailed,
    BadKey,
    BadNote,
    NotSealed,
    NotSigned,
    SealError,
    SealMismatch,
    StampRefused,
)
from eventstore.seals.findings import Finding
from eventstore.seals.keys import SigningKey, VerifierKey
from eventstore.seals.opening import Opening, openings
from eventstore.seals.proofs import Consistency, Inclusion
from eventstore.seals.proving import prove, prove_all, prove_since
from eventstore.seals.sealer import Sealer, SealingPace
from eventstore.seals.sealing import seal
from eventstore.seals.stored_seals import seal_problems
from eventstore.storage.leaves import SealedRow, leaf_of
from eventstore.storage.sealable_log import Seal, SealableLog, SealableStore

__all__ = [
    "Anchor",
    "AnchorFailed",
    "BadKey",
    "BadNote",
    "Checked",
    "CheckedLane",
    "Checkpoint",
    "Consistency",
    "FileAnchor",
    "Finding",
    "FolderStore",
    "Inclusion",
    "NotSealed",
    "NotSigned",
    "ObjectAnchor",
    "ObjectStore",
    "Opening",
    "Seal",
    "SealError",
    "SealMismatch",
    "SealableLog",
    "SealableStore",
    "SealedRow",
    "Sealer",
    "SealingPace",
    "SigningKey",
    "StampRefused",
    "VerifierKey",
    "check",
    "leaf_of",
    "notes_in",
    "openings",
    "prove",
    "prove_all",
    "prove_since",
    "seal",
    "seal_problems",
]
