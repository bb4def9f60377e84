#!/usr/bin/env python3
"""The training step of gpu-check, in PyTorch: same sizes, batch and optimizer, eager or compiled.

    torch_step.py --sizes C,L,NH,F,V --batch B --seq T --mode eager|compile [--residual fp32|bf16] [--lr RATE]
                  [--data FOLDER] [--device cuda|cpu] [--steps N]

The common way to train in bf16: fp32 weights under torch.autocast(bfloat16), scaled_dot_product_attention, fused AdamW,
clip_grad_norm_; packed QKV and gate/up projections; TF32 allowed for what stays in fp32. `compile` compiles the
forward and backward pass with torch.compile's defaults. Autocast leaves the stream between the layers in fp32;
`--residual bf16` keeps it in bf16, as anneal does.

Without --data: random weights, one batch, ten untimed steps, then N. With --data, a folder that gpu_check wrote: the weights
and batches there, N steps in all; the losses go to losses.txt of that folder.

Prints one JSON object: step_ms (median, without the first ten), first_ms, tokens_per_sec, peak_bytes
(torch.cuda.max_memory_allocated from the first step on; 0 on a CPU), first and last loss. Where PyTorch, the device or its memory
is missing: {"mode", "skip": why}, exit status 0.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

NORM_EPS, ROPE_BASE = 1e-5, 10000.0
BETAS, EPS, DECAY, MAX_NORM = (0.9, 0.95), 1e-8, 0.1, 1.0
WARM_UP = 10


def make_model(torch, sizes, T, residual):
    nn, F = torch.nn, torch.nn.functional
    C, L, NH, FF, V = sizes
    HS = C // NH

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
            packed = self.qkv(F.rms_norm(x, (C,), self.norm1.to(x.dtype), NORM_EPS))
            q, k, v = (h.view(B, T, NH, HS).transpose(1, 2) for h in packed.split(NH * HS, -1))
            mixed = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
            x = x + self.o(mixed.transpose(1, 2).reshape(B, T, NH * HS)).to(x.dtype)
            gate, up = self.gate_up(F.rms_norm(x, (C,), self.norm2.to(x.dtype), NORM_EPS)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up).to(x.dtype)

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
            if residual == "bf16":
                x = x.bfloat16()
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            logits = F.linear(F.rms_norm(x, (C,), self.norm.to(x.dtype), NORM_EPS), self.embed.weight)
            return F.cross_entropy(logits.view(-1, V).float(), targets.view(-1))

    return Model()


def load_weights(torch, model, folder):
    """The weights of folder/weights.f32, by the names of folder/weights.txt, into the packed projections."""
    everything = torch.from_file(os.path.join(folder, "weights.f32"), size=os.path.getsize(os.path.join(folder, "weights.f32")) // 4)
    places = {}
    with open(os.path.join(folder, "weights.txt")) as lines:
        for name, offset, count in map(str.split, lines):
            places[name] = everything[int(offset) : int(offset) + int(count)]
    loaded = 0

    def put(parameter, *names):
        nonlocal loaded
        with torch.no_grad():
            parameter.copy_(torch.cat([places[name] for name in names]).view_as(parameter))
        loaded += len(names)

    put(model.embed.weight, "model.embed_tokens.weight")
    put(model.norm, "model.norm.weight")
    for i, block in enumerate(model.blocks):
        layer = f"model.layers.{i}."
        put(block.norm1, layer + "input_layernorm.weight")
        put(block.norm2, layer + "post_attention_layernorm.weight")
        put(block.qkv.weight, *(f"{layer}self_attn.{p}_proj.weight" for p in "qkv"))
        put(block.o.weight, layer + "self_attn.o_proj.weight")
        put(block.gate_up.weight, layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight")
        put(block.down.weight, layer + "mlp.down_proj.weight")
    if loaded != len(places):
        raise SystemExit(f"{len(places) - loaded} parameters of {folder} have no place in the model")


def batches(torch, a, V):
    """(inputs, targets) of each step."""
    if a.data:
        path = os.path.join(a.data, "batches.i32")
        shape = (a.steps, 2, a.batch, a.seq)
        stored = torch.from_file(path, size=math.prod(shape), dtype=torch.int32).view(shape)
        for step in stored:
            yield step[0].to(a.device, torch.long), step[1].to(a.device, torch.long)
    else:
        tokens = torch.randint(0, V, (a.batch, a.seq), device=a.device)
        for _ in range(WARM_UP + a.steps):
            yield tokens, (tokens * 7 + 3) % V


def run(torch, a):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")  # TF32
    sizes = [int(size) for size in a.sizes.split(",")]
    model = make_model(torch, sizes, a.seq, a.residual)
    if a.data:
        load_weights(torch, model, a.data)
    model = model.to(a.device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=a.lr, betas=BETAS, eps=EPS, fused=True)
    forward = torch.compile(model) if a.mode == "compile" else model

    def wait():
        if a.device == "cuda":
            torch.cuda.synchronize()

    times, losses = [], []
    for tokens, targets in batches(torch, a, sizes[4]):
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
    if a.data:
        with open(os.path.join(a.data, "losses.txt"), "w") as out:
            out.writelines(f"{loss:.6f}\n" for loss in losses)
    median = statistics.median(times[WARM_UP:] or times)
    return {
        "mode": a.mode, "sizes": a.sizes, "torch": torch.__version__, "batch": a.batch, "seq": a.seq,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_ms": round(median, 4), "first_ms": round(times[0], 1), "tokens_per_sec": round(a.batch * a.seq / median * 1e3, 1),
        "peak_bytes": torch.cuda.max_memory_allocated() if a.device == "cuda" else 0,
        "first_loss": round(losses[0], 4), "last_loss": round(losses[-1], 4),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--sizes", default="256,4,4,512,32000")
    parser.add_argument("--residual", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--data")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    a = parser.parse_args()

    def skip(why):
        print(json.dumps({"mode": a.mode, "skip": why}))

    try:
        import torch
    except ImportError:
        return skip(f"no PyTorch in {sys.executable}")
    if a.device == "cuda" and not torch.cuda.is_available():
        return skip(f"PyTorch {torch.__version__} sees no GPU")
    try:
        print(json.dumps(run(torch, a)))
    except torch.cuda.OutOfMemoryError:
        skip(f"PyTorch {torch.__version__} runs out of this GPU's memory")


if __name__ == "__main__":
    main()
