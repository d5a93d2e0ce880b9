/* Lists on a command line, and the experiments they make. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/compare/compare.h"
#include "api/handle.h"
#include "api/registry.h"
#include "support/cast.h"

/* ---- lists ---- */

static void must_read(const char *text, const char *key, size_t n, const char *const *values)
{
    struct arena arena = {0};
    struct over o;
    must(over_read(text, &arena, &o));
    assert_string_equal(o.key, key);
    assert_int_equal(o.n, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(o.values[i], values[i]);
    arena_release(&arena);
}

static void commas_separate_outside_brackets_and_quotes_only(void **state)
{
    (void)state;
    must_read("strategy.kind=consensus,gossip", "strategy.kind", 2, (const char *[]){"consensus", "gossip"});
    must_read("a=1", "a", 1, (const char *[]){"1"});
    must_read("a= 1 , 2", "a", 2, (const char *[]){"1", "2"});
    must_read("strategy={kind: ps, mode: async},{kind: ps, mode: sync},gossip", "strategy", 3,
              (const char *[]){"{kind: ps, mode: async}", "{kind: ps, mode: sync}", "gossip"});
    must_read("m=[1,2],[{a: 1, b: [2,3]},4]", "m", 2, (const char *[]){"[1,2]", "[{a: 1, b: [2,3]},4]"});
    must_read("t='a,b',\"c,{d\"", "t", 2, (const char *[]){"'a,b'", "\"c,{d\""});
    must_read("s=x=1,y", "s", 2, (const char *[]){"x=1", "y"});
}

static void lists_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"strategy", "KEY=VALUE"},
                                         {"=a,b", "KEY=VALUE"},
                                         {"a=", "KEY=VALUE"},
                                         {"a=1,,2", "missing"},
                                         {"a=1,", "missing"},
                                         {"a=,1", "missing"},
                                         {"a=1,2,1", "'1' stands there twice"},
                                         {"name=a,b", "named after"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct arena arena = {0};
        struct over o;
        must_fail(over_read(bad[i][0], &arena, &o), bad[i][1]);
        arena_release(&arena);
    }
}

static void values_are_called_as_people_would(void **state)
{
    (void)state;
    static const char *const words[][3] = {
        {"strategy.kind", "gossip", "gossip"},
        {"strategy", "{kind: ps, mode: async}", "ps, mode async"},
        {"strategy.every", "5", "every 5"},
        {"agents", "8", "agents 8"},
        {"topology", "cycle:4", "topology cycle:4"},
        {"optim", "{kind: sgd, lr: 0.1}", "optim sgd, lr 0.1"},
        {"data.split", "{\"kind\": by-label}", "split kind by-label"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct arena arena = {0};
        assert_string_equal(over_words(words[i][0], words[i][1], &arena), words[i][2]);
        arena_release(&arena);
    }
}

/* ---- schedules ---- */

#define FOUR                                                                                                 \
    "name: four\ndata: {set: {kind: blobs, classes: 2, samples: 80, test_samples: 10}, batch: 2}\n"          \
    "model: logistic\noptim: {kind: sgd, lr: 0.1}\nagents: 4\ntrain: {epochs: 1}\nengine: ref\n"

static void schedule_on_ranks(const char *text, const char *const *over, size_t n, size_t n_ranks,
                          struct run_schedule *out)
{
    veche_experiment *e;
    must(veche_parse(text, "four.yaml", &e));
    must(compare_schedule(e, over, n, NULL, n_ranks, out));
    veche_experiment_free(e);
}

static void schedule_of(const char *text, const char *const *over, size_t n, struct run_schedule *out)
{
    schedule_on_ranks(text, over, n, 0, out);
}

static void must_not_schedule(const char *text, const char *over, const char *words)
{
    veche_experiment *e;
    struct run_schedule p;
    must(veche_parse(text, "four.yaml", &e));
    must_fail(compare_schedule(e, &over, 1, NULL, 0, &p), words);
    schedule_release(&p);
    veche_experiment_free(e);
}

static const struct method *method_called(const struct run_schedule *p, const char *label)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->methods[i].label, label) == 0)
            return &p->methods[i];
    fail_msg("there is no method '%s'", label);
    return NULL;
}

static struct experiment *experiment_of(const struct run_schedule *p, const char *label)
{
    struct registry registry = registry_of_everything();
    const struct method *m = method_called(p, label);
    struct experiment *e;
    must(experiment_parse(m->yaml, strlen(m->yaml), m->name, NULL, 0, &registry, &e));
    assert_string_equal(e->name, m->name);
    return e;
}

