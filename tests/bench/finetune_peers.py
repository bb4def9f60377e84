#!/usr/bin/env python3
"""Speed and peak memory of fine-tuning on a CPU: anneal, and transformers with peft and bitsandbytes, at the same settings.

    python3 tests/bench/finetune_peers.py ANNEAL FOLDER [-l SEQ_LEN] [-r ROUNDS] [KIND...]

Needs torch, transformers 5, peft, bitsandbytes, accelerate. FOLDER holds a config.json; if it has no weights, random ones are
written to it in BF16. Kinds:

    full       all parameters in fp32
    lora       rank 16 on all projections beside a base in fp32
    lora-bf16  the same beside a base in bf16; anneal computes in fp32, PyTorch's products of the base in bf16
    qlora      the same beside a base in NF4 with nested scales; computed in fp32, every layer's activations recomputed

Each trains one sequence of SEQ_LEN tokens (default 512) a step with AdamW, 4 steps, in turns, ROUNDS times (default 2). Prints
the tokens per second of the fastest step and the peak of the resident memory of each process, for Python also without what
importing the libraries takes.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

STEPS = 4
KINDS = ("full", "lora", "lora-bf16", "qlora")


def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def write_weights(folder):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)


def load_peft_model(kind, folder):
    import peft
    import torch
    import transformers

    options = {"dtype": torch.bfloat16 if kind in ("lora-bf16", "qlora") else torch.float32}
    if kind == "qlora":
        options["device_map"] = {"": "cpu"}
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    model.config.use_cache = False
    if kind == "full":
        return model
    if kind == "qlora":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    return peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=16, target_modules="all-linear"))


def train_peft(kind, folder, length):
    import bitsandbytes  # noqa: F401
    import peft  # noqa: F401
    import torch
    import transformers  # noqa: F401

    imported = peak()
    torch.manual_seed(1)
    model = load_peft_model(kind, folder)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    tokens = torch.randint(0, 256, (1, length))
    seconds = []
    for _ in range(STEPS):
        start = time.monotonic()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - start)
    print(json.dumps({"peak": peak(), "imported": imported, "seconds": min(seconds)}))


def train_anneal(kind, anneal, folder, length):
    lora = [] if kind == "full" else ["--lora.rank=16", "--lora.targets=all",
                                      "--lora.base=" + {"lora": "fp32", "lora-bf16": "bf16", "qlora": "nf4"}[kind]]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        text = os.path.join(scratch, "text.txt")
        with open(text, "w") as out:
            out.write("In the beginning was the Word. " * (length // 4))
        environment = dict(os.environ, ANNEAL_HOME=scratch, ANNEAL_LEDGER=scratch)
        subprocess.run(
            [anneal, "train", "--name", "peer", f"--model.from={folder}", f"--data.train={text}", "--data.tokenizer=bytes",
             "--data.val_fraction=0", "--train.batch_size=1", f"--train.seq_len={length}", f"--train.total_steps={STEPS}",
             "--train.precision=fp32", "--eval.every=0", "--sample.every=0", "--sample.early=false", "--profile.every=0",
             "--checkpoint.every=0", "--checkpoint.background=false", "--progress=none", *lora],
            env=environment, check=True)  # fmt: skip
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        rows = subprocess.run([anneal, "export", "latest", "--table", "steps", "-o", "-"], env=environment, check=True,
                              capture_output=True, text=True).stdout.splitlines()  # fmt: skip
    column = rows[0].split(",").index("step_ms")
    print(json.dumps({"peak": used, "imported": 0, "seconds": min(float(row.split(",")[column]) for row in rows[1:]) / 1e3}))


def measure(who, kind, anneal, folder, length):  # in a process of its own: the peak is that of its children
    lines = subprocess.run([sys.executable, __file__, "--one", who, "-l", str(length), anneal, folder, kind], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()  # fmt: skip
    return json.loads(lines[-1])


def compare(kind, anneal, folder, length, rounds):
    turns = [(measure("anneal", kind, anneal, folder, length), measure("peft", kind, anneal, folder, length)) for _ in range(rounds)]
    best = [{key: min(turn[who][key] for turn in turns) for key in turns[0][who]} for who in (0, 1)]
    ours, theirs = best
    needed = theirs["peak"] - theirs["imported"]
    for name, one in (("anneal", ours), ("transformers", theirs)):
        print(f"{kind:10} {name:13} {length / one['seconds']:8.1f} tokens/s {one['peak']:8.0f} MiB")
    print(f"{'':10} anneal: speed {theirs['seconds'] / ours['seconds']:.2f} x, memory {ours['peak'] / theirs['peak']:.2f} x, "
          f"{ours['peak'] / needed:.2f} x of the {needed:.0f} MiB without the imports", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anneal", type=os.path.abspath)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("-l", "--length", type=int, default=512)
    parser.add_argument("-r", "--rounds", type=int, default=2)
    parser.add_argument("--one", choices=("anneal", "peft", "weights"), help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    if args.one == "weights":
        return write_weights(args.folder)
    if args.one == "peft":
        return train_peft(args.kinds[0], args.folder, args.length)
    if args.one == "anneal":
        return train_anneal(args.kinds[0], args.anneal, args.folder, args.length)
    if not any(name.endswith(".safetensors") for name in os.listdir(args.folder)):
        subprocess.run([sys.executable, __file__, "--one", "weights", args.anneal, args.folder], check=True)  # memory of its own
    for kind in args.kinds or KINDS:
        compare(kind, args.anneal, args.folder, args.length, args.rounds)


if __name__ == "__main__":
    main()
