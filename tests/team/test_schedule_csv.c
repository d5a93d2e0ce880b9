/* A schedule is printed in PyTorch's notation and read from it; whatever is wrong with a text is named with line and column. */
#include "team/written.h"

#include "base/rng.h"

static fault read(const char *text, size_t n, size_t p, size_t m, struct arena *arena, struct schedule *s)
{
    char *copy = malloc(n + 1); /* without a zero behind it, for a sanitizer to see */
    assert_non_null(copy);
    memcpy(copy, text, n);
    char *exact = n ? realloc(copy, n) : copy;
    fault f = schedule_read_csv(exact, n, "mine.csv", p, m, arena, s);
    free(exact);
    return f;
}

static void reads(const char *text, size_t p, size_t m, const char *again)
{
    struct arena arena = {0};
    struct schedule s;
    must(read(text, strlen(text), p, m, &arena, &s));
    char *csv = csv_of(&s, 1);
    assert_string_equal(csv, again);
    assert_true(s.flushes && s.n_members == p && s.n_micros == m);
    free(csv);
    arena_release(&arena);
}

static void refuses_bytes(const char *text, size_t n, size_t p, size_t m, const char *sentence)
{
    struct arena arena = {0};
    struct schedule s;
    fault f = read(text, n, p, m, &arena, &s);
    if (!f)
        fail_msg("accepted, where this was expected: %s", sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_string_equal(fault_text(f), sentence);
    fault_drop(f);
    arena_release(&arena);
}

static void refuses(const char *text, size_t p, size_t m, const char *sentence)
{
    refuses_bytes(text, strlen(text), p, m, sentence);
}

static void what_was_printed_is_read_again(const struct schedule *s, const struct schedule_needs *needs)
{
    if (!s->flushes)
        return;
    char *text = csv_of(s, 1);
    struct arena arena = {0};
    struct schedule again;
    must(read(text, strlen(text), needs->n_members, needs->n_micros, &arena, &again));
    assert_int_equal(again.n_parts, s->n_parts);
    for (size_t r = 0; r < s->n_members; r++) {
        assert_int_equal(again.first[r].n, s->first[r].n);
        assert_memory_equal(again.first[r].at, s->first[r].at, s->first[r].n * sizeof *s->first[r].at);
    }
    arena_release(&arena);
    free(text);
}

static void every_schedule_that_flushes_is_read_as_it_was_printed(void **state)
{
    (void)state;
    each_schedule(what_was_printed_is_read_again);
}

static void empty_cells_blanks_and_line_ends_mean_nothing(void **state)
{
    (void)state;
    const char *plain = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
    reads(plain, 2, 2, plain);
    reads("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", 2, 2, plain);
    reads("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n", 2, 2, plain);
    reads(" 0F0,\t0F1 , ,0B0,0B1\n,,1F0, 1B0,1F1,1B1 \n\n \r\n\n", 2, 2, plain);
    reads("\xef\xbb\xbf" "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", 2, 2, plain);
    reads("0F0,00B000", 1, 1, "0F0,0B0\n");
}

static void what_is_no_pass_is_named_with_its_place(void **state)
{
    (void)state;
#define NO_PASS " is no pass: a part, F, B, I or W, and a micro-batch, as in 1F0"
    refuses("0F0,0X0", 1, 1, "mine.csv:1:5: '0X0'" NO_PASS);
    refuses("0F0,0f0", 1, 1, "mine.csv:1:5: '0f0'" NO_PASS);
    refuses("0F0,0B0\n1F0, F0", 2, 1, "mine.csv:2:6: 'F0'" NO_PASS);
    refuses("0F0,0B\n", 1, 1, "mine.csv:1:5: '0B'" NO_PASS);
    refuses("0F0,0", 1, 1, "mine.csv:1:5: '0'" NO_PASS);
    refuses("0F0,0B0 0", 1, 1, "mine.csv:1:5: '0B0 0'" NO_PASS);
    refuses("0F0;0B0\n", 1, 1, "mine.csv:1:1: '0F0;0B0'" NO_PASS);
    refuses("0F-1,0B0\n", 1, 1, "mine.csv:1:1: '0F-1'" NO_PASS);
    refuses("\"0F0\",\"0B0\"\n", 1, 1, "mine.csv:1:1: '\"0F0\"'" NO_PASS);
    refuses("0F0,0SEND_F0,0B0", 1, 1, "mine.csv:1:5: '0SEND_F0'" NO_PASS);
    refuses("0F0,\xff\x01,0B0", 1, 1, "mine.csv:1:5: '\xff?'" NO_PASS);
    refuses_bytes("0F0,0\0" "0,0B0", 11, 1, 1, "mine.csv:1:5: '0?0'" NO_PASS);
    refuses_bytes("\0", 1, 1, 1, "mine.csv:1:1: '?'" NO_PASS);
    refuses("0F0\r0B0", 1, 1, "mine.csv:1:1: '0F0?0B0'" NO_PASS);
}

static void numbers_beyond_what_is_there_are_named(void **state)
{
    (void)state;
    refuses("0F0,0F1,0B0,0B1", 1, 1, "mine.csv:1:5: '0F1' is of a micro-batch that is not there: they are 0 to 0");
    refuses("0F0,0B99999999999999999999999", 1, 4,
            "mine.csv:1:5: '0B99999999999999999999999' is of a micro-batch that is not there: they are 0 to 3");
    refuses("0F4294967296,0B0", 1, 4, "mine.csv:1:1: '0F4294967296' is of a micro-batch that is not there: they are 0 to 3");
    refuses("4294967296F0,0B0", 1, 1, "mine.csv:1:1: '4294967296F0' is of a part that no network has");
    refuses("0F0,0B0,999999F0", 1, 1, "mine.csv:1:17: member 0 never computes 1F0");
    refuses("0F0,0B0,2F0\n1F0,1B0", 2, 1, "mine.csv:2:8: member 1 never computes 3F0");
}

static void more_or_fewer_lines_than_members_are_named(void **state)
{
    (void)state;
    refuses("", 2, 1, "mine.csv:1:1: the file ends here, and member 0 has no line");
    refuses("\n\n", 2, 1, "mine.csv:1:1: the file ends here, and member 0 has no line");
    refuses("0F0,0B0\n\n", 2, 1, "mine.csv:2:1: the file ends here, and member 1 has no line");
    refuses("0F0,0B0\n1F0,1B0\n", 1, 1, "mine.csv:2:1: the team has 1 member, a line for each, and here is one more");
    refuses("0F0,0B0\n1F0,1B0\n2F0,2B0", 2, 1, "mine.csv:3:1: the team has 2 members, a line for each, and here is one more");
    refuses("0F0,0B0\n\n1F0,1B0\n", 2, 1, "mine.csv:3:1: the team has 2 members, a line for each, and here is one more");
}

static void what_cannot_be_run_is_named_with_its_place(void **state)
{
    (void)state;
    refuses("0F0, 0B0,0F0\n1F0,1B0\n", 2, 1, "mine.csv:1:10: member 0 computes 0F0 a second time");
    refuses("0F0,0B0\n1F0,,,\n", 2, 1, "mine.csv:2:7: member 1 never computes 1B0");
    refuses("0F0,0B0\r\n1F0\r\n", 2, 1, "mine.csv:2:4: member 1 never computes 1B0");
    refuses("0F0,0I0\n1F0,1I0,1W0\n", 2, 1, "mine.csv:1:8: member 0 never computes 0W0");
    refuses("0F0,0B0\n1B0,1F0\n", 2, 1, "mine.csv:2:1: member 1 computes 1B0 before 1F0, and it must come after");
    refuses("1F0,1B0\n0F0,0B0\n", 2, 1, "mine.csv:1:1: member 0 computes 1F0, and part 1 is with member 1");
    refuses("0F0,0B0,0F1,0B1\n1F0,1F1, 1B0,1B1\n", 2, 2,
            "mine.csv:1:5: member 0 waits for 1B0, which member 1 computes only after 1F1, which waits for 0F1, which member 0 "
            "computes only after 0B0: a deadlock");
}

static void no_members_or_no_micro_batches_are_refused(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct schedule s;
    must_fail(read("", 0, 0, 1, &arena, &s), "at least one member");
    must_fail(read("0F0", 3, 1, 0, &arena, &s), "at least one member");
    arena_release(&arena);
}

/* Sound texts with a few bytes changed, taken out or put in: read as something sound, or refused with a place. */
static void random_damage_is_refused_with_a_place_or_does_none(void **state)
{
    (void)state;
    static const char bytes[] = "0123456789FBIW,,,\n\n\r \"x\xff";
    struct rng random = rng_stream(21, 0, RNG_TEST, 2);
    size_t refused = 0;
    for (size_t trial = 0; trial < 20000; trial++) {
        struct arena arena = {0};
        size_t p = 1 + rng_below(&random, 3), m = 1 + rng_below(&random, 4);
        struct schedule s = written(rng_below(&random, 2) ? "1f1b" : "zb-h1", p, 1, m, 0, &arena), again;
        char *sound = csv_of(&s, 1), text[512];
        size_t n = strlen(sound);
        memcpy(text, sound, n);
        for (size_t i = 1 + rng_below(&random, 3); i > 0; i--) {
            size_t at = rng_below(&random, n), how = rng_below(&random, 3);
            if (how == 0 && n > 1)
                memmove(text + at, text + at + 1, --n - at);
            else if (how == 1)
                memmove(text + at + 1, text + at, n++ - at);
            if (at < n)
                text[at] = bytes[rng_below(&random, sizeof bytes)]; /* its final zero, too */
        }
        fault f = read(text, n, p, m, &arena, &again);
        if (f) {
            unsigned line, column;
            assert_int_equal(sscanf(fault_text(f), "mine.csv:%u:%u: ", &line, &column), 2);
            assert_true(line >= 1 && line <= p + 1 && column >= 1 && column <= n + 1);
            assert_null(strchr(fault_text(f), '\n'));
            refused++;
        } else {
            must(schedule_check(&again));
        }
        fault_drop(f);
        free(sound);
        arena_release(&arena);
    }
    assert_true(refused > 10000 && refused < 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_that_flushes_is_read_as_it_was_printed),
        cmocka_unit_test(empty_cells_blanks_and_line_ends_mean_nothing),
        cmocka_unit_test(what_is_no_pass_is_named_with_its_place),
        cmocka_unit_test(numbers_beyond_what_is_there_are_named),
        cmocka_unit_test(more_or_fewer_lines_than_members_are_named),
        cmocka_unit_test(what_cannot_be_run_is_named_with_its_place),
        cmocka_unit_test(no_members_or_no_micro_batches_are_refused),
        cmocka_unit_test(random_damage_is_refused_with_a_place_or_does_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
