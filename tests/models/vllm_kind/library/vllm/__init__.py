"""A library with the part of vLLM's interface that requests with images use, as its
pages document it. It runs models with transformers, one request at a time."""

from types import SimpleNamespace

import torch
import transformers


class LLM:
    """``vllm.LLM``."""

    def __init__(self, model, **_):
        self.llm_engine = Engine(model)


class Engine:
    """The engine: a queue of requests, each answered in a step of its own."""

    def __init__(self, folder):
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.engine_core = SimpleNamespace(shutdown=lambda: None)
        self.renderer = SimpleNamespace()
        self.queue = []
        self.prompts = []
        self.most = 0
        self.vllm_config = SimpleNamespace(
            model_config=SimpleNamespace(
                runner_type="generate",
                max_model_len=256,
                get_vocab_size=lambda: len(self.processor.tokenizer),
                get_diff_sampling_param=dict,
                hf_config=self.model.config,
                architectures=["Fake"],
                dtype=torch.float32,
                quantization=None,
            ),
            device_config=SimpleNamespace(device_type="cpu"),
            cache_config=SimpleNamespace(block_size=16, num_gpu_blocks=64),
            parallel_config=SimpleNamespace(
                tensor_parallel_size=1, pipeline_parallel_size=1
            ),
            compute_hash=lambda: "0",
        )

    def add_request(self, request_id, prompt, params):
        """Add a request. Its prompt is a ``TextPrompt`` with images."""
        if prompt.keys() - {"mm_processor_kwargs"} != {"prompt", "multi_modal_data"}:
            raise ValueError("only prompts with images are answered")
        self.prompts.append(prompt)
        self.queue.append((request_id, self._inputs(prompt), params))
        self.most = max(self.most, len(self.queue))

    def _inputs(self, prompt):
        images = prompt["multi_modal_data"]["image"]
        return self.processor(
            text=[prompt["prompt"]], images=[images], return_tensors="pt"
        )

    def step(self):
        """Answer a request."""
        if not self.queue:
            return []
        name, inputs, params = self.queue.pop(0)
        n = inputs["input_ids"].shape[1]
        found = self.model.generate(
            **inputs, max_new_tokens=min(params.max_tokens, 256 - n), do_sample=False
        )
        tokens = found[0, n:].tolist()
        text = self.processor.tokenizer.decode(tokens)
        stopped = any(stop in text for stop in params.stop)
        completion = SimpleNamespace(
            finish_reason="stop" if stopped else "length",
            token_ids=tokens,
            logprobs=None,
        )
        return [
            SimpleNamespace(
                request_id=name,
                finished=True,
                prompt_token_ids=inputs["input_ids"][0].tolist(),
                num_cached_tokens=0,
                outputs=[completion],
            )
        ]

    def abort_request(self, names):
        """Forget requests."""
        self.queue = [one for one in self.queue if one[0] not in names]