static void without_lists_every_strategy_is_a_method(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "strategy: {kind: gossip, every: 3}\n", NULL, 0, &p);
    assert_int_equal(p.n, strategy_kinds.n);
    for (size_t i = 0; i < strategy_kinds.n; i++) {
        const struct kind *k = kinds_at(&strategy_kinds, i);
        struct experiment *e = experiment_of(&p, k->name);
        const struct strategy_row *row = strategy_row(e);
        assert_ptr_equal(e->strategy.kind, k);
        assert_int_equal(e->agents, row->most_agents == 1 ? 1 : 4);
        if (row->needs_topology) /* which the file does not have */
            assert_string_equal(e->topology.graph, "exponential:4");
        else
            assert_false(e->topology.written);
        experiment_free(e);
    }
    /* the file's own strategy is as it is written */
    assert_non_null(strstr(method_called(&p, "gossip")->yaml, "every: 3"));
    schedule_release(&p);
}

/* Whatever the file says of agents: as many as ranks, less those that serve, and the rival is one of them
 * alone. */
static void on_ranks_there_are_as_many_members_as_ranks(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_on_ranks(FOUR "topology: cycle:7\n", NULL, 0, 7, &p);
    assert_int_equal(p.n_ranks, 7);
    assert_int_equal(p.n, strategy_kinds.n);
    for (size_t i = 0; i < strategy_kinds.n; i++) {
        const struct kind *k = kinds_at(&strategy_kinds, i);
        struct experiment *e = experiment_of(&p, k->name);
        const struct strategy_row *row = strategy_row(e);
        bool one = false;
        must(method_is_for_one(method_called(&p, k->name), &one));
        assert_int_equal(one, row->most_agents == 1);
        assert_int_equal(e->members, one ? 1 : 7);
        assert_int_equal(e->data.batch, one ? 14 : 2);
        if (row->needs_topology)
            assert_string_equal(e->topology.graph, "cycle:7");
        experiment_free(e);
    }
    schedule_release(&p);
    schedule_on_ranks(FOUR "topology: cycle:7\n", NULL, 0, 5,
                  &p); /* too large for them: who needs none is left */
    for (size_t i = 0; i < p.n; i++) {
        struct experiment *e = experiment_of(&p, p.methods[i].label);
        assert_false(strategy_row(e)->needs_topology);
        experiment_free(e);
    }
    assert_true(p.n > 1 && p.n < strategy_kinds.n);
    schedule_release(&p);
}

static void a_topology_that_is_written_stays(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\n", (const char *[]){"strategy.kind=consensus,gossip"}, 1, &p);
    for (size_t i = 0; i < 2; i++) {
        struct experiment *e = experiment_of(&p, i ? "gossip" : "consensus");
        assert_string_equal(e->topology.graph, "cycle:4");
        experiment_free(e);
    }
    schedule_release(&p);
}

static void the_rival_is_one_machine_with_everything(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\nstrategy: consensus\nmachines: {rate: 70, speed: [1, 2, 3, 4]}\n"
                 "network: {latency_ms: 5, links: [{between: [2, 3], latency_ms: 7}]}\nevents: [{at_s: 1, "
                 "crash: 3}]\n",
            (const char *[]){"strategy.kind=single,consensus"}, 1, &p);
    struct experiment *e = experiment_of(&p, "single");
    assert_int_equal(e->agents, 1);
    assert_int_equal(e->data.batch, 8);
    assert_true(e->machines.rate == 70);
    assert_int_equal(e->events.n, 0);
    experiment_free(e);
    e = experiment_of(&p, "consensus");
    assert_int_equal(e->agents, 4);
    assert_int_equal(e->data.batch, 2);
    assert_int_equal(e->events.n, 1);
    experiment_free(e);
    schedule_release(&p);
}

static void the_rival_needs_no_more_memory_than_agents_that_accumulate(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\nstrategy: consensus\n",
            (const char *[]){"strategy.kind=single,consensus", "train.accumulate=1,2"}, 2, &p);
    for (size_t i = 0; i < p.n; i++) {
        struct experiment *e = experiment_of(&p, p.methods[i].label);
        bool cuts = strstr(p.methods[i].label, "2") != NULL;
        assert_int_equal(e->data.batch, 2 * 4 / e->agents);
        assert_int_equal(e->train.accumulate, !cuts ? 1 : 2 * 4 / e->agents); /* of one sample each */
        experiment_free(e);
    }
    assert_int_equal(p.n, 4);
    schedule_release(&p);
}

static void methods_that_ask_the_same_of_a_machine_are_measured_once(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\nstrategy: consensus\nmachines: {kind: measured, seconds: 0.01}\n",
            (const char *[]){"strategy.kind=single,consensus,gossip"}, 1, &p);
    struct experiment *one = experiment_of(&p, "single"), *e = experiment_of(&p, "consensus"),
                      *other = experiment_of(&p, "gossip");
    assert_true(e->machines.rate > 0 && e->machines.memory_gbps > 0);
    assert_true(e->machines.rate == other->machines.rate);
    assert_true(e->machines.memory_gbps == other->machines.memory_gbps);
    assert_true(e->machines.rate != one->machines.rate); /* its batches are four times as large */
    experiment_free(one);
    experiment_free(e);
    experiment_free(other);
    schedule_release(&p);
    schedule_of(FOUR "topology: cycle:4\nstrategy: consensus\nmachines: {kind: measured, seconds: 0.01}\n",
            (const char *[]){"train.accumulate=1,2"}, 1, &p);
    one = experiment_of(&p, p.methods[0].label);
    e = experiment_of(&p, p.methods[1].label);
    assert_true(e->machines.rate != one->machines.rate); /* it computes one sample at a time */
    experiment_free(one);
    experiment_free(e);
    schedule_release(&p);
}

