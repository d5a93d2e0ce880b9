/* What is wrong with a schedule is said in one sentence: before anything runs, whoever wrote the schedule. */
#include "team/written.h"

#include "base/rng.h"

enum { MOST = 4096 };

/* Of a kind's schedule, a list that can be changed. */
struct changed {
    struct arena arena;
    struct schedule s;
    struct action *list; /* of one member */
};

static struct changed change(const char *kind, size_t p, size_t chunks, size_t m, size_t member)
{
    struct changed c = {.arena = {0}};
    c.s = written(kind, p, chunks, m, 0, &c.arena);
    c.list = ARENA_NEW(&c.arena, struct action, c.s.first[member].n + 1);
    memcpy(c.list, c.s.first[member].at, c.s.first[member].n * sizeof *c.list);
    c.s.first[member].at = c.list;
    if (c.s.flushes)
        c.s.later[member].at = c.list;
    return c;
}

static void is_refused(struct changed *c, size_t member, size_t index, const char *sentence)
{
    struct schedule_place where;
    fault f = schedule_check_at(&c->s, &where);
    if (!f)
        fail_msg("accepted, where this was expected: %s", sentence);
    assert_string_equal(fault_text(f), sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_int_equal(where.member, member);
    assert_int_equal(where.index, index);
    fault_drop(f);
    arena_release(&c->arena);
}

static void swap(struct action *list, size_t i, size_t j)
{
    struct action a = list[i];
    list[i] = list[j];
    list[j] = a;
}

static void a_pass_on_the_wrong_member_is_named(void **state)
{
    (void)state;
    struct changed c = change("gpipe", 2, 1, 3, 1); /* 1F0 1F1 1F2 1B0 1B1 1B2 */
    c.list[1].part = 0;
    is_refused(&c, 1, 1, "member 1 computes 0F1, and part 0 is with member 0");
}

static void a_part_or_a_micro_batch_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct changed c = change("gpipe", 2, 1, 3, 1);
    c.list[4].part = 3;
    is_refused(&c, 1, 4, "member 1 computes a pass of part 3, and the parts are 0 to 1");
    c = change("gpipe", 2, 1, 3, 1);
    c.list[2].micro = 3;
    is_refused(&c, 1, 2, "member 1 computes 1F3, and the micro-batches are 0 to 2");
    c = change("gpipe", 2, 1, 3, 1);
    c.s.n_parts = 3;
    is_refused(&c, 0, 0, "3 parts cannot be dealt out to 2 members, each as many");
}

static void a_pass_computed_twice_is_named(void **state)
{
    (void)state;
    struct changed c = change("1f1b", 2, 1, 3, 1); /* 1F0 1B0 1F1 1B1 1F2 1B2 */
    c.list[3].micro = 0;
    is_refused(&c, 1, 3, "member 1 computes 1B0 a second time");
    c = change("zb-h1", 2, 1, 3, 0); /* 0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2 */
    c.list[3] = (struct action){ACTION_BACKWARD, 0, 0};
    is_refused(&c, 0, 2, "member 0 computes 0I0, which 0B0 has done already");
}

static void a_pass_that_is_missing_is_named(void **state)
{
    (void)state;
    struct changed c = change("gpipe", 2, 1, 3, 1);
    c.list[1].micro = 2;
    c.list[2].micro = 0; /* 1F0 twice, 1F1 never: there are as many as there must be */
    is_refused(&c, 1, 2, "member 1 computes 1F0 a second time");
    c = change("gpipe", 2, 1, 3, 1);
    c.list[1].kind = ACTION_BACKWARD;
    is_refused(&c, 1, 6, "member 1 never computes 1F1");
    c = change("gpipe", 2, 1, 3, 1);
    c.s.first[1].n--;
    is_refused(&c, 1, 5, "member 1 never computes 1B2");
    c = change("zb-h1", 2, 1, 3, 0);
    c.s.first[0].n--;
    is_refused(&c, 0, 8, "member 0 never computes 0W2");
    c = change("zb-h1", 2, 1, 3, 0);
    c.list[7] = c.list[8];
    c.s.first[0].n--;
    is_refused(&c, 0, 8, "member 0 never computes 0I2");
}

