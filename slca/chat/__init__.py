"""Chat formats: how a conversation becomes tokens, and how sampled tokens become calls."""

from slca.chat.base import ChatFormat
from slca.chat.conversation import Conversation
from slca.chat.formats import FORMATS, format_of
from slca.chat.reading import Parsed, ReadTurn

__all__ = ["FORMATS", "ChatFormat", "Conversation", "Parsed", "ReadTurn", "format_of"]
