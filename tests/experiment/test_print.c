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
    "  flip: true\n"
    "  mean: [0.1, 0.30000000000000004, 1e-300]\n"
    "  deviation: [1, 2, 3]\n"
    "model:\n"
    "- conv: {out: 16, name: first}\n"
    "- relu\n"
    "- residual: [conv: {out: 8, bias: false}, relu: {name: r}, residual: [relu]]\n"
    "- branch: {share: 0.25, name: b.1, layers: [conv: {out: 4}]}\n"
    "- relu\n"
    "optim: {kind: adam, learning_rate: 0.0003, scale_lr: true,\n"
    "        schedule: {kind: step, at: [], factor: 0.5, warmup_epochs: 0.25}}\n"
    "agents: 4\n"
    "strategy: {kind: consensus, every: 5}\n"
    "world: mpi\n"
    "train: {epochs: 0.1, seed: 9223372036854775807, evaluate_every: 0.5 epochs,\n"
    "        checkpoint_every: never, keep: 7}\n"
    "engine: {kind: null, precision: bf16, threads: 2}\n"
    "machines: {rate: 1e200}\n";

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

static void same_settings(const struct field *rows, size_t n, const void *a, const void *b)
{
    for (size_t i = 0; i < n; i++) {
        const void *x = (const char *)a + rows[i].offset, *y = (const char *)b + rows[i].offset;
        if (rows[i].kind == FIELD_INT || rows[i].kind == FIELD_REAL)
            assert_memory_equal(x, y, 8);
        else if (rows[i].kind == FIELD_FLAG)
            assert_true(*(const bool *)x == *(const bool *)y);
        else if (rows[i].kind == FIELD_CHOICE)
            assert_int_equal(*(const int *)x, *(const int *)y);
        else if (rows[i].kind == FIELD_EVERY) {
            const struct every *p = x, *q = y;
            assert_true(p->unit == q->unit && p->count == q->count);
        } else if (rows[i].kind == FIELD_REALS) {
            const struct reals *p = x, *q = y;
            assert_int_equal(p->n, q->n);
            if (p->n)
                assert_memory_equal(p->at, q->at, p->n * sizeof *p->at);
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
        same_layers(a->body, b->body);
    }
    assert_true(a == NULL && b == NULL);
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
        {"machines", offsetof(struct experiment, machines)},
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
                              "  seed: 1\n"
                              "  evaluate_every: 1 epoch\n"
                              "  checkpoint_every: 1 epoch\n"
                              "  keep: 2\n"
                              "engine:\n"
                              "  kind: auto\n"
                              "  precision: fp32\n"
                              "  threads: 0\n"
                              "machines:\n"
                              "  rate: 1000\n");
    free(text);
    experiment_free(e);
}

static void layers_are_printed_in_their_nesting(void **state)
{
    (void)state;
    struct experiment *e =
        reads("data: {set: dots, batch: 25}\noptim: {kind: sgd, lr: 0.1}\ntrain: {epochs: 2}\n"
              "model: [conv: {out: 2}, relu, residual: [relu: {name: x}]]\n");
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
                                 "optim:\n"));
    free(text);
    experiment_free(e);
}

static void an_experiment_with_everything_goes_round(void **state)
{
    (void)state;
    goes_round(everything);
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
        char text[2048];
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
        cmocka_unit_test(settings_of_every_kind_go_round),
        cmocka_unit_test(a_tail_goes_round_whatever_it_holds),
        cmocka_unit_test(damaged_experiments_are_refused_or_go_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