static void passes_out_of_order_are_named(void **state)
{
    (void)state;
    struct changed c = change("gpipe", 2, 1, 3, 1);
    swap(c.list, 2, 5);
    is_refused(&c, 1, 2, "member 1 computes 1B2 before 1F2, and it must come after");
    c = change("gpipe", 2, 1, 3, 1);
    swap(c.list, 3, 4);
    is_refused(&c, 1, 3, "member 1 computes 1B1 before 1B0, and it must come after");
    c = change("zb-h1", 2, 1, 3, 0);
    swap(c.list, 2, 3);
    is_refused(&c, 0, 2, "member 0 computes 0W0 before 0I0, and it must come after");
    c = change("zb-h1", 2, 1, 3, 1); /* 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2 */
    swap(c.list, 7, 8);
    is_refused(&c, 1, 7, "member 1 computes 1W2 before 1W1, and it must come after");
    c = change("zb-h1", 2, 1, 3, 1);
    static const struct action late[] = {{ACTION_FORWARD, 1, 2}, {ACTION_INPUTS, 1, 2}, {ACTION_WEIGHTS, 1, 0}, {ACTION_INPUTS, 1, 1}};
    memcpy(c.list + 3, late, sizeof late); /* 1F0 1I0 1F1 1F2 1I2 1W0 1I1 1W1 1W2 */
    is_refused(&c, 1, 4, "member 1 computes 1I2 before 1I1, and it must come after");
    c = change("gpipe", 2, 1, 3, 1);
    swap(c.list, 1, 2);
    is_refused(&c, 1, 1, "member 1 computes 1F2 before 1F1, and it must come after");
}

static void a_deadlock_is_told_from_one_member_to_the_next(void **state)
{
    (void)state;
    struct changed c = change("1f1b", 2, 1, 2, 0); /* 0F0 0F1 0B0 0B1 and 1F0 1B0 1F1 1B1 */
    c.list[1] = (struct action){ACTION_BACKWARD, 0, 0};
    c.list[2] = (struct action){ACTION_FORWARD, 0, 1};
    must(schedule_check(&c.s)); /* one at a time: slow, and no deadlock */
    struct changed d = change("1f1b", 2, 1, 2, 1);
    memcpy(d.list, (struct action[]){{ACTION_FORWARD, 1, 0}, {ACTION_FORWARD, 1, 1}, {ACTION_BACKWARD, 1, 0}, {ACTION_BACKWARD, 1, 1}},
           4 * sizeof *d.list);
    must(schedule_check(&d.s)); /* gpipe's order there */
    d.s.first[0] = c.s.first[0];
    is_refused(&d, 0, 1, "member 0 waits for 1B0, which member 1 computes only after 1F1, which waits for 0F1, which member 0 computes "
                         "only after 0B0: a deadlock");
    arena_release(&c.arena);
}

static void a_deadlock_of_a_member_with_itself_is_told(void **state)
{
    (void)state;
    struct changed c = change("interleaved", 1, 2, 1, 0); /* 0F0 1F0 1B0 0B0 */
    swap(c.list, 0, 1);
    is_refused(&c, 0, 0, "member 0 waits for 0F0, which member 0 computes only after 1F0: a deadlock");
}

static void a_deadlock_over_several_members_is_told_as_it_goes(void **state)
{
    (void)state;
    struct changed c = change("interleaved", 3, 2, 1, 0); /* 0F0 3F0 3B0 0B0 */
    swap(c.list, 0, 1);
    is_refused(&c, 0, 0, "member 0 waits for 2F0, which waits for 1F0, which waits for 0F0, which member 0 computes only after 3F0: a "
                         "deadlock");
    c = change("interleaved", 9, 2, 1, 0);
    swap(c.list, 0, 1);
    is_refused(&c, 0, 0, "member 0 waits for 8F0, which waits for 7F0, which waits for 6F0, which waits for 5F0, which waits for 4F0, "
                         "which waits for 3F0, and so on in a circle: a deadlock");
}

