"""``python benchmarks/overhead_programs.py NAME``: trainings and inference that time themselves.

They contain nothing of a profiler. Each prints the median of its steps and writes the times of all
of them to the file in ``STEP_TIMES``. Seeds are fixed and cuDNN does not search for algorithms, so
that two runs launch the same kernels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Clock:
    """Times steps by CUDA events at their ends, without waiting for the GPU, and by CPU time."""

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._ends_ns: list[int] = []
        self._thread_ns: list[int] = []  # CPU time of the main thread, which launches the work.
        self._process_ns: list[int] = []  # That of all threads.

    def tick(self, *_: object) -> None:
        """End a step."""
        event: Any = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)
        self._ends_ns.append(time.time_ns())
        self._thread_ns.append(time.thread_time_ns())
        self._process_ns.append(time.process_time_ns())

    def report(self, warm_up: int) -> None:
        """Print and write the times; the first steps do not count for the median."""
        torch.cuda.synchronize()
        times_ms = [a.elapsed_time(b) for a, b in itertools.pairwise(self._events)]
        counted = times_ms[warm_up:]
        print(f"step: median {statistics.median(counted):.3f} ms ({len(counted)} steps)")
        path = os.environ.get("STEP_TIMES")
        if path and os.environ.get("RANK", "0") == "0":
            found: dict[str, Any] = {"warm_up": warm_up, "times_ms": times_ms}
            found["ends_ns"] = self._ends_ns[1:]
            for name, times_ns in (("thread", self._thread_ns), ("process", self._process_ns)):
                found[f"{name}_ms"] = [(b - a) / 1e6 for a, b in itertools.pairwise(times_ns)]
            found["end_s"] = time.time()  # What follows is the end of the program.
            Path(path).write_text(json.dumps(found))


class Images(torch.utils.data.Dataset[Any]):
    """Images of one color, and labels."""

    def __init__(self, count: int, size: int = 224) -> None:
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, self.size, self.size), index / self.count), index % 1000


def resnet(steps: int, *, amp: bool) -> None:
    """Train torchvision's ResNet-50 in a loop over a data loader; without AMP the GPU limits it."""
    import torchvision

    batch = 32 if amp else 96
    model = torchvision.models.resnet50(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    loader = torch.utils.data.DataLoader(
        Images(batch * steps), batch_size=batch, num_workers=6, pin_memory=True
    )
    clock = Clock()
    for images, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            output = model(images.cuda(non_blocking=True))
            loss = functional.cross_entropy(output, labels.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        clock.tick()
    clock.report(8)


class Tokens(torch.utils.data.Dataset[Any]):
    """Sequences of tokens, as labels too."""

    def __init__(self, count: int, length: int, vocabulary: int) -> None:
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(self.length) * (index + 1)) % self.vocabulary
        return {"input_ids": tokens, "labels": tokens}


def bert(steps: int) -> None:
    """Train BERT in bfloat16 in a loop over a data loader; the GPU limits it."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Tokens(32 * steps, 512, 30000), batch_size=32)
    clock = Clock()
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**{name: value.cuda() for name, value in batch.items()}).loss
        loss.backward()
        optimizer.step()
        clock.tick()
    clock.report(8)


class Block(nn.Module):
    """A transformer block whose second half is given."""

    def __init__(self, width: int, heads: int, mixer: nn.Module) -> None:
        super().__init__()
        self.heads, self.mixer = heads, mixer
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        shape = (size, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(size, length, width))
        return x + self.mixer(self.ln_2(x))


class Experts(nn.Module):
    """A mixture of experts that runs each expert in turn: many small kernels."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(_mlp(width, 2) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.gate(x).softmax(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            result = result + weight[..., number : number + 1] * expert(x)
        return result


def _mlp(width: int, factor: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, factor * width), nn.GELU(), nn.Linear(factor * width, width)
    )


