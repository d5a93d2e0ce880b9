/* A good experiment becomes the right structs; a bad one gets exactly one sentence with its place. */
#include "experiment/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "support/registry.h"

#define REST                                                                                                 \
    "model: tower\n"                                                                                         \
    "optim: {kind: sgd, lr: 0.1}\n"                                                                          \
    "train: {epochs: 2}\n"
#define LEAST "data: {set: dots, batch: 25}\n" REST

static fault parse(const char *text, const char *const *overrides, size_t n, struct experiment **out)
{
    return experiment_parse(text, strlen(text), "folder/e.yaml", overrides, n, &toy_registry, out);
}

static struct experiment *reads(const char *text)
{
    struct experiment *e = NULL;
    fault f = parse(text, NULL, 0, &e);
    if (f)
        fail_msg("refused: %s", fault_text(f));
    return e;
}

static void refuses(const char *text, const char *sentence)
{
    struct experiment *e = NULL;
    fault f = parse(text, NULL, 0, &e);
    if (!f)
        fail_msg("accepted, where this was expected: %s", sentence);
    assert_int_equal(fault_kind_of(f), FAULT_EXPERIMENT);
    assert_string_equal(fault_text(f), sentence);
    assert_null(e);
    fault_drop(f);
}

static void the_shortest_experiment_gets_every_default(void **state)
{
    (void)state;
    struct experiment *e = reads(LEAST);
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
              "machines: {rate: 250.5}\n");
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
                                 "train: {epochs: 1}\n");
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
              "train: {epochs: 1}\n");
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
    e = reads(
        "data: {set: dots, batch: 1, split: {papers: [a b, c]}}\n" REST); /* the setting has that name, too */
    const struct toy_papers *papers = e->data.split.settings;
    assert_int_equal(papers->papers.n, 2);
    assert_string_equal(papers->papers.at[0], "a b");
    assert_string_equal(papers->papers.at[1], "c");
    experiment_free(e);
}

static void short_forms_are_refused_where_they_are_wrong(void **state)
{
    (void)state;
#define WITH_SPLIT(split) "data: {set: dots, batch: 1, split: " split "}\n" REST
    refuses(WITH_SPLIT("{skew: 11}"),
            "folder/e.yaml:1:43: data.split.skew: 11 is above the most allowed, 10");
    refuses(WITH_SPLIT("{skew: [1]}"),
            "folder/e.yaml:1:43: data.split.skew: a list was written where a number is expected");
    refuses(WITH_SPLIT("{skew: 1, alpha: 2}"),
            "folder/e.yaml:1:46: data.split.alpha: this is written already, as 'skew'");
    refuses(WITH_SPLIT("{kind: skew, skew: 2}"), "folder/e.yaml:1:49: data.split.skew: unknown key 'skew' in "
                                                 "data.split of kind skew; known are: alpha, counts, kind");
    refuses(WITH_SPLIT("{skew: 1, papers: [a]}"), "folder/e.yaml:1:46: data.split.papers: unknown key "
                                                  "'papers' in data.split of kind skew; known are: alpha, "
                                                  "counts, kind");
    refuses(WITH_SPLIT("{skwe: 1}"),
            "folder/e.yaml:1:37: data.split.skwe: unknown key 'skwe' in data.split of "
            "kind shuffle; did you mean 'skew'?");
    refuses(WITH_SPLIT("{shuffle: 1}"), "folder/e.yaml:1:37: data.split.shuffle: unknown key 'shuffle' in "
                                        "data.split of kind shuffle; known are: "
                                        "kind, skew, papers");
    refuses(WITH_SPLIT("{counts: [1]}"),
            "folder/e.yaml:1:37: data.split.counts: unknown key 'counts' in data.split of "
            "kind shuffle; known are: kind, skew, papers");
    refuses(WITH_SPLIT("3"),
            "folder/e.yaml:1:36: data.split: '3' is not among the splits: shuffle, skew, papers");
    refuses(WITH_SPLIT("[1]"), "folder/e.yaml:1:36: data.split: a list was written where a name or a map "
                               "with the key 'kind' is expected");
    refuses(WITH_SPLIT("{skew: 1, counts: [1, 2.5]}"),
            "folder/e.yaml:1:58: data.split.counts.1: '2.5' is not a whole number");
    refuses(WITH_SPLIT("{skew: 1, counts: [1, 10]}"),
            "folder/e.yaml:1:58: data.split.counts.1: 10 is above the most allowed, 9");
    refuses(WITH_SPLIT("{skew: 1, counts: ['1']}"), "folder/e.yaml:1:55: data.split.counts.0: '1' in quotes "
                                                    "was written where a whole number is expected");
    refuses(WITH_SPLIT("{papers: [a, [b]]}"),
            "folder/e.yaml:1:49: data.split.papers.1: a list was written where a text is expected");
    refuses(WITH_SPLIT("{papers: [a, ~]}"),
            "folder/e.yaml:1:49: data.split.papers.1: nothing was written where a text is expected");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: {sgd: 0}\ntrain: {epochs: 1}\n",
            "folder/e.yaml:3:14: optim.sgd: 0 is too small: it must be above 0");
}

