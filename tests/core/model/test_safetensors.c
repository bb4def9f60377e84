/* safetensors: our files read back, and any bad file gives one sentence and does no harm. */
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

static enum status fetch(void *context, void *host, const struct safetensor *t, size_t at, size_t bytes,
                         struct err *err)
{
    size_t *fetched = context;
    *fetched += bytes;
    assert_true(bytes <= 1 << 20);
    return safetensors_fetch_host(NULL, host, t, at, bytes, err);
}

/* A file with this header and `data_bytes` bytes of data behind it; header_size < 0: the header's own length.
 */
static char *write_file(const char *header, size_t header_bytes, int64_t header_size, size_t data_bytes)
{
    char *path = rig_path("file.safetensors");
    size_t n = 8 + header_bytes + data_bytes;
    unsigned char *bytes = calloc(1, n);
    uint64_t size = header_size < 0 ? header_bytes : (uint64_t)header_size;
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(size >> (8 * i));
    memcpy(bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++) bytes[8 + header_bytes + i] = (unsigned char)(i * 37);
    rig_write(path, bytes, n);
    free(bytes);
    return path;
}

/* Reads everything in an opened file, so that AddressSanitizer detects a wrong pointer. */
static void read_everything(const struct safetensors *file)
{
    unsigned sum = 0;
    size_t covered = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensor *t = &file->tensors[i];
        size_t elements = 1;
        assert_in_range(t->dims, 0, SAFETENSORS_DIMS_MAX);
        for (int d = 0; d < t->dims; d++) elements *= (size_t)t->shape[d];
        assert_true(elements == 0 || t->bytes % elements == 0);
        for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
        assert_true(safetensors_find(file, t->name) == t);
        assert_true(strlen(t->dtype) > 0);
        covered += t->bytes;
    }
    assert_true(covered <= file->shards[0].map.size);
    assert_true(sum + 1 > 0);
}

/* Opens any file; the result is a readable file or one clean sentence that names the path. */
static enum status open_hostile(const char *path, struct err *err)
{
    struct safetensors file = {0};
    *err = (struct err){0};
    enum status status = safetensors_open(path, &file, err);
    if (!status) {
        read_everything(&file);
    } else {
        assert_int_equal(status, err->status);
        assert_memory_equal(err->text, path, strlen(path));
        for (const char *c = err->text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F) fail_msg("a control character in the error");
    }
    safetensors_close(&file);
    return status;
}

static void expect_refused_bytes(const char *header, size_t n, size_t data_bytes, const char *part)
{
    struct err err;
    char *path = write_file(header, n, -1, data_bytes);
    if (open_hostile(path, &err) != STATUS_CORRUPT) fail_msg("%s is accepted", header);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    free(path);
}

static void expect_refused(const char *header, size_t data_bytes, const char *part)
{
    expect_refused_bytes(header, strlen(header), data_bytes, part);
}

static void expect_accepted(const char *header, size_t data_bytes)
{
    struct err err;
    char *path = write_file(header, strlen(header), -1, data_bytes);
    if (open_hostile(path, &err)) fail_msg("%s", err.text);
    free(path);
}

TEST_CASE(what_is_written_reads_back_equal)
{
    static float large[(1 << 18) + 5]; /* more than one piece of 1 MiB */
    static const int16_t half[6] = {1, -2, 3, -4, 5, -6};
    static const double scalar = 0.1;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) large[i] = (float)i;
    const struct safetensor tensors[] = {
        {"model.a \"quoted\" na\xC3\xAFve", "F32", {(1 << 18) + 5}, 1, large, sizeof large, NULL, 0},
        {"empty", "F32", {0, 4}, 2, NULL, 0, NULL, 0},
        {"half", "I16", {1, 2, 3}, 3, half, sizeof half, NULL, 0},
        {"scalar", "F64", {0}, 0, &scalar, sizeof scalar, NULL, 0}};
    struct safetensors file;
    struct err err = {0};
    size_t fetched = 0;
    static const char format[] = "\"__metadata__\":{\"format\":\"pt\"}";
    char *path = rig_path("written.safetensors");
    if (safetensors_write(path, tensors, 4, fetch, &fetched, &err)) fail_msg("%s", err.text);
    assert_int_equal(fetched, sizeof large + sizeof half + sizeof scalar);
    if (safetensors_open(path, &file, &err)) fail_msg("%s", err.text);
    assert_int_equal(file.count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct safetensor *t = safetensors_find(&file, tensors[i].name);
        assert_non_null(t);
        assert_string_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->dims, tensors[i].dims);
        assert_memory_equal(t->shape, tensors[i].shape, sizeof t->shape);
        assert_int_equal(t->bytes, tensors[i].bytes);
        if (t->bytes) assert_memory_equal(t->data, tensors[i].data, t->bytes);
    }
    assert_int_equal((uintptr_t)safetensors_find(&file, tensors[0].name)->data % 8, 0);
    assert_non_null(memmem(file.shards[0].map.data, file.shards[0].map.size, format, sizeof format - 1));
    assert_null(safetensors_find(&file, "half "));
    safetensors_close(&file);
    safetensors_close(&file); /* harmless twice */
    free(path);
}

