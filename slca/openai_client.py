"""Asking servers with an OpenAI-compatible ``/chat/completions``: simulator, judge and tau2's user do it by the official client.

Time-outs and further tries (with exponential backoff, or as ``Retry-After`` asks) are the client's. The key is
``OPENAI_API_KEY``; servers of one's own mostly want none.
"""

import os
from typing import Any

import openai


class Failed(Exception):
    """No answer can be had. One sentence."""


class Refused(Failed):
    """The server refuses the request as it stands: its answer format, perhaps."""


def new_client(url: str, timeout: float, retries: int) -> openai.OpenAI:
    """timeout: seconds for one request. retries: further tries of one that failed."""
    key = os.environ.get("OPENAI_API_KEY") or "none"
    return openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=retries)


def completion(client: openai.OpenAI, **request: Any) -> Any:
    """What the server sends for a request, unchecked: the client passes on whatever it was. Raises Refused or Failed."""
    try:
        return client.chat.completions.create(**request)
    except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
        raise Refused(_sentence(error)) from None
    except openai.OpenAIError as error:
        raise Failed(_sentence(error)) from None
    except ValueError:  # what the client lets through for a body that is not JSON
        raise Failed(f"{str(client.base_url).rstrip('/')} sends what is no chat completion.") from None


def first_choice(answered: Any) -> Any:
    """The choice that holds the answer. Raises Failed where there is none."""
    choices = getattr(answered, "choices", None)
    if not choices or choices[0].message is None:
        raise Failed("the server's answer holds no choices.")
    return choices[0]


def _sentence(error: openai.OpenAIError) -> str:
    """What went wrong, without the request and short enough for a message."""
    if isinstance(error, openai.APITimeoutError):
        return "the server did not answer in time."
    if isinstance(error, openai.APIStatusError):
        return f"the server answers with status {error.status_code}: {' '.join(error.message.split())[:200]}"
    return " ".join(str(error).split())[:200] or type(error).__name__