static void a_schedule_without_a_kind_is_constant(void **state)
{
    (void)state;
    struct experiment *e = reads("data: {set: dots, batch: 1}\nmodel: tower\ntrain: {epochs: 1}\n"
                                 "optim: {kind: sgd, lr: 1, schedule: {warmup_epochs: 1}}\n");
    assert_string_equal(e->optim.schedule.kind->name, "constant");
    assert_true(e->optim.warmup_epochs == 1);
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
                                 "data: {set: dots, batch: 1}\noptim: adam\ntrain: {epochs: 1}\n");
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

static void unknown_keys_are_named_with_the_nearest_known(void **state)
{
    (void)state;
    refuses("data: {set: dots, batch: 1}\nmodel: tower\ntrain: {epochs: 1}\n"
            "optim: {kind: adam, learning_rte: 1}\n",
            "folder/e.yaml:4:21: optim.learning_rte: unknown key 'learning_rte' in optim of kind adam; did "
            "you mean "
            "'learning_rate'?");
    refuses(LEAST "agnets: 3\n", "folder/e.yaml:5:1: agnets: unknown key 'agnets'; did you mean 'agents'?");
    refuses(LEAST "enigne: ref\n", "folder/e.yaml:5:1: enigne: unknown key 'enigne'; did you mean 'engine'?");
    refuses(LEAST "quite-other: 3\n", "folder/e.yaml:5:1: quite-other: unknown key 'quite-other'; known are: "
                                      "name, agents, data, model, optim, "
                                      "topology, strategy, world, train, engine, machines, network, events");
    refuses("data: {sett: dots, batch: 1}\n" REST,
            "folder/e.yaml:1:8: data.sett: unknown key 'sett' in data; did you mean 'set'?");
    refuses("data: {set: {kind: files, foldr: x}, batch: 1}\n" REST,
            "folder/e.yaml:1:27: data.set.foldr: unknown key 'foldr' in data.set of kind files; did you mean "
            "'folder'?");
    refuses(LEAST "engine: {kind: ref, thread: 1}\n",
            "folder/e.yaml:5:21: engine.thread: unknown key 'thread' in engine of kind ref; did you mean "
            "'threads'?");
    refuses(LEAST "strategy: {every: 2}\n", "folder/e.yaml:5:12: strategy.every: unknown key 'every' in "
                                            "strategy of kind single; known are: kind, consensus");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\ntrain: {epochs: 1}\n"
            "optim: {kind: adam, schedule: {warmup: 1}}\n",
            "folder/e.yaml:4:32: optim.schedule.warmup: unknown key 'warmup' in optim.schedule of kind "
            "constant; known "
            "are: warmup_epochs, kind, step");
}

static void a_key_written_twice_is_refused(void **state)
{
    (void)state;
    refuses(LEAST "optim: adam\n", "folder/e.yaml:5:1: optim: this key is written twice, first in line 3");
    refuses("data: {set: dots, batch: 1, batch: 1}\n" REST,
            "folder/e.yaml:1:29: data.batch: this key is written twice, first in line 1");
}

