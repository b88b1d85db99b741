"""The history that the model sees next: repaired, and valid for its provider.

The rule of `model_history`:

1. Every call that is shown is answered exactly once. Results are grouped by turn, in the order
   of the calls, whatever order they were recorded in.
2. A call without a result is answered with what the log knows: it waits for approval, it has not
   started, its outcome is unknown, its arguments could not be parsed. Such an answer is made for
   the view and is never stored.
3. A late result takes the place of that answer, in whichever turn it was recorded. A completion
   replaces a failure.
4. Of the calls with one fingerprint between two user messages, a failed call that a later one
   repeats is left out together with its result. The later call carries a note of what failed.
   What came after the last user message stays as the model has seen it.
5. Nothing real is lost: a result that has no place becomes text.
6. A window cuts between turns, never inside one.
7. A history that stops on the assistant's words says so, where newer models refuse to continue from
   them (Anthropic, Bedrock); with `prefill` they continue.

Its algebra:

- Total: any prefix of any log gives a history, and so does a damaged log.
- Deterministic: the same events and options give the same bytes. No clock, no random numbers.
- A fold: taking in a prefix and then the rest equals taking in the whole.
- Idempotent: the repaired messages, repaired again, stay as they are.

The path of an event, file by file:

    projection.py      recorded events ──► entries: what was said and called, in order
    entries.py         what the fold keeps: an entry, a logged call, a repair
    turns.py           entries ──► turns: every call with its one answer
    bounded_results.py how much of each result is shown
    collapse.py        which repeated calls are left out, and the note on them
    window.py          which older turns are cut, and the summary in their place
    model_history.py   the result: turns, repairs, and the request they are rendered to
    explanation.py     the result as text for people
    cache_breaks.py    the requests of a log that do not begin with the one before

`options.py` holds what a caller may ask for. `gate_context.py` makes what gates decide on from
the same turns. `repair_history.py` and `repair_messages.py` repair a history that is not in a log.
"""