class GPT(nn.Module):
    """A GPT-2-like model."""

    def __init__(self, width: int, layers: int, mixer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.h = nn.ModuleList(Block(width, width // 64, mixer()) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, 50257, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), tokens.reshape(-1))


def gpt(steps: int, kind: str) -> None:
    """Train a GPT: eager, compiled, of experts, or on the ranks of torchrun; an open-ended loop."""
    experts = kind == "moe"
    device = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high")
    width, layers = (512, 6) if experts else (768, 12)
    mixer = (lambda: Experts(width, 12)) if experts else (lambda: _mlp(width, 4))
    model: Any = GPT(width, layers, mixer).cuda()
    is_ddp = kind == "ddp"
    if is_ddp:
        torch.distributed.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    if kind == "gpt_compiled":
        model = torch.compile(model)
    clock = Clock()
    batch, length = (16, 1024) if kind == "gpt_compiled" else (4, 256)
    for tokens in itertools.islice(_batches(batch, length), steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        clock.tick()
    clock.report(8)
    if is_ddp:
        torch.distributed.destroy_process_group()


def _batches(batch: int, length: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(int(os.environ.get("RANK", "0")))
    while True:
        yield torch.randint(0, 50257, (batch, length), generator=generator).pin_memory()


def _llama(hidden: int, layers: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 128,
        max_position_embeddings=2048,
    )
    with torch.device("cuda"):
        return LlamaForCausalLM(config)


def trainer(steps: int) -> None:
    """Train a Llama with the Hugging Face Trainer, which accumulates gradients."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    clock = Clock()

    class Ticks(TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            clock.tick()

    batch, accumulate = 4, 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulate,
            bf16=True,
            optim="adamw_torch_fused",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Tokens(batch * accumulate * (steps + 2), 512, 32000)
        Trainer(
            model=_llama(768, 8), args=arguments, callbacks=[Ticks()], train_dataset=data
        ).train()
    clock.report(8)


def generate(steps: int) -> None:
    """Generate tokens greedily with a Llama in bfloat16 and a static cache; a step is a token."""
    new = 64
    model = _llama(1024, 12).to(torch.bfloat16).eval()
    clock = Clock()
    model.register_forward_pre_hook(clock.tick)
    for _ in range(max(steps // new, 2)):
        prompt = torch.randint(10, 32000, (8, 256), device="cuda")
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=0,
            cache_implementation="static",
            disable_compile=True,
        )
    clock.report(8)


class Small:
    """A ResNet-18 on small images: many short kernels, so that the CPU limits it."""

    batch = 16

    def __init__(self) -> None:
        import torchvision

        self.model = torchvision.models.resnet18(weights=None).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.clock = Clock()

    def loader(self, batches: int) -> Any:
        images = Images(self.batch * batches, 64)
        return torch.utils.data.DataLoader(images, batch_size=self.batch)

    def train(self, loader: Any) -> None:
        self.model.train()
        for images, labels in loader:
            self.optimizer.zero_grad()
            functional.cross_entropy(self.model(images.cuda()), labels.cuda()).backward()
            self.optimizer.step()
            self.clock.tick()

    def evaluate(self, loader: Any) -> None:
        self.model.eval()
        with torch.no_grad():
            for images, _ in loader:
                self.model(images.cuda())


def sanity_check(steps: int) -> None:
    """Look at two batches of the validation first, as Lightning does, then train."""
    small = Small()
    small.evaluate(small.loader(2))
    small.train(small.loader(steps))
    small.clock.report(8)


def short_epochs(steps: int, batches: int = 12) -> None:
    """Train in epochs of few batches, each with an evaluation after it."""
    small = Small()
    train, test = small.loader(batches), small.loader(6)
    for _ in range(steps // batches):
        small.train(train)
        small.evaluate(test)
    small.clock.report(8)


def uneven_loaders(steps: int) -> None:
    """Train with batches of a long loader and of a short one, which begins again and again."""
    small = Small()
    short = itertools.chain.from_iterable(small.loader(7) for _ in itertools.count())
    pairs = zip(small.loader(steps), short, strict=False)
    small.train((torch.cat([a, b]), torch.cat([c, d])) for (a, c), (b, d) in pairs)
    small.clock.report(8)


def reduce_overhead(steps: int) -> None:
    """Train a GPT that is compiled to CUDA graphs."""
    torch.set_float32_matmul_precision("high")
    model = torch.compile(GPT(512, 6, lambda: _mlp(512, 4)).cuda(), mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    clock = Clock()
    for tokens in itertools.islice(_batches(4, 256), steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()
    clock.report(40)


def lightning(steps: int) -> None:
    """Train with Lightning, which checks the validation first and evaluates after each epoch."""
    try:
        import lightning.pytorch as framework
    except ImportError:
        import pytorch_lightning as framework

    small = Small()

    class Module(framework.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = small.model

        def training_step(self, batch: Any, _: int) -> Any:
            return functional.cross_entropy(self.model(batch[0]), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.model(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_batch_end(self, *_: object) -> None:
            small.clock.tick()

    epochs = 4
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer_ = framework.Trainer(max_epochs=epochs, accelerator="gpu", devices=1, **quiet)
    trainer_.fit(Module(), small.loader(steps // epochs), small.loader(8))
    small.clock.report(8)


class Adapted(nn.Module):
    """A linear layer that does not learn, and a product of two narrow ones that does."""

    def __init__(self, layer: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(requires_grad=False)
        self.down = nn.Linear(layer.in_features, rank, bias=False, device="cuda")
        self.up = nn.Linear(rank, layer.out_features, bias=False, device="cuda")
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x) + self.up(self.down(x))


def _lengths(steps: int, shortest: int, longest: int) -> Iterator[int]:
    """Yield the lengths of batches that are padded to a multiple of 32."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield 32 * int(torch.randint(shortest // 32, longest // 32 + 1, (1,), generator=generator))


def lora(steps: int) -> None:
    """Train low-rank adapters of a Llama with batches of changing lengths."""
    model = _llama(768, 8).requires_grad_(requires_grad=False)
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, Adapted(getattr(layer.self_attn, name)))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-4)
    clock = Clock()
    for length in _lengths(steps, 64, 512):
        tokens = torch.randint(0, 32000, (8, length), device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        clock.tick()
    clock.report(8)


class Recurrent(nn.Module):
    """A language model of LSTM layers."""

    def __init__(self, words: int = 10000, width: int = 512) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.head(self.lstm(self.embedding(tokens))[0])


def lstm(steps: int) -> None:
    """Train an LSTM with batches of changing lengths."""
    model = Recurrent().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    clock = Clock()
    for length in _lengths(steps, 32, 160):
        tokens = torch.randint(0, 10000, (32, length + 1), device="cuda")
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        clock.tick()
    clock.report(8)


PROGRAMS: dict[str, Callable[[int], None]] = {
    "resnet50_amp": lambda steps: resnet(steps, amp=True),
    "resnet50_fp32": lambda steps: resnet(steps, amp=False),
    "bert": bert,
    "gpt_eager": lambda steps: gpt(steps, "gpt_eager"),
    "gpt_compiled": lambda steps: gpt(steps, "gpt_compiled"),
    "moe": lambda steps: gpt(steps, "moe"),
    "ddp": lambda steps: gpt(steps, "ddp"),
    "trainer": trainer,
    "generate": generate,
    "sanity_check": sanity_check,
    "short_epochs": short_epochs,
    "uneven_loaders": uneven_loaders,
    "reduce_overhead": reduce_overhead,
    "lightning": lightning,
    "lora": lora,
    "lstm": lstm,
}


def main() -> None:
    """Run a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    PROGRAMS[arguments.name](arguments.steps)


if __name__ == "__main__":
    main()
