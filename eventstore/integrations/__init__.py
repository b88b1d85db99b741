"""Integrations: one file for each agent framework, which alone imports that framework.

The rules of the room:

1. A file is loaded by its own name (`eventstore.integrations.pydantic_ai`), and no module of the
   library imports it. A framework that is not installed is named with its `pip install`.
2. It stands above both sides: it appends to a conversation, and reads the next prompt from its log.
3. A call is pending, then running, on disk before its effect. Where a framework runs a call again
   whose end or start is recorded, it gets the answer from the log, and the tool does not run.
4. Failures keep the tool's own exception, not the one that the framework wraps it in.
"""
