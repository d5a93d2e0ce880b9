/* Reports at the level of functions: texts made safe, runs read back as they were recorded, rivals, many
 * agents. */
#include "record/report.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>

#include "base/xml.h"
#include "record/report_cells.h"
#include "record/scratch.h"
#include "veche.h"

static char *safe(const char *text)
{
    char *out = NULL;
    size_t n;
    FILE *to = open_memstream(&out, &n);
    xml_text(to, text);
    fclose(to);
    return out;
}

static void texts_are_escaped_and_made_whole(void **state)
{
    (void)state;
#define GONE "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"<a href=\"x\">&'", "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"},
        {"\xc3\xa4\xe4\xb8\xad\xf0\x9f\x99\x82",
         "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x99\x82"}, /* 2, 3 and 4 bytes */
        {"a\x01\x1b[0m\x02z", "a" GONE GONE "[0m" GONE "z"},
        {"tab\tand\nline", "tab\tand\nline"},
        {"\xff\xe4", GONE GONE},                   /* no UTF-8 at all           */
        {"\xe4\xb8", GONE GONE},                   /* cut off                   */
        {"\xc0\xaf", GONE GONE},                   /* a slash in disguise       */
        {"\xed\xa0\x80", GONE GONE GONE},          /* half a surrogate pair     */
        {"\xf4\x90\x80\x80", GONE GONE GONE GONE}, /* beyond the last character */
        {"\xef\xbf\xbf", GONE GONE GONE},          /* a character XML refuses   */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = safe(cases[i][0]);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

/* A run of `n` agents with two evaluations and an end, written as the program writes it. */
static void make_run(const char *parent, const char *name, const char *yaml, size_t n, bool finished)
{
    struct run_folder r;
    struct score *scores = calloc(n, sizeof *scores);
    assert_ok(run_create(parent, name, yaml, 1, &r));
    for (uint64_t k = 1; k <= 2; k++) {
        for (size_t i = 0; i < n; i++)
            scores[i] = (struct score){.accuracy = 80 + (double)k + (double)(i % 2),
                                       .loss = 0.5,
                                       .rounds = k,
                                       .bytes = 1000 * k,
                                       .messages = k,
                                       .waiting_s = (double)k,
                                       .staleness_mean = 1,
                                       .staleness_max = (double)(i % 7),
                                       .alive = i != 2};
        struct evaluation e = {.step = k,
                               .round = k,
                               .epoch = (double)k,
                               .real_s = 2.0 * (double)k,
                               .virtual_s = 4.0 * (double)k,
                               .samples = 10 * k,
                               .scores = scores,
                               .n_agents = n,
                               .averaged_loss = 0.25,
                               .averaged_accuracy = n > 1 ? 84 : NAN,
                               .disagreement = {4, 3, 2, 1}};
        assert_ok(run_record_evaluation(&r, &e));
        assert_ok(run_record_note(&r, k, 4.0 * (double)k, 1, k == 1 ? 0 : -1, "crash", "it happened"));
    }
    struct summary s = {.name = name,
                        .strategy = "x",
                        .status = "done",
                        .run = r.path,
                        .version = "1",
                        .engine = "e",
                        .agents = (int64_t)n,
                        .rounds = 2,
                        .epochs = 2,
                        .accuracy = {81.25, 0.5, 81, 82},
                        .loss = {0.5, 0, 0.5, 0.5},
                        .averaged_accuracy = 83,
                        .real_s = 5,
                        .virtual_s = 9,
                        .bytes = 12000000,
                        .messages = 77,
                        .waiting_share = 0.25};
    if (finished)
        assert_ok(run_write_summary(&r, &s));
    run_close(&r);
    free(scores);
}

static const char CONSENSUS[] = "name: c\ndata: {set: toys, batch: 8}\nagents: 4\nmodel: mlp\n"
                                "topology: {graph: 'cycle:4', weights: fastest}\n"
                                "strategy: {kind: consensus, every: 5}\n";
static const char SINGLE_8[] = "name: s\ndata: {set: toys, batch: 8}\nstrategy: single\n";
static const char SINGLE_32[] = "name: s\ndata: {set: toys, batch: 32}\nstrategy: {kind: single}\n";
static const char ELSEWHERE[] = "name: s\ndata: {set: toys, batch: 32, limit: 10}\nstrategy: single\n";

static void what_was_recorded_is_read_back(void **state)
{
    struct report r;
    make_run(*state, "run", CONSENSUS, 4, false);
    const char *path = in(*state, "run");
    assert_ok(report_read(&path, 1, &r));
    const struct report_run *run = &r.runs[0];
    assert_true(run->n_points == 2 && run->n_agents == 4 && run->n_alive == 3 && run->batch == 8);
    assert_true(run->n_notes == 2 && run->notes[0].agent == 0 && run->notes[1].agent == -1);
    assert_true(run->notes[1].virtual_s == 8);
    assert_string_equal(run->strategy, "consensus, every 5");
    assert_string_equal(run->topology, "cycle:4");
    assert_string_equal(run->set, "toys");
    assert_string_equal(run->label, "run");
    const struct report_point *last = &run->points[1];
    assert_true(last->e.epoch == 2 && last->e.virtual_s == 8 && last->e.scores[3].accuracy == 83);
    assert_true(last->bytes == 8000 && last->messages == 8 && last->waiting_s == 8);
    assert_true(last->e.disagreement.l2 == 3 && last->e.averaged_accuracy == 84);
    /* agents 0, 1 and 3 live: 82, 83, 83 */
    assert_true(fabs(run->end.accuracy.mean - 248.0 / 3) < 1e-12 && run->end.accuracy.min == 82);
    assert_true(!run->finished && run->end.waiting_share == 0.25 && run->end.staleness_max == 3);
    assert_string_equal(run->end.status, "unfinished");
    report_release(&r);
}

static void the_summary_has_the_last_word(void **state)
{
    struct report r;
    make_run(*state, "run", CONSENSUS, 4, true);
    const char *path = in(*state, "run//");
    assert_ok(report_read(&path, 1, &r));
    const struct summary *s = &r.runs[0].end;
    assert_true(r.runs[0].finished && s->accuracy.mean == 81.25 && s->accuracy.std == 0.5);
    assert_true(s->averaged_accuracy == 83 && s->virtual_s == 9 && s->bytes == 12000000);
    char *table;
    assert_ok(report_table(&r, &table));
    assert_non_null(strstr(table, "81.25 +- 0.50"));
    assert_non_null(strstr(table, "3 of 4"));
    assert_non_null(strstr(table, " 12.0 "));
    assert_null(strstr(table, "state"));
    free(table);
    report_release(&r);
}

static void the_rival_is_the_single_model_with_the_batch_of_all_agents(void **state)
{
    struct report r;
    make_run(*state, "many", CONSENSUS, 4, true);
    make_run(*state, "one8", SINGLE_8, 1, true);
    make_run(*state, "one32", SINGLE_32, 1, true);
    make_run(*state, "other", ELSEWHERE, 1, true);
    const char *all[] = {in(*state, "many"), in(*state, "other"), in(*state, "one8"), in(*state, "one32")};
    assert_ok(report_read(all, 4, &r)); /* 4 agents of batch 8 make 32 */
    assert_ptr_equal(r.runs[0].rival, &r.runs[3]);
    assert_null(r.runs[1].rival);
    assert_null(r.runs[3].rival);
    report_release(&r);
    assert_ok(report_read(all, 3, &r));
    assert_ptr_equal(r.runs[0].rival, &r.runs[2]);
    report_release(&r);
    assert_ok(report_read(all, 2, &r)); /* fewer samples: no fair rival */
    assert_null(r.runs[0].rival);
    report_release(&r);
}

static const char ON_RANKS[] =
    "name: r\ndata: {set: toys, batch: 8}\nagents: 4\nworld: {kind: mpi}\nstrategy: consensus\n";

/* The words of the table, of the page and of a figure for the seconds of some runs. */
static void check_clock(const char *const *paths, size_t n, const char *words, bool has_virtual_column)
{
    struct report r;
    char *text, label[64];
    assert_ok(report_read(paths, n, &r));
    assert_ok(report_table(&r, &text));
    assert_true((strstr(text, "virtual s") != NULL) == has_virtual_column);
    free(text);
    assert_ok(report_html(&r, AXIS_SECONDS, &text));
    snprintf(label, sizeof label, ">by %s seconds</label>", words);
    assert_non_null(strstr(text, label));
    free(text);
    assert_ok(report_svg(&r, FIGURE_LOSS, AXIS_SECONDS, &text));
    snprintf(label, sizeof label, ">%s time (s)<", words);
    assert_non_null(strstr(text, label));
    free(text);
    report_release(&r);
}

static void seconds_are_called_what_they_are(void **state)
{
    make_run(*state, "here", CONSENSUS, 4, true);
    make_run(*state, "there", ON_RANKS, 4, true);
    make_run(*state, "half", ON_RANKS, 4, false);
    const char *all[] = {in(*state, "here"), in(*state, "there"), in(*state, "half")};
    check_clock(all, 1, "virtual", true);
    check_clock(all + 1, 2, "real", false);
    check_clock(all, 3, "virtual or real", true);
    struct report r;
    char *page;
    assert_ok(report_read(all + 1, 1, &r));
    assert_ok(report_html(&r, AXIS_EPOCHS, &page));
    assert_null(strstr(page, "virtual and"));
    assert_null(strstr(page, "<th>virtual s</th>"));
    assert_non_null(strstr(page, "<th>real s</th>"));
    free(page);
    report_release(&r);
}

static size_t count(const char *text, const char *words)
{
    size_t n = 0;
    for (; (text = strstr(text, words)); text++)
        n++;
    return n;
}

static void a_page_of_a_thousand_agents_shows_the_worst_and_stays_small(void **state)
{
    struct report r;
    char *page;
    make_run(*state, "run", CONSENSUS, 1000, true);
    const char *path = in(*state, "run");
    assert_ok(report_read(&path, 1, &r));
    assert_ok(report_html(&r, AXIS_EPOCHS, &page));
    assert_non_null(strstr(page, "The 200 agents with the lowest accuracy, of 1000"));
    assert_int_equal(count(page, "<tr><td>") + count(page, "<tr class=\"gone\"><td>"),
                     200 + 2); /* and two notes */
    assert_null(strstr(page, "each agent</label>"));
    assert_true(strlen(page) < 200000);
    free(page);
    report_release(&r);
}

static void forty_agents_have_a_line_each_and_one_run_among_several_has_none(void **state)
{
    struct report r;
    char *svg;
    make_run(*state, "forty", CONSENSUS, 40, true);
    make_run(*state, "four", CONSENSUS, 4, true);
    make_run(*state, "single", SINGLE_8, 1, true);
    const char *all[] = {in(*state, "forty"), in(*state, "single"), in(*state, "four")};
    assert_ok(report_read(all, 2, &r));
    assert_ok(report_svg(&r, FIGURE_ACCURACY, AXIS_EPOCHS, &svg));
    assert_int_equal(count(svg, " each\">"), 40);
    assert_int_equal(count(svg, "class=\"band\""), 1);
    assert_non_null(strstr(svg, "the averaged model"));
    free(svg);
    assert_ok(report_svg(&r, FIGURE_VARIATION, AXIS_BYTES, &svg)); /* of the forty alone */
    assert_null(strstr(svg, ">single<"));
    assert_non_null(strstr(svg, "coefficient of variation"));
    assert_non_null(strstr(svg, "sent by all agents together (kB)"));
    free(svg);
    report_release(&r);
    assert_ok(report_read(all, 3, &r));
    assert_ok(report_svg(&r, FIGURE_ACCURACY, AXIS_EPOCHS, &svg));
    assert_int_equal(count(svg, " each\">"), 0);
    assert_int_equal(count(svg, "class=\"band\""), 2);
    free(svg);
    report_release(&r);
}

static void one_agent_has_nothing_to_disagree_about_and_sends_nothing(void **state)
{
    struct report r;
    char *svg;
    make_run(*state, "single", SINGLE_8, 1, true);
    const char *path = in(*state, "single");
    assert_ok(report_read(&path, 1, &r));
    assert_true(report_shows(&r, FIGURE_ACCURACY, AXIS_EPOCHS));
    assert_false(report_shows(&r, FIGURE_DISAGREEMENT, AXIS_EPOCHS));
    assert_ok(report_svg(&r, FIGURE_DISAGREEMENT, AXIS_EPOCHS, &svg));
    assert_non_null(strstr(svg, "One agent alone has no other to disagree with."));
    free(svg);
    report_release(&r);
}

static void the_library_gives_every_format_and_refuses_others(void **state)
{
    static const char *const formats[] = {
        "text", "json", "html", "svg:accuracy", "svg:loss", "svg:disagreement", "svg:variation"};
    veche_report *r;
    char *text;
    make_run(*state, "run", CONSENSUS, 4, true);
    const char *path = in(*state, "run"), *page = in(*state, "page.html");
    assert_ok(veche_report_read(&path, 1, &r));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        assert_ok(veche_report_print(r, formats[i], i % 2 ? "seconds" : NULL, &text));
        assert_true(strlen(text) > 100);
        free(text);
    }
    assert_fault(veche_report_print(r, "pdf", NULL, &text), FAULT_USAGE, "'pdf' is no format of a report");
    assert_fault(veche_report_print(r, "svg:moon", NULL, &text), FAULT_USAGE, "'svg:moon' is no format");
    assert_fault(veche_report_print(r, "html", "moons", &text), FAULT_USAGE, "'moons' is no axis");
    assert_ok(veche_report_write(r, "html", "bytes", page));
    assert_true(exists(page));
    assert_fault(veche_report_write(r, "html", NULL, in(*state, "no/page.html")), FAULT_FILE,
                 "cannot be written");
    veche_report_free(r);
    veche_report_free(NULL);
    assert_fault(veche_report_read(&path, 0, &r), FAULT_USAGE, "at least one run");
}

