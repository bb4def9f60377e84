/* See parsers.h. The functions here do with the result what the program does next: they read all of it. */
#define XXH_STATIC_LINKING_ONLY
#include "tests/fuzz/parsers.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter_file.h"
#include "core/model/config.h"
#include "core/model/generation_config.h"
#include "core/model/hugging_face.h"
#include "core/model/safetensors.h"
#include "datasets/chat_template.h"
#include "datasets/instructions.h"
#include "datasets/labelled_file.h"
#include "datasets/question_file.h"
#include "datasets/text_pieces.h"
#include "datasets/token_file.h"
#include "datasets/tokenizer.h"
#include "runs/database.h"
#include "runs/exchange/import.h"
#include "runs/filter.h"
#include "runs/listing.h"
#include "runs/reservations/ledger.h"
#include "runs/spill.h"
#include "runs/store.h"

#define PARSER(name) static void name(const struct parser_place *place, const unsigned char *bytes, size_t n)
#define UNUSED       (void)place, (void)bytes, (void)n

/* The sum keeps the compiler from leaving the reading out. */
static volatile uint64_t sum;

static void read_all(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) sum += ((const unsigned char *)bytes)[i];
}

static void write_file(const struct parser_place *place, const char *name, const void *bytes, size_t n)
{
    char path[sizeof place->path];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || file_write_all(fd, bytes, n, path, NULL)) abort();
    close(fd);
}

/* ---- models ---- */

static void read_tensors(struct safetensors *file)
{
    float some[16];
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensor *t = &file->tensors[i];
        bool number = !strcmp(t->dtype, "F32") || !strcmp(t->dtype, "F16") || !strcmp(t->dtype, "BF16");
        size_t count = number ? t->bytes / safetensor_width(t) : 0;
        read_all(t->data, t->bytes);
        if (count) safetensor_read(t, 0, count < 16 ? count : 16, some);
    }
    safetensors_close(file);
}

PARSER(safetensors)
{
    UNUSED;
    struct safetensors file;
    struct err err;
    if (!safetensors_open(place->path, &file, &err)) read_tensors(&file);
}

PARSER(safetensors_index)
{
    UNUSED;
    struct safetensors file;
    struct err err;
    if (!safetensors_open_folder(place->folder, &file, &err)) read_tensors(&file);
}

static void write_shard(const struct parser_place *place, const char *name, const char *tensor)
{
    float values[4] = {1, 2, 3, 4};
    char path[sizeof place->path];
    struct safetensor t = {
        .name = tensor, .dtype = "F32", .shape = {2, 2}, .dims = 2, .data = values, .bytes = sizeof values};
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    if (safetensors_write(path, &t, 1, safetensors_fetch_host, NULL, NULL)) abort();
}

static void write_shards(const struct parser_place *place)
{
    write_shard(place, "a.safetensors", "w.a");
    write_shard(place, "b.safetensors", "w.b");
}

PARSER(model_config)
{
    UNUSED;
    struct model_config config;
    struct special_tokens tokens;
    struct err err;
    char type[64];
    hugging_face_read_type(place->folder, type, sizeof type);
    hugging_face_read_config(place->folder, &config, &err);
    special_tokens_read(place->folder, &tokens, &err);
}

PARSER(generation_config)
{
    UNUSED;
    struct special_tokens tokens;
    struct err err;
    special_tokens_read(place->folder, &tokens, &err);
}

PARSER(tokenizer_config)
{
    UNUSED;
    struct err err;
    json_t *texts;
    char *source;
    if (!special_texts_read(place->folder, &texts, &err)) json_decref(texts);
    if (!chat_template_read(place->folder, &source, &err)) free(source);
}

PARSER(adapter)
{
    UNUSED;
    struct adapter_config config;
    struct adapter_base base;
    struct err err;
    adapter_file_read(place->folder, &config, &base, &err);
}

