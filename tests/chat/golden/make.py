"""Writes the golden files of this folder from real tokenizers: PYTHONPATH=tests python tests/chat/golden/make.py SOURCES

SOURCES is a folder with one subfolder per family of ``tests/chat_families.py`` that has a golden file: ``source.json``, which
names where things come from, a tokenizer as transformers loads it, if one can be had, and a ``chat_template.jinja``, if the
template is neither in a GGUF file nor among the families.

A golden file holds the conversation, its text piece by piece, and what the real template renders of it; where there is a real
tokenizer, also its token ids and that part of the tokenizer which the conversation touches (its tokens and merges, under their
own ids), so that tests need no download.
"""

import copy
import itertools
import json
import sys
from pathlib import Path
from typing import Any

from chat_families import FAMILIES, stand_in
from transformers import AutoTokenizer

from slca.chat import ChatFormat, format_of
from slca.records import Call

HERE = Path(__file__).parent
QUESTION = "What is the weather in Łódź and in 東京? Book the drier one."
TOOLS = [
    {
        "name": "get_weather",
        "description": "Weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
    {"name": "book", "description": "Book.", "parameters": {"type": "object", "properties": {"note": {"type": "string"}}}},
]
STEPS = [
    (
        [Call("get_weather", {"city": "Łódź", "days": 2}), Call("get_weather", {"city": "東京"})],
        ['{"sky":"rain"}', '{"sky":"☀"}'],
    ),
    ([Call("book", {"note": 'the "dry" one <b>'})], ['{"id":"B-1"}']),
]
REPLY = "I booked 東京: it is dry there."


def steps(parallel: bool) -> list[tuple[list[Call], list[str]]]:
    if parallel:
        return STEPS
    return [([call], [result]) for calls, results in STEPS for call, result in zip(calls, results, strict=True)]


def used_part(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    """The tokenizer's own description, without the tokens and merges that ``texts`` do not touch."""
    backend = tokenizer.backend_tokenizer
    whole = json.loads(backend.to_str())
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in whole["model"]["merges"]]
    rank = {merge: place for place, merge in enumerate(merges)}
    vocab, added = whole["model"]["vocab"], whole["added_tokens"]
    kept, used = set(), set()
    for text in texts:
        for piece in pieces(backend, text, [token["content"] for token in added]):
            parts = [part if part in vocab else None for part in piece]
            if whole["model"].get("ignore_merges") and piece in vocab:
                kept.add(piece)
            while True:
                kept.update(part for part in parts if part)
                pairs = [(rank[pair], at) for at, pair in enumerate(itertools.pairwise(parts)) if pair in rank]
                if not pairs:
                    break
                _, at = min(pairs)
                used.add((parts[at], parts[at + 1]))
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
    kept.update(token for token in vocab if token.startswith("<0x") and len(token) == 6)  # bytes to fall back to
    special = [token for token in added if any(token["content"] in text for text in texts)]
    unknown = whole["model"].get("unk_token")
    kept.update([unknown] if unknown else [])
    model = {**whole["model"], "merges": [list(merge) for merge in merges if merge in used]}
    model["vocab"] = {token: vocab[token] for token in sorted(kept)} | {token["content"]: token["id"] for token in special}
    return {**whole, "model": model, "added_tokens": special, "post_processor": None}


def pieces(backend: Any, text: str, special: list[str]) -> list[str]:
    """What the merges run over: text between special tokens, normalised and split."""
    parts = [text]
    for token in sorted(special, key=len, reverse=True):
        parts = [part for old in parts for part in (old.split(token) if token else [old])]
    found = []
    for part in filter(None, parts):
        normal = backend.normalizer.normalize_str(part) if backend.normalizer else part
        split = backend.pre_tokenizer.pre_tokenize_str(normal) if backend.pre_tokenizer else [(normal, None)]
        found += [piece for piece, _ in split]
    return found


def golden(family: str, folder: Path) -> dict[str, Any]:
    of = FAMILIES[family]
    gguf = next((file.name for file in folder.glob("*.gguf")), None)
    real = gguf is not None or (folder / "tokenizer.json").exists()
    if real:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **({"gguf_file": gguf} if gguf else {}))
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    else:
        tokenizer = copy.deepcopy(stand_in(family).tokenizer)
    override = folder / "chat_template.jinja"
    if override.exists():
        tokenizer.chat_template = override.read_text(encoding="utf-8")
    elif not gguf:
        tokenizer.chat_template = of.text()
    chat = format_of(tokenizer)
    pieces, rendered = conversation(chat, steps(of.parallel))
    made = {
        "family": family,
        "source": json.loads((folder / "source.json").read_text(encoding="utf-8")),
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": TOOLS,
        "steps": [[[call.to_json() for call in calls], results] for calls, results in steps(of.parallel)],
        "reply": REPLY,
        "rendered": rendered,
        "texts": [chat.decode(ids) for ids in pieces],
    }
    if not real:
        return made
    texts = [*made["texts"], rendered, "".join(of.special), tokenizer.pad_token]
    names = {"eos": tokenizer.eos_token, "pad": tokenizer.pad_token, "bos": tokenizer.bos_token}
    return {
        **made,
        "ids": pieces,
        "rendered_ids": chat.encode(rendered),
        "tokens": names,
        "tokenizer": used_part(tokenizer, texts),
    }


def conversation(chat: ChatFormat, plan: list[tuple[list[Call], list[str]]]) -> tuple[list[list[int]], str]:
    """Ids as rollouts make them (prompt, then turn and glue of every step, then the reply), and what the template makes of the
    same messages, up to the prompt of the reply."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    made = [chat.prompt_ids(messages, TOOLS)]
    for calls, results in plan:
        turn = chat.call_turn(calls)
        parsed = chat.parse(chat.turn_text(turn))
        made += [turn, chat.glue_ids(parsed, results, turn)]
        messages += [chat.assistant_message(chat.turn_text(turn)), *chat.tool_messages(parsed, results)]
    return [*made, chat.reply_turn(REPLY)], chat.render(messages, TOOLS, generate=True)


def main() -> None:
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        if folder.name in FAMILIES:
            text = json.dumps(golden(folder.name, folder), ensure_ascii=False)
            (HERE / f"{folder.name}.json").write_text(text + "\n", encoding="utf-8")
            print(folder.name, len(text))


if __name__ == "__main__":
    main()
