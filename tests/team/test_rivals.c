/* Other ways to use the machines: each against its formula, written out here. */
#include "layers.h"

#include <setjmp.h>

#include "team/rivals.h"

/* 40 ms and 3 MB in all; 1 MB, 2 MB and 0.5 MB are handed on. */
static const struct layer_figures layers[] = {{2, 4, 1e6, 1e6}, {4, 8, 2e6, 0}, {3, 7, 5e5, 2e6}, {4, 8, 0, 0}};
static const double all_s = 0.04, parameters = 3e6, kept = 3.5e6, bandwidth = 1e9, latency = 0.0005;

struct scene {
    struct arena arena;
    struct profile profile;
    struct schedule schedule;
    struct cut_needs needs;
    struct rivals rivals;
};

static void set_up(struct scene *s, const struct cut_machine *machines, size_t n, size_t n_micros)
{
    *s = (struct scene){.arena = {0}};
    s->profile = profile_of_figures(layers, 4, &s->arena);
    s->schedule = written("1f1b", n, 1, n_micros, 0, &s->arena);
    s->needs = (struct cut_needs){.profile = &s->profile,
                                  .schedule = &s->schedule,
                                  .machines = machines,
                                  .n_machines = n,
                                  .bytes_per_s = bandwidth,
                                  .latency_s = latency,
                                  .slots = 1};
    must(rivals_list(&s->needs, &s->arena, &s->rivals));
}

static const struct rival *named(const struct scene *s, const char *name)
{
    for (size_t i = 0; i < s->rivals.n; i++)
        if (strcmp(s->rivals.at[i].name, name) == 0)
            return &s->rivals.at[i];
    fail_msg("there is no way '%s'", name);
    return NULL;
}

static double ring_sum(double bytes, double q)
{
    return 2 * (q - 1) * (latency + bytes / (q * bandwidth));
}

static double ring_gather(double bytes, double q)
{
    return ring_sum(bytes, q) / 2;
}

static const struct cut_machine four[] = {{1, 0}, {0.5, 0}, {1, 0}, {0.5, 0}};

static void each_way_takes_what_its_formula_says(void **state)
{
    (void)state;
    struct scene s;
    set_up(&s, four, 4, 8);
    near(named(&s, "one machine")->round_s, 8 * all_s);
    near(named(&s, "one machine")->memory_bytes, parameters * 3 + kept);
    near(named(&s, "data parallel")->round_s, 8 * all_s / (4 * 0.5) + ring_sum(parameters, 4));
    /* two layers with parameters, each alone: gather before the second and behind it, sum of the second's gradient; or both together: a sum */
    double alone = ring_gather(2e6, 4) + ring_sum(2e6, 4) + ring_gather(5e5, 4), together = ring_sum(5e5, 4);
    assert_true(together < alone);
    near(named(&s, "tensor")->round_s, 8 * (all_s / 3 + together));
    near(named(&s, "tensor")->memory_bytes, parameters / 3 * 3 + kept);
    arena_release(&s.arena);
}

static void a_pipeline_takes_its_own_time_line(void **state)
{
    (void)state;
    struct scene s;
    struct cut_plan plan;
    set_up(&s, four, 4, 8);
    must(cut_best(&s.needs, &s.arena, &plan));
    near(named(&s, "pipeline 1f1b")->round_s, plan.timeline.round_s);
    assert_true(named(&s, "pipeline pipedream")->is_delayed);
    assert_false(named(&s, "pipeline gpipe")->is_delayed);
    arena_release(&s.arena);
}

static void teams_add_up_gradients_after_their_pipelines(void **state)
{
    (void)state;
    struct scene s;
    struct cut_plan plan;
    double most = 0;
    set_up(&s, four, 4, 7);
    struct schedule two = written("1f1b", 2, 1, 4, 0, &s.arena); /* of 7 micro-batches the larger half */
    struct cut_needs team = s.needs;
    team.schedule = &two;
    team.n_machines = 2; /* a fast one first, in both teams */
    must(cut_best(&team, &s.arena, &plan));
    for (size_t g = 0; g < 2; g++)
        most = fmax(most, ring_sum(plan.stages[g].parameter_bytes, 2));
    near(named(&s, "2 teams of 2, pipeline 1f1b")->round_s, plan.timeline.round_s + most);
    near(named(&s, "2 teams of 2, tensor")->messages_s,
         4 * ring_sum(5e5, 2) + ring_sum(parameters * 2 / 3, 2));
    arena_release(&s.arena);
}

static void the_fastest_learns_the_same_and_fits(void **state)
{
    (void)state;
    static const struct cut_machine small[] = {{1, 10e6}, {1, 10e6}};
    struct scene s;
    set_up(&s, small, 2, 8);
    const struct rival *fastest = rivals_fastest(&s.rivals);
    assert_non_null(named(&s, "data parallel")->obstacle);
    assert_non_null(named(&s, "one machine")->obstacle);
    assert_non_null(fastest);
    assert_null(fastest->obstacle);
    assert_false(fastest->is_delayed);
    for (size_t i = 0; i < s.rivals.n; i++) {
        const struct rival *r = &s.rivals.at[i];
        assert_true(r->obstacle || r->is_delayed || r->round_s >= fastest->round_s);
    }
    const char *why;
    must(rivals_verdict(&s.rivals, 8, &s.arena, &why));
    assert_true(strncmp(why, "Fastest: ", 9) == 0 && strstr(why, fastest->name) == why + 9);
    arena_release(&s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_takes_what_its_formula_says),
        cmocka_unit_test(a_pipeline_takes_its_own_time_line),
        cmocka_unit_test(teams_add_up_gradients_after_their_pipelines),
        cmocka_unit_test(the_fastest_learns_the_same_and_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
