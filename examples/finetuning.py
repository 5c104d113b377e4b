# SPDX-License-Identifier: Apache-2.0
"""Train a small Llama on one text, and adapt it to another with LoRA.

The code is what a user of Hugging Face's libraries would write: transformers provides the model and
the Trainer, peft provides LoRA, and accelerate chooses the device. None of the code mentions `tpu`.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import math
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from importlib.resources.abc import Traversable

import peft
import torch
import transformers
from torch.utils.data import Dataset

_LENGTH = 128  # tokens per example
_BYTES = 256  # a token is a byte
_EXAMPLES = 2  # the minimum number of examples, for training and for evaluation
_HELD_OUT = 0.2  # the part at the end of a text on which no model is trained
_BATCH = 8

Progress = Callable[[str, int, int], None]


class FinetuningError(Exception):
    """Raised if a text or the output directory is unusable. The message is one line."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Training options.

    `base_steps` is the number of steps that train the whole model. `steps` is the number of later
    steps, which train only the adapter.
    """

    base_steps: int
    steps: int
    device: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The adapted model, and its losses in nats per byte.

    The losses are measured on the held-out end of the second text: `base_loss` without the adapter,
    `loss` with the adapter. The model has `parameters` parameters in total, of which `trained`
    belong to the adapter. `tokens_per_second` is the throughput while the adapter is trained.
    """

    model: peft.PeftModel
    base_loss: float
    loss: float
    trained: int
    parameters: int
    tokens_per_second: float
    device: torch.device


class Text(Dataset[dict[str, torch.Tensor]]):
    """A text, split into examples of 128 bytes.

    In each example, `input_ids` and `labels` are the same int64 tensor of shape [128].
    """

    def __init__(self, data: bytes) -> None:
        count = len(data) // _LENGTH
        tokens = torch.frombuffer(bytearray(data[: count * _LENGTH]), dtype=torch.uint8)
        self._tokens = tokens.long().view(count, _LENGTH)

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._tokens[index], "labels": self._tokens[index]}


def packed(name: str) -> Traversable:
    """Return a text that is packed into the program: `guide.txt` or `licence.txt`."""
    return importlib.resources.files("examples") / "data" / name


def read(source: Traversable | pathlib.Path) -> tuple[Text, Text]:
    """Read a text, and split it into one text for training and one for evaluation.

    Raises FinetuningError if the file is unreadable or too short.
    """
    try:
        data = source.read_bytes()
    except OSError as error:
        raise FinetuningError(f"{source}: {error.strerror}. Give a readable file.") from error
    count = len(data) // _LENGTH
    held_out = max(_EXAMPLES, math.ceil(count * _HELD_OUT))
    if count - held_out < _EXAMPLES:
        raise FinetuningError(
            f"{source}: found {len(data)} bytes, expected at least {2 * _EXAMPLES * _LENGTH}. "
            "Give a longer text."
        )
    border = (count - held_out) * _LENGTH
    return Text(data[:border]), Text(data[border:])


def finetune(
    first: tuple[Text, Text], second: tuple[Text, Text], options: Options, progress: Progress
) -> Result:
    """Train a model on the first text, then an adapter on the second.

    `progress` is called after each step with the phase, the step and the number of steps. Raises
    FinetuningError if accelerate does not choose `options.device`.
    """
    transformers.set_seed(options.seed)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=_BYTES,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=_LENGTH,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
    )
    base = _trainer(model, first, options, options.base_steps, 3e-3, progress, "model")
    base.train()
    base_loss = _loss(base, second[1])

    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    adapter = peft.get_peft_model(model, config)
    trained, parameters = adapter.get_nb_trainable_parameters()
    trainer = _trainer(adapter, second, options, options.steps, 1e-2, progress, "adapter")
    start = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - start
    return Result(
        adapter,
        base_loss,
        _loss(trainer, second[1]),
        trained,
        parameters,
        options.steps * _BATCH * _LENGTH / seconds,
        trainer.args.device,
    )


def loss_of(result: Result, adapter: pathlib.Path, text: Text, options: Options) -> float:
    """Return the loss of `result`'s base model on `text`, with the adapter saved in `adapter`."""
    model = peft.PeftModel.from_pretrained(result.model.unload(), os.fspath(adapter))
    return _loss(_trainer(model, (text, text), options, 0, 0.0, lambda *_: None, ""), text)


def _trainer(
    model: torch.nn.Module,
    text: tuple[Text, Text],
    options: Options,
    steps: int,
    learning_rate: float,
    progress: Progress,
    phase: str,
) -> transformers.Trainer:
    arguments = transformers.TrainingArguments(
        # The Trainer writes nothing to this directory, because checkpoints and reports are off.
        output_dir=tempfile.gettempdir(),
        max_steps=max(steps, 1),
        learning_rate=learning_rate,
        per_device_train_batch_size=_BATCH,
        per_device_eval_batch_size=_BATCH,
        lr_scheduler_type="cosine",
        warmup_steps=max(steps // 10, 1),
        seed=options.seed,
        # Without this option, accelerate uses torch's accelerator if there is one.
        use_cpu=options.device == "cpu",
        dataloader_pin_memory=False,
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
    )
    if arguments.device.type != options.device:
        raise FinetuningError(
            f"--device={options.device}: accelerate chose {arguments.device}. "
            "Unset TORCH_DEVICE_BACKEND_AUTOLOAD and ACCELERATE_USE_CPU."
        )
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=text[0],
        callbacks=[_Steps(progress, phase)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _loss(trainer: transformers.Trainer, text: Text) -> float:
    loss: float = trainer.evaluate(text)["eval_loss"]
    return loss


class _Steps(transformers.TrainerCallback):
    """A callback that reports each step of a Trainer."""

    def __init__(self, progress: Progress, phase: str) -> None:
        self._progress, self._phase = progress, phase

    def on_step_end(
        self, args: object, state: transformers.TrainerState, *_: object, **__: object
    ) -> None:
        self._progress(self._phase, state.global_step, state.max_steps)
