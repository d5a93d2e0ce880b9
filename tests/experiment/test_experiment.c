/* A good experiment becomes the right structs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/reading.h"

static void the_shortest_experiment_gets_every_default(void **state)
{
    (void)state;
    struct experiment *e = reads(LEAST, NULL);
    assert_string_equal(e->name, "e");
    assert_string_equal(e->source, "folder/e.yaml");
    assert_string_equal(e->data.set.kind->name, "dots");
    assert_null(e->data.set.settings);
    assert_string_equal(e->data.split.kind->name, "shuffle");
    assert_int_equal(e->data.batch, 25);
    assert_int_equal(e->data.limit, 0);
    assert_int_equal(e->data.test_limit, 0);
    assert_false(e->data.flip);
    assert_int_equal(e->data.crop, 0);
    assert_int_equal(e->data.mean.n, 0);
    assert_int_equal(e->data.deviation.n, 0);
    assert_string_equal(e->model.named.kind->name, "tower");
    assert_null(e->model.layers);
    assert_string_equal(e->optim.kind.kind->name, "sgd");
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->lr == 0.1);
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->momentum == 0);
    assert_string_equal(e->optim.schedule.kind->name, "constant");
    assert_true(e->optim.warmup_epochs == 0);
    assert_false(e->optim.scale_lr);
    assert_int_equal(e->agents, 1);
    assert_string_equal(e->strategy.kind->name, "single");
    assert_string_equal(e->world.kind->name, "local");
    assert_true(e->train.epochs == 2);
    assert_int_equal(e->train.seed, 1);
    assert_int_equal(e->train.evaluate_every.unit, EVERY_EPOCHS);
    assert_true(e->train.evaluate_every.count == 1);
    assert_int_equal(e->train.checkpoint_every.unit, EVERY_EPOCHS);
    assert_int_equal(e->train.keep, 2);
    assert_string_equal(e->engine.kind.kind->name, "auto");
    assert_int_equal(e->engine.precision, PRECISION_FP32);
    assert_int_equal(e->engine.threads, 0);
    assert_true(e->machines.rate == 1000);
    assert_string_equal(e->machines.speed.kind->name, "list");
    assert_string_equal(e->machines.stragglers.kind->name, "none");
    assert_false(e->topology.written);
    assert_null(e->topology.graph);
    assert_int_equal(e->topology.weights, WEIGHTS_AUTO);
    assert_false(e->network.written);
    assert_true(e->network.within.latency_s == 0 && e->network.within.bytes_per_s == 0);
    assert_true(e->network.patience_s == 60);
    assert_int_equal(e->events.n, 0);
    assert_false(e->events.has_random);
    experiment_free(e);
}

static void everything_that_is_written_is_taken(void **state)
{
    (void)state;
    struct experiment *e =
        reads("name: fashion-cycle4\n"
              "data:\n"
              "  set: {kind: files, folder: /here and there, size: 3}\n"
              "  split: shuffle\n"
              "  batch: 64\n"
              "  limit: 1000\n"
              "  test_limit: 500\n"
              "  flip: true\n"
              "  crop: 4\n"
              "  mean: [0.1, 0.2, 0.3]\n"
              "  deviation: [1, 2, 3]\n"
              "model: stairs:784-100-10\n"
              "optim:\n"
              "  kind: adam\n"
              "  learning_rate: 1e-3\n"
              "  scale_lr: true\n"
              "  schedule: {kind: step, at: [1, 2.5], factor: 0.5, warmup_epochs: 0.25}\n"
              "agents: 4\n"
              "strategy: {kind: consensus, every: 5}\n"
              "world: mpi\n"
              "train: {epochs: 0.5, seed: 42, evaluate_every: 100 rounds, checkpoint_every: never,\n"
              "        keep: 7}\n"
              "engine: {kind: null, precision: bf16, threads: 2}\n"
              "machines: {rate: 250.5}\n",
              NULL);
    assert_string_equal(e->name, "fashion-cycle4");
    const struct toy_folder *set = e->data.set.settings;
    assert_string_equal(set->folder, "/here and there");
    assert_int_equal(set->size, 3);
    assert_int_equal(e->data.limit, 1000);
    assert_int_equal(e->data.test_limit, 500);
    assert_true(e->data.flip);
    assert_int_equal(e->data.crop, 4);
    assert_int_equal(e->data.mean.n, 3);
    assert_true(e->data.mean.at[1] == 0.2);
    assert_true(e->data.deviation.at[2] == 3);
    assert_string_equal(e->model.named.kind->name, "stairs");
    assert_string_equal(e->model.named.tail, "784-100-10");
    assert_true(((struct toy_adam *)e->optim.kind.settings)->learning_rate == 1e-3);
    assert_true(((struct toy_adam *)e->optim.kind.settings)->beta == 0.9);
    assert_true(e->optim.scale_lr);
    const struct toy_step *step = e->optim.schedule.settings;
    assert_int_equal(step->at.n, 2);
    assert_true(step->at.at[1] == 2.5 && step->factor == 0.5);
    assert_true(e->optim.warmup_epochs == 0.25);
    assert_int_equal(e->agents, 4);
    assert_int_equal(((struct toy_consensus *)e->strategy.settings)->every, 5);
    assert_string_equal(e->world.kind->name, "mpi");
    assert_true(e->train.epochs == 0.5);
    assert_int_equal(e->train.seed, 42);
    assert_int_equal(e->train.evaluate_every.unit, EVERY_ROUNDS);
    assert_true(e->train.evaluate_every.count == 100);
    assert_int_equal(e->train.checkpoint_every.unit, EVERY_NEVER);
    assert_int_equal(e->train.keep, 7);
    assert_string_equal(e->engine.kind.kind->name, "null");
    assert_int_equal(e->engine.precision, PRECISION_BF16);
    assert_int_equal(e->engine.threads, 2);
    assert_true(e->machines.rate == 250.5);
    experiment_free(e);
}

static void choices_may_be_a_name_or_a_map(void **state)
{
    (void)state;
    struct experiment *e = reads("data: {set: {kind: dots}, batch: 1}\n"
                                 "model: {kind: toys, whole: -2, text: 'true', reals: 7}\n"
                                 "optim: adam\n"
                                 "strategy: consensus\n"
                                 "engine: ref\n"
                                 "world: {kind: local}\n"
                                 "train: {epochs: 1}\n",
                                 NULL);
    const struct toy_all *all = e->model.named.settings;
    assert_int_equal(all->whole, -2);
    assert_string_equal(all->text, "true");
    assert_int_equal(all->reals.n, 1);
    assert_true(all->reals.at[0] == 7);
    assert_int_equal(all->may_count, 0);
    assert_null(all->may_text);
    assert_true(((struct toy_adam *)e->optim.kind.settings)->learning_rate == 0.001);
    assert_int_equal(((struct toy_consensus *)e->strategy.settings)->every, 1);
    assert_string_equal(e->engine.kind.kind->name, "ref");
    assert_int_equal(e->engine.precision, PRECISION_FP32);
    assert_int_equal(e->model.named.place.line, 2);
    assert_int_equal(e->model.named.place.column, 15);
    experiment_free(e);
}

static void a_kinds_name_may_be_the_key_of_its_first_setting(void **state)
{
    (void)state;
    struct experiment *e =
        reads("data: {set: {files: /here}, batch: 1, split: {skew: 0.5, counts: [3]}}\n"
              "model: {toys: 4, real: 2}\n"
              "optim: {sgd: 0.25, momentum: 0.5, scale_lr: true, schedule: {step: [1, 2]}}\n"
              "strategy: {consensus: 7}\n"
              "train: {epochs: 1}\n",
              NULL);
    assert_string_equal(((struct toy_folder *)e->data.set.settings)->folder, "/here");
    assert_int_equal(((struct toy_folder *)e->data.set.settings)->size, 10);
    const struct toy_skew *skew = e->data.split.settings;
    assert_true(skew->alpha == 0.5 && skew->counts.n == 1 && skew->counts.at[0] == 3);
    assert_int_equal(e->data.split.place.column, 47);
    assert_int_equal(((struct toy_all *)e->model.named.settings)->whole, 4);
    assert_true(((struct toy_all *)e->model.named.settings)->real == 2);
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->lr == 0.25);
    assert_true(((struct toy_sgd *)e->optim.kind.settings)->momentum == 0.5);
    assert_true(e->optim.scale_lr);
    assert_int_equal(((struct toy_step *)e->optim.schedule.settings)->at.n, 2);
    assert_int_equal(((struct toy_consensus *)e->strategy.settings)->every, 7);
    experiment_free(e);
    e = reads("data: {set: dots, batch: 1, split: {papers: [a b, c]}}\n" REST,
              NULL); /* the setting has that name, too */
    const struct toy_papers *papers = e->data.split.settings;
    assert_int_equal(papers->papers.n, 2);
    assert_string_equal(papers->papers.at[0], "a b");
    assert_string_equal(papers->papers.at[1], "c");
    experiment_free(e);
}

