/* The plan of a cut against every cut there is, each priced here apart from the planner. */
#include "layers.h"

enum { MOST = 9 };

struct trial { /* a chain and machines, as plain numbers */
    struct layer_figures layers[MOST];
    size_t n_layers;
    struct cut_machine machines[6];
    size_t n_machines, n_micros;
    double bytes_per_s, slots;
    bool asynchronous;
};

/* ---- the naive judge ---- */

/* 1f1b keeps min(m, p - g) micro-batches; pipedream p - g of them, and as many versions of the weights. */
static double judge_memory(const struct trial *t, size_t g, size_t first, size_t end)
{
    size_t left = t->n_machines - g, flights = t->asynchronous || left < t->n_micros ? left : t->n_micros;
    double copies = (t->asynchronous ? (double)left : 1) + 1 + t->slots, bytes = 0;
    if (first > 0)
        bytes += (double)flights * t->layers[first - 1].activation_bytes;
    for (size_t i = first; i < end; i++)
        bytes += copies * t->layers[i].parameter_bytes + (double)flights * t->layers[i].activation_bytes;
    return bytes;
}

static double judge_period(const struct trial *t, const struct cut_machine *m, size_t g, size_t first, size_t end)
{
    double compute = 0, crossing = 0;
    for (size_t i = first; i < end; i++)
        compute += (t->layers[i].forward_ms + t->layers[i].backward_ms) / 1e3;
    crossing += first > 0 ? t->layers[first - 1].activation_bytes : 0;
    crossing += end < t->n_layers ? t->layers[end - 1].activation_bytes : 0;
    if (m->memory_bytes > 0 && judge_memory(t, g, first, end) > m->memory_bytes)
        return INFINITY;
    return fmax(compute / m->speed, t->bytes_per_s > 0 ? crossing / t->bytes_per_s : 0);
}

/* Every way to cut the layers from `first` on for machines order[g], ... */
static double judge_cuts(const struct trial *t, const size_t *order, size_t g, size_t first)
{
    double best = INFINITY;
    if (g + 1 == t->n_machines)
        return judge_period(t, &t->machines[order[g]], g, first, t->n_layers);
    for (size_t end = first + 1; end + (t->n_machines - g - 1) <= t->n_layers; end++) {
        double here = judge_period(t, &t->machines[order[g]], g, first, end);
        if (here < best)
            best = fmin(best, fmax(here, judge_cuts(t, order, g + 1, end)));
    }
    return best;
}

/* Every order of the machines from place g on. */
static double judge_orders(const struct trial *t, size_t *order, size_t g)
{
    if (g == t->n_machines)
        return judge_cuts(t, order, 0, 0);
    double best = INFINITY;
    for (size_t k = g; k < t->n_machines; k++) {
        size_t kept = order[g];
        order[g] = order[k];
        order[k] = kept;
        best = fmin(best, judge_orders(t, order, g + 1));
        order[k] = order[g];
        order[g] = kept;
    }
    return best;
}

static double judge(const struct trial *t, bool any_order)
{
    size_t order[] = {0, 1, 2, 3, 4, 5};
    return any_order ? judge_orders(t, order, 0) : judge_cuts(t, order, 0, 0);
}

/* ---- against it ---- */

struct planned {
    struct arena arena;
    struct profile profile;
    struct schedule schedule;
    struct cut_needs needs;
};

static void set_up(const struct trial *t, bool any_order, struct planned *p)
{
    *p = (struct planned){.arena = {0}};
    p->profile = profile_of_figures(t->layers, t->n_layers, &p->arena);
    p->schedule = written(t->asynchronous ? "pipedream" : "1f1b", t->n_machines, 1, t->n_micros, 0, &p->arena);
    p->needs = (struct cut_needs){.profile = &p->profile,
                                  .schedule = &p->schedule,
                                  .machines = t->machines,
                                  .n_machines = t->n_machines,
                                  .any_order = any_order,
                                  .bytes_per_s = t->bytes_per_s,
                                  .slots = t->slots};
}

