"""The `warmstart` stage: a policy that imitates conversations, by transformers' Trainer. Loss is on assistant tokens only.

Without a base it is a small Llama from nothing. Why this model (1.3 M parameters in two wide layers): it must be trained, rolled
out and improved within minutes on two CPU cores, and still choose among tools and copy values that it has never seen. Copying
takes two layers at least; with the same computing time, four narrower layers had not learned to copy (argument match on
held-out tasks .15 against .36). Small batches, because early on the number of updates counts.

With ``warmstart.base`` it is that model, in its own tokens and its own chat template (``slca.policy.finetune``).
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments, get_cosine_schedule_with_warmup

from slca import params as p
from slca.chat import ChatFormat, format_of
from slca.errors import DataError
from slca.files import derive_seed, replacing, write_json
from slca.policy import finetune
from slca.policy.demonstrations import IGNORED, Demonstration, arrange, conversations, demonstrations
from slca.policy.model import new_model, prepare_torch
from slca.policy.optimizer import MuonWithAdamW
from slca.policy.pretrained import base_folder
from slca.policy.released import Report, released
from slca.policy.tokenizer import train_tokenizer
from slca.progress import ProgressBar, quiet
from slca.records import Task
from slca.tables import read_tasks
from slca.work import MarkComplete, fingerprint, last_checkpoint, open_work, publish

log = logging.getLogger(__name__)

_TOKENIZER_TASKS = 1000


def run(params: p.Params, root: Path = Path(".")) -> None:
    """data/tasks/train.parquet, models/base -> models/warmstart (safetensors, tokenizer, configuration)."""
    settings = params.warmstart
    prepare_torch(settings.threads)
    source = root / "data" / "tasks" / "train.parquet"
    inputs = [source]
    if settings.base:
        inputs.append(base_folder(settings, root))
    if settings.released_path:
        inputs.append(Path(settings.released_path))
    mark = fingerprint([settings.model_dump(), params.simulator.model_dump()], inputs)
    work = open_work(root, "warmstart", mark)
    tasks = read_tasks(source)
    if settings.base:
        model, chat = finetune.load(settings, root)
    else:
        tokenizer = train_tokenizer(conversations(tasks[:_TOKENIZER_TASKS], params.simulator), settings.vocab_size)
        model, chat = None, format_of(tokenizer)
    found, report = _examples(tasks, params, chat)
    examples = [
        example
        for epoch in range(settings.epochs)
        for example in arrange(found, settings.batch_size, derive_seed("epoch", settings.seed, epoch) if epoch else settings.seed)
    ]
    dataset = Dataset.from_list([{"input_ids": e.ids, "labels": e.labels} for e in examples])
    torch.manual_seed(settings.seed)
    if model is None:
        model = new_model(settings, len(chat.tokenizer), chat.pad_id, chat.end_id)
    else:
        model = finetune.adapted(model, settings)
    rows = 1 if settings.base else settings.batch_size
    config = TrainingArguments(
        output_dir=str(work / "checkpoints"),
        seed=settings.seed,
        data_seed=settings.seed,
        num_train_epochs=1,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=settings.batch_size // rows,
        max_grad_norm=1.0,
        bf16=settings.precision == "bf16",
        train_sampling_strategy="sequential",
        use_cpu=not (settings.base and torch.cuda.is_available()),
        save_steps=settings.checkpoint_steps,
        save_total_limit=2,
        logging_steps=20,
        report_to=[],
        disable_tqdm=True,
    )
    optimizer: Any
    if settings.base:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    else:
        optimizer = MuonWithAdamW(model, settings.learning_rate, weight_decay=0.01)
    steps = -(-len(examples) // settings.batch_size)
    kind = finetune.RowTrainer if settings.base else Trainer
    trainer = kind(
        model=model,
        optimizers=(optimizer, get_cosine_schedule_with_warmup(optimizer, min(100, steps // 10), steps)),
        args=config,
        train_dataset=dataset,
        data_collator=DataCollatorForSeq2Seq(chat.tokenizer, label_pad_token_id=IGNORED),
        processing_class=chat.tokenizer,
        callbacks=[MarkComplete(), ProgressBar("warm start")],
    )
    quiet(trainer)
    checkpoint = last_checkpoint(work / "checkpoints")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    with replacing(work / "model") as folder:
        finetune.merged(trainer.model).save_pretrained(folder, max_shard_size="1TB")
        chat.tokenizer.save_pretrained(folder)
        if report:
            write_json(folder / "released.json", report.to_json())
    publish(work, {"model": root / "models" / "warmstart"})


def _examples(tasks: Sequence[Task], params: p.Params, chat: ChatFormat) -> tuple[list[Demonstration], Report | None]:
    """What is imitated, and what came of the released rows where it is those."""
    settings = params.warmstart
    report = None
    if settings.data == "released":
        found, report = released(Path(settings.released_path), settings, chat)
        log.warning("%s", report)
    else:
        found = demonstrations(tasks, params, chat)
    kept = [example for example in found if not settings.max_tokens or len(example.ids) <= settings.max_tokens]
    if not kept:
        raise DataError(f"None of {len(found)} conversations has at most warmstart.max_tokens = {settings.max_tokens} tokens.")
    if len(kept) < len(found):
        log.warning("%d of %d conversations are longer than %d tokens", len(found) - len(kept), len(found), settings.max_tokens)
    return kept, report