static void write_adapters(const struct parser_place *place)
{
    write_shard(place, "adapter_model.safetensors",
                ADAPTER_FILE_PREFIX "model.layers.0.self_attn.q_proj.lora_A.weight");
}

PARSER(trainer_state)
{
    UNUSED;
    struct train_state state;
    struct err err;
    checkpoint_load_state(place->folder, &state, &err);
}

PARSER(checksums)
{
    UNUSED;
    checkpoint_looks_damaged(place->folder);
}

static void write_checkpoint(const struct parser_place *place)
{
    write_shard(place, "model.safetensors", "w");
    write_file(place, "config.json", "{}", 2);
    write_file(place, "trainer.json", "{}", 2);
}

/* ---- texts and tokens ---- */

PARSER(tokenizer)
{
    (void)place;
    static const char text[] = "The quick brown fox,\n 1234 jumps <s> \xc3\xa9\xe2\x82\xac \xff over.";
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    struct err err;
    size_t length;
    if (tokenizer_parse_json((const char *)bytes, n, "t", &tokenizer, &err)) return;
    if (!tokenizer_encode(tokenizer, text, sizeof text - 1, &list, &err))
        free(tokenizer_decode(tokenizer, list.ids, list.count, &length));
    token_list_release(&list);
    tokenizer_close(tokenizer);
}

PARSER(chat_template)
{
    (void)place;
    static json_t *talk;
    struct chat_template *chat;
    struct err err;
    char *text;
    size_t length;
    if (!talk)
        talk = json_pack("{s:[{s:s,s:s},{s:s,s:s}],s:b,s:s,s:s,s:n}", "messages", "role", "user", "content",
                         "Hi \xe2\x82\xac", "role", "assistant", "content", "", "add_generation_prompt", 1,
                         "bos_token", "<s>", "eos_token", "</s>", "tools");
    if (chat_template_parse((const char *)bytes, n, "t", &chat, &err)) return;
    if (!chat_template_render(chat, talk, &text, &length, &err)) free(text);
    chat_template_free(chat);
}

PARSER(tokens)
{
    UNUSED;
    struct token_file file;
    struct err err;
    uint64_t at;
    token_file_begins(place->path);
    if (token_file_open(place->path, &file, &err)) return;
    if (!token_file_measure(&file, &err)) token_file_find(&file, 1000, &at);
    token_file_close(&file);
}

/* The bytes are the sidecar of this file. */
static void write_tokens(const struct parser_place *place)
{
    static const unsigned char file[] = {2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0};
    write_file(place, "c.tok", file, sizeof file);
}

PARSER(sidecar)
{
    UNUSED;
    struct parser_place other = *place;
    snprintf(other.path, sizeof other.path, "%s/c.tok", place->folder);
    tokens(&other, bytes, n);
}

static enum status take_row(void *context, const struct labelled_row *row, struct err *err)
{
    (void)context, (void)err;
    read_all(row->text, row->length);
    if (row->label) read_all(row->label, strlen(row->label));
    return STATUS_OK;
}

PARSER(labelled)
{
    UNUSED;
    struct err err;
    labelled_file_each(place->path, "text", "label", take_row, NULL, &err);
}

static enum status take_piece(void *context, const struct text_piece *piece, struct err *err)
{
    (void)context, (void)err;
    read_all(piece->text, piece->n);
    return STATUS_OK;
}

PARSER(texts)
{
    UNUSED;
    char *paths[] = {(char *)(uintptr_t)place->path};
    struct inputs inputs = {.paths = paths, .count = 1};
    struct err err;
    text_pieces_each(&inputs, 0, 1, NULL, false, take_piece, NULL, &err);
}

PARSER(questions)
{
    UNUSED;
    struct question_file file;
    struct question question;
    struct err err;
    bool more = true;
    if (question_file_open(place->path, &file, &err)) return;
    while (!question_file_next(&file, &question, &more, &err) && more)
        for (int i = 0; i < question.count; i++) read_all(question.choices[i], strlen(question.choices[i]));
    question_file_close(&file);
}

