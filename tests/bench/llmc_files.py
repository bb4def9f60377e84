#!/usr/bin/env python3
"""The files that llm.c's CPU trainer (train_gpt2.c) reads: GPT-2 of 124 M parameters with random weights, random tokens.

    llmc_files.py FOLDER        writes gpt2_124M.bin and dev/data/tinyshakespeare/*.bin there, about 500 MB

The model: 256 int32 (magic 20240326, version 3, longest sequence, vocabulary, layers, heads, width, padded vocabulary), then
fp32 tensors in the order of `ParameterTensors`. Tokens: 256 int32 (magic 20240520, version 1, count), then uint16. Without
gpt2_tokenizer.bin the trainer prints numbers. The weights repeat after a million: a step takes the same time.
"""

import array
import os
import random
import sys

LONGEST, V, PADDED, L, NH, C = 1024, 50257, 50304, 12, 12, 768
PERIOD = 1_000_003  # a prime: no two rows of a matrix are the same
TOKENS = 65_536


def write_header(file, *numbers):
    array.array("i", [*numbers, *[0] * (256 - len(numbers))]).tofile(file)


def write_model(path):
    spread = 0.02 * 3**0.5
    normal = array.array("f", (random.uniform(-spread, spread) for _ in range(PERIOD)))
    one, zero = array.array("f", [1.0]), array.array("f", [0.0])
    tensors = [
        (normal, PADDED * C), (normal, LONGEST * C),
        (one, L * C), (zero, L * C), (normal, L * 3 * C * C), (zero, L * 3 * C), (normal, L * C * C), (zero, L * C),
        (one, L * C), (zero, L * C), (normal, L * 4 * C * C), (zero, L * 4 * C), (normal, L * C * 4 * C), (zero, L * C),
        (one, C), (zero, C),
    ]  # fmt: skip
    with open(path, "wb") as file:
        write_header(file, 20240326, 3, LONGEST, V, L, NH, C, PADDED)
        for values, count in tensors:
            whole, rest = divmod(count, len(values))
            for _ in range(whole):
                values.tofile(file)
            values[:rest].tofile(file)


def write_tokens(path):
    with open(path, "wb") as file:
        write_header(file, 20240520, 1, TOKENS)
        array.array("H", (random.randrange(V) for _ in range(TOKENS))).tofile(file)


def main():
    folder = sys.argv[1]
    data = os.path.join(folder, "dev", "data", "tinyshakespeare")
    os.makedirs(data, exist_ok=True)
    random.seed(1337)
    write_model(os.path.join(folder, "gpt2_124M.bin"))
    for name in "train", "val":
        write_tokens(os.path.join(data, f"tiny_shakespeare_{name}.bin"))


if __name__ == "__main__":
    main()