static void a_missing_key_is_named_with_its_sections_place(void **state)
{
    (void)state;
    refuses("model: tower\n", "folder/e.yaml:1:1: the section 'data' is missing");
    refuses("\n\n  data: {set: dots, batch: 1}\n", "folder/e.yaml:3:3: the section 'model' is missing");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\n",
            "folder/e.yaml:1:1: the section 'optim' is missing");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: adam\n",
            "folder/e.yaml:1:1: the section 'train' is missing");
    refuses("data: {set: dots}\n" REST,
            "folder/e.yaml:1:7: data: the key 'batch' is missing (samples in one lesson of one agent)");
    refuses("data: {batch: 1}\n" REST, "folder/e.yaml:1:7: data: the key 'set' is missing (one of the sets)");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: {lr: 1}\n",
            "folder/e.yaml:3:8: optim: the key 'kind' is missing (one of the optimisers)");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: {kind: sgd}\n",
            "folder/e.yaml:3:8: optim: the key 'lr' is missing (the step)");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: sgd\n",
            "folder/e.yaml:3:8: optim: the key 'lr' is missing (the step)");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: adam\ntrain: {}\n",
            "folder/e.yaml:4:8: train: the key 'epochs' is missing (how often every sample is met)");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: {kind: adam, schedule: step}\n",
            "folder/e.yaml:3:31: optim.schedule: the key 'at' is missing (epochs at which lr falls)");
    refuses("data: {set: dots, batch: 1}\nmodel: [relu, conv]\n",
            "folder/e.yaml:2:15: model.1: the key 'out' is missing (channels)");
    refuses("data: {set: dots, batch: 1}\nmodel: [relu, conv: {kernel: 3}]\n",
            "folder/e.yaml:2:21: model.1.conv: the key 'out' is missing (channels)");
}

static void wrong_types_are_named(void **state)
{
    (void)state;
    refuses("data: {set: dots, batch: [1]}\n" REST,
            "folder/e.yaml:1:26: data.batch: a list was written where a whole number is expected");
    refuses("data: {set: dots, batch: {a: 1}}\n" REST,
            "folder/e.yaml:1:26: data.batch: a map was written where a whole number is expected");
    refuses("data: {set: dots, batch: }\n" REST,
            "folder/e.yaml:1:26: data.batch: nothing was written where a whole number is expected");
    refuses("data: {set: dots, batch: '25'}\n" REST,
            "folder/e.yaml:1:26: data.batch: '25' in quotes was written where a whole number is expected");
    refuses("data: {set: dots, batch: many}\n" REST,
            "folder/e.yaml:1:26: data.batch: 'many' is not a whole number");
    refuses("data: {set: dots, batch: 1, flip: yes}\n" REST,
            "folder/e.yaml:1:35: data.flip: 'yes' is neither true nor false");
    refuses("data: {set: [dots], batch: 1}\n" REST, "folder/e.yaml:1:13: data.set: a list was written where "
                                                    "a name or a map with the key 'kind' is expected");
    refuses("data: {set: , batch: 1}\n" REST,
            "folder/e.yaml:1:13: data.set: nothing was written where a name is expected");
    refuses("data: {set: {kind: [x]}, batch: 1}\n" REST,
            "folder/e.yaml:1:20: data.set.kind: a list was written where a name is expected");
    refuses("data: dots\n" REST,
            "folder/e.yaml:1:7: data: 'dots' was written where a map of settings is expected");
    refuses("data:\n" REST,
            "folder/e.yaml:1:6: data: nothing was written where a map of settings is expected");
    refuses("data: [1]\n" REST,
            "folder/e.yaml:1:7: data: a list was written where a map of settings is expected");
    refuses(LEAST "name: [a]\n", "folder/e.yaml:5:7: name: a list was written where a text is expected");
    refuses(LEAST "agents: two\n", "folder/e.yaml:5:9: agents: 'two' is not a whole number");
    refuses(LEAST "machines: 5\n",
            "folder/e.yaml:5:11: machines: '5' was written where a map of settings is expected");
    refuses("data: {set: dots, batch: 1, mean: [1, [2]]}\n" REST,
            "folder/e.yaml:1:39: data.mean.1: a list was written where a number is expected");
    refuses("data: {set: dots, batch: 1, mean: [1, x]}\n" REST,
            "folder/e.yaml:1:39: data.mean.1: 'x' is not a number");
    refuses("data: {set: dots, batch: 1, mean: ['1']}\n" REST,
            "folder/e.yaml:1:36: data.mean.0: '1' in quotes was written where a number is expected");
    refuses(
        "- data\n- model\n",
        "folder/e.yaml:1:1: an experiment is a map of sections (data: ..., model: ...), which this is not");
    refuses(
        "just a text\n",
        "folder/e.yaml:1:1: an experiment is a map of sections (data: ..., model: ...), which this is not");
    refuses("", "folder/e.yaml:1:1: nothing is written here");
}