static void a_schedule_without_a_kind_is_constant(void **state)
{
    (void)state;
    struct experiment *e = reads("data: {set: dots, batch: 1}\nmodel: tower\ntrain: {epochs: 1}\n"
                                 "optim: {kind: sgd, lr: 1, schedule: {warmup_epochs: 1}}\n",
                                 NULL);
    assert_string_equal(e->optim.schedule.kind->name, "constant");
    assert_true(e->optim.warmup_epochs == 1);
    experiment_free(e);
}

static void expect_from(const struct layer *l, const char *first, const char *second, size_t column)
{
    assert_int_equal(l->from.n, second ? 2 : 1);
    assert_string_equal(l->from.at[0], first);
    if (second)
        assert_string_equal(l->from.at[1], second);
    assert_int_equal(l->from_place.line, 1);
    assert_int_equal(l->from_place.column, column);
}

static void a_layer_says_from_where_it_reads(void **state)
{
    (void)state;
    struct experiment *e = reads("model: [relu: {from: a}, relu: {from: [a, b]}, join: a, join: [a, b], "
                                 "join: {from: a, name: x}, relu]\n"
                                 "data: {set: dots, batch: 1}\noptim: adam\ntrain: {epochs: 1}\n",
                                 NULL);
    const struct layer *l = e->model.layers;
    expect_from(l, "a", NULL, 22);
    expect_from(l = l->next, "a", "b", 39);
    expect_from(l = l->next, "a", NULL, 54);
    expect_from(l = l->next, "a", "b", 63);
    expect_from(l = l->next, "a", NULL, 84);
    assert_string_equal(l->name, "x");
    assert_int_equal(l->next->from.n, 0);
    experiment_free(e);
}

