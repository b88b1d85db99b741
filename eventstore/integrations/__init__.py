"""Integrations: a file for each agent framework, and files of its name for further concepts.

They alone import the framework. The rules of the room:

1. A user loads the file of the framework's name (`eventstore.integrations.pydantic_ai`), and no
   module of the library does. A framework that is not installed is named with its `pip install`.
2. It stands above both sides: it appends to a conversation, and reads the next prompt from its log.
3. A call is pending, then running, on disk before its effect. Where a framework runs a call again
   whose end or start is recorded, it gets the answer from the log, and the tool does not run.
4. Failures keep the tool's own exception, not the one that the framework wraps it in.
5. What holds for all frameworks stands once: which call is meant and what the model reads of it in
   `recorded_calls`, when a call runs in `call_starts`, what a host's decision is bound to in
   `host_answers`, which words are new in `words_said`.
"""
