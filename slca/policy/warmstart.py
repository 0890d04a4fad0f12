"""The `warmstart` stage: a small Llama trained from nothing on demonstrations, by transformers' Trainer.

Why this model (1.3 M parameters in two wide layers): it must be trained, rolled out and improved within minutes on two CPU
cores, and still choose among tools and copy values that it has never seen. Copying takes two layers at least; with the same
computing time, four narrower layers had not learned to copy (argument match on held-out tasks .15 against .36). Small
batches, because early on the number of updates counts. Loss is on assistant tokens only.
"""

from pathlib import Path

import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments, get_cosine_schedule_with_warmup

from slca import params as p
from slca.chat import format_of
from slca.files import replacing
from slca.policy.demonstrations import IGNORED, arrange, conversations, demonstrations
from slca.policy.model import new_model, prepare_torch
from slca.policy.optimizer import MuonWithAdamW
from slca.policy.tokenizer import train_tokenizer
from slca.progress import ProgressBar, quiet
from slca.tables import read_tasks
from slca.work import MarkComplete, fingerprint, last_checkpoint, open_work, publish

_TOKENIZER_TASKS = 1000


def run(params: p.Params, root: Path = Path(".")) -> None:
    """data/tasks/train.parquet -> models/warmstart (safetensors, tokenizer, configuration)."""
    settings = params.warmstart
    prepare_torch(settings.threads)
    source = root / "data" / "tasks" / "train.parquet"
    mark = fingerprint([settings.model_dump(), params.simulator.model_dump()], [source])
    work = open_work(root, "warmstart", mark)
    tasks = read_tasks(source)
    tokenizer = train_tokenizer(conversations(tasks[:_TOKENIZER_TASKS], params.simulator), settings.vocab_size)
    chat = format_of(tokenizer)
    examples = arrange(demonstrations(tasks, params, chat), settings.batch_size, settings.seed)
    dataset = Dataset.from_list([{"input_ids": e.ids, "labels": e.labels} for e in examples])
    torch.manual_seed(settings.seed)
    model = new_model(settings, len(tokenizer), chat.pad_id, chat.end_id)
    config = TrainingArguments(
        output_dir=str(work / "checkpoints"),
        seed=settings.seed,
        data_seed=settings.seed,
        num_train_epochs=1,
        per_device_train_batch_size=settings.batch_size,
        max_grad_norm=1.0,
        train_sampling_strategy="sequential",
        use_cpu=True,
        save_steps=settings.checkpoint_steps,
        save_total_limit=2,
        logging_steps=20,
        report_to=[],
        disable_tqdm=True,
    )
    optimizer = MuonWithAdamW(model, settings.learning_rate, weight_decay=0.01)
    steps = -(-len(examples) // settings.batch_size)
    trainer = Trainer(
        model=model,
        optimizers=(optimizer, get_cosine_schedule_with_warmup(optimizer, min(100, steps // 10), steps)),
        args=config,
        train_dataset=dataset,
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        processing_class=tokenizer,
        callbacks=[MarkComplete(), ProgressBar("warm start")],
    )
    quiet(trainer)
    checkpoint = last_checkpoint(work / "checkpoints")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    with replacing(work / "model") as folder:
        trainer.model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    publish(work, {"model": root / "models" / "warmstart"})
