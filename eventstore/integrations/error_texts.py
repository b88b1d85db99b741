"""What the text of an error says of the effect, where a framework gives no exception.

1. Our own line that a call may have taken effect stands: a tool, or a wrapper of it, has put it in.
2. A program that a signal or `timeout` ended leaves a doubt, and no other status of one, whatever
   it has printed.
3. Words of a connection that broke, of a timeout or of a cancel leave one, and so does no word.
4. Words of an attempt to connect, and of a refusal before anything was sent, leave none.
5. Every other text says nothing, as an ordinary exception does.
"""

from __future__ import annotations

import re

from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.domain.failure import ErrorKind, Failure

_BEFORE = re.compile(
    r"connect(ion)? ?time|timed out (while |when )?connect|connect call failed"
    r"|connection( was)? refused|actively refused|(failed|unable|could not|cannot) to? ?connect"
    r"|name resolution|name or service not known|nodename nor servname|getaddrinfo"
    r"|certificate verify failed|pool ?time|failed to create mcp session.*",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\btimed[ -]out\b|\b(read|write|request|call|tool|response|gateway|server) ?time-?out\b"
    r"|timeout(error|exception)|deadline.?exceeded|cancellederror|^(cancell?ed|interrupted)"
    r"|\b(request|call|task|run|tool|operation)( (was|has been))? (cancell?ed|interrupted|aborted)"
    r"|(connection|socket|stream|transport|session|task|resource|channel|pipe|peer|server|end)"
    r"( (was|is|has|has been|unexpectedly|already))*"
    r" ?(closed|reset|lost|aborted|broken|dropped|terminated|disconnected|crashed|ended|hung up)"
    r"|(closed|reset|lost|aborted|broken|dropped|broke)( the)? (connection|pipe|stream|resource)"
    r"|incomplete (read|chunked|message|body)|incompleteread|unexpected(ly)? (eof|end of)"
    r"|eof (occurred|when)|end ?of ?stream|without (sending )?(a |an |any )?(response|answer|reply)"
    r"|bad gateway",
    re.IGNORECASE,
)
_EXIT = re.compile(r"exit (?:code|status) (\d+)", re.IGNORECASE)
_TIMED_OUT = 124  # of the program `timeout`
_FIRST_SIGNAL = 128  # what a shell adds to the number of the signal that ended a program


def failure_of_text(text: str, *, leaves_doubt: bool = False) -> Failure:
    """Return the failure that an error's text tells of.

    With `leaves_doubt` the effect is in doubt unless the text says that it was still to come.
    """
    said = text.removesuffix(MAY_HAVE_TAKEN_EFFECT).strip()
    if said != text.strip():
        in_doubt = True
    elif (ended := _EXIT.match(said)) is not None:
        in_doubt = int(ended[1]) == _TIMED_OUT or int(ended[1]) > _FIRST_SIGNAL
    elif _DOUBT.search(_BEFORE.sub("", said)):
        in_doubt = True
    else:
        in_doubt = not _BEFORE.search(said) and (leaves_doubt or not said)
    kind = ErrorKind.TRANSIENT if in_doubt else ErrorKind.INTERNAL
    return Failure(kind, said or "no reason was given", in_doubt=in_doubt or None)
