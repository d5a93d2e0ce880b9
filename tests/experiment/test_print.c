/* What is printed is the whole experiment: it reads back to equal values and prints the same again. */
#include "experiment/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "support/registry.h"

static const char everything[] =
    "name: all.of_it-1\n"
    "data:\n"
    "  set: {kind: files, folder: \"C:\\\\a b\\n\\u2028# 'x' \\\"y\\\": {z}\", size: 3}\n"
    "  batch: 64\n"
    "  split: {papers: ['a, b', \"[c]\"]}\n"
    "  flip: true\n"
    "  mean: [0.1, 0.30000000000000004, 1e-300]\n"
    "  deviation: [1, 2, 3]\n"
    "model:\n"
    "- conv: {out: 16, name: first}\n"
    "- relu\n"
    "- residual: [conv: {out: 8, bias: false}, relu: {name: r}, residual: [relu]]\n"
    "- branch: {share: 0.25, name: b.1, layers: [conv: {out: 4, from: r}]}\n"
    "- join: [first, b.1]\n"
    "- join: {from: \"7\", name: j}\n"
    "- relu\n"
    "optim: {kind: adam, learning_rate: 0.0003, scale_lr: true,\n"
    "        schedule: {kind: step, at: [], factor: 0.5, warmup_epochs: 0.25}}\n"
    "agents: 4\n"
    "strategy: {kind: consensus, every: 5}\n"
    "world: mpi\n"
    "train: {epochs: 0.1, accumulate: 64, seed: 9223372036854775807, evaluate_every: 0.5 epochs,\n"
    "        checkpoint_every: never, keep: 7, stop: {no_progress: 3, accuracy: 91.5}}\n"
    "engine: {kind: null, precision: bf16, threads: 2}\n"
    "topology: {graph: ring:4, weights: best-constant}\n"
    "machines: {rate: 1e200, speed: [1, 0.1, 3, 1e-7], stragglers: {fixed: [3, 1], factor: 10}}\n"
    "network:\n"
    "  {latency_ms: 0.3, bandwidth_mbps: 100, patience_s: 2.5, sites: [[3, 1], [0], [2]],\n"
    "   across: {latency_ms: 0}, links: [{between: [3, 0], bandwidth_mbps: 0.7}, {between: [1, 3],\n"
    "   latency_ms: 1e-3}, {between: [0, 2]}]}\n"
    "events:\n"
    "- {at_s: 10.1, crash: 3}\n"
    "- {return: [3, 0], at_s: 20}\n"
    "- {at_s: 5, cut: [1, 0]}\n"
    "- {random: {crash_every_s: 100, down_s: 20, cut_every_s: 1e3, cut_s: 0.1}}\n"
    "- {at_s: 5, mend: [0, 1]}\n"
    "- {at_s: 0, partition: [[2, 1], [3]]}\n"
    "- {at_s: 9, heal: all}\n";

static const char with_toys[] =
    "data: {set: dots, batch: 1}\n"
    "model: {kind: toys, whole: -5, real: -0.0, flag: true, text: '~', mood: stubborn,\n"
    "        every: 3 rounds, reals: [0.1, -7], may_text: ''}\n"
    "optim: {kind: sgd, lr: 5e-324}\n"
    "train: {epochs: 1}\n";

static const char with_tail[] = "data: {set: dots, batch: 1}\n"
                                "model: 'stairs:1 # not: a remark'\n"
                                "optim: {kind: sgd, lr: 1}\n"
                                "train: {epochs: 1}\n";

static struct experiment *reads(const char *text)
{
    struct experiment *e = NULL;
    fault f = experiment_parse(text, strlen(text), "some file.yaml", NULL, 0, &toy_registry, &e);
    if (f)
        fail_msg("refused: %s\n%s", fault_text(f), text);
    return e;
}

static char *print(const struct experiment *e)
{
    char *text = NULL;
    assert_null(experiment_print(e, &text));
    return text;
}

/* Values compared directly, not through the printer, which could forget the same member twice. */

static void same_settings(const struct field *fields, size_t n, const void *a, const void *b)
{
    for (size_t i = 0; i < n; i++) {
        const void *x = (const char *)a + fields[i].offset, *y = (const char *)b + fields[i].offset;
        if (fields[i].kind == FIELD_INT || fields[i].kind == FIELD_REAL)
            assert_memory_equal(x, y, 8);
        else if (fields[i].kind == FIELD_FLAG)
            assert_true(*(const bool *)x == *(const bool *)y);
        else if (fields[i].kind == FIELD_CHOICE)
            assert_int_equal(*(const int *)x, *(const int *)y);
        else if (fields[i].kind == FIELD_EVERY) {
            const struct every *p = x, *q = y;
            assert_true(p->unit == q->unit && p->count == q->count);
        } else if (fields[i].kind == FIELD_REALS) {
            const struct reals *p = x, *q = y;
            assert_int_equal(p->n, q->n);
            if (p->n)
                assert_memory_equal(p->at, q->at, p->n * sizeof *p->at);
        } else if (fields[i].kind == FIELD_TEXTS) {
            const struct texts *p = x, *q = y;
            assert_int_equal(p->n, q->n);
            for (size_t t = 0; t < p->n; t++)
                assert_string_equal(p->at[t], q->at[t]);
        } else {
            const char *p = *(const char *const *)x, *q = *(const char *const *)y;
            assert_true((p == NULL) == (q == NULL));
            if (p)
                assert_string_equal(p, q);
        }
    }
}

