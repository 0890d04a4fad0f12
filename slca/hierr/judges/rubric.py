"""The embedded judge: a deterministic rubric in place of the paper's 120B model (method section 3).

Rating = 1 + 4 * (.6 facts + .2 support + .1 clean + .1 length), where

* facts: share of the required facts that the reply states (whole tokens: "12" is not found in "312"); 1 where none is required;
* support: share of the values which the reply states that occur in tool results, question or required facts, so that
  invention costs; 1 where it states none. Values are the words that hold a digit (numbers, ids, dates, times) and the
  capitalised words that do not start a sentence (names);
* clean: 1 without chat markup and braces, else 0;
* length: 1 for 10 to 400 characters, else 0.

It reads no meaning: a reply that states the facts and denies them gets full marks. It is there so that the pipeline runs
and repeats byte for byte without a model.
"""

import re
from collections.abc import Sequence

from slca.chat.formats.hermes import SPECIAL_TOKENS
from slca.hierr.words import contains, fold, result_text
from slca.records import Json

_MARKUP = (*SPECIAL_TOKENS, "{", "}")
_SURROUNDING = ".,;:!?\"'()[]{}<>*`#%$€£¥“”\u2018\u2019„«»…\u2013—"
_ENDS_SENTENCE = re.compile("[.!?:…][\"'”\u2019)]*$")
# A number with its unit written on: "21°C", "30min". The unit is the reply's own.
_WITH_UNIT = re.compile(r"([+-]?[0-9](?:[0-9.,:/-]*[0-9])?)[^0-9]+")


class Rubric:
    """The deterministic judge. Never fails."""

    def rate(self, question: str, results: Sequence[Json], reply: str, facts: Sequence[str]) -> float:
        """A rating in 1..5; 5 exactly for a reply that meets every line of the rubric."""
        said = fold(reply)
        known = "\n".join((fold(question), result_text(results), *(fold(fact) for fact in facts)))
        stated = _share([contains(said, fold(fact)) for fact in facts])
        support = _share([_supported(value, known) for value in stated_values(reply)])
        clean = not any(mark in reply for mark in _MARKUP)
        length = 10 <= len(reply) <= 400
        return 1 + 4 * ((6 * stated + 2 * support + clean + length) / 10)


def stated_values(reply: str) -> list[str]:
    """Words of ``reply`` that state a value, in order, without the punctuation around them."""
    values = []
    for line in reply.splitlines():
        starts = True
        for word in line.split():
            bare = re.sub("['\u2019]s$", "", word.strip(_SURROUNDING))
            name = not starts and len(bare) > 1 and bare[0].isupper() and bare[1].isalpha()
            if name or any(character.isdecimal() for character in bare):
                values.append(bare)
            starts = bool(_ENDS_SENTENCE.search(word))
    return values


def _supported(value: str, known: str) -> bool:
    number = _WITH_UNIT.fullmatch(value)
    return contains(known, fold(value)) or (number is not None and contains(known, number[1]))


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 1.0