static void the_object_is_one_line_of_json(void **state)
{
    struct report r;
    char *text;
    make_run(*state, "run", CONSENSUS, 4, true);
    const char *path = in(*state, "run");
    assert_ok(report_read(&path, 1, &r));
    assert_ok(report_json(&r, &text));
    assert_null(strchr(text, '\n'));
    json_t *whole = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *run = json_array_get(json_object_get(whole, "runs"), 0);
    assert_true(json_is_null(json_object_get(run, "rival")) &&
                json_is_true(json_object_get(run, "finished")));
    assert_true(json_number_value(json_object_get(json_object_get(run, "accuracy"), "mean")) == 81.25);
    assert_int_equal(json_integer_value(json_object_get(run, "alive")), 3);
    json_decref(whole);
    free(text);
    report_release(&r);
}

/* Every byte of a file in turn becomes another: the report must name the file and, of the events, the line. What is
 * said must be heard on resume as well. */
static void flip_each_byte(const char *folder, const char *name, bool by_line)
{
    size_t n, line = 1;
    const char *path = in(folder, name);
    char *text = slurp(path, &n), words[64];
    static const char by[] = {1, 0x20, 0x40, (char)0x80};
    int file = open(path, O_WRONLY);
    for (size_t i = 0; i < n; i++) {
        char other = (char)(text[i] ^ by[i % sizeof by]);
        assert_int_equal(pwrite(file, &other, 1, (off_t)i), 1);
        struct report r;
        struct run_folder opened;
        snprintf(words, sizeof words, by_line ? "run/%s:%zu: is damaged" : "run/%s: is damaged", name, line);
        assert_fault(report_read(&folder, 1, &r), FAULT_FILE, words);
        if (by_line)
            assert_fault(run_open(folder, 1, &opened), FAULT_FILE, words);
        assert_int_equal(pwrite(file, &text[i], 1, (off_t)i), 1);
        line += text[i] == '\n';
    }
    close(file);
    free(text);
}