static void lists_make_every_combination(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\nstrategy: {kind: consensus, order: combine-then-adapt}\n",
            (const char *[]){"strategy.every=1,5", "strategy.kind=consensus,gossip", "optim.lr=0.1,0.2,0.3",
                             "train.seed=9"},
            4, &p);
    assert_int_equal(p.n, 2 * 2 * 3);
    assert_string_equal(p.methods[0].label, "consensus, every 1, lr 0.1");
    assert_string_equal(p.methods[1].label, "consensus, every 1, lr 0.2");
    assert_string_equal(p.methods[11].label, "gossip, every 5, lr 0.3");
    assert_string_equal(p.methods[11].name, "gossip-every-5-lr-0.3");
    for (size_t i = 0; i < p.n; i++)
        assert_non_null(strstr(p.methods[i].yaml, "seed: 9"));
    /* the file's kind keeps what is written of it, another begins with its defaults */
    assert_non_null(strstr(p.methods[0].yaml, "combine-then-adapt"));
    assert_null(strstr(p.methods[11].yaml, "combine-then-adapt"));
    assert_non_null(strstr(p.methods[11].yaml, "every: 5"));
    schedule_release(&p);
}

static void names_of_folders_are_plain_and_unlike(void **state)
{
    (void)state;
    struct run_schedule p;
    schedule_of(FOUR "topology: cycle:4\n",
            (const char *[]){
                "strategy={kind: gossip, every: 2},{kind: gossip,  every: 2},{kind: gossip, every:  2}"},
            1, &p);
    assert_string_equal(p.methods[0].name, "gossip-every-2");
    assert_string_equal(p.methods[1].name, "gossip-every-2-2");
    assert_string_equal(p.methods[2].name, "gossip-every-2-3");
    schedule_release(&p);
}

static void what_is_wrong_is_said_before_anything_runs(void **state)
{
    (void)state;
    const char *text = FOUR "topology: cycle:4\nstrategy: gossip\n";
    must_not_schedule(text, "strategy.kind=gossip,consensu", "did you mean 'consensus'?");
    must_not_schedule(text, "strategi.kind=gossip", "did you mean 'strategy'?");
    must_not_schedule(text, "strategy={kind: gossip, evry: 2},consensus", "did you mean 'every'?");
    must_not_schedule(text, "optim.lr=0.1,fast", "optim.lr");
    must_not_schedule(text, "topology=cycle:4,cycle:5", "5 vertices, and agents is 4");
    must_not_schedule(FOUR, "train.seed=1,2", "'single' is for 1 agent, and agents is 4");
    must_not_schedule(text, "model=logistic,logistics", "did you mean 'logistic'?");
}

static void too_many_combinations_are_refused(void **state)
{
    (void)state;
    char list[4096] = "train.seed=0";
    for (int i = 1; i < 40; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",%d", i);
    char other[4096];
    snprintf(other, sizeof other, "data.limit%s", strchr(list, '='));
    veche_experiment *e;
    struct run_schedule p;
    must(veche_parse(FOUR, "four.yaml", &e));
    must_fail(compare_schedule(e, (const char *[]){list, other}, 2, NULL, 0, &p), "more than 1000 combinations");
    schedule_release(&p);
    must_fail(compare_schedule(e, (const char *[]){"agents=1,2", "agents=3"}, 2, NULL, 0, &p), "is given twice");
    schedule_release(&p);
    veche_experiment_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_separate_outside_brackets_and_quotes_only),
        cmocka_unit_test(lists_that_are_none_are_refused),
        cmocka_unit_test(values_are_called_as_people_would),
        cmocka_unit_test(without_lists_every_strategy_is_a_method),
        cmocka_unit_test(on_ranks_there_are_as_many_members_as_ranks),
        cmocka_unit_test(a_topology_that_is_written_stays),
        cmocka_unit_test(the_rival_is_one_machine_with_everything),
        cmocka_unit_test(the_rival_needs_no_more_memory_than_agents_that_accumulate),
        cmocka_unit_test(methods_that_ask_the_same_of_a_machine_are_measured_once),
        cmocka_unit_test(lists_make_every_combination),
        cmocka_unit_test(names_of_folders_are_plain_and_unlike),
        cmocka_unit_test(what_is_wrong_is_said_before_anything_runs),
        cmocka_unit_test(too_many_combinations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
