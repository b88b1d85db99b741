"""The methods of a conversation that record messages which a provider wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from uuid import UUID

    from eventstore.domain.events import RunStarted
    from eventstore.domain.tool import Tool
    from eventstore.provider_messages.history_import import Imported
    from eventstore.providers.registry import AnyProvider
    from eventstore.session import Session


class ConversationMessages:
    """A conversation, as far as it takes messages of providers; see `eventstore.Conversation`."""

    def __init__(self, session: Session, conversation_id: str) -> None:
        self.session = session
        """What it reads and appends through; for the package's own use."""
        self.id = conversation_id

    def record(
        self,
        message: object,
        provider: AnyProvider = "openai",
        *,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        expected_version: int | None = None,
        step: str | None = None,
        usage: bool = True,
        latency: float | None = None,
    ) -> list[Tool]:
        """Record a provider's message: a dict, or the SDK's own object.

        Of a whole response, the message in it is recorded; of a whole request, its list. A response
        with an id that is recorded again is stored once, unless something was said since: a
        message, or the end of its last call. Returns the calls that it makes (pending) or answers.
        See `record_messages`, and `recording` for streams.

        The calls of a response that was cut off or withheld have failed, and never start; see
        `eventstore.domain.finish_reasons`. Of a response that failed before it said anything, the
        reason and the tokens are recorded, and no message.

        What a whole response says of itself is stored with it, as one `ModelResponded`: its model,
        its id, its finish reason and its tokens. It is the last event. `latency`, the seconds from
        the request to the whole response, is stored there, too. With `usage=False` it is left out.
        A message alone has none.

        With `event_ids` (one UUID for the message, and for each of its calls) the record may be
        repeated likewise.

        `step` names the step of a run that may be replayed: your workflow's id, and a number. The
        same message of the same step is stored once, whatever was said since, and its calls are
        returned as they stand now: completed ones with their results, and those that were under way
        in doubt. Another answer of the step is stored, as the model was asked anew, and takes the
        place of the first: a call that asks for the same as a completed one gets its result, and
        one as a call in doubt is rejected. So are calls of the first that have not started.

        Raises:
            ResponseFailed: the response is an error, or nothing; or it ended with an error, and
                makes no call. It is recorded.
            TypeError: the message is a stream, a chunk of one, text, a list or None.
            ValueError: the calls, or results, are in another provider's form; or the response has
                several choices; or an event id is not a UUID, or there is not one for each event;
                or `latency` is not a time; or `step` is empty, or given with `event_ids`.
            VersionConflict: the conversation is not at `expected_version`.
        """
        from eventstore.provider_messages.record import record  # loads the providers

        prices = self.session.prices
        return self.session.run(
            record(
                self.id,
                message,
                provider,
                event_ids,
                expected_version,
                step=step,
                usage=usage,
                latency=latency,
                prices=prices,
            )
        )

    def record_messages(
        self,
        messages: Sequence[Any] | dict[str, Any],
        provider: AnyProvider = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool | str] | None = None,
        imported: bool = True,
    ) -> list[Tool]:
        """Record messages in a provider's form, as one append.

        They are new ones. The conversation itself, told again or continued, is refused: a front end
        that sends the whole history each time is for `import_messages`. Anything else is recorded
        again, its calls under other ids.

        A call id that the provider repeats is made unique, and a missing one is minted; the
        result gets the same id. A result that answers no call is kept as text. `is_error` is
        called with a result as its provider wrote it, and returns whether it is a failure; without
        it a mark decides, or the text `{"error":"..."}` where the provider has no mark.
        `is_rejection` returns whether a person refused the call, or the source of the refusal. Of a
        whole request, its list is recorded.

        A call without a result may have run where the messages come from (`imported`): its outcome
        is unknown. With `imported=False` it has not run yet, as with `record`.

        Returns the calls that they make or answer, in order. A response that failed is recorded as
        with `record`, wherever it stands in the list.

        Raises:
            ValueError: the calls, or results, are in another provider's form; or the first messages
                are the conversation; or a response has several choices.
            ResponseFailed: the last message is a response that failed; all are recorded.
        """
        from eventstore.provider_messages.record import record_messages  # loads the providers

        return self.session.run(
            record_messages(
                self.session,
                self.id,
                messages,
                provider,
                is_error,
                is_rejection,
                imported=imported,
            )
        )

    def import_messages(
        self,
        messages: Iterable[Any] | dict[str, Any],
        provider: AnyProvider = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool | str] | None = None,
        started: RunStarted | None = None,
        occurred_at: Sequence[int | None] = (),
        error_pattern: str | re.Pattern[str] | None = None,
    ) -> Imported:
        """Record a whole history, from its first message; messages already stored are skipped.

        The same messages again add nothing, a longer list adds its tail, and an interrupted import
        may be repeated. Long histories are appended in batches, each all or nothing. `started`
        becomes the first event of a new conversation. Otherwise see `record_messages`; but nothing
        is raised for a response that failed, and of several choices the first is taken
        (`Imported.findings`).

        `occurred_at` has the time of each message at its source, in microseconds since 1970 UTC;
        it may be a list that grows while `messages` are taken. A result whose text matches
        `error_pattern` is a failure.

        Raises:
            ImportConflict: the conversation holds other messages; none were added.
            ValueError: the calls, or results, are in another provider's form.
        """
        from eventstore.provider_messages.history_import import (  # loads the providers
            Import,
            ImportSource,
        )

        source = ImportSource(
            is_error=is_error,
            is_rejection=is_rejection,
            error_pattern=error_pattern,
            started=started,
            times=occurred_at,
        )
        return Import(self.session, self.id, provider, source).run(messages)
