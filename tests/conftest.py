"""Fixtures shared by all tests: no network, a tiny random policy, and a task that can be rolled out."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import pytest
import torch
from hypothesis import settings
from samples import OTHER_TOOL, STATE, TOOL

from slca import params as p
from slca.chat import ChatFormat, format_of
from slca.policy.model import Policy, new_model
from slca.policy.tokenizer import train_tokenizer
from slca.records import Call, Task, TaskKind

torch.set_num_threads(1)  # as the stages do: on a busy machine more threads wait for each other

settings.register_profile("repeatable", deadline=None, derandomize=True)  # no failure from a busy machine
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def chat() -> ChatFormat:
    corpus = ["What is the weather in Łódź?", '{"name": "get_weather", "arguments": {"city": "Oslo"}}', "It is snow in Oslo."] * 4
    return format_of(train_tokenizer(corpus, 420))


@pytest.fixture(scope="session")
def policy(chat: ChatFormat) -> Policy:
    settings = p.Warmstart(hidden_size=32, layers=2, heads=2, max_positions=256)
    torch.manual_seed(0)
    model = new_model(settings, len(chat.tokenizer), chat.pad_id, chat.end_id).eval()
    return Policy(model, chat, "tiny")


@pytest.fixture
def task() -> Task:
    return Task(
        task_id="test-0",
        kind=TaskKind.SINGLE,
        question="What is the weather in Łódź?",
        tools=(TOOL, OTHER_TOOL),
        gold=((Call("get_weather", {"city": "Łódź"}),),),
        facts=("rain",),
        reply="The weather in Łódź is rain.",
        state=STATE,
        end_state="",
    )
