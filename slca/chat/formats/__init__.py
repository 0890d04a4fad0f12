"""Chat formats by name, one small file each, and the choice among them."""

from typing import Any

from slca.chat.base import ChatFormat
from slca.chat.formats.deepseek import DeepSeek
from slca.chat.formats.gemma import FunctionGemma, Gemma4
from slca.chat.formats.harmony import Harmony
from slca.chat.formats.hermes import Hermes
from slca.chat.formats.llama3 import Llama3
from slca.chat.formats.mistral import Mistral
from slca.chat.formats.prompted import ChatML, Gemma3
from slca.errors import DataError
from slca.records import Call

FORMATS: dict[str, type[ChatFormat]] = {
    kind.name: kind for kind in (Hermes, Llama3, Mistral, ChatML, FunctionGemma, Gemma3, Gemma4, DeepSeek, Harmony)
}


def format_of(tokenizer: Any, name: str = "") -> ChatFormat:
    """The chat format of ``tokenizer``: the one called ``name``, or the only one whose markers the tokenizer has.

    Raises DataError with the known names where none fits, and where the chat template cannot render a call and its result.
    """
    if name:
        if name not in FORMATS:
            raise DataError(f"There is no chat format {name!r}; the formats are: {', '.join(FORMATS)}.")
        return _tried(FORMATS[name](tokenizer))
    fitting = [kind for kind in FORMATS.values() if kind.fits(tokenizer)]
    if len(fitting) != 1:
        found = " and ".join(kind.name for kind in fitting) or "none"
        raise DataError(f"The tokenizer's markers fit {found} of the chat formats {', '.join(FORMATS)}; name the one to use.")
    return _tried(fitting[0](tokenizer))


def _tried(chat: ChatFormat) -> ChatFormat:
    """``chat``, once its template has rendered a call and its result: what it cannot do is said now, not in a run."""
    chat.glue_ids([Call("f", {})], ["{}"])
    return chat
