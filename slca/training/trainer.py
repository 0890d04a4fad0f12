"""TRL's GRPOTrainer with segment-locked credit: two more arguments in a script that trains with TRL.

    trainer = SegmentLockedGRPOTrainer(
        model=..., args=GRPOConfig(...), train_dataset=..., tools=[...],
        reward_funcs=[calls_are_right, reply_is_good],
        reward_segments=["tool", "summary"],   # which tokens hear of which reward
        estimator="slca",                      # any name in slca.credit.METHODS
    )

What is added to the stock trainer, and nothing else: after TRL has generated, scored and padded a batch, its ``advantages`` (B,)
are replaced by the (B, T) array of ``slca.credit.spread``, which TRL's clipped loss multiplies in their place. A completion's
tokens get their segment from what was sampled (``slca.chat``): a run of sampled tokens between tool results is one turn. Sampled
tokens are TRL's loss mask; a masked completion keeps its tokens in the loss's denominator with advantage 0.

A rollout function may know more than token ids tell, and return it as further columns: ``labels`` and ``call_of`` (per token),
``opened_call``; ``needs_call``, which the omission guard wants, may be a column of the dataset.

Groups are TRL's: completions of one prompt stand together in the batch that is gathered from all processes, so a group may span
processes; each process keeps its own rows of the result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import torch
from accelerate.utils import gather_object
from trl import GRPOConfig, GRPOTrainer

from slca.chat import format_of
from slca.chat.segments import relabel_last_run
from slca.credit import METHODS, Groups, Member, Settings, groups_of, signal, spread
from slca.errors import ParamsError
from slca.records import Segment
from slca.training.padding import ragged_logprobs
from slca.training.sharing import refuse_unshareable, shared_logprobs

PER_TOKEN_LOSSES = ("grpo", "dapo", "bnpo", "dr_grpo", "cispo")
"""TRL's loss types that multiply each token's ratio with its own advantage."""

RewardSegment = Literal["tool", "summary"]


@dataclass(frozen=True)
class CreditedBatch:
    """One generation batch. rows: what TRL knows of each completion of this process (its dataset columns and the columns of the
    rollout function). labels, advantages: per completion (T_i,). groups: the rows of all processes."""

    rows: tuple[dict[str, Any], ...]
    labels: tuple[tuple[int, ...], ...]
    advantages: tuple[tuple[float, ...], ...]
    groups: Groups


class SegmentLockedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose credit comes from ``estimator`` (a name in ``slca.credit.METHODS``).

    reward_segments: for each reward function, ``tool`` or ``summary``; the rewards of a segment are weighted by TRL's
    ``reward_weights`` and summed up; without any function a segment's reward is 0. A completion for which all functions of a
    segment give None is masked. credit: lambdas, presence, omission guard. segments, mixed_turns: how turns are labelled
    (``slca.chat.segments``); chat_format: a name in ``slca.chat.FORMATS`` where it cannot be told from the tokenizer. on_batch is
    shown every credited batch. skip_padding: compute log-probs without padding (``slca.training.padding``), for ragged batches.
    share_prompts: compute them with each group's prompt once (``slca.training.sharing``), which leaves out padding too; where
    gradients are accumulated, groups then stay together.

    Raises ParamsError for names that are not known and for loss settings that assume one advantage per completion.
    """

    _buffered_inputs: Any  # TRL's: the passes that a generation is shared out to

    def __init__(
        self,
        *args: Any,
        reward_segments: Sequence[RewardSegment],
        estimator: str = "slca",
        credit: Settings | None = None,
        segments: Literal["structural", "last_run"] = "structural",
        mixed_turns: Literal["tool", "split"] = "tool",
        chat_format: str = "",
        on_batch: Callable[[CreditedBatch], None] | None = None,
        skip_padding: bool = False,
        share_prompts: bool = False,
        **kwargs: Any,
    ) -> None:
        if estimator not in METHODS:
            raise ParamsError(f"estimator {estimator!r} is not known; the estimators are {', '.join(METHODS)}.")
        wrong = [name for name in reward_segments if name not in ("tool", "summary")]
        if wrong:
            raise ParamsError(f"reward_segments holds {wrong[0]!r}; each is 'tool' or 'summary'.")
        self.reward_segments = tuple(reward_segments)
        self.estimator = estimator
        self.credit = credit or Settings()
        self.segments = segments
        self.mixed_turns = mixed_turns
        self.on_batch = on_batch
        self.skip_padding = skip_padding
        self.share_prompts = share_prompts
        super().__init__(*args, **kwargs)
        refuse_unsupported(self.args, skip_padding or share_prompts)
        if share_prompts:
            refuse_unshareable(self.accelerator.unwrap_model(self.model))
        if len(self.reward_segments) != len(self.reward_funcs):
            raise ParamsError(
                f"reward_segments has {len(self.reward_segments)} entries for {len(self.reward_funcs)} reward functions "
                f"({', '.join(self.reward_func_names)}); give one for each."
            )
        self._chat = format_of(self._tokenizer, chat_format) if segments == "structural" else None

    def members(self, rows: Sequence[dict[str, Any]], labels: Sequence[Sequence[int]], rewards: torch.Tensor) -> list[Member]:
        """What credit knows of each completion of this process. rewards: (B, functions), NaN for None."""
        weights = self.reward_weights.to(rewards.device)
        found = []
        for row, own, values in zip(rows, labels, rewards * weights, strict=True):
            has_tool = Segment.TOOL in own
            found.append(
                Member(
                    tool=self._segment_reward("tool", values),
                    summary=self._segment_reward("summary", values),
                    has_tool=has_tool,
                    has_summary=Segment.SUMMARY in own,
                    needs_call=bool(row.get("needs_call", False)),
                    opened_call=bool(row.get("opened_call", has_tool)),
                    calls=row.get("member_calls"),
                )
            )
        return found

    def _segment_reward(self, segment: str, values: torch.Tensor) -> float | None:
        own = values[[index for index, name in enumerate(self.reward_segments) if name == segment]].double()
        if not len(own):
            return 0.0
        return None if bool(own.isnan().all()) else float(own.nansum())

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(*args, **kwargs)  # (B of all processes, functions)
        self._rewards = rewards
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mode = "train" if self.model.training else "eval"
        size = self.num_generations if mode == "train" else self.num_generations_eval
        first = self.accelerator.process_index * len(inputs)
        own = slice(first, first + len(inputs))
        tokens = _sampled(output)
        known = [self._provenance(row, *own) for row, own in zip(inputs, tokens, strict=True)]
        labels = [own for own, _ in known]
        members = self.members(inputs, labels, self._rewards[own])
        gathered = gather_object([(member, *own) for member, own in zip(members, known, strict=True)])
        groups = groups_of([member for member, *_ in gathered], [row // size for row in range(len(gathered))])
        names = [f"completion {row}" for row in range(len(gathered))]
        advantages = METHODS[self.estimator](groups, self.credit)
        per_token = spread(advantages, [row for _, row, _ in gathered], names, [row for *_, row in gathered])
        mine = torch.from_numpy(per_token[own])
        output["advantages"] = _fit(mine, output["completion_ids"])
        if self.share_prompts:
            output["row"] = torch.arange(len(inputs))
        for name, share in signal(groups, self.credit).items():
            self._metrics[mode][f"credit/{name}"].append(share)
        if self.on_batch and mode == "train":
            rows = tuple(tuple(mine[row, : len(tokens)].tolist()) for row, tokens in enumerate(labels))
            self.on_batch(CreditedBatch(tuple(inputs), tuple(labels), rows, groups))
        return output

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        if self.share_prompts and self._buffered_inputs is not before and self._buffered_inputs is not None:
            # TRL has shuffled the rows of a generation before it shared them out among the passes of a step.
            self._buffered_inputs = _groups_together(self._buffered_inputs)
            inputs = self._buffered_inputs[self._step % len(self._buffered_inputs)]
        return inputs

    def _provenance(self, row: dict[str, Any], ids: list[int], sampled: list[bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The segment and the call of each completion token, from the rollout function or from the tokens themselves.

        Calls are counted through all turns; -1 for none.
        """
        labels, call_of = [int(Segment.ENV)] * len(ids), [-1] * len(ids)
        made = 0
        if self._chat is None:
            labels = relabel_last_run([Segment.TOOL if own else Segment.ENV for own in sampled]).tolist()
        elif not {"labels", "call_of"} <= row.keys():
            for start, end in _turns(sampled):
                read = self._chat.read_turn(ids[start:end], self.mixed_turns)
                labels[start:end] = read.labels.tolist()
                call_of[start:end] = [number + made if number >= 0 else -1 for number in read.call_of.tolist()]
                made += len(read.calls)
        return tuple(row.get("labels", labels)), tuple(row.get("call_of", call_of))

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        plain = not any(value for name, value in options.items() if name not in ("batch_size", "compute_entropy"))
        if not ((self.skip_padding or self.share_prompts) and plain):
            computed = super()._get_per_token_logps_and_entropies(model, input_ids, attention_mask, logits_to_keep, **options)
            return computed  # type: ignore[no-any-return]
        entropy = bool(options.get("compute_entropy"))
        with self.accelerator.autocast():
            if self.share_prompts:
                return *shared_logprobs(model, input_ids, attention_mask, logits_to_keep, entropy), None
            rows = min(self.num_generations, self.args.per_device_train_batch_size)
            return *ragged_logprobs(model, input_ids, attention_mask, logits_to_keep, rows, entropy), None


def _sampled(output: dict[str, Any]) -> list[tuple[list[int], list[bool]]]:
    """Per completion, its token ids without padding, and which of them the policy sampled."""
    present = output["completion_mask"].bool()
    mask = output.get("tool_mask")
    sampled = present if mask is None else mask.bool()
    rows = zip(output["completion_ids"], present, sampled, strict=True)
    return [(ids[kept].tolist(), own[kept].tolist()) for ids, kept, own in rows]


def _turns(sampled: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of sampled tokens: the turns of a completion."""
    start = 0
    for own, run in groupby(sampled):
        end = start + sum(1 for _ in run)
        if own:
            yield start, end
        start = end


def _groups_together(passes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, shared out in the order in which they were generated: whole groups to a pass, as far as they fit."""
    order = torch.cat([part["row"] for part in passes]).argsort()
    size = len(order) // len(passes)

    def arranged(name: str) -> list[Any]:
        values = [part[name] for part in passes]
        if not isinstance(values[0], torch.Tensor) or not values[0].dim():
            return values
        joined = torch.cat(values)[order]
        return [joined[start : start + size] for start in range(0, len(order), size)]

    columns = {name: arranged(name) for name in passes[0]}
    return [{name: values[number] for name, values in columns.items()} for number in range(len(passes))]


def _fit(advantages: torch.Tensor, completion_ids: torch.Tensor) -> torch.Tensor:
    """Cut or pad (with 0) the advantages to TRL's padded width: other processes may hold longer completions, TRL may pad."""
    width = completion_ids.shape[1]
    fitted = advantages.new_zeros(len(advantages), width)
    shared = min(width, advantages.shape[1])
    fitted[:, :shared] = advantages[:, :shared]
    return fitted.to(completion_ids.device)


def refuse_unsupported(config: GRPOConfig, skip_padding: bool = False) -> None:
    """Raise ParamsError, with the reason, for settings under which TRL's loss is not a per-token product with advantages."""
    if config.loss_type not in PER_TOKEN_LOSSES:
        known = ", ".join(PER_TOKEN_LOSSES)
        raise ParamsError(f"loss_type {config.loss_type!r} assumes one advantage per completion; use one of: {known}.")
    if config.importance_sampling_level != "token":
        raise ParamsError("importance_sampling_level must be 'token': one ratio per sequence would mix the segments.")
    if config.use_liger_kernel:
        raise ParamsError("use_liger_kernel must be off: its fused loss takes one advantage per completion without a check.")
    if config.off_policy_mask_threshold is not None:
        raise ParamsError("off_policy_mask_threshold must be None: its mask assumes one advantage per completion.")
    if config.top_p != 1.0 or config.top_k not in (0, None):
        raise ParamsError("top_p 1 and top_k 0 are needed: other sampling biases the importance ratio.")
    if skip_padding and config.temperature != 1.0:
        raise ParamsError("temperature must be 1 with skip_padding: the log-probs it computes are those of the policy itself.")
    if config.mask_truncated_completions:
        raise ParamsError("mask_truncated_completions must be off: it would hide the tokens that are labelled and credited.")