/* What the plan says of itself is what the judge says of its cut. */
static void check_plan(const struct trial *t, const struct cut_plan *plan)
{
    double longest = 0;
    bool used[6] = {false};
    size_t at = 0;
    for (size_t g = 0; g < t->n_machines; g++) {
        const struct cut_stage *s = &plan->stages[g];
        const struct cut_part *part = &plan->parts[g];
        assert_false(used[s->machine]);
        used[s->machine] = true;
        assert_int_equal(part->first, at);
        assert_true(part->end > at);
        at = part->end;
        double period = judge_period(t, &t->machines[s->machine], g, part->first, part->end);
        near(cut_period_s(s), period);
        near(s->memory_bytes, judge_memory(t, g, part->first, part->end));
        longest = fmax(longest, period);
    }
    assert_int_equal(at, t->n_layers);
    near(plan->bottleneck_s, longest);
    assert_true(plan->lower_bound_s <= plan->bottleneck_s * (1 + 1e-12));
}

/* Whether there was a plan. */
static bool check_trial(const struct trial *t, bool any_order)
{
    struct planned p;
    struct cut_plan plan;
    double best = judge(t, any_order);
    set_up(t, any_order, &p);
    if (best == INFINITY) {
        must_fail(cut_best(&p.needs, &p.arena, &plan), "no cut fits in memory");
    } else {
        must(cut_best(&p.needs, &p.arena, &plan));
        near(plan.bottleneck_s, best);
        check_plan(t, &plan);
    }
    arena_release(&p.arena);
    return best < INFINITY;
}

static double whole_between(struct rng *r, uint64_t low, uint64_t high)
{
    return (double)(low + rng_below(r, high - low + 1));
}

static struct trial random_trial(size_t i, size_t most_machines)
{
    struct rng r = rng_stream(i, 0, RNG_TEST, 21);
    static const double speeds[] = {1, 1, 0.5, 0.25, 2, 0.8};
    struct trial t = {.n_machines = 1 + rng_below(&r, most_machines), .n_micros = 1 + rng_below(&r, 9)};
    t.n_layers = t.n_machines + rng_below(&r, MOST - t.n_machines + 1);
    t.bytes_per_s = rng_below(&r, 3) ? 1e3 * whole_between(&r, 20, 500) : 0;
    t.slots = (double)rng_below(&r, 3);
    t.asynchronous = rng_below(&r, 4) == 0;
    t.n_micros = t.asynchronous ? 1 : t.n_micros; /* a step after each */
    bool limited = rng_below(&r, 2);
    for (size_t k = 0; k < t.n_layers; k++)
        t.layers[k] = (struct layer_figures){whole_between(&r, 0, 20), whole_between(&r, 0, 40), whole_between(&r, 0, 9000),
                                             rng_below(&r, 2) ? whole_between(&r, 0, 20000) : 0};
    for (size_t k = 0; k < t.n_machines; k++)
        t.machines[k] = (struct cut_machine){speeds[rng_below(&r, 6)], limited ? whole_between(&r, 20000, 120000) : 0};
    return t;
}

static void the_bottleneck_of_300_random_chains_is_that_of_every_cut_tried(void **state)
{
    (void)state;
    size_t n_planned = 0;
    for (size_t i = 0; i < 300; i++) {
        struct trial t = random_trial(i, 6);
        n_planned += check_trial(&t, false);
    }
    assert_in_range(n_planned, 150, 299); /* and some do not fit */
}

static void in_any_order_it_is_that_of_every_cut_in_every_order(void **state)
{
    (void)state;
    size_t n_planned = 0, n_shorter = 0;
    for (size_t i = 0; i < 300; i++) {
        struct trial t = random_trial(1000 + i, 6);
        n_planned += check_trial(&t, true);
        n_shorter += judge(&t, true) < judge(&t, false) * 0.999;
    }
    assert_in_range(n_planned, 150, 299);
    assert_true(n_shorter > 50);
}