static enum status take_example(void *context, const struct instruction_example *example, struct err *err)
{
    (void)context, (void)err;
    read_all(example->tokens, example->token_count * sizeof *example->tokens);
    read_all(example->runs, example->run_count * sizeof *example->runs);
    return STATUS_OK;
}

PARSER(instructions)
{
    UNUSED;
    static char
        source[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}"
                   "{% if add_generation_prompt %}assistant: {% endif %}",
        json[] = "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":3,\"content\":\"</s>\",\"special\":true}],"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{"
                 "\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\":\":"
                 "2,\"</s>\":3},\"merges\":[]}}";
    static struct tokenizer *tokenizer;
    struct chat_format format = {.source = source, .n = strlen(source), .name = "t", .texts = json_object()};
    struct instruction_sink sink = {take_example, NULL};
    struct instruction_reader *reader;
    struct err err;
    if (!tokenizer && tokenizer_parse_json(json, strlen(json), "t", &tokenizer, &err) &&
        tokenizer_open_bytes(&tokenizer, &err))
        abort();
    if (!instruction_reader_open(&format, tokenizer, &reader, &err)) {
        instruction_reader_read(reader, "t", 0, (const char *)bytes, n, &sink, &err);
        instruction_reader_close(reader);
    }
    json_decref(format.texts);
}

/* ---- configurations and filters ---- */

PARSER(ini)
{
    UNUSED;
    static struct config config;
    struct err err;
    config_init(&config);
    if (!config_read_file(&config, place->path, &err) && !config_finish(&config, &err))
        free(config_text(&config));
}

static char *text_of(const unsigned char *bytes, size_t n)
{
    char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

PARSER(stored_config)
{
    (void)place;
    static struct config config;
    struct err err;
    char *text = text_of(bytes, n);
    config_init(&config);
    if (!config_read_effective(&config, text, "t", &err) && !config_finish(&config, &err))
        free(config_text(&config));
    free(text);
}

PARSER(key_and_value)
{
    (void)place;
    static struct config config;
    struct err err;
    char *text = text_of(bytes, n);
    config_init(&config);
    if (!config_read_word(&config, text, &err)) config_finish(&config, &err);
    free(text);
}

PARSER(filter)
{
    (void)place;
    static const struct run_info run = {
        .id = "20260101-000000-alpha", .name = "alpha", .note = "a long note"};
    static const struct field_value none[1];
    const struct field_value *values[FILTER_FIELDS_MAX];
    struct filter parsed = {0};
    struct err err;
    size_t passed;
    char *text = text_of(bytes, n);
    for (int i = 0; i < FILTER_FIELDS_MAX; i++) values[i] = none;
    if (!filter_parse(text, NULL, 0, &parsed, &err)) filter_run(&parsed, &run, 1, values, &passed);
    filter_release(&parsed);
    free(text);
}

/* ---- histories ---- */

/* A store for imports; what one has made goes before the next. */
static struct store *store_for(const struct parser_place *place)
{
    static struct store *store;
    char home[sizeof place->folder + 8];
    struct err err;
    snprintf(home, sizeof home, "%s/home", place->folder);
    if (!store && store_open(home, STORE_WRITE, &store, &err)) abort();
    return store;
}

static uint32_t checksum_of(uint32_t polynomial, const unsigned char *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

/* Puts the checksums of an event file or of a log of wandb right, which would keep all made-up records out
 * (record_file.h). */
static void mend_log(unsigned char *bytes, size_t n)
{
    enum { WANDB = 7, PART = 7, LENGTH = 12, CHECKSUM = 4 };
    uint32_t crc;
    size_t at = 0, size;
    if (n >= WANDB && memcmp(bytes, ":W&B", 4) == 0)
        for (at = WANDB; at + PART <= n; at += PART + size) {
            size = bytes[at + 4] | (size_t)bytes[at + 5] << 8;
            if (size > n - at - PART) return;
            crc = checksum_of(0xEDB88320, bytes + at + 6, size + 1);
            memcpy(bytes + at, &crc, sizeof crc);
        }
    else
        for (; at + LENGTH + CHECKSUM <= n; at += LENGTH + size + CHECKSUM) {
            memcpy(&size, bytes + at, sizeof size);
            if (size > n - at - LENGTH - CHECKSUM) return;
            for (int i = 0; i < 2; i++) {
                const unsigned char *of = bytes + at + (i ? LENGTH : 0);
                crc = checksum_of(0x82F63B78, of, i ? size : 8);
                crc = (crc >> 15 | crc << 17) + 0xA282EAD8u;
                memcpy(bytes + at + (i ? LENGTH + size : 8), &crc, sizeof crc);
            }
        }
}

#define HISTORY "loss" /* the name of the metric in a file of TensorBoard's scalars */

PARSER(history)
{
    struct store *store = store_for(place);
    const char *path = place->path;
    struct import_outcome outcome;
    struct err err;
    unsigned char *copy = (unsigned char *)text_of(bytes, n);
    mend_log(copy, n);
    write_file(place, HISTORY, copy, n);
    free(copy);
    if (!import_files(store, &path, 1, "n", &outcome, &err)) run_delete(store, outcome.id, &err);
}

/* ---- what runs leave ---- */

/* Checksums would keep all made-up records out: they are put right. */
PARSER(records)
{
    enum { MAGIC = 8, HASH = 8, HEAD = 24 };
    struct spill spill;
    struct spill_entry entry;
    struct run_note run;
    struct err err;
    unsigned char *copy = (unsigned char *)text_of(bytes, n);
    for (size_t at = MAGIC, size; at + HEAD <= n; at += HEAD + size) {
        uint32_t length;
        memcpy(&length, copy + at + 20, sizeof length);
        size = length;
        if (size > n - at - HEAD) break;
        uint64_t hash = XXH64(copy + at + HASH, HEAD - HASH + size, 0);
        memcpy(copy + at, &hash, sizeof hash);
    }
    write_file(place, "records", copy, n);
    free(copy);
    enum status status = spill_open(&spill, place->path, &run, &err);
    while (!status && spill_waits(&spill)) status = spill_next(&spill, &entry, &err);
    spill_close(&spill);
}

static void read_runs(struct store *store)
{
    struct arena arena = {0};
    struct run_info *runs;
    struct run_param *params;
    struct err err;
    size_t count, param_count;
    char *config;
    if (!run_list(store, &arena, &runs, &count, &err))
        for (size_t i = 0; i < count; i++) {
            if (!run_config(store, runs[i].id, &config, &err)) free(config);
            run_params_list(store, runs[i].id, &arena, &params, &param_count, &err);
        }
    store_close(store);
    arena_release(&arena);
}

/* One that says it has a write-ahead log is opened as a store's own, another one as the import of a store
 * does it: only to be read, unless it must be migrated. */
PARSER(database)
{
    enum { WRITE_VERSION = 18 };
    struct store *store;
    struct err err;
    int64_t version = 0;
    char path[sizeof place->path + 8];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", place->path, i ? "-shm" : "-wal");
        unlink(path);
    }
    bool own = n > WRITE_VERSION && bytes[WRITE_VERSION] == 2;
    if (!own) {
        if (store_open(place->folder, STORE_FOREIGN, &store, &err)) return;
        own = !store_number(store, &version, 0, &err, "pragma user_version", "") && version < STORE_VERSION;
        if (!own)
            read_runs(store);
        else
            store_close(store);
    }
    if (own && !store_open(place->folder, STORE_APART, &store, &err)) read_runs(store);
}

/* Processes of another boot would not be looked for: this boot takes the place of the one called so in an
 * input. */
PARSER(ledger)
{
    static const char no_boot[] = "00000000-0000-0000-0000-000000000000";
    static char boot[sizeof no_boot];
    char path[sizeof place->path], host[64] = "";
    struct ledger *ledger;
    struct reservation *list;
    struct err err;
    size_t count;
    unsigned char *copy = (unsigned char *)text_of(bytes, n), *at = copy;
    FILE *file = *boot ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file)) abort();
    if (file) fclose(file);
    while ((at = memmem(at, (size_t)(copy + n - at), no_boot, sizeof no_boot - 1)))
        memcpy(at, boot, strlen(boot));
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "ledger-%s.db", host);
    write_file(place, path, copy, n);
    free(copy);
    if (ledger_open(place->folder, 0, &ledger, &err)) return;
    if (!ledger_list(ledger, NULL, &list, &count, &err)) free(list);
    if (!ledger_list_ended(ledger, &list, &count, &err)) free(list);
    ledger_close(ledger);
}