static void same_choice(const struct choice *a, const struct choice *b)
{
    assert_ptr_equal(a->kind, b->kind);
    if (!a->kind)
        return;
    same_settings(a->kind->fields, a->kind->n_fields, a->settings, b->settings);
    assert_true((a->tail == NULL) == (b->tail == NULL));
    if (a->tail)
        assert_string_equal(a->tail, b->tail);
}

static void same_layers(const struct layer *a, const struct layer *b)
{
    for (; a && b; a = a->next, b = b->next) {
        assert_ptr_equal(a->kind, b->kind);
        same_settings(a->kind->fields, a->kind->n_fields, a->settings, b->settings);
        assert_true((a->name == NULL) == (b->name == NULL));
        if (a->name)
            assert_string_equal(a->name, b->name);
        assert_int_equal(a->from.n, b->from.n);
        for (size_t i = 0; i < a->from.n; i++)
            assert_string_equal(a->from.at[i], b->from.at[i]);
        same_layers(a->body, b->body);
    }
    assert_true(a == NULL && b == NULL);
}

static void same_wire(const struct wire *a, const struct wire *b)
{
    assert_true(a->latency_ms == b->latency_ms && a->bandwidth_mbps == b->bandwidth_mbps);
    assert_true(a->latency_s == b->latency_s && a->bytes_per_s == b->bytes_per_s);
}

static void same_groups(const struct groups *a, const struct groups *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_groups, b->n_groups);
    for (size_t i = 0; i < a->n; i++)
        assert_true(a->agents[i] == b->agents[i] && a->group[i] == b->group[i]);
}

static void same_network(const struct network_settings *a, const struct network_settings *b, size_t agents)
{
    assert_true(a->written == b->written);
    same_wire(&a->within, &b->within);
    same_wire(&a->across, &b->across);
    same_groups(&a->sites, &b->sites);
    assert_true((a->site_of == NULL) == (b->site_of == NULL));
    if (a->site_of)
        assert_memory_equal(a->site_of, b->site_of, agents * sizeof *a->site_of);
    assert_int_equal(a->n_links, b->n_links);
    for (size_t i = 0; i < a->n_links; i++) {
        assert_true(a->links[i].a == b->links[i].a && a->links[i].b == b->links[i].b);
        same_wire(&a->links[i].wire, &b->links[i].wire);
    }
}

static void same_events(const struct event_settings *a, const struct event_settings *b)
{
    assert_int_equal(a->n, b->n);
    assert_true(a->has_random == b->has_random);
    for (size_t i = 0; i < a->n; i++) {
        assert_int_equal(a->at[i].kind, b->at[i].kind);
        assert_true(a->at[i].at_s == b->at[i].at_s);
        same_groups(&a->at[i].who, &b->at[i].who);
    }
}

static void same_experiment(const struct experiment *a, const struct experiment *b)
{
    static const struct {
        const char *section;
        size_t offset;
    } parts[] = {
        {"experiment", 0},
        {"data", offsetof(struct experiment, data)},
        {"optim", offsetof(struct experiment, optim)},
        {"optim.schedule", offsetof(struct experiment, optim)},
        {"train", offsetof(struct experiment, train)},
        {"engine", offsetof(struct experiment, engine)},
        {"topology", offsetof(struct experiment, topology)},
        {"machines", offsetof(struct experiment, machines)},
        {"network", offsetof(struct experiment, network)},
        {"events.random", offsetof(struct experiment, events.random)},
    };
    size_t n;
    const struct section *sections = experiment_sections(&n);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t s = 0; s < n; s++)
            if (strcmp(sections[s].name, parts[i].section) == 0)
                same_settings(sections[s].fields, sections[s].n_fields, (const char *)a + parts[i].offset,
                              (const char *)b + parts[i].offset);
    same_choice(&a->data.set, &b->data.set);
    same_choice(&a->model.named, &b->model.named);
    same_layers(a->model.layers, b->model.layers);
    same_choice(&a->optim.kind, &b->optim.kind);
    same_choice(&a->optim.schedule, &b->optim.schedule);
    same_choice(&a->strategy, &b->strategy);
    same_choice(&a->world, &b->world);
    same_choice(&a->engine.kind, &b->engine.kind);
    same_choice(&a->data.split, &b->data.split);
    same_choice(&a->machines.speed, &b->machines.speed);
    same_choice(&a->machines.stragglers, &b->machines.stragglers);
    assert_true(a->topology.written == b->topology.written);
    same_network(&a->network, &b->network, (size_t)a->agents);
    same_events(&a->events, &b->events);
}

