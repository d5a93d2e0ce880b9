/* A bad experiment gets exactly one sentence with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/reading.h"

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
                                      "topology, strategy, world, team, train, engine, machines, network, events");
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
            "are: warmup_epochs, warmup_from, kind, step");
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
            "folder/e.yaml:5:11: machines: '5' is not among the machines: given, measured");
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
#define ACCUMULATE(batch, m)                                                                                 \
    "data: {set: dots, batch: " batch "}\nmodel: tower\noptim: adam\ntrain: {epochs: 1, accumulate: " m "}"  \
                                                                                                        "\n"
    refuses(ACCUMULATE("4", "0"), "folder/e.yaml:4:32: train.accumulate: 0 is below the least allowed, 1");
    refuses(ACCUMULATE("4", "5"), "folder/e.yaml:4:32: train.accumulate: a batch of 4 samples cannot be cut "
                                  "into 5 micro-batches (data.batch)");
    refuses(ACCUMULATE("1", "2"), "folder/e.yaml:4:32: train.accumulate: a batch of 1 sample cannot be cut "
                                  "into 2 micro-batches (data.batch)");
    refuses(ACCUMULATE("4", "1.5"), "folder/e.yaml:4:32: train.accumulate: '1.5' is not a whole number");
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
            "out, kernel, bias, name, from");
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
    refuses(WITH_MODEL("[relu, join]"),
            "folder/e.yaml:4:15: model.1: join joins layers, but none are named, as in 'join: [a, b]'");
    refuses(WITH_MODEL("[join: {name: x}]"),
            "folder/e.yaml:4:15: model.0.join: join joins layers, but none are named, as in 'join: [a, b]'");
    refuses(WITH_MODEL("[join: []]"),
            "folder/e.yaml:4:15: model.0.join: a layer's name is expected here, or a list of names");
    refuses(WITH_MODEL("[join: [a, [b]]]"),
            "folder/e.yaml:4:19: model.0.join.1: a list was written where a text is expected");
    refuses(WITH_MODEL("[relu: {from: []}]"),
            "folder/e.yaml:4:22: model.0.relu.from: a layer's name is expected here, or a list of names");
    refuses(WITH_MODEL("[relu: {form: a}]"), "folder/e.yaml:4:16: model.0.relu.form: unknown key 'form' in "
                                             "model.0.relu of kind relu; did you mean 'from'?");
    refuses(WITH_MODEL("[relu: a]"),
            "folder/e.yaml:4:15: model.0.relu: 'a' was written where a map of settings is expected");
    refuses(WITH_MODEL("{layers: [relu]}"),
            "folder/e.yaml:4:8: model: the key 'kind' is missing (one of the models)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_forms_are_refused_where_they_are_wrong),
        cmocka_unit_test(unknown_keys_are_named_with_the_nearest_known),
        cmocka_unit_test(a_key_written_twice_is_refused),
        cmocka_unit_test(a_missing_key_is_named_with_its_sections_place),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(bad_numbers_are_named),
        cmocka_unit_test(unknown_names_are_named_with_the_nearest_known),
        cmocka_unit_test(a_kind_this_build_lacks_says_why),
        cmocka_unit_test(badly_written_layers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
