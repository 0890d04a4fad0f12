"""The default model's tokenizer: byte-level BPE trained on the demonstrations it will read."""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from slca.chat.formats.hermes import END_OF_TURN, PAD, SPECIAL_TOKENS, TEMPLATE

# Words, pairs of digits, and runs of everything else. A space is never part of a word: a value has the same tokens in a question,
# where a space precedes it, and in a call, where a quote does, so that copying is copying. JSON punctuation merges instead.
_PIECES = Regex(r"\p{L}+|\p{N}{1,2}|[^\p{L}\p{N}]+")


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A tokenizer with ``vocab_size`` entries at the most, special tokens and chat template included. Deterministic."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_PIECES, behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END_OF_TURN)
    fast.chat_template = TEMPLATE.read_text(encoding="utf-8")
    return fast
