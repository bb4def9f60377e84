#!/usr/bin/env python3
"""The training step of gpu-check, in PyTorch: same preset, batch, optimizer and targets, eager or compiled.

    torch_step.py --mode eager|compile --preset tiny|small|medium --batch B --seq T [--device cuda|cpu] [--steps N]

The common way to train in bf16: fp32 weights under torch.autocast(bfloat16), scaled_dot_product_attention, fused AdamW,
clip_grad_norm_; packed QKV and gate/up projections; TF32 allowed for what stays in fp32. `compile` compiles the
forward and backward pass with torch.compile's defaults.

Prints one JSON object: step_ms (median), first_ms, tokens_per_sec, peak_bytes (torch.cuda.max_memory_allocated from the
first step on; 0 on a CPU), first and last loss. Where PyTorch or the device is missing: {"mode", "skip": why}, exit
status 0.
"""

import argparse
import json
import math
import statistics
import sys
import time

# hidden, layers, heads, feed-forward; as in core/model/model.c, with tied embeddings
PRESETS = {"tiny": (256, 4, 4, 512), "small": (512, 8, 8, 1408), "medium": (1024, 16, 16, 2816)}
V, HS, NORM_EPS, ROPE_BASE = 32000, 64, 1e-5, 10000.0
LR, BETAS, EPS, DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
WARM_UP = 10


def make_model(torch, preset, T):
    nn, F = torch.nn, torch.nn.functional
    C, L, NH, FF = PRESETS[preset]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = (nn.Parameter(torch.ones(C)) for _ in range(2))
            self.qkv, self.o = nn.Linear(C, 3 * NH * HS, bias=False), nn.Linear(NH * HS, C, bias=False)
            self.gate_up, self.down = nn.Linear(C, 2 * FF, bias=False), nn.Linear(FF, C, bias=False)

        def forward(self, x, cos, sin):
            def rope(heads):  # (B,NH,T,HS)
                x1, x2 = heads.chunk(2, -1)
                return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), -1).to(heads.dtype)

            B, T, _ = x.shape
            packed = self.qkv(F.rms_norm(x, (C,), self.norm1, NORM_EPS))
            q, k, v = (h.view(B, T, NH, HS).transpose(1, 2) for h in packed.split(NH * HS, -1))
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
            angle = torch.arange(T)[:, None] * ROPE_BASE ** (-torch.arange(0, HS, 2) / HS)
            self.register_buffer("cos", angle.cos()[None, None], persistent=False)  # (1,1,T,HS/2)
            self.register_buffer("sin", angle.sin()[None, None], persistent=False)
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    last = name.endswith(("o.weight", "down.weight"))
                    nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * L) if last else 0.02)

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            logits = F.linear(F.rms_norm(x, (C,), self.norm, NORM_EPS), self.embed.weight)
            return F.cross_entropy(logits.view(-1, V).float(), targets.view(-1))

    return Model()


def run(torch, a):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")  # TF32
    model = make_model(torch, a.preset, a.seq).to(a.device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, fused=True)
    forward = torch.compile(model) if a.mode == "compile" else model
    tokens = torch.randint(0, V, (a.batch, a.seq), device=a.device)
    targets = (tokens * 7 + 3) % V

    def wait():
        if a.device == "cuda":
            torch.cuda.synchronize()

    times, losses = [], []
    for _ in range(WARM_UP + a.steps):
        wait()
        start = time.perf_counter()
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    median = statistics.median(times[WARM_UP:])
    return {
        "mode": a.mode, "preset": a.preset, "torch": torch.__version__, "batch": a.batch, "seq": a.seq,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_ms": round(median, 4), "first_ms": round(times[0], 1), "tokens_per_sec": round(a.batch * a.seq / median * 1e3, 1),
        "peak_bytes": torch.cuda.max_memory_allocated() if a.device == "cuda" else 0,
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    a = parser.parse_args()
    try:
        import torch
    except ImportError:
        print(json.dumps({"mode": a.mode, "skip": f"no PyTorch in {sys.executable}"}))
        return
    if a.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"mode": a.mode, "skip": f"PyTorch {torch.__version__} sees no GPU"}))
        return
    print(json.dumps(run(torch, a)))


if __name__ == "__main__":
    main()