/* ---- all of them ---- */

const struct parser parsers[] = {
    {"safetensors", "model.safetensors", NULL, safetensors},
    {"safetensors_index", "model.safetensors.index.json", write_shards, safetensors_index},
    {"model_config", "config.json", NULL, model_config},
    {"generation_config", "generation_config.json", NULL, generation_config},
    {"tokenizer_config", "tokenizer_config.json", NULL, tokenizer_config},
    {"adapter", "adapter_config.json", write_adapters, adapter},
    {"trainer_state", "trainer.json", NULL, trainer_state},
    {"checksums", "checksums", write_checkpoint, checksums},
    {"tokenizer", NULL, NULL, tokenizer},
    {"chat_template", NULL, NULL, chat_template},
    {"tokens", "c.tok", NULL, tokens},
    {"sidecar", "c.tok.json", write_tokens, sidecar},
    {"labelled_csv", "l.csv", NULL, labelled},
    {"labelled_json", "l.jsonl", NULL, labelled},
    {"text_lines", "t.jsonl", NULL, texts},
    {"text_gzip", "t.jsonl.gz", NULL, texts},
    {"text_zstd", "t.txt.zst", NULL, texts},
    {"questions", "q.jsonl", NULL, questions},
    {"instructions", NULL, NULL, instructions},
    {"ini", "c.ini", NULL, ini},
    {"stored_config", NULL, NULL, stored_config},
    {"key_and_value", NULL, NULL, key_and_value},
    {"filter", NULL, NULL, filter},
    {"history", HISTORY, NULL, history},
    {"records", NULL, NULL, records},
    {"database", "anneal.db", NULL, database},
    {"rows", NULL, NULL, parse_rows},
    {"ledger", NULL, NULL, ledger},
};
const size_t parser_count = sizeof parsers / sizeof *parsers;

const struct parser *parser_find(const char *name)
{
    for (size_t i = 0; i < parser_count; i++)
        if (name && strcmp(parsers[i].name, name) == 0) return &parsers[i];
    return NULL;
}

void parser_open(const struct parser *parser, struct parser_place *place)
{
    bool memory = access("/dev/shm", W_OK) == 0;
    snprintf(place->folder, sizeof place->folder, "%s/anneal-parser-XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (!mkdtemp(place->folder)) abort();
    snprintf(place->path, sizeof place->path, "%s/%s", place->folder,
             parser->file ? parser->file : parser->name);
    if (parser->prepare) parser->prepare(place);
}

void parser_run(const struct parser *parser, const struct parser_place *place, const unsigned char *bytes,
                size_t n)
{
    if (parser->file) write_file(place, parser->file, bytes, n);
    parser->parse(place, bytes, n);
}

void parser_close(const struct parser_place *place)
{
    file_remove_tree(place->folder, NULL);
}