/* ---- ties ---- */

static void expect_begins(const struct cut_plan *p, const size_t *begins)
{
    for (size_t k = 0; k + 1 < p->n_parts; k++)
        assert_int_equal(p->parts[k + 1].first, begins[k]);
}

static void of_equal_cuts_the_last_part_begins_earliest(void **state)
{
    (void)state;
    struct trial t = {.n_layers = 7, .n_machines = 3, .n_micros = 4};
    struct planned p;
    struct cut_plan plan;
    for (size_t i = 0; i < 7; i++)
        t.layers[i] = (struct layer_figures){1000, 2000, 100, 0};
    for (size_t k = 0; k < 3; k++)
        t.machines[k].speed = 1;
    set_up(&t, false, &p);
    must(cut_best(&p.needs, &p.arena, &plan));
    near(plan.bottleneck_s, 9); /* 3 of 7 layers: the others may have 3 and 1, 2 and 2, 1 and 3 */
    expect_begins(&plan, (size_t[]){2, 4});
    arena_release(&p.arena);
}

static void an_order_that_is_no_better_than_the_one_given_is_not_taken(void **state)
{
    (void)state;
    struct trial t = {.n_layers = 2, .n_machines = 2, .n_micros = 4, .machines = {{1, 0}, {0.5, 0}}};
    struct planned p;
    struct cut_plan plan;
    t.layers[0] = t.layers[1] = (struct layer_figures){1, 2, 100, 0};
    set_up(&t, true, &p);
    must(cut_best(&p.needs, &p.arena, &plan));
    assert_int_equal(plan.stages[0].machine, 0);
    arena_release(&p.arena);
    t.layers[1].forward_ms = 0.5;
    t.machines[0].speed = 0.5;
    t.machines[1].speed = 1;
    set_up(&t, true, &p);
    must(cut_best(&p.needs, &p.arena, &plan));
    assert_int_equal(plan.stages[0].machine, 1); /* the longer layer to the faster machine */
    near(plan.bottleneck_s, 0.005);
    arena_release(&p.arena);
}

/* ---- what a plan says ---- */

static const struct trial three = {.layers = {{1, 2, 1000, 400}, {2, 4, 2000, 0}, {3, 6, 4000, 800}, {1, 1, 500, 1200}},
                                   .n_layers = 4,
                                   .n_machines = 3,
                                   .n_micros = 8,
                                   .machines = {{1, 0}, {1, 0}, {0.5, 0}},
                                   .slots = 1};

static void a_round_takes_as_long_as_its_time_line(void **state)
{
    (void)state;
    struct planned p;
    struct cut_plan plan;
    set_up(&three, false, &p);
    must(cut_best(&p.needs, &p.arena, &plan));
    expect_begins(&plan, (size_t[]){2, 3}); /* 9, 9 and 4 ms */
    near(plan.bottleneck_s, 0.009);
    near(plan.lower_bound_s, 0.009); /* the third layer; all work over all speeds is 8 */
    /* the second machine computes 8 times 9 ms, after 3 ms forward and before 6 back; 1f1b takes at most 22 + 7 times 9 */
    assert_in_range(llround(plan.timeline.round_s * 1e6), 81000, 85000);
    near(plan.timeline.bubble, 1 - 8 * 0.022 / (3 * plan.timeline.round_s));
    assert_int_equal(plan.stages[0].in_flight, 3);
    assert_int_equal(plan.stages[2].in_flight, 1);
    near(plan.stages[0].memory_bytes, 3 * 400 + 3 * 3000);
    near(plan.stages[1].memory_bytes, 3 * 800 + 2 * (2000 + 4000));
    near(plan.stages[2].memory_bytes, 3 * 1200 + 4000 + 500);
    arena_release(&p.arena);
}