static void bad_numbers_are_named(void **state)
{
    (void)state;
#define WITH_LR(value)                                                                                       \
    "data: {set: dots, batch: 1}\nmodel: tower\ntrain: {epochs: 1}\noptim: {kind: sgd, lr: " value "}\n"
    refuses(WITH_LR("nan"), "folder/e.yaml:4:24: optim.lr: 'nan' is not a finite number");
    refuses(WITH_LR(".inf"), "folder/e.yaml:4:24: optim.lr: '.inf' is not a finite number");
    refuses(WITH_LR("1e999"), "folder/e.yaml:4:24: optim.lr: '1e999' is too large to be a finite number");
    refuses(WITH_LR("0.1x"), "folder/e.yaml:4:24: optim.lr: '0.1x' is not a number");
    refuses(WITH_LR("0x1"), "folder/e.yaml:4:24: optim.lr: '0x1' is not a number");
    refuses(WITH_LR("0"), "folder/e.yaml:4:24: optim.lr: 0 is too small: it must be above 0");
    refuses(WITH_LR("1, momentum: 1.5"),
            "folder/e.yaml:4:37: optim.momentum: 1.5 is above the most allowed, 1");
    refuses(LEAST "agents: 0\n", "folder/e.yaml:5:9: agents: 0 is below the least allowed, 1");
    refuses(LEAST "agents: 1e3\n", "folder/e.yaml:5:9: agents: '1e3' is not a whole number");
    refuses(
        LEAST "agents: 010\n",
        "folder/e.yaml:5:9: agents: '010' begins with a zero, which some read as octal; write it without");
    refuses(LEAST "agents: 99999999999999999999\n",
            "folder/e.yaml:5:9: agents: '99999999999999999999' does not fit into 64 bits");
    refuses("data: {set: dots, batch: 0}\n" REST,
            "folder/e.yaml:1:26: data.batch: 0 is below the least allowed, 1");
    refuses("data: {set: dots, batch: 1, crop: 128}\n" REST,
            "folder/e.yaml:1:35: data.crop: 128 is above the most allowed, 127");
    refuses("data: {set: dots, batch: 1, limit: -1}\n" REST,
            "folder/e.yaml:1:36: data.limit: -1 is below the least allowed, 0");
    refuses("data: {set: dots, batch: 1, split: suffle}\n" REST,
            "folder/e.yaml:1:36: data.split: 'suffle' is not among the splits; did you mean 'shuffle'?");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: adam\ntrain: {epochs: 0}\n",
            "folder/e.yaml:4:17: train.epochs: 0 is too small: it must be above 0");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: adam\ntrain: {epochs: 1, evaluate_every: 5}\n",
            "folder/e.yaml:4:36: train.evaluate_every: '5' is not a time such as '1 epoch', '0.5 epochs', "
            "'100 rounds' "
            "or 'never'");
    refuses("data: {set: dots, batch: 1, mean: [0], deviation: [0]}\n" REST,
            "folder/e.yaml:1:52: data.deviation.0: 0 is too small: it must be above 0");
    refuses("data: {set: dots, batch: 1, mean: [0]}\n" REST,
            "folder/e.yaml:1:7: data: mean and deviation are written together, one number for each channel; "
            "here are 1 "
            "and 0");
    refuses(LEAST "machines: {rate: 0}\n",
            "folder/e.yaml:5:18: machines.rate: 0 is too small: it must be above 0");
}