static void a_network_may_be_a_list_of_layers(void **state)
{
    (void)state;
    struct experiment *e = reads("model:\n"
                                 "- conv: {out: 16, name: first}\n"
                                 "- relu\n"
                                 "- relu:\n"
                                 "- residual: [conv: {out: 8, bias: false}, relu, residual: [relu]]\n"
                                 "- branch: {share: 0.25, name: b.1, layers: [conv: {out: 4}]}\n"
                                 "data: {set: dots, batch: 1}\noptim: adam\ntrain: {epochs: 1}\n",
                                 NULL);
    assert_null(e->model.named.kind);
    const struct layer *l = e->model.layers;
    assert_string_equal(l->kind->name, "conv");
    assert_string_equal(l->name, "first");
    assert_int_equal(((struct toy_conv *)l->settings)->out, 16);
    assert_int_equal(((struct toy_conv *)l->settings)->kernel, 3);
    assert_int_equal(l->place.line, 2);
    assert_int_equal(l->place.column, 3);
    l = l->next;
    assert_string_equal(l->kind->name, "relu");
    assert_null(l->name);
    assert_null(l->settings);
    assert_null(l->body);
    l = l->next;
    assert_string_equal(l->kind->name, "relu");
    l = l->next;
    assert_string_equal(l->kind->name, "residual");
    assert_false(((struct toy_conv *)l->body->settings)->bias);
    assert_string_equal(l->body->next->kind->name, "relu");
    assert_string_equal(l->body->next->next->body->kind->name, "relu");
    assert_null(l->body->next->next->next);
    l = l->next;
    assert_true(((struct toy_branch *)l->settings)->share == 0.25);
    assert_string_equal(l->name, "b.1");
    assert_int_equal(((struct toy_conv *)l->body->settings)->out, 4);
    assert_null(l->next);
    experiment_free(e);
}

