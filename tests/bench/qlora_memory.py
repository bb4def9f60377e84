#!/usr/bin/env python3
"""Peak memory and speed of training adapters beside a model in NF4, on a CPU: anneal, and transformers with peft and
bitsandbytes, at the same settings.

    python3 tests/bench/qlora_memory.py ANNEAL FOLDER [SEQ_LEN]     needs torch, transformers 5, peft, bitsandbytes, accelerate

FOLDER holds a config.json; if it has no weights, random ones are written to it in BF16. Both train rank 16 on all
projections, one sequence of SEQ_LEN tokens (default 512) a step, AdamW, nested scales, fp32 activations that every layer
recomputes, embedding and head in BF16, and take 3 steps. Prints the peak of each process (its resident memory), for Python
also without what importing the libraries takes, and the time of the fastest step.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time


def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def write_weights(folder):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)


def train_peft(folder, length):
    import bitsandbytes  # noqa: F401
    import peft
    import torch
    import transformers

    imported = peak()
    torch.manual_seed(1)
    quantised = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, quantization_config=quantised, device_map={"": "cpu"})
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=16, target_modules="all-linear"))
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    tokens = torch.randint(0, 256, (1, length))
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - start)
    print(json.dumps({"peak": peak(), "imported": imported, "seconds": min(seconds)}))


def train_anneal(anneal, folder, length):
    with tempfile.TemporaryDirectory() as scratch:
        text = os.path.join(scratch, "text.txt")
        with open(text, "w") as out:
            out.write("In the beginning was the Word. " * (length // 4))
        environment = dict(os.environ, ANNEAL_HOME=scratch, ANNEAL_LEDGER=scratch)
        subprocess.run(
            [anneal, "train", "--name", "qlora", f"--model.from={folder}", f"--data.train={text}", "--data.tokenizer=bytes",
             "--data.val_fraction=0", "--lora.rank=16", "--lora.targets=all", "--lora.base=nf4", "--train.batch_size=1",
             f"--train.seq_len={length}", "--train.total_steps=3", "--train.precision=fp32", "--eval.every=0", "--sample.every=0",
             "--sample.early=false", "--profile.every=0", "--progress=none"], env=environment, check=True)  # fmt: skip
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        rows = subprocess.run([anneal, "export", "latest", "--table", "steps", "-o", "-"], env=environment, check=True,
                              capture_output=True, text=True).stdout.splitlines()  # fmt: skip
    column = rows[0].split(",").index("step_ms")
    return used, min(float(row.split(",")[column]) for row in rows[1:]) / 1e3


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write_weights(sys.argv[2])
        sys.exit()
    if sys.argv[1] == "--peft":
        train_peft(sys.argv[2], int(sys.argv[3]))
        sys.exit()
    anneal, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    length = int(sys.argv[3]) if len(sys.argv) > 3 else 512
    if not any(name.endswith(".safetensors") for name in os.listdir(folder)):
        subprocess.run([sys.executable, __file__, "--write", folder], check=True)  # memory of its own
    memory, seconds = train_anneal(anneal, folder, length)
    theirs = json.loads(subprocess.run([sys.executable, __file__, "--peft", folder, str(length)], check=True,
                                       stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])  # fmt: skip
    print(f"anneal                {memory:8.0f} MiB   {seconds:7.1f} s a step   {length / seconds:7.1f} tokens/s")
    print(f"peft + bitsandbytes   {theirs['peak']:8.0f} MiB   {theirs['seconds']:7.1f} s a step   "
          f"{length / theirs['seconds']:7.1f} tokens/s   ({theirs['peak'] - theirs['imported']:.0f} MiB without the imports)")  # fmt: skip
    print(f"memory {memory / theirs['peak']:.2f} x, without the imports {memory / (theirs['peak'] - theirs['imported']):.2f} x; "
          f"speed {theirs['seconds'] / seconds:.2f} x")  # fmt: skip
