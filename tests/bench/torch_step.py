#!/usr/bin/env python3
"""The training step of `make bench`, in PyTorch: same model, batch, optimizer and threads, eager and compiled.

    torch_step.py [--preset tiny|shakespeare|small|gpt2] [--precision fp32|bf16] [--optimizer lion|adamw] [--threads N]
                  [--steps N] [--warmup N] [--batch B] [--seq T] [--modes eager,compile] [--seed S]

The presets are anneal's; gpt2 is a Llama of GPT-2's shape and size (124 M). Weights, gradients and moments are fp32; bf16 is
autocast, as PyTorch's documentation recommends for a CPU. Written the way PyTorch likes it: packed QKV and gate/up
projections, scaled_dot_product_attention, F.rms_norm, F.cross_entropy, an optimizer over foreach lists; `compile` compiles
both forward/backward and the optimizer. Trains on one batch of random tokens, as `anneal bench step` does, so that the losses
of both fall alike.

Prints one JSON object a line and mode: versions, step_ms (median), step_ms_min, step_ms_max, tokens_per_sec (from the
median), peak_rss_bytes (VmHWM of a process of its own) and base_rss_bytes (the same after importing torch, before any
model), first and last loss. A mode that cannot run gives {"mode", "skip": why}; without torch that is one line and exit
status 0.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

HS = 64
PRESETS = {  # V, C, L, NH, FF
    "tiny": (32000, 256, 4, 4, 512),
    "shakespeare": (2048, 256, 6, 4, 704),
    "small": (32000, 512, 8, 8, 1408),
    "gpt2": (50257, 768, 12, 12, 2048),
}
NORM_EPS, ROPE_BASE = 1e-5, 10000.0
LR, BETA1, BETA2, DECAY, MAX_NORM = 3e-4, 0.9, 0.99, 0.1, 1.0


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def make_model(torch, T, preset):
    V, C, L, NH, FF = PRESETS[preset]
    nn, F = torch.nn, torch.nn.functional
    angle = torch.arange(T)[:, None] * ROPE_BASE ** (-torch.arange(0, HS, 2) / HS)
    cos, sin = angle.cos()[None, None], angle.sin()[None, None]  # (1,1,T,HS/2)

    def rope(x):  # (B,NH,T,HS)
        x1, x2 = x.chunk(2, -1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = (nn.Parameter(torch.ones(C)) for _ in range(2))
            self.qkv, self.o = nn.Linear(C, 3 * NH * HS, bias=False), nn.Linear(NH * HS, C, bias=False)
            self.gate_up, self.down = nn.Linear(C, 2 * FF, bias=False), nn.Linear(FF, C, bias=False)

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (h.view(B, T, NH, HS).transpose(1, 2)
                       for h in self.qkv(F.rms_norm(x, (C,), self.norm1, NORM_EPS)).split(NH * HS, -1))  # fmt: skip
            mixed = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
            x = x + self.o(mixed.transpose(1, 2).reshape(B, T, NH * HS))
            gate, up = self.gate_up(F.rms_norm(x, (C,), self.norm2, NORM_EPS)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(V, C)
            self.blocks = nn.ModuleList(Block() for _ in range(L))
            self.norm = nn.Parameter(torch.ones(C))
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    last = name.endswith(("o.weight", "down.weight"))
                    nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * L) if last else 0.02)

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            logits = F.linear(F.rms_norm(x, (C,), self.norm, NORM_EPS), self.embed.weight)
            return F.cross_entropy(logits.view(-1, V), targets.view(-1))

    return Model()


def make_lion(torch, parameters):
    decayed = [p for p in parameters if p.dim() == 2]
    moments = [torch.zeros_like(p) for p in parameters]

    def step():
        grads = [p.grad for p in parameters]
        updates = torch._foreach_lerp(moments, grads, 1 - BETA1)
        updates = torch._foreach_sign(updates)
        torch._foreach_mul_(decayed, 1 - LR * DECAY)
        torch._foreach_add_(parameters, updates, alpha=-LR)
        torch._foreach_lerp_(moments, grads, 1 - BETA2)

    return torch.no_grad()(step)


def make_adamw(torch, parameters):
    groups = [
        {"params": [p for p in parameters if p.dim() == 2], "weight_decay": DECAY},
        {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, betas=(BETA1, 0.95), foreach=True).step


def run_mode(mode, a):
    try:
        import torch
    except ImportError as error:
        return {"mode": mode, "skip": f"no PyTorch in {sys.executable} ({error})"}
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    base = peak_rss_bytes()
    model = make_model(torch, a.seq, a.preset)
    parameters = list(model.parameters())
    make = make_lion if a.optimizer == "lion" else make_adamw
    update, forward = make(torch, parameters), model
    if mode == "compile":
        forward, update = torch.compile(model), torch.compile(update)
    text = torch.randint(0, PRESETS[a.preset][0], (a.batch, a.seq + 1))
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    times, losses = [], []
    for step in range(a.warmup + a.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=True)
        update()
        for p in parameters:
            p.grad = None
        losses.append(loss.item())
        if step >= a.warmup:
            times.append(1e3 * (time.perf_counter() - start))
    median = statistics.median(times)
    return {
        "mode": mode, "precision": a.precision, "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(), "threads": a.threads, "batch": a.batch, "seq": a.seq,
        "parameters": sum(p.numel() for p in parameters), "steps": a.steps,
        "step_ms": round(median, 2), "step_ms_min": round(min(times), 2), "step_ms_max": round(max(times), 2),
        "tokens_per_sec": round(a.batch * a.seq / median * 1e3, 1),
        "peak_rss_bytes": peak_rss_bytes(), "base_rss_bytes": base,
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--optimizer", choices=("lion", "adamw"), default="lion")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--one-mode", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one_mode:
        print(json.dumps(run_mode(a.one_mode, a)))
        return
    for mode in a.modes.split(","):
        child = subprocess.run([sys.executable, *sys.argv, "--one-mode", mode], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
        if child.returncode == 0:
            line = child.stdout.strip().splitlines()[-1]
        else:
            why = (child.stderr.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
            line = json.dumps({"mode": mode, "skip": why})
        print(line, flush=True)
        if "no PyTorch" in line:
            break


if __name__ == "__main__":
    main()