static void names_are_fit_for_folders(void **state)
{
    (void)state;
#define RULE ": a name is made of letters, digits, '.', '_' and '-', and begins with a letter or digit"
    refuses(LEAST "name: a/b\n", "folder/e.yaml:5:7: name: 'a/b' cannot name a run's folder" RULE);
    refuses(LEAST "name: ..\n", "folder/e.yaml:5:7: name: '..' cannot name a run's folder" RULE);
    refuses(LEAST "name: \"-x\"\n", "folder/e.yaml:5:7: name: '-x' cannot name a run's folder" RULE);
    refuses(LEAST "name: ''\n", "folder/e.yaml:5:7: name: '' cannot name a run's folder" RULE);
    refuses(LEAST "name: \"a\\nb\"\n", "folder/e.yaml:5:7: name: 'a?b' cannot name a run's folder" RULE);
    static const char *const sources[][2] = {
        {"x.yaml", "x"},
        {"/a/b/resnet20.v2.yml", "resnet20.v2"},
        {"my first try.yaml", "my-first-try"},
        {"-", "experiment"},
        {".hidden.yaml", "hidden"},
        {"a/.yaml", "experiment"},
        {"no-extension", "no-extension"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct experiment *e = NULL;
        assert_null(experiment_parse(LEAST, strlen(LEAST), sources[i][0], NULL, 0, &toy_registry, &e));
        assert_string_equal(e->name, sources[i][1]);
        experiment_free(e);
    }
}

static void a_text_that_is_too_long_for_an_experiment_is_refused(void **state)
{
    (void)state;
    size_t n_bytes = (1 << 20) + 1;
    char *spaces = malloc(n_bytes);
    struct experiment *e = NULL;
    assert_non_null(spaces);
    memset(spaces, ' ', n_bytes);
    fault f = experiment_parse(spaces, n_bytes, "folder/e.yaml", NULL, 0, &toy_registry, &e);
    free(spaces);
    assert_non_null(f);
    assert_string_equal(fault_text(f), "folder/e.yaml: longer than 1 MiB, which no experiment needs");
    fault_drop(f);
    assert_null(e);
}

static void every_section_and_category_is_listed_with_help(void **state)
{
    (void)state;
    size_t n;
    const struct section *sections = experiment_sections(&n);
    assert_int_equal(n, 14);
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(sections[i].name) > 0 && strlen(sections[i].help) > 0 && sections[i].n_fields > 0);
        for (size_t j = 0; j < sections[i].n_fields; j++) {
            const struct field *field = &sections[i].fields[j];
            assert_non_null(field->help);
            assert_true(field->help[strlen(field->help) - 1] != '.');
            assert_true((field->kind == FIELD_CHOICE) == (field->choices != NULL));
        }
    }
    for (int c = 0; c < N_CATEGORIES; c++)
        assert_true(strlen(category_name((enum category)c)) > 0 &&
                    strlen(category_help((enum category)c)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_experiment_gets_every_default),
        cmocka_unit_test(everything_that_is_written_is_taken),
        cmocka_unit_test(choices_may_be_a_name_or_a_map),
        cmocka_unit_test(a_kinds_name_may_be_the_key_of_its_first_setting),
        cmocka_unit_test(a_schedule_without_a_kind_is_constant),
        cmocka_unit_test(a_network_may_be_a_list_of_layers),
        cmocka_unit_test(a_layer_says_from_where_it_reads),
        cmocka_unit_test(names_are_fit_for_folders),
        cmocka_unit_test(a_text_that_is_too_long_for_an_experiment_is_refused),
        cmocka_unit_test(every_section_and_category_is_listed_with_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