TEST_CASE(a_number_that_is_not_finite_is_found_in_every_type_that_weights_have)
{
    static const struct {
        const char *type;
        size_t bytes;
        unsigned char largest[4], infinity[4], nan[4];
    } cases[] = {
        {"F32", 4, {0xFF, 0xFF, 0x7F, 0xFF}, {0, 0, 0x80, 0xFF}, {1, 0, 0x80, 0x7F}},
        {"BF16", 2, {0x7F, 0xFF}, {0x80, 0xFF}, {0x81, 0x7F}},
        {"F16", 2, {0xFF, 0xFB}, {0, 0xFC}, {1, 0x7C}},
        {"I32", 4, {0xFF, 0xFF, 0xFF, 0xFF}, {0}, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char data[12] = {0};
        struct safetensor t = {.dtype = cases[i].type, .data = data, .bytes = 3 * cases[i].bytes};
        unsigned char *last = data + 2 * cases[i].bytes;
        memcpy(last, cases[i].largest, cases[i].bytes);
        assert_true(safetensor_is_finite(&t));
        if (*t.dtype == 'I') continue;
        memcpy(last, cases[i].infinity, cases[i].bytes);
        assert_false(safetensor_is_finite(&t));
        memcpy(last, cases[i].nan, cases[i].bytes);
        assert_false(safetensor_is_finite(&t));
    }
}

/* As adapters are merged into them and new tokens added. */
TEST_CASE(numbers_are_encoded_in_the_type_of_a_tensor)
{
    static const struct {
        const char *dtype;
        size_t width;
        unsigned char bytes[12]; /* of 1, -2.5 and 1 + 2^-12, which two bytes round to 1 */
    } types[] = {{"F32", 4, {0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0, 0, 8, 0x80, 0x3F}},
                 {"F16", 2, {0, 0x3C, 0, 0xC1, 0, 0x3C}},
                 {"BF16", 2, {0x80, 0x3F, 0x20, 0xC0, 0x80, 0x3F}}};
    static const float values[] = {1, -2.5f, 1 + 0x1p-12f};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t count = 0; count <= 3; count++) {
            struct safetensor t = {.dtype = types[i].dtype, .dims = 1, .shape = {3}};
            unsigned char got[16];
            size_t n = count * types[i].width;
            assert_int_equal(safetensor_width(&t), types[i].width);
            memset(got, 0x55, sizeof got);
            safetensor_encode(&t, values, count, got);
            assert_memory_equal(got, types[i].bytes, n);
            assert_int_equal(got[n], 0x55);
        }
}

TEST_CASE(no_tensors_at_all_is_a_valid_file)
{
    struct err err = {0};
    size_t fetched = 0;
    char *path = rig_path("none.safetensors");
    assert_int_equal(safetensors_write(path, NULL, 0, fetch, &fetched, &err), STATUS_OK);
    assert_int_equal(open_hostile(path, &err), STATUS_OK);
    expect_accepted("{}", 0);
    free(path);
}