static void unknown_names_are_named_with_the_nearest_known(void **state)
{
    (void)state;
    refuses("data: {set: dts, batch: 1}\n" REST,
            "folder/e.yaml:1:13: data.set: 'dts' is not among the sets; did you mean 'dots'?");
    refuses("data: {set: dots, batch: 1}\nmodel: towr\n",
            "folder/e.yaml:2:8: model: 'towr' is not among the models; did you mean 'tower'?");
    refuses(
        "data: {set: dots, batch: 1}\nmodel: stiars:7-8-9-10-11-12\n",
        "folder/e.yaml:2:8: model: 'stiars:7-8-9-10-11-12' is not among the models; did you mean 'stairs'?");
    refuses("data: {set: dots, batch: 1}\nmodel: tower:3\n",
            "folder/e.yaml:2:8: model: 'tower:3' is not among the models; did you mean 'tower'?");
    refuses("data: {set: dots, batch: 1}\nmodel: stairs\n",
            "folder/e.yaml:2:8: model: 'stairs' says too little: it is written as stairs:N-N-...");
    refuses("data: {set: dots, batch: 1}\nmodel: 'stairs:'\n",
            "folder/e.yaml:2:8: model: 'stairs:' says too little: it is written as stairs:N-N-...");
    refuses("data: {set: dots, batch: 1}\nmodel: unheard-of\n",
            "folder/e.yaml:2:8: model: 'unheard-of' is not among the models: tower, stairs, toys");
    refuses("data: {set: dots, batch: 1}\nmodel: tower\noptim: {kind: adma}\n",
            "folder/e.yaml:3:15: optim.kind: 'adma' is not among the optimisers; did you mean 'adam'?");
    refuses(
        LEAST "strategy: consensu\n",
        "folder/e.yaml:5:11: strategy: 'consensu' is not among the strategies; did you mean 'consensus'?");
    refuses(LEAST "world: lokal\n",
            "folder/e.yaml:5:8: world: 'lokal' is not among the worlds; did you mean 'local'?");
}

static void a_kind_this_build_lacks_says_why(void **state)
{
    (void)state;
    refuses(LEAST "engine: dnnl\n",
            "folder/e.yaml:5:9: engine: 'dnnl' cannot be used: this build is without oneDNN");
    refuses(LEAST "engine: {kind: dnnl}\n",
            "folder/e.yaml:5:16: engine.kind: 'dnnl' cannot be used: this build is without oneDNN");
}