static void no_byte_of_the_records_can_change_unseen(void **state)
{
    struct report r;
    struct run_folder opened;
    make_run(*state, "run", SINGLE_8, 1, true);
    const char *path = strdup(in(*state, "run"));
    flip_each_byte(path, "events.jsonl", true);
    flip_each_byte(path, "summary.json", false);
    flip_each_byte(path, "experiment.yaml", false);
    assert_ok(run_open(path, 1, &opened)); /* and with all of them as they were */
    run_close(&opened);
    assert_ok(report_read(&path, 1, &r));
    report_release(&r);
    free((char *)path);
}

/* How long a text is without its k-th line, and what it is. */
static size_t without_line(char *text, size_t n, size_t k, char *without)
{
    size_t first = 0;
    for (size_t i = 0; i < k; i++)
        first = (size_t)(strchr(text + first, '\n') - text) + 1;
    size_t end = (size_t)(strchr(text + first, '\n') - text) + 1;
    memcpy(without, text, first);
    memcpy(without + first, text + end, n - end);
    return n - (end - first);
}

static void no_line_of_the_events_can_go_missing_unseen(void **state)
{
    enum { LINES = 4 }; /* two evaluations, and a note after each */
    make_run(*state, "run", SINGLE_8, 1, true);
    const char *folder = strdup(in(*state, "run")), *path = strdup(in(folder, "events.jsonl"));
    struct run_folder opened;
    struct report r;
    size_t n, lines = 0;
    char *text = slurp(path, &n), *without = malloc(n), words[64];
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, LINES);
    for (size_t k = 0; k < LINES; k++) {
        spit(path, without, without_line(text, n, k, without));
        bool is_last = k + 1 == LINES;
        snprintf(words, sizeof words, "run/events.jsonl:%zu: is damaged", k + 1);
        assert_fault(report_read(&folder, 1, &r), FAULT_FILE,
                     is_last ? "run/events.jsonl: is damaged: lines are missing at its end" : words);
        if (!is_last)
            assert_fault(run_open(folder, 1, &opened), FAULT_FILE, words);
    }
    spit(path, text, n);
    assert_ok(report_read(&folder, 1, &r));
    report_release(&r);
    free(text);
    free(without);
    free((char *)folder);
    free((char *)path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_escaped_and_made_whole),
        SCRATCH(what_was_recorded_is_read_back),
        SCRATCH(the_summary_has_the_last_word),
        SCRATCH(the_rival_is_the_single_model_with_the_batch_of_all_agents),
        SCRATCH(seconds_are_called_what_they_are),
        SCRATCH(a_page_of_a_thousand_agents_shows_the_worst_and_stays_small),
        SCRATCH(forty_agents_have_a_line_each_and_one_run_among_several_has_none),
        SCRATCH(one_agent_has_nothing_to_disagree_about_and_sends_nothing),
        SCRATCH(the_library_gives_every_format_and_refuses_others),
        SCRATCH(the_object_is_one_line_of_json),
        SCRATCH(no_byte_of_the_records_can_change_unseen),
        SCRATCH(no_line_of_the_events_can_go_missing_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
