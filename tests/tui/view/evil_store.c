/* See evil_store.h. */
#include "tests/tui/view/evil_store.h"

#include "core/base/file.h"
#include "runs/columns.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static const char real_values[] = "case (i + %d) %% 11 when 0 then null when 1 then 9e999 when 2 then -9e999"
                                  " when 3 then 1e300 when 4 then -1e300 when 5 then 1e-300 when 6 then 0"
                                  " else i * 0.37 end";
static const char integers[] = "case (i + %d) %% 7 when 0 then -1 when 1 then 9223372036854775807"
                               " when 2 then -9223372036854775807 - 1 when 3 then 1 << 40 else i end";
static const char texts[] =
    "case (i + %d) %% 9 when 0 then char(27) || ']0;owned' || char(7) || char(27) || '[31mred'"
    " when 1 then '日本語のとても長い実験の名前' when 2 then '🚀👩‍👩‍👧 e' || "
    "char(769) "
    "|| "
    "' "
    "שלום'"
    " when 3 then hex(zeroblob(200)) when 4 then cast(x'ff80c39b33316d' as text) || char(10) || char(155)"
    " when 5 then '1e308' when 6 then 'nan' when 7 then '-inf' else '' end || %s";

/* Writes the expression that gives row i of column number k. */
static void write_value(FILE *sql, const struct column_info *column, int k, bool key)
{
    bool needed = strstr(column->sql, "not null") != NULL;
    if (strcmp(column->name, "run_id") == 0)
        fputs("r.id", sql);
    else if (strcmp(column->name, "segment") == 0)
        fputs("1", sql);
    else if (strcmp(column->name, "step") == 0)
        fputs("i * 13", sql);
    else if (strcmp(column->name, "nan") == 0)
        fputs("i % 2 * -1", sql);
    else if (column_is_real(column))
        fputs(needed ? "ifnull(" : "(", sql), fprintf(sql, real_values, k), fputs(needed ? ", 7)" : ")", sql);
    else if (column_is_integer(column) && key)
        fputs("i - 1", sql);
    else if (column_is_integer(column))
        fprintf(sql, integers, k);
    else if (column->words)
        fprintf(sql, "case i %% 3 when 0 then 'zzz' else '%s' end", column->words[k % 3]);
    else
        fprintf(sql, texts, k, key ? "'#' || i" : "''");
}

/* Forty rows of a table for each of the runs `select id from runs WHERE`; of `runs` six, called evil-0 …. */
static void write_rows(FILE *sql, enum store_table which, const char *where)
{
    const struct table_info *table = &store_tables[which];
    const char *separator = "(";
    bool runs = which == TABLE_RUNS;
    fprintf(sql, "with recursive n(i) as (select 0 union all select i + 1 from n where i < %d) ",
            runs ? 5 : 39);
    fprintf(sql, "insert or replace into %s", table->name);
    for (int pass = 0; pass < 2; pass++, separator = " select ") {
        for (int c = table->first; c < table->end; c++) {
            const struct column_info *column = &store_columns[c];
            bool key = strstr(table->order, column->name) != NULL;
            if (strstr(column->sql, "primary key") ? !runs : strstr(column->sql, " as (") != NULL) continue;
            fputs(separator, sql);
            separator = ", ";
            if (pass == 0)
                fputs(column->name, sql);
            else if (runs && c == COLUMN_RUNS_id)
                fputs("'evil-' || i", sql);
            else
                write_value(sql, column, c - table->first, key);
        }
        if (pass == 0) fputc(')', sql);
    }
    fprintf(sql, " from n%s%s%s;\n", runs ? "" : ", (select id from runs where ", where, runs ? "" : ") r");
}

void evil_store(const char *name, char *home, size_t size)
{
    static const char more[] =
        "update runs set created_at = 1e9 - substr(id, 6), name = case id when 'evil-0' then '日本語の実験 "
        "🚀' "
        "else name end, status = case id when 'evil-0' then 'stopped' else status end, config = '[model]' || "
        "char(10) || 'preset = shakespeare' || char(10) || '[train]' || char(10) || 'learning_rate = 1' ||"
        "char(10) || '[data]' || "
        "char(10)"
        " || 'train = 日本語 🚀' || char(27) || '[2J';"
        "delete from checkpoints;"
        "update events set text = text || ' ' || hex(zeroblob(300)) where id % 4 = 0;"
        "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
        " values('evil-0', 1, 3, 'la' || char(27) || '[31mred', 9e999, 'checkpoints/step-3', -5),"
        " ('evil-0', 1, 7, 'best', -1e300, 'checkpoints/step-7', 9223372036854775807);"
        "delete from tags where run_id = 'evil-0';"
        "insert into tags(run_id, tag) select id, 'sweep:🚀' || char(27) || '[5m' from runs;"
        "insert into steps(run_id, segment, step, loss) values('evil-2', 1, 0, 1e300), ('evil-3', 1, "
        "9999999, 2),"
        " ('evil-4', 1, 1 << 59, 1e-300);"
        "with recursive n(i) as (select 0 union all select i + 1 from n where i < 156249) insert into"
        " rollup(run_id, metric, level, first_step, min, max, mean, last, count, non_finite)"
        " select 'evil-3', 'loss', l, i * l, -i, i * 1e300, i, i, l, 1"
        " from n, (select 64 as l union all select 4096) where i * l < 10000000;"
        "insert into segments(run_id, segment, started_at) values('evil-3', 1, 1e9)";
    static const char *const folders[] = {"step-3", "step-7"};
    char path[1200], *text = NULL;
    size_t bytes;
    struct err err = {0};
    store_fixture_home(name, home, size);
    store_close(store_fixture_open(home));
    FILE *sql = open_memstream(&text, &bytes);
    assert_non_null(sql);
    fputs("begin;\n", sql);
    write_rows(sql, TABLE_RUNS, "");
    for (int t = 0; t < TABLE_COUNT; t++)
        if (t != TABLE_RUNS) write_rows(sql, (enum store_table)t, "id in ('evil-0', 'evil-5')");
    fprintf(sql, "%s; commit", more);
    fclose(sql);
    store_fixture_sql(home, text);
    free(text);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/runs/evil-0/checkpoints/%s", home, folders[i]);
        assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    }
    snprintf(path, sizeof path, "%s/runs/evil-0/stderr.log", home);
    static const char log[] = "\033]0;owned\a\033[31mred \xff\xc2\x9b"
                              "31m 日本語\r\n\n\0\t🚀 no end";
    assert_int_equal(file_write_atomic(path, log, sizeof log - 1, &err), STATUS_OK);
}
