"""What the text of an error says of the effect, where a framework gives no exception.

1. Our own line that a call may have taken effect stands: a tool, or a wrapper of it, has put it in.
2. Words of an attempt to connect, and of a refusal before anything was sent, leave no doubt.
3. Words of a connection that broke, of a timeout or of a cancel leave one, and so does no word.
4. Every other text says nothing, as an ordinary exception does.
"""

from __future__ import annotations

import re

from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.domain.failure import ErrorKind, Failure

_BEFORE = re.compile(
    r"connect(ion)? ?time|timed out (while |when )?connect|connect call failed"
    r"|connection( was)? refused|actively refused|(failed|unable|could not|cannot) to? ?connect"
    r"|name resolution|name or service not known|nodename nor servname|getaddrinfo"
    r"|certificate verify failed|pool ?time|failed to create mcp session",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"tim(ed|e) ?-?out|timeout|deadline.?exceeded|cancell?ed|interrupted"
    r"|(connection|socket|stream|transport|session|task|resource|channel|pipe|peer|server|end)"
    r"( (was|is|has|has been|unexpectedly|already))*"
    r" ?(closed|reset|lost|aborted|broken|dropped|terminated|disconnected|crashed|ended|hung up)"
    r"|(closed|reset|lost|aborted|broken|dropped|broke)( the)? (connection|pipe|stream|resource)"
    r"|incomplete (read|chunked|message|body)|incompleteread|unexpected(ly)? (eof|end of)"
    r"|eof (occurred|when)|end ?of ?stream|without (sending )?(a |an |any )?(response|answer|reply)"
    r"|bad gateway",
    re.IGNORECASE,
)


def failure_of_text(text: str, *, leaves_doubt: bool = False) -> Failure:
    """Return the failure that an error's text tells of.

    With `leaves_doubt` the effect is in doubt unless the text says that it was still to come.
    """
    said = text.removesuffix(MAY_HAVE_TAKEN_EFFECT).strip()
    if said != text.strip():
        in_doubt = True
    elif _BEFORE.search(said):
        in_doubt = False
    else:
        in_doubt = leaves_doubt or not said or _DOUBT.search(said) is not None
    kind = ErrorKind.TRANSIENT if in_doubt else ErrorKind.INTERNAL
    return Failure(kind, said or "no reason was given", in_doubt=in_doubt or None)