static void a_cut_that_is_given_is_priced(void **state)
{
    (void)state;
    struct planned p;
    struct cut_plan plan;
    size_t begins[] = {1, 2};
    set_up(&three, false, &p);
    p.needs.begins = begins;
    must(cut_best(&p.needs, &p.arena, &plan));
    expect_begins(&plan, begins);
    near(plan.bottleneck_s, 0.022); /* 11 ms at half the speed */
    assert_int_equal(plan.slowest, 2);
    begins[0] = 2;
    must_fail(cut_best(&p.needs, &p.arena, &plan), "'c' is not behind what is before it");
    arena_release(&p.arena);
}

static void memory_that_no_plan_fits_is_said_with_place_and_amount(void **state)
{
    (void)state;
    struct planned p;
    struct cut_plan plan;
    struct trial t = three;
    for (size_t k = 0; k < 3; k++)
        t.machines[k].memory_bytes = 6000;
    set_up(&t, false, &p);
    /* a | b | c d needs 3 x 2000 + 6500 in the end; a b | c | d needs 3 x 800 + 2 x 6000 for c, a | b c | d more than that */
    must_fail(cut_best(&p.needs, &p.arena, &plan),
              "no cut fits in memory; where least is missing: machine 2 would need 0.0125 MB for 'c' to 'd', and has 0.006 MB: "
              "0.0065 MB are missing");
    p.needs.begins = (size_t[]){1, 3};
    must_fail(cut_best(&p.needs, &p.arena, &plan), "this cut does not fit in memory: machine 1 would need 0.0164 MB for 'b' to 'c'");
    arena_release(&p.arena);
}

static void more_parts_than_layers_are_refused(void **state)
{
    (void)state;
    struct planned p;
    struct cut_plan plan;
    struct trial t = three;
    t.n_layers = 2;
    set_up(&t, false, &p);
    must_fail(cut_best(&p.needs, &p.arena, &plan), "3 machines with 1 part each need at least 3 layers, and there are 2");
    arena_release(&p.arena);
}

static void a_machine_with_several_parts_is_the_sum_of_them(void **state)
{
    (void)state;
    struct planned p;
    struct cut_plan plan;
    struct trial t = {.n_layers = 8, .n_machines = 2, .n_micros = 4, .machines = {{1, 0}, {1, 0}}};
    for (size_t i = 0; i < 8; i++)
        t.layers[i] = (struct layer_figures){1, 2, 1000, 10};
    set_up(&t, false, &p);
    p.schedule = written("interleaved", 2, 2, 4, 0, &p.arena);
    p.needs.bytes_per_s = 1e6;
    must(cut_best(&p.needs, &p.arena, &plan));
    assert_int_equal(plan.n_parts, 4);
    near(plan.stages[0].compute_s, 0.012); /* two layers in each part */
    near(plan.stages[0].card_s, 0.003);    /* out of the first part, into and out of the third */
    near(plan.stages[1].card_s, 0.003);
    near(plan.stages[0].parameter_bytes, 40);
    arena_release(&p.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bottleneck_of_300_random_chains_is_that_of_every_cut_tried),
        cmocka_unit_test(in_any_order_it_is_that_of_every_cut_in_every_order),
        cmocka_unit_test(of_equal_cuts_the_last_part_begins_earliest),
        cmocka_unit_test(an_order_that_is_no_better_than_the_one_given_is_not_taken),
        cmocka_unit_test(a_round_takes_as_long_as_its_time_line),
        cmocka_unit_test(a_cut_that_is_given_is_priced),
        cmocka_unit_test(memory_that_no_plan_fits_is_said_with_place_and_amount),
        cmocka_unit_test(more_parts_than_layers_are_refused),
        cmocka_unit_test(a_machine_with_several_parts_is_the_sum_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
