#!/usr/bin/env bash
# Runs every command that README.md and docs/*.md show, page by page, each page in a scratch folder with a scratch home.
#
#     tests/docs/test_pages.sh [PAGE...]        after make; prints every command with its exit status
#
# How a page controls the test. A block is the text between ``` and ```; its commands run in order, in one shell:
#
#   ```sh                                 these commands run; each must end with exit status 0
#   ```ini                                a configuration: `anneal estimate` must accept it
#   ```sql                                a query: the run store must answer it
#   ```text ```python ...                 not run
#
# Comments on a line of their own before a block change this; the reader of the page does not see them:
#
#   <!-- not run: WHY -->                 the block cannot run here: needs root, a GPU, a terminal, minutes
#   <!-- shortened: OPTIONS -->           OPTIONS follow each command of the block that trains (train, resume, fork, bench)
#   <!-- exit status: N -->               each command of the block must end with exit status N
#   <!-- first: COMMAND -->               runs before the block, for earlier actions of the reader; may end in &.
#                                         `start_run NAME` starts a run that trains until it is stopped or the page ends
#
# docs/reference/commands.md is generated and has no such comments: `before_example` prepares its examples, which are the
# lines that begin with "anneal" in its blocks, except the block that shows a command's usage, up to the explanation that
# follows them.
#
# `prepare` makes the files that the pages find in their folder: my.ini, a model of 50,000 parameters that trains 40 steps
# in a moment; books/, notes.txt, held-out.txt, hellaswag.jsonl, arc.jsonl, mmlu/; a Hugging Face checkout; my-model/, which has a chat
# template, and chats.jsonl; mails.csv; llm.c's shards.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
binary=${ANNEAL_BINARY:-$root/build/anneal}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export root scratch binary
mkdir -p "$scratch/bin" && ln -s "$binary" "$scratch/bin/anneal"
export PATH=$scratch/bin:$PATH
export ANNEAL_LEDGER=${ANNEAL_LEDGER:-$scratch} ANNEAL_CUDA_PLUGIN=none OMP_WAIT_POLICY=passive
export LC_ALL=C.UTF-8 TERM=dumb
unset ANNEAL_HOME XDG_DATA_HOME

