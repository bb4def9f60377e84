/* The files beside the weights: which tokens end a text, for other programs, after a model has learned to end
 * answers. */
#include <jansson.h>

#include "core/checkpoint/companions.h"
#include "tests/cmocka.h"

static void put(struct companions *companions, const char *text)
{
    struct err err;
    assert_int_equal(companions_put(companions, COMPANION_GENERATION_CONFIG, text, strlen(text), &err),
                     STATUS_OK);
}

static void expect(const json_t *json, const char *wanted)
{
    json_t *want = json_loads(wanted, 0, NULL);
    if (!json_equal(json, want)) fail_msg("%s, not %s", json_dumps(json, JSON_COMPACT), wanted);
    json_decref(want);
}

TEST_CASE(the_end_of_an_answer_is_added_to_the_tokens_that_end_a_text)
{
    static const struct {
        const char *before, *config; /* generation_config.json, and what config.json names; NULL: nothing */
        const char *after, *config_after;
    } cases[] = {
        {NULL, NULL, "{\"eos_token_id\": 7}", "{\"eos_token_id\": 7}"},
        {NULL, "{\"eos_token_id\": 0}", "{\"eos_token_id\": [0, 7]}", "{\"eos_token_id\": 0}"},
        {NULL, "{\"bos_token_id\": 1}", "{\"eos_token_id\": 7}",
         "{\"bos_token_id\": 1, \"eos_token_id\": 7}"},
        {"{\"eos_token_id\": 5, \"top_k\": 20}", NULL, "{\"eos_token_id\": [5, 7], \"top_k\": 20}",
         "{\"eos_token_id\": [5, 7]}"},
        {"{\"eos_token_id\": [5, 7]}", "{\"eos_token_id\": 5}", "{\"eos_token_id\": [5, 7]}",
         "{\"eos_token_id\": 5}"},
        {"{\"eos_token_id\": 7}", NULL, "{\"eos_token_id\": 7}", "{\"eos_token_id\": 7}"},
        {"{\"top_k\": 20}", "{\"eos_token_id\": 5}", "{\"eos_token_id\": [5, 7], \"top_k\": 20}",
         "{\"eos_token_id\": 5}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct companions companions = {0};
        struct err err;
        if (cases[i].before) put(&companions, cases[i].before);
        if (cases[i].config) companions.ids = json_loads(cases[i].config, 0, NULL);
        for (int times = 0; times < 2; times++) { /* a run that is resumed adds it again */
            assert_int_equal(companions_add_end(&companions, 7, &err), STATUS_OK);
            const struct companion_file *file = &companions.files[COMPANION_GENERATION_CONFIG];
            json_t *now = json_loadb(file->bytes, file->size, 0, NULL);
            expect(now, cases[i].after);
            expect(companions.ids, cases[i].config_after);
            json_decref(now);
        }
        companions_release(&companions);
    }
}

TEST_MAIN()