TEST_CASE(a_file_that_cannot_be_created_is_an_error)
{
    struct err err = {0};
    size_t fetched = 0;
    assert_int_equal(safetensors_write("no/such/folder/x", NULL, 0, fetch, &fetched, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no/such/folder/x: cannot create"));
}

#define ONE "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

TEST_CASE(every_truncation_of_a_good_file_is_refused)
{
    struct err err;
    struct file_map map;
    char *path = write_file(ONE, strlen(ONE), -1, 8);
    assert_int_equal(open_hostile(path, &err), STATUS_OK);
    assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
    unsigned char *bytes = malloc(map.size);
    size_t size = map.size;
    memcpy(bytes, map.data, size);
    file_map_close(&map);
    for (size_t n = 0; n < size; n++) {
        rig_write(path, bytes, n);
        if (open_hostile(path, &err) != STATUS_CORRUPT) fail_msg("the first %zu bytes are accepted", n);
    }
    free(bytes);
    free(path);
}

TEST_CASE(a_header_size_that_lies_is_refused)
{
    static const int64_t sizes[] = {0,
                                    1,
                                    2,
                                    10,
                                    100000001,
                                    100000000,
                                    1LL << 32,
                                    INT64_MAX,
                                    (int64_t)strlen(ONE) + 1,
                                    (int64_t)strlen(ONE) - 1,
                                    (int64_t)strlen(ONE) + 8,
                                    (int64_t)strlen(ONE) + 9};
    struct err err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *path = write_file(ONE, strlen(ONE), sizes[i], 8);
        if (open_hostile(path, &err) != STATUS_CORRUPT)
            fail_msg("header size %lld is accepted", (long long)sizes[i]);
        free(path);
    }
    char *path = write_file(ONE, strlen(ONE), 0, 8);
    struct file_map map;
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    unsigned char *bytes = malloc(map.size);
    size_t n = map.size;
    memcpy(bytes, map.data, n);
    file_map_close(&map);
    memset(bytes, 0xFF, 8); /* 2^64 - 1: adding 8 to it would wrap around */
    rig_write(path, bytes, n);
    assert_int_equal(open_hostile(path, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "cut off or too large"));
    free(bytes);
    free(path);
}

TEST_CASE(trailing_blanks_of_the_header_are_allowed)
{
    expect_accepted(ONE "   ", 8);
    expect_refused(" " ONE, 8, "the header is cut off or too large"); /* it must start with { */
    expect_refused(ONE "x", 8, "end of file expected");
}

TEST_CASE(entries_that_are_incomplete_or_of_the_wrong_kind_are_refused)
{
    static const char *const headers[] = {
        "{\"a\":5}",
        "{\"a\":null}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        expect_refused(headers[i], 8, "dtype, shape or data_offsets is missing");
    expect_refused("{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype");
    expect_refused("{\"a\":{\"dtype\":\"\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype");
}

TEST_CASE(shapes_that_are_negative_fractional_or_overflow_are_refused)
{
    static const char *const shapes[] = {"-2",
                                         "-9223372036854775808",
                                         "2.0",
                                         "\"2\"",
                                         "null",
                                         "[2]",
                                         "4611686018427387904,2",
                                         "9223372036854775807,9223372036854775807",
                                         "4294967296,4294967296",
                                         "3037000500,3037000500,2",
                                         "9223372036854775807"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char header[256];
        snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,8]}}",
                 shapes[i]);
        expect_refused(header, 8, "the shape is negative or overflows");
    }
    expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8,
                   "too big");
    expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}}", 8,
                   "more than 8 dimensions");
    expect_accepted("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}}", 8);
    /* a zero hides nothing behind it */
    expect_accepted("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}",
                    0);
}

TEST_CASE(data_offsets_outside_the_file_are_refused)
{
    static const char *const offsets[] = {"0,9",
                                          "-8,0",
                                          "8,0",
                                          "8,16",
                                          "0,9223372036854775807",
                                          "9223372036854775800,9223372036854775807",
                                          "0.0,8",
                                          "\"0\",\"8\"",
                                          "null,8"};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        char header[256];
        snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%s]}}",
                 offsets[i]);
        expect_refused(header, 8, "data_offsets ");
    }
    expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8,
                   "do not match shape and dtype");
    expect_refused("{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
                   "do not match shape and dtype");
}

#define U8(name, from, to, size)                                                                             \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" from "," to "]}"

TEST_CASE(overlaps_gaps_and_uncovered_bytes_are_refused)
{
    expect_accepted("{" U8("b", "4", "8", "4") "," U8("a", "0", "4", "4") "}",
                    8); /* any order in the header */
    expect_refused("{" U8("a", "0", "5", "5") "," U8("b", "4", "8", "4") "}", 8, "overlaps");
    expect_refused("{" U8("a", "0", "8", "8") "," U8("b", "0", "8", "8") "}", 8, "overlaps");
    expect_refused("{" U8("a", "0", "8", "8") "," U8("b", "2", "4", "2") "}", 8, "overlaps");
    expect_refused("{" U8("a", "0", "3", "3") "," U8("b", "4", "8", "4") "}", 8, "leaves a gap");
    expect_refused("{" U8("a", "1", "8", "7") "}", 8, "leaves a gap");
    expect_refused("{" U8("a", "0", "7", "7") "}", 8, "extra bytes after the last tensor");
    expect_refused("{}", 8, "extra bytes after the last tensor");
    expect_accepted("{" U8("a", "0", "8", "8") "," U8("z", "0", "0", "0") "," U8("y", "8", "8", "0") "}", 8);
    expect_refused("{" U8("a", "0", "8", "8") "," U8("z", "3", "3", "0") "}", 8, "a gap");
}

TEST_CASE(duplicate_keys_are_refused)
{
    expect_refused("{" U8("a", "0", "4", "4") "," U8("a", "4", "8", "4") "}", 8, "duplicate");
    expect_refused("{" U8("a", "0", "4", "4") "," U8("\\u0061", "4", "8", "4") "}", 8, "duplicate");
    expect_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8,
                   "duplicate");
}

