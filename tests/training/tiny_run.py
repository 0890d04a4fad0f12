"""A project folder in which `slca train` runs in seconds: a two-layer Qwen2 with Qwen's special tokens and template, and tasks.

The model has been shown a few replies and calls, so that what it samples differs in reward within a group.
"""

import sys
from pathlib import Path

import torch
from chat_families import stand_in
from samples import OTHER_TOOL, STATE, TOOL
from transformers import Qwen2Config, Qwen2ForCausalLM

from slca import params as p
from slca.chat import ChatFormat
from slca.records import Call, Task, TaskKind
from slca.tables import write_tasks

CITIES = ("Oslo", "Paris", "Lima", "Quito", "Cairo", "Seoul")
RUN = p.Params(
    tasks=p.Tasks(train=6, test=6, unseen_tools=6),
    warmstart=p.Warmstart(max_positions=1024),
    rollouts=p.Rollouts(tasks=6, group_size=4, max_turns=2, max_turn_tokens=40),
    train=p.Train(methods=("slca",), seeds=(0,), steps=2, tasks_per_step=4, checkpoint_steps=1, learning_rate=1e-3),
    execution=p.Execution(processes=1),
)


def tasks() -> list[Task]:
    """Two kinds of tasks, told apart by their questions: a call is needed, or none is right."""
    made = []
    for number, city in enumerate(CITIES):
        question = f"What is the weather in {city}?" if number % 2 else f"Book a hotel in {city}."
        gold = ((Call("get_weather", {"city": city}),),) if number % 2 else ()
        reply = f"The weather in {city} is rain." if number % 2 else f"I cannot book a hotel in {city}."
        facts = ("rain",) if number % 2 else ("cannot",)
        kind = TaskKind.SINGLE if number % 2 else TaskKind.ABSTAIN
        made.append(Task(f"t-{number}", kind, question, (TOOL, OTHER_TOOL), gold, facts, reply, STATE, ""))
    return made


def make(root: Path, steps: int = 60) -> None:
    """models/warmstart and data/tasks/train.parquet."""
    chat = stand_in("qwen2.5")
    torch.manual_seed(0)
    model = small_qwen(chat)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    rows = [(chat.prompt_ids([{"role": "user", "content": t.question}], t.tools), _turn(chat, t)) for t in tasks()]
    for step in range(steps):
        prompt, turn = rows[step % len(rows)]
        labels = torch.tensor([[-100] * len(prompt) + turn])
        model(input_ids=torch.tensor([[*prompt, *turn]]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = root / "models" / "warmstart"
    model.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    write_tasks(root / "data" / "tasks" / "train.parquet", tasks())


def small_qwen(chat: ChatFormat) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(chat.tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=False, pad_token_id=chat.pad_id,
            eos_token_id=chat.end_id, bos_token_id=chat.tokenizer.bos_token_id,
        )
    )  # fmt: skip


def _turn(chat: ChatFormat, task: Task) -> list[int]:
    return chat.call_turn(task.gold[0]) if task.gold else chat.reply_turn(task.reply)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
