#!/usr/bin/env bash
# make demo-classify: trains a language model on verses of the King James Bible, and from it two classifiers, which tell the
# Old Testament from the New and name the group of books; prints their scores beside those of a bag of words.
#
#     docs/examples/classify_kjv.sh [BINARY] [--small]      --small: tiny models and few steps, to see that all of it runs
#
# Every tenth verse is held out: neither the language model nor the classifiers nor the bag of words learn from it. The bag of
# words is multinomial naive Bayes over lower-case words, with one added to each count.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
anneal=$(readlink -f "${1:-build/anneal}")
pretrain=(--model.hidden_dim=128 --model.num_layers=4 --model.num_heads=4 --train.seq_len=128 --train.batch_size=16
    --train.total_steps=1200 --train.learning_rate=2e-3 --eval.every=200)
classify=(--train.seq_len=128 --train.batch_size=16 --train.epochs=2 --train.learning_rate=1e-3 --train.warmup_steps=50
    --train.dropout=0.1 --eval.every=200)
if [ "${2:-}" = --small ]; then
    pretrain=(--model.hidden_dim=32 --model.num_layers=1 --model.num_heads=2 --train.seq_len=64 --train.batch_size=4
        --train.total_steps=10 --data.tokenizer=bytes)
    classify=(--train.seq_len=512 --train.batch_size=2 --train.total_steps=10 --train.learning_rate=1e-2 --eval.every=0)
fi
command -v bible >/dev/null || { echo "demo-classify: the program \"bible\" is not installed (apt install bible-kjv)" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "1. The verses, with their testament and their group of books"
(cd / && bible -f gen1:1-rev22:21 </dev/null 2>/dev/null) | awk -v folder="$scratch" '
    function quoted(text) { gsub(/"/, "\"\"", text); return "\"" text "\"" }
    BEGIN {
        books = split("Law 5 History 17 Poetry 22 Prophets 39 Gospels 43 Acts 44 Epistles 65 Revelation 66", ends, " ")
        for (part = 1; part <= 2; part++) print "text,testament,group" > (folder "/" (part == 1 ? "train" : "held") ".csv")
    }
    {
        book = $1; sub(/[0-9]+:[0-9]+$/, "", book)
        if (book != last) { number++; last = book }
        text = $0; sub(/^[^ ]* /, "", text)
        for (i = 2; ends[i] < number; i += 2);
        held = NR % 10 == 5
        print quoted(text) "," (number <= 39 ? "Old" : "New") "," ends[i - 1] > (folder "/" (held ? "held" : "train") ".csv")
        if (!held) print text > (folder "/train.txt")
    }'

# Accuracy and macro F1 of a run, from its last evaluation.
scores() {
    "$anneal" export "$1" --table measures -o - | tr -d '\r' |
        awk -F, '$4 == "accuracy" { a = $5 } $4 == "macro_f1" { f = $5 } END { printf "%.4f %.4f\n", a, f }'
}

echo "2. A language model of the verses to learn from"
"$anneal" train --name verses --data.train="$scratch/train.txt" --data.val_fraction=0.02 --sample.every=0 "${pretrain[@]}"
model=$scratch/model
"$anneal" model export verses -o "$model" >/dev/null
for column in testament group; do
    echo "3. A classifier for the column $column"
    "$anneal" train --name "verses-$column" --model.from="$model" --data.format=labels --data.train="$scratch/train.csv" \
        --data.val="$scratch/held.csv" --data.label_column=$column --classifier.pooling=mean --eval.batches=0 \
        --eval.early=false "${classify[@]}"
done

printf '\n%-12s %-16s %9s %9s\n' labels "" accuracy "macro F1"
for column in testament group; do
    read -r accuracy f1 < <(awk -v column=$column -f "$here/bag_of_words.awk" "$scratch/train.csv" "$scratch/held.csv")
    printf '%-12s %-16s %9s %9s\n' $column "bag of words" "$accuracy" "$f1"
    read -r accuracy f1 < <(scores "verses-$column")
    printf '%-12s %-16s %9s %9s\n' $column "anneal" "$accuracy" "$f1"
done
printf '\nThe confusion matrix: %s show verses-group\n' "$anneal"
printf 'A text of your own:   %s classify verses-group "Fear not: I bring you good tidings"\n' "$anneal"