TEST_CASE(metadata_is_no_tensor)
{
    expect_accepted("{\"__metadata__\":{}," U8("a", "0", "8", "8") "}", 8);
    expect_accepted("{\"__metadata__\":{\"k\":\"v\"}," U8("a", "0", "8", "8") "}", 8);
}

TEST_CASE(headers_that_are_no_json_object_of_utf8_are_refused)
{
    expect_refused("{\"a\xff\":1}", 8, "not a valid safetensors file");
    expect_refused("{\"\xed\xa0\x80\":1}", 8, "not a valid safetensors file"); /* a surrogate */
    expect_refused("{\"\\ud800\":1}", 8, "not a valid safetensors file");
    expect_refused("{\"\xc0\x80\":1}", 8, "not a valid safetensors file"); /* an overlong NUL */
    expect_refused("{\"a\\u0000b\":1}", 8, "not a valid safetensors file");
    expect_refused_bytes("{\"a\0b\":1}", 9, 8, "not a valid safetensors file");
    expect_refused("{", 8, "not a valid safetensors file");
    expect_refused("{{}", 8, "not a valid safetensors file");
    expect_refused("{]", 8, "not a valid safetensors file");
    expect_refused("{\"a\":NaN}", 8, "not a valid safetensors file");
}

TEST_CASE(names_that_command_a_terminal_do_not_reach_the_message)
{
    struct err err;
    static const char header[] =
        "{\"\\u001b[2J\\nname\\u009b\":{\"dtype\":\"x\",\"shape\":[],\"data_offsets\":[0,8]}}";
    char *path = write_file(header, strlen(header), -1, 8);
    assert_int_equal(open_hostile(path, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "?[2J?name"));
    free(path);
}

TEST_CASE(nesting_without_end_is_refused)
{
    enum { DEPTH = 200000 };
    char *header = malloc(DEPTH + 16);
    strcpy(header, "{\"a\":");
    memset(header + 5, '[', DEPTH);
    expect_refused_bytes(header, DEPTH + 5, 8, "not a valid safetensors file");
    for (int i = 0; i < DEPTH; i += 5) memcpy(header + 5 + i, "{\"a\":", 5);
    expect_refused_bytes(header, DEPTH + 5, 8, "not a valid safetensors file");
    free(header);
}

TEST_CASE(a_folder_and_a_missing_file_are_no_safetensors)
{
    struct err err;
    assert_int_equal(open_hostile("tests", &err), STATUS_USAGE);
    assert_int_equal(open_hostile("no/such/file", &err), STATUS_NOT_FOUND);
}

/* Seeded: a good file with a few bytes changed, inserted, removed or repeated, mostly in its header. */
TEST_CASE(thousands_of_mutations_never_do_harm)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":["
                                 "2,3],\"data_offsets\":[0,24]},"
                                 "\"b\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[24,30]},"
                                 "\"e\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[30,30]}}";
    static const char spice[] = "0123456789-{}[]\",:.eE \\u\x1b\xff\x80nft";
    struct err err;
    struct file_map map;
    char *path = write_file(header, strlen(header), -1, 30);
    int accepted = 0, refused = 0;
    assert_int_equal(open_hostile(path, &err), STATUS_OK);
    assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
    unsigned char original[1024], bytes[2048];
    size_t size = map.size;
    memcpy(original, map.data, size);
    file_map_close(&map);
    for (uint64_t round = 0; round < 6000; round++) {
        uint64_t k = 0;
        size_t n = size;
#define DICE(below) ((size_t)(rig_uniform(round, k++) * (double)(below)))
        memcpy(bytes, original, size);
        for (size_t edits = 1 + DICE(4); edits; edits--) {
            size_t at = DICE(8) ? 8 + DICE(n - 8) : DICE(8), length = 1 + DICE(12);
            unsigned char byte =
                DICE(4) ? (unsigned char)spice[DICE(sizeof spice - 1)] : (unsigned char)DICE(256);
            if (at + length > n) length = n - at;
            switch (DICE(4)) {
            case 0:
            case 1:
                bytes[at] = byte;
                break;
            case 2: /* remove */
                memmove(bytes + at, bytes + at + length, n - at - length);
                n -= length;
                break;
            default: /* repeat */
                memmove(bytes + at + length, bytes + at, n - at);
                n += length;
            }
            if (n < 16) break;
        }
        if (DICE(2) && n > 38) /* let the size follow, so that more of them get past the first check */
            for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)(n - 38) >> (8 * i));
#undef DICE
        rig_write(path, bytes, n);
        if (open_hostile(path, &err))
            refused++;
        else
            accepted++;
    }
    assert_true(accepted > 50 && refused > 1000); /* both outcomes occurred */
    free(path);
}

TEST_MAIN()