/* Of a schedule without a flush the second round is not looked at alone. */
static void a_schedule_without_a_flush_is_looked_at_over_its_rounds(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct schedule s = written("pipedream", 3, 1, 1, 0, &arena);
    s.later[1].n--; /* 1F2 without its backward pass */
    must_fail(schedule_check(&s), "member 1 never computes 1B1");
    s = written("pipedream", 3, 1, 1, 0, &arena);
    s.first[0] = s.later[0]; /* no warm-up: micro-batches 0 and 1 never go forward */
    must_fail(schedule_check(&s), "member 0 never computes 0F0");
    s = written("pipedream", 3, 1, 1, 0, &arena);
    s.later[0] = s.first[0];
    must_fail(schedule_check(&s), "member 0 computes 0F1 a second time");
    s = written("pipedream", 3, 1, 1, 0, &arena);
    s.later[1] = (struct actions){(struct action[]){{ACTION_FORWARD, 1, 1}, {ACTION_BACKWARD, 1, 1}}, 2};
    must_fail(schedule_check(&s), "member 1 computes 1B1, backward in a round that is not its own");
    arena_release(&arena);
}

/* ---- at random, against another judge ---- */

/* Takes any pass that can be computed until none can, by asking of every pass in turn: what is left is a deadlock. */
static bool comes_to_an_end(const struct schedule *s)
{
    static bool forward[MOST], backward[MOST];
    size_t next[8] = {0}, left = 0;
    memset(forward, 0, sizeof forward);
    memset(backward, 0, sizeof backward);
    for (size_t r = 0; r < s->n_members; r++)
        left += s->first[r].n;
    for (size_t went = 1; went;) {
        went = 0;
        for (size_t r = s->n_members; r-- > 0;) {
            if (next[r] == s->first[r].n)
                continue;
            struct action a = s->first[r].at[next[r]];
            size_t here = a.part * s->n_micros + a.micro, m = s->n_micros;
            bool can = a.kind == ACTION_FORWARD ? a.part == 0 || forward[here - m]
                                                : a.part + 1 == s->n_parts || backward[here + m];
            if (!can)
                continue;
            (a.kind == ACTION_FORWARD ? forward : backward)[here] = true;
            next[r]++;
            went++;
            left--;
        }
    }
    return left == 0;
}

/* Passes forward and backward in a random order that is right on each part. */
static void shuffle_list(struct rng *random, size_t p, size_t chunks, size_t m, size_t member, struct action *list)
{
    size_t f[4] = {0}, b[4] = {0}, n = 0;
    while (n < 2 * chunks * m) {
        size_t c = rng_below(random, chunks), part = c * p + member;
        bool forward = rng_below(random, 8) < 5;
        if (forward && f[c] < m)
            list[n++] = (struct action){ACTION_FORWARD, (uint32_t)part, (uint32_t)f[c]++};
        else if (!forward && b[c] < f[c])
            list[n++] = (struct action){ACTION_BACKWARD, (uint32_t)part, (uint32_t)b[c]++};
    }
}

static void random_orders_deadlock_where_another_judge_says_so(void **state)
{
    (void)state;
    struct rng random = rng_stream(21, 0, RNG_TEST, 1);
    size_t dead = 0, alive = 0;
    for (size_t trial = 0; trial < 4000; trial++) {
        size_t p = 1 + rng_below(&random, 4), chunks = 1 + rng_below(&random, 3), m = 1 + rng_below(&random, 4);
        struct arena arena = {0};
        struct schedule s = written("interleaved", p, chunks, m, 0, &arena);
        for (size_t r = 0; r < p; r++) {
            struct action *list = ARENA_NEW(&arena, struct action, 2 * chunks * m);
            shuffle_list(&random, p, chunks, m, r, list);
            s.first[r].at = list;
        }
        fault f = schedule_check(&s);
        assert_true(comes_to_an_end(&s) == !f);
        if (f)
            assert_non_null(strstr(fault_text(f), "waits for"));
        dead += f != OK;
        alive += !f;
        fault_drop(f);
        arena_release(&arena);
    }
    assert_true(dead > 500 && alive > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_on_the_wrong_member_is_named),
        cmocka_unit_test(a_part_or_a_micro_batch_that_is_not_there_is_named),
        cmocka_unit_test(a_pass_computed_twice_is_named),
        cmocka_unit_test(a_pass_that_is_missing_is_named),
        cmocka_unit_test(passes_out_of_order_are_named),
        cmocka_unit_test(a_deadlock_is_told_from_one_member_to_the_next),
        cmocka_unit_test(a_deadlock_of_a_member_with_itself_is_told),
        cmocka_unit_test(a_deadlock_over_several_members_is_told_as_it_goes),
        cmocka_unit_test(a_schedule_without_a_flush_is_looked_at_over_its_rounds),
        cmocka_unit_test(random_orders_deadlock_where_another_judge_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