# Fills the folder `inputs`, of which every page gets a copy.
prepare() {
    mkdir -p inputs/books inputs/mmlu inputs/shards home && cd inputs || return
    cp "$root"/tests/fixtures/tokenizer/sample.txt notes.txt
    seq 1 3000 | awk '{ print "In the beginning was the word, and verse " $1 " followed verse " $1 - 1 "." }' >books/genesis.txt
    seq 1 500 | awk '{ print "And the word of line " $1 " was read aloud." }' >books/exodus.txt
    tail -n 200 books/genesis.txt >held-out.txt
    seq 1 60 | awk 'BEGIN { print "text,label" } { print ($1 % 3 ? "See you at lunch " : "You have won prize ") $1 "," ($1 % 3 ? "ham" : "spam") }' >mails.csv
    printf '{"context": "In the", "choices": [" beginning", " end"], "answer": 0}\n' | tee hellaswag.jsonl arc.jsonl >mmlu/law.jsonl
    cat >my.ini <<'INI'
[model]
vocab_size = 256
hidden_dim = 32
num_layers = 2
num_heads = 2
intermediate_dim = 64
[data]
train = books/
tokenizer = bytes
[train]
batch_size = 4
seq_len = 32
total_steps = 40
warmup_steps = 4
[eval]
every = 20
batches = 2
[checkpoint]
every = 10
[sample]
max_tokens = 16
INI
    # a Hugging Face checkout, of the shape of Qwen3 with a tokenizer of its own
    HOME=$scratch/home anneal train my.ini --name seed --model.qk_norm=true --data.tokenizer=bpe:300 --model.vocab_size=300 \
        --train.total_steps=4 --progress none && HOME=$scratch/home anneal model export seed -o Qwen3-0.6B >/dev/null || return
    # a model that chats, and conversations
    HOME=$scratch/home anneal train my.ini --name chatting --data.tokenizer="$root/tests/fixtures/tokenizer/gpt2_style.json" \
        --model.vocab_size=421 --train.total_steps=4 --progress none &&
        HOME=$scratch/home anneal model export chatting -o my-model >/dev/null || return
    cat >my-model/chat_template.jinja <<'JINJA'
{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
JINJA
    for i in {1..40}; do
        printf '{"messages": [{"role": "user", "content": "Verse %d?"}, {"role": "assistant", "content": "It is so."}]}\n' $i
    done >chats.jsonl
    # llm.c's shards: a header of 256 numbers (magic, version, tokens), then 16 bits a token
    mkdir gpt2 && cp "$root/tests/fixtures/tokenizer/gpt2_style.json" gpt2/tokenizer.json
    for part in train val; do
        anneal tokenizer encode gpt2/tokenizer.json books/exodus.txt | perl -ne '@ids = split;
            print pack("l<256", 20240520, 1, scalar @ids), pack("S<*", @ids)' >"shards/fineweb_${part}_000001.bin" || return
    done
}

start_run() {
    anneal train my.ini --name "$1" --train.total_steps=100000000 --checkpoint.every=0 --progress none &
    for _ in {1..300}; do
        if anneal order "$1" sample --wait; then return; fi
        sleep 0.1
    done
    return 1
}

# $1: an example of the reference. Makes what it reads, and sets `suffix` to options that shorten it.
before_example() {
    suffix=''
    case $1 in
        'anneal model merge '*)
            anneal train --model.from=qwen --lora.rank=4 --data.train=books/ --train.total_steps=4 --train.batch_size=2 \
                --train.seq_len=16 --progress none ;;
        'anneal train --model.from='*) suffix='--train.total_steps=4 --train.batch_size=2 --train.seq_len=16' ;;
        'anneal train' | 'anneal train '*)
            suffix='--train.total_steps=4 --train.batch_size=2 --train.seq_len=16 --model.hidden_dim=64 --model.num_layers=2'
            cp -n books/genesis.txt corpus.txt && cp -n shards/fineweb_train_000001.bin shards/train_1.bin &&
                cp -n shards/fineweb_val_000001.bin shards/val_1.bin ;;
        'anneal resume '*)
            [ "$steps" -gt 40 ] || anneal train my.ini --name stopped --progress none || return
            suffix=--train.total_steps=$((steps += 20)) ;;
        'anneal fork base --train.'*)
            for name in base wide job; do anneal train my.ini --name $name --progress none || return; done
            suffix=--train.total_steps=60 ;;
        'anneal fork '*--decay*) ;; # it says how many steps
        'anneal fork '*) suffix=--train.total_steps=60 ;;
        'anneal order base '*) # it forks where the run is paused
            start_run base && anneal order base pause --wait &&
                suffix=--train.total_steps=$(sqlite3 -readonly ~/.local/share/anneal/anneal.db 'SELECT max(step) + 9 FROM steps') ;;
        'anneal order latest '*) start_run kjv ;;
        'anneal delete latest '* | 'anneal tag latest '*) anneal train my.ini --name spare --progress none ;;
        'anneal import log124M'*)
            mkdir -p log124M && printf 's:%d tel:9.5\ns:%d trl:9.0 lr:0.001 norm:1.5\n' 0 0 1 1 >log124M/main.log ;;
        'anneal import checkpoint-500/'*) mkdir -p checkpoint-500 && cp "$root/tests/fixtures/logs/trainer_state.json" checkpoint-500 ;;
        'anneal import runs/'*)
            mkdir -p "${1##* }" && cp "$root/tests/fixtures/logs/tensorboard.tfevents" "${1##* }/events.out.tfevents.1" ;;
        'anneal import runs wandb '*)
            mkdir -p runs/a wandb/offline-run-1 lightning_logs/version_0 &&
                printf 'step,train_loss\n9,2.5\n' >lightning_logs/version_0/metrics.csv &&
                cp "$root/tests/fixtures/logs/tensorboard.tfevents" runs/a/events.out.tfevents.1 &&
                cp "$root/tests/fixtures/logs/offline.wandb" wandb/offline-run-1/run-abcd1234.wandb ;;
        'anneal import wandb/'*) mkdir -p "${1##* }" && cp "$root/tests/fixtures/logs/offline.wandb" "${1##* }/run-abcd1234.wandb" ;;
        'anneal import --store '*) ANNEAL_HOME=server/anneal anneal train my.ini --progress none ;;
        'anneal classify latest '* | 'anneal evaluate spam '*)
            anneal train --name spam --data.format=labels --data.train=mails.csv --data.tokenizer=bytes --train.total_steps=30 \
                --train.batch_size=2 --train.seq_len=32 --model.hidden_dim=32 --model.num_layers=2 --progress none ;;
        'anneal generate '*--batch*) printf 'In the beginning\nAnd the word\n' >prompts.txt ;;
        'anneal model export latest '*) anneal train my.ini --name exported --progress none ;;
        'anneal evaluate latest '*) anneal train my.ini --name trained --progress none ;;
        'anneal data prepare pages.jsonl.gz code/'*)
            mkdir -p code && cp books/exodus.txt code/a.c && printf '{"content": "In the beginning."}\n' | gzip >pages.jsonl.gz ;;
        'anneal evaluate ~'*) mkdir -p ~/models && cp -r Qwen3-0.6B ~/models/tiny-llama && suffix='--batches 2' ;;
        'anneal data prepare more.txt '*) cp notes.txt more.txt ;;
    esac
}

