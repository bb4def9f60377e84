#!/usr/bin/env python3
"""Others' speed of generating, for `make bench`: the model and the lengths of bench_generate, the same threads.

    generate_peers.py transformers FOLDER fp32|bf16 [--threads N]
    generate_peers.py llama.cpp FILE.gguf NAME [--threads N]

A prompt of 512 tokens, seven times, then 64 tokens more with the cache; of each the fastest counts, as in bench_generate.
Prints one JSON object: who (with its version), weights, prefill and decode in tokens/s; or {"who", "skip": why}.
"""

import argparse
import json
import os
import time

PROMPT, TOKENS, PROMPTS = 512, 64, 7


def fastest(work, times, threads):
    now = time.perf_counter if threads > 1 else time.process_time  # as in bench_generate
    best = float("inf")
    for _ in range(times):
        start = now()
        work()
        best = min(best, now() - start)
    return best


def transformers_peer(path, name, threads):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if name == "bf16" else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
    ids = (torch.arange(PROMPT)[None] * 40503) % model.config.vocab_size
    cache = None

    def prompt():
        nonlocal cache
        cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values

    def token():
        model(ids[:, :1], past_key_values=cache, use_cache=True).logits.argmax(-1)

    with torch.inference_mode():
        prompt()
        seconds = fastest(prompt, PROMPTS, threads), fastest(token, TOKENS, threads)
    return f"transformers {transformers.__version__}, PyTorch {torch.__version__}", seconds


def llama_peer(path, name, threads):
    import llama_cpp

    llama = llama_cpp.Llama(path, n_ctx=PROMPT + 2 * TOKENS, n_batch=PROMPT, n_ubatch=PROMPT, n_threads=threads,
                            n_threads_batch=threads, verbose=False)  # fmt: skip
    ids = [i * 40503 % llama.n_vocab() for i in range(PROMPT)]

    def prompt():
        llama.reset()
        llama.eval(ids)

    prompt()
    seconds = fastest(prompt, PROMPTS, threads), fastest(lambda: llama.eval(ids[:1]), TOKENS, threads)
    return f"llama-cpp-python {llama_cpp.__version__}", seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=["transformers", "llama.cpp"])
    parser.add_argument("model")
    parser.add_argument("weights")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    try:
        peer = transformers_peer if args.who == "transformers" else llama_peer
        version, (prompt, token) = peer(args.model, args.weights, args.threads)
    except ImportError as problem:
        print(json.dumps({"who": args.who, "skip": f"{problem} (ANNEAL_BENCH_PYTHON names an interpreter that has it)"}))
        return
    print(json.dumps({"who": version, "weights": args.weights, "prefill": round(PROMPT / prompt, 1),
                      "decode": round(1 / token, 2)}))  # fmt: skip


if __name__ == "__main__":
    main()
