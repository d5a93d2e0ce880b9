/* The kinds of schedule are those of the literature: their orders, how many micro-batches they have in flight, how many versions of the
 * weights they hold; and all of them are what a checker can prove, for any number of members, parts and micro-batches. */
#include "team/written.h"

/* ---- orders, written out ---- */

static void reads(const char *kind, size_t p, size_t chunks, size_t m, size_t warmup, size_t n_rounds, const char *expected)
{
    struct arena arena = {0};
    struct schedule s = written(kind, p, chunks, m, warmup, &arena);
    char *text = csv_of(&s, n_rounds);
    assert_string_equal(text, expected);
    free(text);
    arena_release(&arena);
}

static void orders_are_those_of_the_literature(void **state)
{
    (void)state;
    reads("gpipe", 2, 1, 3, 0, 1,
          "0F0,0F1,0F2,0B0,0B1,0B2\n"
          "1F0,1F1,1F2,1B0,1B1,1B2\n");
    reads("1f1b", 3, 1, 4, 0, 1,
          "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
          "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
          "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
    reads("zb-h1", 3, 1, 4, 0, 1,
          "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
          "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
          "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n");
    /* Two ranks with two stages each: PyTorch's and Megatron's order. */
    reads("interleaved", 2, 2, 4, 0, 1,
          "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
          "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
    reads("pipedream", 3, 1, 1, 0, 4,
          "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
          "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
          "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
    reads("2bw", 2, 1, 2, 0, 2,
          "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n"
          "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
}

static void fewer_micro_batches_than_members_are_a_schedule_too(void **state)
{
    (void)state;
    reads("1f1b", 3, 1, 1, 0, 1, "0F0,0B0\n1F0,1B0\n2F0,2B0\n");
    reads("zb-h1", 3, 1, 1, 0, 1, "0F0,0I0,0W0\n1F0,1I0,1W0\n2F0,2I0,2W0\n");
    reads("interleaved", 3, 2, 1, 0, 1, "0F0,3F0,3B0,0B0\n1F0,4F0,4B0,1B0\n2F0,5F0,5B0,2B0\n");
    reads("pipedream", 3, 1, 1, 0, 1, "0F0,0B0\n1F0,1B0\n2F0,2B0\n");
}

static void a_warm_up_may_be_deeper_for_slow_links_or_flatter_for_little_memory(void **state)
{
    (void)state;
    reads("1f1b", 3, 1, 6, 5, 1,
          "0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,0B2,0B3,0B4,0B5\n"
          "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1B4,1B5\n"
          "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4,2F5,2B5\n");
    reads("1f1b", 3, 1, 3, 2, 1, "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1F1,1B0,1F2,1B1,1B2\n2F0,2B0,2F1,2B1,2F2,2B2\n");
}

/* ---- what all have ---- */

/* Five micro-batches of two members are three and two, not two, two and one. */
static void interleaved_groups_are_even(void **state)
{
    (void)state;
    reads("interleaved", 2, 2, 5, 0, 1,
          "0F0,0F1,0F2,2F0,2F1,2F2,2B0,0F3,2B1,0F4,2B2,2F3,0B0,2F4,0B1,0B2,2B3,2B4,0B3,0B4\n"
          "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1F3,1B0,1F4,1B1,3F3,1B2,3F4,3B3,3B4,1B3,1B4\n");
}

static void is_sound(const struct schedule *s, const struct schedule_needs *needs)
{
    fault f = schedule_check(s);
    if (f)
        fail_msg("%s, %zu members with %zu parts, %zu micro-batches, warm-up %zu: %s", s->name, needs->n_members, needs->chunks,
                 needs->n_micros, needs->warmup, fault_text(f));
}

static void every_schedule_is_sound(void **state)
{
    (void)state;
    each_schedule(is_sound);
}

static size_t up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static void has_the_room_of_the_table(const struct schedule *s, const struct schedule_needs *n)
{
    size_t p = n->n_members, m = n->n_micros;
    for (size_t g = 0; g < p; g++) {
        size_t in_flight = schedule_in_flight(s, g), versions = schedule_versions(s, g);
        if (strcmp(s->name, "gpipe") == 0)
            assert_int_equal(in_flight, m);
        if (strcmp(s->name, "1f1b") == 0 && (n->warmup == 0 || n->warmup == p))
            assert_int_equal(in_flight, smaller(m, p - g));
        if (strcmp(s->name, "1f1b") == 0 && n->warmup == 2 * p - 1)
            assert_int_equal(in_flight, smaller(m, 2 * (p - g) - 1));
        if (strcmp(s->name, "1f1b") == 0 && n->warmup && g == 0)
            assert_int_equal(in_flight, smaller(m, n->warmup));
        if (strcmp(s->name, "interleaved") == 0)
            assert_int_equal(in_flight, smaller(m * n->chunks, 2 * (p - g - 1) + (n->chunks - 1) * up(m, larger(1, m / p)) + 1));
        if (strcmp(s->name, "zb-h1") == 0)
            assert_int_equal(in_flight, smaller(m, p));
        if (s->flushes)
            assert_int_equal(versions, 1);
        else
            assert_int_equal(in_flight, p - g);
        if (strcmp(s->name, "pipedream") == 0)
            assert_int_equal(versions, 1 + up(p - 1 - g, m));
        if (strcmp(s->name, "2bw") == 0)
            assert_int_equal(versions, 2);
        if (n->chunks == 1)
            assert_int_equal(schedule_flights(s, g), in_flight);
    }
}

static void room_and_versions_are_those_of_the_literature(void **state)
{
    (void)state;
    each_schedule(has_the_room_of_the_table);
}

/* Until I, ZB-H1 has as many in flight as 1F1B. */
static void zb_h1_has_no_more_between_forward_and_gradients_of_inputs_than_1f1b(void **state)
{
    (void)state;
    for (size_t p = 1; p < 8; p++)
        for (size_t m = 1; m < 20; m++) {
            struct arena arena = {0};
            struct schedule s = written("zb-h1", p, 1, m, 0, &arena);
            for (size_t g = 0; g < p; g++) {
                size_t now = 0, most = 0;
                for (size_t i = 0; i < s.first[g].n; i++) {
                    now += s.first[g].at[i].kind == ACTION_FORWARD;
                    most = larger(most, now);
                    now -= s.first[g].at[i].kind == ACTION_INPUTS;
                }
                assert_int_equal(most, smaller(m, p - g));
            }
            arena_release(&arena);
        }
}

/* Of a part; the chunks of a member together have what the member has at most. */
static void the_first_chunk_has_the_most_in_flight(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct schedule s = written("interleaved", 2, 2, 4, 0, &arena);
    /* member 0: 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 ..: four of part 0, two of part 2 */
    assert_int_equal(schedule_flights(&s, 0), 4);
    assert_int_equal(schedule_flights(&s, 2), 2);
    assert_int_equal(schedule_in_flight(&s, 0), 5);
    arena_release(&arena);
}

/* ---- what cannot be written ---- */

static void refuses(const char *kind, size_t p, size_t chunks, size_t m, size_t warmup, const char *sentence)
{
    struct arena arena = {0};
    struct schedule s;
    struct schedule_needs needs = {.n_members = p, .chunks = chunks, .n_micros = m, .warmup = warmup};
    fault f = schedule_kind_named(kind)->write(&needs, &arena, &s);
    assert_non_null(f);
    assert_int_equal(fault_kind_of(f), FAULT_USAGE);
    assert_string_equal(fault_text(f), sentence);
    fault_drop(f);
    arena_release(&arena);
}

static void what_a_kind_cannot_have_is_refused_with_a_sentence(void **state)
{
    (void)state;
    refuses("2bw", 4, 1, 3, 0, "2bw gathers the gradients of at least as many micro-batches as there are members: 4, not 3");
    refuses("gpipe", 4, 2, 8, 0, "gpipe has one part a member, not 2");
    refuses("gpipe", 4, 1, 8, 4, "gpipe has no warm-up to choose");
    refuses("1f1b", 4, 1, 8, 8, "a warm-up of 8 micro-batches is too deep: 7 are the most that 4 members can use");
    refuses("interleaved", 4, 0, 8, 0, "a schedule is of at least one member, part and micro-batch");
    refuses("1f1b", 1000, 1, 1000000, 0,
            "1000 members with 1 parts each and 1000000 micro-batches are more than a schedule can have");
    assert_null(schedule_kind_named("2f2b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_those_of_the_literature),
        cmocka_unit_test(fewer_micro_batches_than_members_are_a_schedule_too),
        cmocka_unit_test(a_warm_up_may_be_deeper_for_slow_links_or_flatter_for_little_memory),
        cmocka_unit_test(interleaved_groups_are_even),
        cmocka_unit_test(every_schedule_is_sound),
        cmocka_unit_test(room_and_versions_are_those_of_the_literature),
        cmocka_unit_test(zb_h1_has_no_more_between_forward_and_gradients_of_inputs_than_1f1b),
        cmocka_unit_test(the_first_chunk_has_the_most_in_flight),
        cmocka_unit_test(what_a_kind_cannot_have_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