# Prints the actions of a page, one a line: verb, line of the page, and the rest of the line.
read_page() {
    awk -v reference="$([ "$1" = docs/reference/commands.md ] && echo 1)" '
    function comment(word,   text) { # the text of <!-- word: ... -->; "" for other lines
        if (index($0, "<!-- " word ": ") != 1 || !match($0, / *-->[ \t]*$/)) return ""
        text = substr($0, 1, RSTART - 1)
        return substr(text, length(word) + 8)
    }
    reference && /^#/ { blocks = /Examples/ } # the first block of another section shows the usage
    /^```/ && !block { block = substr($0, 4) == "" ? "text" : substr($0, 4); whole = ""; blocks++; next }
    /^```/ { block = ""; if (skip != "") skip = ""; print "end\t" NR "\t"; next }
    block == "sh" && whole == "" { start = NR }
    block == "sh" {
        if (/\\$/) { whole = whole substr($0, 1, length($0) - 1); next }
        whole = whole $0
        if (whole !~ /^[ \t]*(#.*)?$/) print (skip == "" ? "run" : "skip") "\t" start "\t" (skip == "" ? "" : "(" skip ") ") whole
        whole = ""
        next
    }
    reference && blocks > 1 && block && /^anneal / { sub(/   .*/, ""); print "example\t" NR "\t" $0; next }
    block == "ini" || block == "sql" { if (skip == "") print block "\t" NR "\t" $0; next }
    block { next }
    (text = comment("not run")) != "" { skip = text }
    (text = comment("shortened")) != "" { print "shortened\t" NR "\t" text }
    (text = comment("exit status")) != "" { print "expect\t" NR "\t" text }
    (text = comment("first")) != "" { print "first\t" NR "\t" text }
    ' "$1"
}

# Where MPI is missing, commands of several ranks run with one.
if [ ! -e "$(dirname "$binary")/anneal_mpi.so" ] || ! command -v mpirun >/dev/null; then export without_mpi=1; fi

# $1: a page. Runs it in a folder of its own and writes the list of its commands to standard output.
run_page() {
    local page=$1 folder=$scratch/${1//\//.} failed=0 verb line rest suffix='' expected=0 status count=0 steps=40
    mkdir -p "$folder/home" && cp -a "$scratch/inputs/." "$folder" && cd "$folder" || return
    export HOME=$folder/home
    run() { # $1: line, $2: command, $3: the expected exit status
        local start=${EPOCHREALTIME/./} tenths output=$scratch/output.$BASHPID.$((++count))
        eval "$2" >"$output" 2>&1 </dev/null
        status=$? tenths=$(((${EPOCHREALTIME/./} - start) / 100000))
        printf '%-4s %4s %3d.%ds  %s:%d  %s\n' "$([ "$status" = "$3" ] && echo ok || echo FAIL)" "$status" \
            $((tenths / 10)) $((tenths % 10)) "$page" "$1" "$2"
        [ "$status" = "$3" ] || { failed=$((failed + 1)) && tail -n 20 "$output" | tr '\r' '\n'; }
    }
    while IFS=$'\t' read -r verb line rest <&3; do
        case $verb in
            skip) printf 'skip    -       -  %s:%d  %s\n' "$page" "$line" "$rest" ;;
            shortened) suffix=$rest ;;
            expect) expected=$rest ;;
            first) run "$line" "$rest" 0 ;;
            run | example)
                if [ "$verb" = example ] && ! before_example "$rest" >"$scratch/output.$BASHPID" 2>&1; then
                    cat "$scratch/output.$BASHPID"
                    printf 'FAIL    -       -  %s:%d  preparing %s\n' "$page" "$line" "$rest"
                    failed=$((failed + 1))
                    continue
                fi
                if [[ $rest == *--check-allocations* && $binary == *-san/* ]]; then # a sanitizer has a heap of its own
                    printf 'skip    -       -  %s:%d  %s\n' "$page" "$line" "$rest"
                    continue
                fi
                if [ -n "${without_mpi:-}" ]; then
                    rest=$(sed -E 's/^(anneal (train|resume|fork)( .*)?) --ranks [0-9]+/\1/' <<<"$rest")
                fi
                if [ -n "$suffix" ] && [[ $rest =~ ^anneal\ (train|resume|fork|bench|evaluate|order.*fork) ]]; then
                    rest=$(sed -E "s/( *(#.*|&))?\$/ ${suffix//\//\\/}&/" <<<"$rest")
                fi
                run "$line" "$rest" "$expected"
                ;;
            ini | sql) printf '%s\n' "$rest" >>"$folder/block.$verb" ;;
            end)
                if [ -f "$folder/block.ini" ]; then
                    run "$line" 'anneal estimate block.ini' "$expected"
                    rm "$folder/block.ini"
                fi
                if [ -f "$folder/block.sql" ]; then
                    run "$line" 'sqlite3 -readonly ~/.local/share/anneal/anneal.db <block.sql' "$expected"
                    rm "$folder/block.sql"
                fi
                suffix='' expected=0
                ;;
        esac
    done 3< <(cd "$root" && read_page "$page")
    local jobs
    jobs=$(jobs -pr)
    [ -z "$jobs" ] || { kill $jobs && wait; } 2>/dev/null
    return "$((failed > 0))"
}
export -f start_run before_example read_page run_page

cd "$scratch" || exit 1
(prepare) >"$scratch/prepare.log" 2>&1 || { cat "$scratch/prepare.log"; echo "test_pages.sh: cannot prepare the inputs"; exit 1; }
cd "$root" || exit 1
if [ $# -gt 0 ]; then pages=("$@"); else pages=(README.md docs/*.md docs/*/*.md); fi
one_page() { # its list appears whole
    local at=$scratch/${1//\//.}.list
    if (run_page "$1") >"$at" 2>&1; then
        echo "[       OK ] $1" >>"$at"
    else
        echo "[  FAILED  ] $1" >>"$at"
    fi
    cat "$at"
}
export -f one_page
printf '%s\n' "${pages[@]}" | while read -r page; do if [ -f "$page" ]; then echo "$page"; fi; done |
    xargs -r -P "${JOBS:-$(nproc)}" -I{} bash -c 'one_page {}' | tee "$scratch/all"
failed=$(grep -c '^\[  FAILED  \]' "$scratch/all")
[ "$failed" -eq 0 ] || echo "[  FAILED  ] pages of the documentation: $failed test(s)"
[ "$failed" -eq 0 ] && grep -q '^\[       OK \]' "$scratch/all"