static void goes_round(const char *text)
{
    struct experiment *first = reads(text);
    char *once = print(first);
    struct experiment *second = reads(once);
    char *twice = print(second);
    assert_string_equal(once, twice);
    same_experiment(first, second);
    free(once);
    free(twice);
    experiment_free(first);
    experiment_free(second);
}

static void defaults_are_written_out(void **state)
{
    (void)state;
    struct experiment *e = reads("data: {set: dots, batch: 25}\nmodel: tower\noptim: {kind: sgd, lr: 0.1}\n"
                                 "train: {epochs: 2}\n");
    char *text = print(e);
    assert_string_equal(text, "name: some-file\n"
                              "agents: 1\n"
                              "data:\n"
                              "  set: dots\n"
                              "  split: shuffle\n"
                              "  batch: 25\n"
                              "  limit: 0\n"
                              "  test_limit: 0\n"
                              "  flip: false\n"
                              "  crop: 0\n"
                              "  stream: false\n"
                              "model: tower\n"
                              "optim:\n"
                              "  kind: sgd\n"
                              "  lr: 0.1\n"
                              "  momentum: 0\n"
                              "  scale_lr: false\n"
                              "  schedule:\n"
                              "    kind: constant\n"
                              "    warmup_epochs: 0\n"
                              "strategy: single\n"
                              "world: local\n"
                              "train:\n"
                              "  epochs: 2\n"
                              "  accumulate: 1\n"
                              "  seed: 1\n"
                              "  evaluate_every: 1 epoch\n"
                              "  checkpoint_every: 1 epoch\n"
                              "  keep: 2\n"
                              "engine:\n"
                              "  kind: auto\n"
                              "  precision: fp32\n"
                              "  threads: 0\n"
                              "machines:\n"
                              "  kind: given\n"
                              "  rate: 1000\n"
                              "  memory_gbps: 0\n"
                              "  speed: {kind: list, speeds: [1]}\n"
                              "  stragglers: none\n");
    free(text);
    experiment_free(e);
}

static void layers_are_printed_in_their_nesting(void **state)
{
    (void)state;
    struct experiment *e =
        reads("data: {set: dots, batch: 25}\noptim: {kind: sgd, lr: 0.1}\ntrain: {epochs: 2}\n"
              "model: [conv: {out: 2}, relu, residual: [relu: {name: x}], join: x, relu: {from: y.z}]\n");
    char *text = print(e);
    assert_non_null(strstr(text, "model:\n"
                                 "  - conv:\n"
                                 "      out: 2\n"
                                 "      kernel: 3\n"
                                 "      bias: true\n"
                                 "  - relu\n"
                                 "  - residual:\n"
                                 "      layers:\n"
                                 "        - relu:\n"
                                 "            name: x\n"
                                 "  - join:\n"
                                 "      from: [x]\n"
                                 "  - relu:\n"
                                 "      from: [y.z]\n"
                                 "optim:\n"));
    free(text);
    experiment_free(e);
}

static void an_experiment_with_everything_goes_round(void **state)
{
    (void)state;
    goes_round(everything);
}

static void surroundings_are_printed_whole_and_on_few_lines(void **state)
{
    (void)state;
    struct experiment *e = reads(everything);
    char *text = print(e);
    assert_non_null(strstr(text, "  split: {kind: papers, papers: [\"a, b\", \"[c]\"]}\n"));
    assert_non_null(strstr(text, "topology: {graph: \"ring:4\", weights: best-constant}\nstrategy:"));
    assert_non_null(
        strstr(text, "  speed: {kind: list, speeds: [1, 0.1, 3, 1e-07]}\n"
                     "  stragglers: {kind: fixed, agents: [1, 3], factor: 10}\n"
                     "network:\n"
                     "  latency_ms: 0.3\n"
                     "  bandwidth_mbps: 100\n"
                     "  patience_s: 2.5\n"
                     "  notice_s: 0.2\n"
                     "  sites: [[3, 1], [0], [2]]\n"
                     "  across: {latency_ms: 0, bandwidth_mbps: 100}\n"
                     "  links:\n"
                     "    - {between: [0, 2], latency_ms: 0, bandwidth_mbps: 100}\n"
                     "    - {between: [0, 3], latency_ms: 0, bandwidth_mbps: 0.7}\n"
                     "    - {between: [1, 3], latency_ms: 0.001, bandwidth_mbps: 100}\n"
                     "events:\n"
                     "  - {at_s: 10.1, crash: [3]}\n"
                     "  - {at_s: 20, return: [3, 0]}\n"
                     "  - {at_s: 5, cut: [1, 0]}\n"
                     "  - {at_s: 5, mend: [0, 1]}\n"
                     "  - {at_s: 0, partition: [[2, 1], [3]]}\n"
                     "  - {at_s: 9, heal: all}\n"
                     "  - {random: {crash_every_s: 100, down_s: 20, cut_every_s: 1000, cut_s: 0.1}}\n"));
    free(text);
    experiment_free(e);
}

