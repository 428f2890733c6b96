"""Create the bundled model and the data files of the example suites.

    python example_suites/train_tiny.py               # both, minutes on two CPU cores
    python example_suites/train_tiny.py --data-only   # only the data files

The model is a Llama of about 0.7 million parameters with a byte-level BPE tokenizer of
512 tokens, trained on texts of ``toyworld.py``. It needs torch, transformers and
tokenizers. Data files are the same on every machine; weights are the same only on the
same machine with the same versions, so the thresholds of the suites have a margin.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import toyworld

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["main"]

HERE = Path(__file__).parent
END = "<|end|>"
PAD = "<|pad|>"
VOCABULARY = 512
LENGTH = 256
"""Tokens of a training row, and the model's maximum length."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ ' ' + message['content'] + '\n\n' }}"
    "{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}"
    "{% else %}{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ ' ' }}{% endif %}"
)
"""A chat is rendered as the plain text of questions and answers that the model knows;
it was never trained on roles."""


def write_data(folder: Path) -> None:
    """Write all data files of the suites into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in toyworld.data_files().items():
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def train_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer that splits digits and adds no special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(islice(toyworld.pages(Random(seed)), 5000), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        model_max_length=LENGTH,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def new_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The untrained network."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=224,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def batches(
    tokenizer: PreTrainedTokenizerFast, seed: int, n_rows: int
) -> Iterator[torch.Tensor]:
    """Generate batches endlessly, (n_rows, LENGTH) int64: pages separated by an end
    token. Every row starts at the beginning of a page, as a prompt does."""
    import torch

    pages = toyworld.pages(Random(seed))
    while True:
        rows = []
        for _ in range(n_rows):
            row: list[int] = []
            while len(row) < LENGTH:
                row += [*tokenizer.encode(next(pages)), tokenizer.eos_token_id]
            rows.append(row[:LENGTH])
        yield torch.tensor(rows)


def train(
    model: LlamaForCausalLM, source: Iterator[torch.Tensor], n_steps: int
) -> None:
    """Train in place: AdamW, short warm-up, then linear decay to zero."""
    import torch

    peak, n_warm = 3e-3, 100
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / n_warm, (n_steps - i) / (n_steps - n_warm))
    )
    started = time.monotonic()
    model.train()
    for step, rows in enumerate(islice(source, n_steps)):
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            elapsed = time.monotonic() - started
            print(f"step {step:5d}  loss {loss.item():.3f}  {elapsed:5.0f} s")


def save(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Write weights, configuration and tokenizer."""
    model.eval()
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"  # transformers 4 has it too
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Parse the options and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-only", action="store_true", help="train no model")
    parser.add_argument("--data", type=Path, default=HERE / "lm_eval" / "data")
    parser.add_argument("--out", type=Path, default=HERE / "tiny")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--rows", type=int, default=16, help="rows of a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    write_data(options.data)
    if options.data_only:
        return
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer = train_tokenizer(options.seed)
    model = new_model(tokenizer)
    train(model, batches(tokenizer, options.seed + 1, options.rows), options.steps)
    save(model, tokenizer, options.out)


if __name__ == "__main__":
    main()
