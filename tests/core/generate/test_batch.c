/* Many texts at once: each is what it would be alone, whatever its neighbours, and however few slots there
 * are. */
#include "core/generate/batch.h"
#include "core/generate/generate.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { V = 256, PROMPTS = 11, LENGTH = 40 };

static const char *const prompts[PROMPTS] = {"a",   "the", "xyz and more", "q",          "0123456789", "b",
                                             "ab ", "\n",  "zz top",       "last but 1", "end"};
static const struct special_tokens no_ends = {.bos = -1, .pad = -1};

struct scene {
    struct rig rig;
    struct tokenizer *tokenizer;
    struct batch_text texts[PROMPTS];
    size_t order[PROMPTS], ended, stop_after;
};

static void open_scene(struct scene *s, int slots)
{
    struct model_config config = rig_config();
    config.vocab_size = V;
    *s = (struct scene){.stop_after = SIZE_MAX};
    struct plan_input input = {.B = 1, .T = 16, .cache_slots = slots, .cache_length = LENGTH};
    rig_open_input(&s->rig, NULL, &config, input, "");
    assert_int_equal(tokenizer_open_bytes(&s->tokenizer, NULL), STATUS_OK);
    for (int i = 0; i < PROMPTS; i++)
        assert_int_equal(
            tokenizer_encode(s->tokenizer, prompts[i], strlen(prompts[i]), &s->texts[i].prompt, NULL),
            STATUS_OK);
}

static void close_scene(struct scene *s)
{
    for (int i = 0; i < PROMPTS; i++) {
        token_list_release(&s->texts[i].prompt);
        growing_text_release(&s->texts[i].text);
    }
    tokenizer_close(s->tokenizer);
    rig_close(&s->rig);
}

static void on_ended(void *context, size_t text)
{
    struct scene *s = context;
    s->order[s->ended++] = text;
}

static bool on_stop(void *context)
{
    return ((struct scene *)context)->ended >= ((struct scene *)context)->stop_after;
}

static void write_all(struct scene *s, struct sampling sampling, struct ending ending)
{
    const struct batch batch = {.network = &s->rig.network,
                                .tokenizer = s->tokenizer,
                                .sampling = sampling,
                                .ending = ending,
                                .texts = s->texts,
                                .count = PROMPTS,
                                .context = s,
                                .stop = on_stop,
                                .ended = on_ended};
    struct err err = {0};
    if (batch_write(&batch, &err)) fail_msg("%s", err.text);
}

/* The text of a prompt alone, to `out`; returns its length. */
static size_t alone(struct scene *s, const char *prompt, struct sampling sampling, int most, char *out)
{
    struct generator g;
    size_t n = 0, more;
    assert_int_equal(generator_open(&g, &s->rig.network, s->tokenizer, NULL), STATUS_OK);
    assert_int_equal(generator_start(&g, prompt, NULL), STATUS_OK);
    for (int i = 0; i < most; i++) {
        const char *bytes = tokenizer_token_bytes(s->tokenizer, generator_next(&g, &sampling, i), &more);
        memcpy(out + n, bytes, more);
        n += more;
    }
    generator_close(&g);
    return n;
}

TEST_CASE(each_text_is_what_it_is_alone)
{
    static const struct sampling ways[] = {
        {.top_p = 1},
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1.3, .presence_penalty = 0.5, .seed = 5}};
    for (int slots = 1; slots <= 4; slots++)
        for (int way = 0; way < 2; way++) {
            struct scene s;
            char want[64];
            open_scene(&s, slots);
            write_all(&s, ways[way], (struct ending){.special = &no_ends, .stop = "", .max_tokens = 20});
            assert_int_equal(s.ended, PROMPTS);
            for (int i = 0; i < PROMPTS; i++) {
                const struct growing_text *text = &s.texts[i].text;
                assert_int_equal(text->end, END_LENGTH);
                assert_int_equal(text->n, alone(&s, prompts[i], ways[way], 20, want));
                if (memcmp(text->bytes, want, text->n) != 0)
                    fail_msg("%d slots, prompt %d: another text than alone", slots, i);
            }
            close_scene(&s);
        }
}

TEST_CASE(a_text_ends_when_its_slot_is_full)
{
    struct scene s;
    open_scene(&s, 3);
    write_all(&s, (struct sampling){.top_p = 1},
              (struct ending){.special = &no_ends, .stop = "", .max_tokens = 1000});
    for (int i = 0; i < PROMPTS; i++) {
        assert_int_equal(s.texts[i].text.end, END_CONTEXT);
        /* the last token needs no place */
        assert_int_equal(s.texts[i].text.tokens + (int64_t)s.texts[i].prompt.count, LENGTH + 1);
    }
    close_scene(&s);
}

TEST_CASE(a_stop_ends_it_after_a_step_and_leaves_the_others_unfinished)
{
    struct scene s;
    open_scene(&s, 2);
    s.stop_after = 3;
    write_all(&s, (struct sampling){.top_p = 1},
              (struct ending){.special = &no_ends, .stop = "", .max_tokens = 4});
    assert_in_range(s.ended, 3, 5);
    size_t finished = 0;
    for (int i = 0; i < PROMPTS; i++) finished += s.texts[i].text.end != END_NOT_YET;
    assert_int_equal(finished, s.ended);
    close_scene(&s);
}

TEST_MAIN()