static void settings_of_every_kind_go_round(void **state)
{
    (void)state;
    goes_round(with_toys);
    struct experiment *e = reads(with_toys);
    char *text = print(e);
    assert_non_null(strstr(text, "  real: -0\n"));
    assert_non_null(strstr(text, "  text: \"~\"\n"));
    assert_non_null(strstr(text, "  mood: stubborn\n"));
    assert_non_null(strstr(text, "  every: 3 rounds\n"));
    assert_non_null(strstr(text, "  reals: [0.1, -7]\n"));
    assert_null(strstr(text, "may_count")); /* was not written, and its zero could not be */
    assert_non_null(strstr(text, "  may_text: \"\"\n"));
    free(text);
    experiment_free(e);
}

static void other_surroundings_go_round(void **state)
{
    (void)state;
#define LEAST "data: {set: dots, batch: 1}\nmodel: tower\noptim: {sgd: 1}\ntrain: {epochs: 1}\n"
    goes_round(LEAST "topology: mesh:2x2\n");
    goes_round(LEAST "machines: {speed: {uniform: [0.5, 2]}, stragglers: {random: 0.1, factor: 5}}\n");
    goes_round(LEAST "machines: {speed: {lognormal: 0.3}, stragglers: none}\n");
    goes_round(LEAST "machines: measured\n");
    goes_round(LEAST "machines: {measured: 3, seconds: 0.5, speed: 2}\n");
    goes_round(LEAST "machines: {speed: 0.25}\nnetwork: {}\nevents: []\n");
    goes_round(LEAST "network: {links: []}\nevents: [random: {cut_every_s: 1}]\n");
    goes_round(LEAST "agents: 2\nnetwork: {latency_ms: 5, sites: [[1], [0]], across: {latency_ms: 9}}\n");
}

static void a_tail_goes_round_whatever_it_holds(void **state)
{
    (void)state;
    goes_round(with_tail);
}

/* Thousands of damaged experiments: each is refused in one line, or is good and goes round. */
static void damaged_experiments_are_refused_or_go_round(void **state)
{
    (void)state;
    static const char *const sources[] = {everything, with_toys, with_tail};
    static const char spice[] = "{}[]:,-#&*!|>'\"%@`~ \n\t0123456789.eE+abkx\\/\xC3\xFF";
    struct rng r = rng_stream(7, 0, RNG_TEST, 0);
    size_t good = 0, bad = 0;
    for (int i = 0; i < 20000; i++) {
        char text[4096];
        const char *source = sources[rng_below(&r, 3)];
        size_t n = strlen(source);
        memcpy(text, source, n + 1);
        for (uint64_t edits = 1 + rng_below(&r, 3); edits > 0; edits--) {
            size_t at = rng_below(&r, n), length = rng_below(&r, 6);
            if (rng_below(&r, 2) == 0) {
                text[at] = spice[rng_below(&r, sizeof spice - 1)];
            } else if (at + length < n) {
                memmove(text + at, text + at + length, n - at - length);
                n -= length;
            }
        }
        struct experiment *e = NULL;
        fault f = experiment_parse(text, n, "d.yaml", NULL, 0, &toy_registry, &e);
        if (f) {
            assert_null(strchr(fault_text(f), '\n'));
            assert_memory_equal(fault_text(f), "d.yaml:", 7);
            fault_drop(f);
            bad++;
        } else {
            char *printed = print(e);
            goes_round(printed);
            free(printed);
            experiment_free(e);
            good++;
        }
    }
    assert_true(good > 500 && bad > 500); /* the damage is neither too mild nor too hard to show anything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_written_out),
        cmocka_unit_test(layers_are_printed_in_their_nesting),
        cmocka_unit_test(an_experiment_with_everything_goes_round),
        cmocka_unit_test(surroundings_are_printed_whole_and_on_few_lines),
        cmocka_unit_test(other_surroundings_go_round),
        cmocka_unit_test(settings_of_every_kind_go_round),
        cmocka_unit_test(a_tail_goes_round_whatever_it_holds),
        cmocka_unit_test(damaged_experiments_are_refused_or_go_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
