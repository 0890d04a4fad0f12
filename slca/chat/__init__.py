"""Chat formats: how a conversation becomes tokens, and how sampled tokens become calls."""

from slca.chat.format import ChatFormat, Parsed, parse_calls, render_call

__all__ = ["ChatFormat", "Parsed", "parse_calls", "render_call"]