static void badly_written_layers_are_named(void **state)
{
    (void)state;
#define WITH_MODEL(layers) "data: {set: dots, batch: 1}\noptim: adam\ntrain: {epochs: 1}\nmodel: " layers "\n"
    refuses(WITH_MODEL("[]"), "folder/e.yaml:4:8: model: a list of one or more layers is expected here");
    refuses(WITH_MODEL("[rleu]"),
            "folder/e.yaml:4:9: model.0: 'rleu' is not among the layers; did you mean 'relu'?");
    refuses(WITH_MODEL("[relu, cnv: {out: 1}]"),
            "folder/e.yaml:4:15: model.1.cnv: 'cnv' is not among the layers; did you mean 'conv'?");
    refuses(WITH_MODEL("[{conv: {out: 1}, relu: }]"), "folder/e.yaml:4:9: model.0: a layer is written as a "
                                                      "name or as one key with its settings: 'conv: {out: "
                                                      "16}'");
    refuses(WITH_MODEL("[[relu]]"),
            "folder/e.yaml:4:9: model.0: a layer is written as a name or as one key with its "
            "settings: 'conv: {out: 16}'");
    refuses(WITH_MODEL("[conv: 16]"),
            "folder/e.yaml:4:15: model.0.conv: '16' was written where a map of settings is expected");
    refuses(WITH_MODEL("[conv: [relu]]"),
            "folder/e.yaml:4:15: model.0.conv: a list was written where a map of settings is expected");
    refuses(WITH_MODEL("[conv: {out: 1, kernl: 5}]"), "folder/e.yaml:4:24: model.0.conv.kernl: unknown key "
                                                      "'kernl' in model.0.conv of kind conv; did you mean "
                                                      "'kernel'?");
    refuses(WITH_MODEL("[conv: {out: 1, layers: [relu]}]"),
            "folder/e.yaml:4:24: model.0.conv.layers: unknown key 'layers' in model.0.conv of kind conv; "
            "known are: "
            "out, kernel, bias, name");
    refuses(WITH_MODEL("[conv: {out: 0}]"),
            "folder/e.yaml:4:21: model.0.conv.out: 0 is below the least allowed, 1");
    refuses(WITH_MODEL("[conv: {out: 1, name: a b}]"),
            "folder/e.yaml:4:30: model.0.conv.name: 'a b' cannot be a layer's name: a name is made of "
            "letters, digits, "
            "'.', '_' and '-', and begins with a letter or digit");
    refuses(WITH_MODEL("[residual]"),
            "folder/e.yaml:4:9: model.0: residual holds layers, but none are written");
    refuses(WITH_MODEL("[residual: ]"),
            "folder/e.yaml:4:9: model.0: residual holds layers, but none are written");
    refuses(WITH_MODEL("[residual: {name: x}]"),
            "folder/e.yaml:4:19: model.0.residual: residual holds layers, but none are written");
    refuses(WITH_MODEL("[residual: []]"),
            "folder/e.yaml:4:19: model.0.residual: a list of one or more layers is expected here");
    refuses(WITH_MODEL("[residual: {layers: relu}]"),
            "folder/e.yaml:4:28: model.0.residual.layers: a list of one or more layers is expected here");
    refuses(WITH_MODEL("[residual: [relu, rel]]"),
            "folder/e.yaml:4:26: model.0.residual.1: 'rel' is not among the layers; did you mean 'relu'?");
    refuses(WITH_MODEL("{layers: [relu]}"),
            "folder/e.yaml:4:8: model: the key 'kind' is missing (one of the models)");
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

static void a_file_is_read_with_its_path_in_complaints(void **state)
{
    (void)state;
    char path[] = "/tmp/veche-experiment-XXXXXX", sentence[200];
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, LEAST, strlen(LEAST)), strlen(LEAST));
    struct experiment *e = NULL;
    assert_null(experiment_read(path, NULL, 0, &toy_registry, &e));
    assert_string_equal(e->source, path);
    assert_string_equal(e->name, path + strlen("/tmp/"));
    experiment_free(e);
    e = NULL;

    assert_int_equal(write(file, "x: 1\n", 5), 5);
    fault f = experiment_read(path, NULL, 0, &toy_registry, &e);
    snprintf(sentence, sizeof sentence, "%s:5:1: x: unknown key 'x'; known are:", path);
    assert_non_null(f);
    assert_memory_equal(fault_text(f), sentence, strlen(sentence));
    fault_drop(f);

    char *spaces = malloc(1 << 20);
    memset(spaces, ' ', 1 << 20);
    assert_int_equal(write(file, spaces, 1 << 20), 1 << 20);
    free(spaces);
    f = experiment_read(path, NULL, 0, &toy_registry, &e);
    snprintf(sentence, sizeof sentence, "%s: longer than 1 MiB, which no experiment needs", path);
    assert_non_null(f);
    assert_string_equal(fault_text(f), sentence);
    fault_drop(f);
    close(file);
    unlink(path);
    assert_null(e);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct experiment *e = NULL;
    fault f = experiment_read("/nowhere/at/all.yaml", NULL, 0, &toy_registry, &e);
    assert_int_equal(fault_kind_of(f), FAULT_FILE);
    assert_string_equal(fault_text(f), "/nowhere/at/all.yaml: cannot be read: No such file or directory");
    fault_drop(f);
    f = experiment_read("/tmp", NULL, 0, &toy_registry, &e);
    assert_int_equal(fault_kind_of(f), FAULT_FILE);
    assert_string_equal(fault_text(f), "/tmp: cannot be read: Is a directory");
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
            const struct field *row = &sections[i].fields[j];
            assert_non_null(row->help);
            assert_true(row->help[strlen(row->help) - 1] != '.');
            assert_true((row->kind == FIELD_CHOICE) == (row->choices != NULL));
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
        cmocka_unit_test(short_forms_are_refused_where_they_are_wrong),
        cmocka_unit_test(a_schedule_without_a_kind_is_constant),
        cmocka_unit_test(a_network_may_be_a_list_of_layers),
        cmocka_unit_test(unknown_keys_are_named_with_the_nearest_known),
        cmocka_unit_test(a_key_written_twice_is_refused),
        cmocka_unit_test(a_missing_key_is_named_with_its_sections_place),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(bad_numbers_are_named),
        cmocka_unit_test(unknown_names_are_named_with_the_nearest_known),
        cmocka_unit_test(a_kind_this_build_lacks_says_why),
        cmocka_unit_test(badly_written_layers_are_named),
        cmocka_unit_test(names_are_fit_for_folders),
        cmocka_unit_test(a_file_is_read_with_its_path_in_complaints),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(every_section_and_category_is_listed_with_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
