"""A stand-in tokenizer for every chat format: byte-level BPE trained here, with the family's special tokens and its template.

Templates are those that ship in the installed TRL, read from there. Three do not ship: ``chatml`` is SmolLM2's, in our words;
``mistral`` and ``mistral13`` write what mistral-common 1.13.1 generates for tokenizer versions 3 and 13, without its checks;
``functiongemma`` writes the format of Google's "FunctionGemma formatting and best practices", declarations simplified.
``golden/`` holds what the real tokenizers say.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from slca.chat import ChatFormat, format_of
from slca.chat.formats.hermes import SPECIAL_TOKENS, TEMPLATE

_TRL = Path(trl.__file__).parent / "chat_templates"

_CHATML = """
{%- if messages[0].role != 'system' -%}{{- '<|im_start|>system\nYou help.<|im_end|>\n' -}}{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""

_MISTRAL = """
{{- bos_token -}}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {%- if tools -%}{{- '[AVAILABLE_TOOLS]' ~ (tools | tojson) ~ '[/AVAILABLE_TOOLS]' -}}{%- endif -%}
        {{- '[INST]' ~ message.content ~ '[/INST]' -}}
    {%- elif message.role == 'assistant' -%}
        {%- if message.content and message.tool_calls -%}
            {{- raise_exception('Assistant message cannot have both content and tool calls.') -}}
        {%- endif -%}
        {{- message.content -}}
        {%- if message.tool_calls -%}
            {{- '[TOOL_CALLS][' -}}
            {%- for call in message.tool_calls -%}
                {%- if call.id | length != 9 -%}{{- raise_exception('id') -}}{%- endif -%}
                {{- '{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) -}}
                {{- ', "id": "' ~ call.id ~ '"}' ~ ('' if loop.last else ', ') -}}
            {%- endfor -%}
            {{- ']' -}}
        {%- endif -%}
        {{- '</s>' -}}
    {%- elif message.role == 'tool' -%}
        {%- set told = {'content': message.content, 'call_id': message.tool_call_id} -%}
        {{- '[TOOL_RESULTS]' ~ (told | tojson) ~ '[/TOOL_RESULTS]' -}}
    {%- endif -%}
{%- endfor -%}
"""

_MISTRAL13 = """
{{- bos_token -}}
{%- if tools -%}{{- '[AVAILABLE_TOOLS]' ~ (tools | tojson) ~ '[/AVAILABLE_TOOLS]' -}}{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {{- '[INST]' ~ message.content ~ '[/INST]' -}}
    {%- elif message.role == 'assistant' -%}
        {{- message.content -}}
        {%- for call in message.tool_calls or [] -%}
            {{- '[TOOL_CALLS]' ~ call.function.name ~ '[ARGS]' ~ (call.function.arguments | tojson) -}}
        {%- endfor -%}
        {{- '</s>' -}}
    {%- elif message.role == 'tool' -%}
        {{- '[TOOL_RESULTS]' ~ message.content ~ '[/TOOL_RESULTS]' -}}
    {%- endif -%}
{%- endfor -%}
"""

_FUNCTIONGEMMA = """
{%- macro value(v) -%}
    {%- if v is string -%}{{- '<escape>' + v + '<escape>' -}}
    {%- elif v is boolean -%}{{- 'true' if v else 'false' -}}
    {%- elif v is none -%}{{- 'null' -}}
    {%- elif v is mapping -%}{{- '{' -}}{{- pairs(v) -}}{{- '}' -}}
    {%- elif v is sequence -%}
        {{- '[' -}}{%- for item in v -%}{{- value(item) -}}{{- '' if loop.last else ',' -}}{%- endfor -%}{{- ']' -}}
    {%- else -%}{{- v -}}{%- endif -%}
{%- endmacro -%}
{%- macro pairs(d) -%}
    {%- for key, item in d.items() -%}{{- key + ':' + value(item) -}}{{- '' if loop.last else ',' -}}{%- endfor -%}
{%- endmacro -%}
{{- bos_token -}}
{%- if tools -%}
    {{- '<start_of_turn>developer\nYou are a model that can do function calling with the following functions' -}}
    {%- for tool in tools -%}
        {{- '<start_function_declaration>declaration:' + tool.function.name + '{description:' -}}
        {{- value(tool.function.description) + ',parameters:' + value(tool.function.parameters) + '}' -}}
        {{- '<end_function_declaration>' -}}
    {%- endfor -%}
    {{- '<end_of_turn>\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'tool' -%}
        {{- 'response:' + message.name + '{value:' + value(message.content) + '}<end_function_response>' -}}
        {%- if not loop.last and loop.nextitem.role == 'tool' -%}{{- '<start_function_response>' -}}{%- endif -%}
    {%- else -%}
        {%- if loop.first or loop.previtem.role != 'tool' -%}
            {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' -}}
        {%- endif -%}
        {{- message.content -}}
        {%- for call in message.tool_calls or [] -%}
            {{- '<start_function_call>call:' + call.function.name + '{' + pairs(call.function.arguments) + '}' -}}
            {{- '<end_function_call>' -}}
        {%- endfor -%}
        {{- '<start_function_response>' if message.tool_calls else '<end_of_turn>\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and messages[-1].role != 'tool' -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}
"""


@dataclass(frozen=True)
class Family:
    """format: the expected chat format. special: its tokens, the first one pads, the second begins a text. template: a file in
    TRL, or the text. parallel: whether the template writes several calls in one turn. exact: whether it renders turns as they
    were."""

    format: str
    special: tuple[str, ...]
    end: str
    template: str
    parallel: bool = True
    exact: bool = True

    def text(self) -> str:
        return (_TRL / self.template).read_text(encoding="utf-8") if self.template.endswith(".jinja") else self.template


_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_THINKING = (*_QWEN, "<think>", "</think>")
_LLAMA = ("<|finetune_right_pad_id|>", "<|begin_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>")
_HEADERS = ("<|start_header_id|>", "<|end_header_id|>")
_MISTRALS = ("<pad>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]")
_RESULTS = ("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]")
_GEMMA = ("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>")
_FUNCTIONS = ("<start_function_call>", "<end_function_call>", "<start_function_response>", "<end_function_response>", "<escape>")
_DECLARED = ("<start_function_declaration>", "<end_function_declaration>")
_GEMMA4 = ("<pad>", "<bos>", "<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>")
_GEMMA4_REST = ("<|tool>", "<tool|>", '<|"|>', "<|channel>", "<channel|>", "<|think|>")
_DEEPSEEK = tuple(
    f"<｜{name}｜>"  # noqa: RUF001
    for name in (
        *("▁pad▁", "begin▁of▁sentence", "end▁of▁sentence", "User", "Assistant", "tool▁calls▁begin", "tool▁calls▁end"),
        *("tool▁call▁begin", "tool▁call▁end", "tool▁sep", "tool▁outputs▁begin", "tool▁outputs▁end"),
        *("tool▁output▁begin", "tool▁output▁end"),
    )
)
_HARMONY = tuple(
    f"<|{name}|>" for name in ("endoftext", "startoftext", "return", "call", "end", "start", "channel", "message", "constrain")
)

FAMILIES = {
    "default": Family("hermes", SPECIAL_TOKENS, "<|im_end|>", TEMPLATE.read_text(encoding="utf-8")),
    "qwen2.5": Family("hermes", _QWEN, "<|im_end|>", "qwen2_5.jinja"),
    "qwen3": Family("hermes", _THINKING, "<|im_end|>", "qwen3.jinja"),
    "llama3.1": Family("llama3", (*_LLAMA, *_HEADERS), "<|eot_id|>", "llama3_1.jinja", parallel=False),
    "llama3.2": Family("llama3", (*_LLAMA, *_HEADERS), "<|eot_id|>", "llama3_2.jinja", parallel=False),
    "mistral": Family("mistral", (*_MISTRALS, *_RESULTS), "</s>", _MISTRAL),
    "mistral13": Family("mistral", (*_MISTRALS, *_RESULTS), "</s>", _MISTRAL13),
    "chatml": Family("chatml", _QWEN[:3], "<|im_end|>", _CHATML),
    "functiongemma": Family("functiongemma", (*_GEMMA, *_FUNCTIONS, *_DECLARED), "<end_of_turn>", _FUNCTIONGEMMA),
    "gemma3": Family("gemma3", _GEMMA, "<end_of_turn>", "gemma3.jinja"),
    "gemma4": Family("gemma4", (*_GEMMA4, *_GEMMA4_REST), "<turn|>", "gemma4.jinja"),
    "deepseek": Family("deepseek", _DEEPSEEK, _DEEPSEEK[2], "deepseekv3.jinja", exact=False),
    "harmony": Family("harmony", _HARMONY, "<|return|>", "gptoss.jinja", parallel=False),
}

_CORPUS = (
    'assistant\nIt is rain in Oslo.\n\nassistant\n{"name": "get_weather", "arguments": {"city": "Łódź", "days": 2}}\n',
    ' "parameters": {"type": "object"}}\n</tool_call>\n<tool_call>{"name": "f"}</tool_call>  \n\n\t.\n ',
    "What is the weather in 東京 tomorrow?\nuser\nmodel\n\n<think>\n\n</think>\n\nLet me see.\n",
)


@cache
def stand_in(family: str, crossing: bool = False) -> ChatFormat:
    """The format of ``family`` on a tokenizer trained here. crossing: merges run across words, line breaks and markup, so that
    the boundary between a template and a turn is ambiguous wherever no special token stands there."""
    of = FAMILIES[family]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not crossing)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=256 + len(of.special) + 250, special_tokens=list(of.special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*_CORPUS] * 8, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=of.special[0], bos_token=of.special[1], eos_token=of.end)
    fast.chat_template = of.text()
    return format_of(fast)


@cache
def spaced(family: str) -> ChatFormat:
    """``family`` on a tokenizer like SentencePiece: a text gets a space in front, unless a special token begins it."""
    of = FAMILIES[family]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    space = decoders.Replace("\u2581", " ")
    tokenizer.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", *of.special, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        [*_CORPUS] * 8, trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    names = {"pad_token": of.special[0], "bos_token": of.special[1], "eos_token": of.end, "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.chat_template = of.text()
    return format_of(fast)
