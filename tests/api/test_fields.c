/* Every setting does something: for every field of every kind and section there is a pair of experiments that
 * differ in it alone and come to different ends, or of which one is refused. A field without such a pair
 * fails here, so that none can be added that is read and ignored. */
#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/registry.h"
#include "experiment/experiment.h"
#include "support/data_files.h"
#include "support/must.h"
#include "veche.h"

static const char base[] = "name: fields\n"
                           "data: {set: {kind: blobs, samples: 48, test_samples: 12}, batch: 4}\n"
                           "model: [{linear: {out: 4}}, batchnorm, relu, {linear: {out: 3}}]\n"
                           "optim: {kind: sgd, lr: 0.1, momentum: 0.5}\n"
                           "agents: 3\ntopology: \"cycle:3\"\nstrategy: consensus\n"
                           "network: {latency_ms: 0.5, bandwidth_mbps: 10, patience_s: 0.05}\n"
                           "engine: {kind: ref, threads: 1}\n"
                           "train: {epochs: 2, evaluate_every: 1 epoch, checkpoint_every: never}\n";

#define PICTURES   "data.set={kind: images, size: 4, samples: 48, test_samples: 12}"
#define IMAGES(x)  "data.set={kind: images, size: 4, samples: 48, test_samples: 12, " x "}"
#define SMALL      "data.set={kind: images, size: 4, samples: 48, test_samples: 12}|model=logistic"
#define BLOBS(x)   "model=logistic|data.set={kind: blobs, test_samples: 12, " x "}"
#define SPIRALS(x) "model=logistic|data.set={kind: spirals, test_samples: 12, " x "}"
#define CONV(x)    "model=[{conv: {" x "}}, relu, {linear: {out: 10}}]"
#define POOL(x)    "model=[" x ", {linear: {out: 10}}]"
#define LINEAR(x)  "model=[{linear: {" x "}}, relu, {linear: {out: 3}}]"
#define OPTIM(x)   "optim={kind: " x "}"
#define SLOW       "machines.speed=[1, 0.5, 0.3]"
#define IDX(x)     "model=logistic|data.set={kind: idx, test_images: @/images, test_labels: @/labels, " x "}"
#define TRAIN_IDX  "train_images: @/images, train_labels: @/labels"
#define CIFAR(x)   "model=logistic|data.set={kind: cifar-binary, " x "}"
#define FILES(x, y)                                                                                          \
    "model=logistic|data.set={kind: idx, test_images: @/images, test_labels: @/labels}|data.mean=[0.5]|"     \
    "data.deviation=[0.2]|data.split={kind: files, files: " x ", labels: " y "}"
#define EVENTS(x)  "events=[" x "]"
#define TEAM(x)    "team={kind: pipeline, " x "}"
#define NETWORK(x) "network={latency_ms: 0.5, bandwidth_mbps: 10, patience_s: 0.05, " x "}"

/* Overrides are separated by '|'; '@' is a folder with files of samples. */
static const struct pair {
    const char *of, *field; /* a section, or a category and a kind of it */
    const char *with;       /* what both have beside the base */
    const char *one, *other; /* one is NULL: what follows is a measurement, never the same twice */
} pairs[] = {
    {"experiment", "name", "", "name=one", "name=two"},
    {"experiment", "agents", "", "agents=3|topology=complete:3", "agents=2|topology=complete:2"},
    {"teams.pipeline", "size", "", TEAM("microbatches: 2, size: 1"), TEAM("microbatches: 2, size: 2")},
    {"teams.pipeline", "schedule", "", TEAM("size: 2, microbatches: 4, schedule: gpipe"), TEAM("size: 2, microbatches: 4, schedule: zb-h1")},
    {"teams.pipeline", "microbatches", "", TEAM("size: 2, microbatches: 2"), TEAM("size: 2, microbatches: 4")},
    {"teams.pipeline", "chunks", "", TEAM("size: 2, microbatches: 2, schedule: interleaved, chunks: 2"),
     TEAM("size: 2, microbatches: 2, schedule: interleaved, chunks: 1")},
    {"teams.pipeline", "warmup", "", TEAM("size: 2, microbatches: 4"), TEAM("size: 2, microbatches: 4, warmup: 3")},
    {"teams.pipeline", "recompute", "", TEAM("size: 2, microbatches: 2"), TEAM("size: 2, microbatches: 2, recompute: always")},
    {"teams.pipeline", "cut", "", TEAM("size: 2, microbatches: 2, cut: \"1\""), TEAM("size: 2, microbatches: 2, cut: \"3\"")},
    {"data", "batch", "", "data.batch=4", "data.batch=5"},
    {"data", "limit", "", "data.limit=0", "data.limit=30"},
    {"data", "test_limit", "", "data.test_limit=0", "data.test_limit=5"},
    {"data", "flip", SMALL, "data.flip=false", "data.flip=true"},
    {"data", "crop", SMALL, "data.crop=0", "data.crop=1"},
    {"data", "mean", SMALL "|data.deviation=[0.2]", "data.mean=[0.5]", "data.mean=[0.1]"},
    {"data", "deviation", SMALL "|data.mean=[0.5]", "data.deviation=[0.2]", "data.deviation=[0.3]"},
    {"data", "stream", "", "data.stream=false", "data.stream=true"}, /* of a set that is made up */
    {"data", "window_mb", IDX(TRAIN_IDX) "|data.stream=true", "data.window_mb=1", "data.window_mb=0.00001"},
    {"model", "name", "", "model=[{linear: {out: 3, name: a}}]", "model=[{linear: {out: 3, name: b}}]"},
    {"model", "from", "", "model=[{linear: {out: 3, name: a}}, {relu: {name: b}}, {linear: {out: 3, from: a}}, {add: b}]",
     "model=[{linear: {out: 3, name: a}}, {relu: {name: b}}, {linear: {out: 3, from: b}}, {add: a}]"},
    {"optim", "scale_lr", "", "optim.scale_lr=false", "optim.scale_lr=true"},
    {"optim.schedule", "warmup_epochs", "", "optim.schedule.warmup_epochs=0",
     "optim.schedule.warmup_epochs=1"},
    {"optim.schedule", "warmup_from", "optim.schedule.warmup_epochs=1", "optim.schedule.warmup_from=0.01",
     "optim.schedule.warmup_from=0.05"},
    {"train", "epochs", "", "train.epochs=1", "train.epochs=2"},
    {"train", "accumulate", "", "train.accumulate=1", "train.accumulate=2"},
    {"train", "seed", "", "train.seed=1", "train.seed=2"},
    {"train", "evaluate_every", "", "train.evaluate_every=1 epoch", "train.evaluate_every=2 rounds"},
    {"train", "checkpoint_every", "", "train.checkpoint_every=never", "train.checkpoint_every=2 rounds"},
    {"train", "keep", "train.checkpoint_every=1 rounds", "train.keep=1", "train.keep=3"},
    {"train.stop", "accuracy", "train.evaluate_every=2 rounds", "train.stop={accuracy: 20}",
     "train.stop={accuracy: 100}"},
    {"train.stop", "loss", "train.evaluate_every=2 rounds", "train.stop={loss: 5}",
     "train.stop={loss: 0.0001}"},
    {"train.stop", "no_progress", "train.epochs=20", "train.stop={no_progress: 1}",
     "train.stop={no_progress: 10}"},
    {"engine", "precision", "", "engine.precision=fp32", "engine.precision=bf16"},
    {"engine", "threads", "", "engine.threads=1", "engine.threads=2"},
    {"topology", "graph", "agents=4", "topology=cycle:4", "topology=complete:4"},
    {"topology", "weights", "", "topology={graph: path:3, weights: uniform}",
     "topology={graph: path:3, weights: fastest}"},
    {"machines.given", "rate", "", "machines.rate=1000", "machines.rate=500"},
    {"machines.given", "memory_gbps", "", "machines.memory_gbps=0", "machines.memory_gbps=0.001"},
    {"machines.measured", "side_by_side", NULL, NULL, NULL},
    {"machines.measured", "seconds", NULL, NULL, NULL},
    {"network", "notice_s", EVENTS("{at_s: 0.002, crash: 2}"), "network.notice_s=0", "network.notice_s=0.01"},
    {"network", "latency_ms", "", "network.latency_ms=1", "network.latency_ms=2"},
    {"network", "bandwidth_mbps", "", "network.bandwidth_mbps=10", "network.bandwidth_mbps=1"},
    {"network", "patience_s", "machines.speed=[1, 1, 0.05]", "network.patience_s=0.02",
     "network.patience_s=1"},
    {"network.across", "latency_ms", "", NETWORK("sites: [[0, 1], [2]], across: {latency_ms: 5}"),
     NETWORK("sites: [[0, 1], [2]], across: {latency_ms: 9}")},
    {"network.across", "bandwidth_mbps", "", NETWORK("sites: [[0, 1], [2]], across: {bandwidth_mbps: 1}"),
     NETWORK("sites: [[0, 1], [2]], across: {bandwidth_mbps: 2}")},
    {"network.links", "between", SLOW, NETWORK("links: [{between: [0, 1], latency_ms: 9}]"),
     NETWORK("links: [{between: [1, 2], latency_ms: 9}]")},
    {"events", "at_s", "", EVENTS("{at_s: 0.005, crash: 1}"), EVENTS("{at_s: 0.02, crash: 1}")},
    {"events", "crash", "", EVENTS("{at_s: 0.005, crash: 1}"), EVENTS("{at_s: 0.005, crash: 2}")},
    {"events", "return", "", EVENTS("{at_s: 0.005, crash: [1, 2]}, {at_s: 0.01, return: 1}"),
     EVENTS("{at_s: 0.005, crash: [1, 2]}, {at_s: 0.01, return: 2}")},
    {"events", "stall", "", EVENTS("{at_s: 0.005, stall: 1}"), EVENTS("{at_s: 0.005, stall: 2}")},
    {"events", "cut", "", EVENTS("{at_s: 0.005, cut: [0, 1]}"), EVENTS("{at_s: 0.005, cut: [1, 2]}")},
    {"events", "mend", "",
     EVENTS("{at_s: 0.005, cut: [0, 1]}, {at_s: 0.005, cut: [0, 2]}, {at_s: 0.01, mend: [0, 1]}"),
     EVENTS("{at_s: 0.005, cut: [0, 1]}, {at_s: 0.005, cut: [0, 2]}, {at_s: 0.01, mend: [0, 2]}")},
    {"events", "heal", "", EVENTS("{at_s: 0.005, partition: [[0], [1, 2]]}, {at_s: 0.01, heal: all}"),
     EVENTS("{at_s: 0.005, partition: [[0], [1, 2]]}")},
    {"events.random", "crash_every_s", "", EVENTS("{random: {crash_every_s: 0.05, down_s: 0.01}}"),
     EVENTS("{random: {crash_every_s: 0.02, down_s: 0.01}}")},
    {"events.random", "down_s", "", EVENTS("{random: {crash_every_s: 0.02, down_s: 0.01}}"),
     EVENTS("{random: {crash_every_s: 0.02, down_s: 0.002}}")},
    {"events.random", "cut_every_s", "", EVENTS("{random: {cut_every_s: 0.05, cut_s: 0.01}}"),
     EVENTS("{random: {cut_every_s: 0.01, cut_s: 0.01}}")},
    {"events.random", "cut_s", "", EVENTS("{random: {cut_every_s: 0.01, cut_s: 0.01}}"),
     EVENTS("{random: {cut_every_s: 0.01, cut_s: 0.002}}")},

    {"sets.idx", "train_images", "", IDX("train_images: @/images, train_labels: @/labels"),
     IDX("train_images: @/other, train_labels: @/labels")},
    {"sets.idx", "train_labels", "", IDX("train_images: @/images, train_labels: @/labels"),
     IDX("train_images: @/images, train_labels: @/three")},
    {"sets.idx", "test_images", "model=logistic",
     "data.set={kind: idx, " TRAIN_IDX ", test_images: @/images, test_labels: @/labels}",
     "data.set={kind: idx, " TRAIN_IDX ", test_images: @/other, test_labels: @/labels}"},
    {"sets.idx", "test_labels", "model=logistic",
     "data.set={kind: idx, " TRAIN_IDX ", test_images: @/images, test_labels: @/labels}",
     "data.set={kind: idx, " TRAIN_IDX ", test_images: @/images, test_labels: @/three}"},
    {"sets.idx", "classes", "", IDX(TRAIN_IDX ", classes: 10"), IDX(TRAIN_IDX ", classes: 12")},
    {"sets.cifar-binary", "train", "", CIFAR("train: @/records, test: @/records"),
     CIFAR("train: @/others, test: @/records")},
    {"sets.cifar-binary", "test", "", CIFAR("train: @/records, test: @/records"),
     CIFAR("train: @/records, test: @/others")},
    {"sets.cifar-binary", "classes", "", CIFAR("train: @/records, test: @/records, classes: 10"),
     CIFAR("train: @/records, test: @/records, classes: 11")},
    {"sets.cifar-binary", "coarse", "", CIFAR("train: @/records, test: @/records"),
     CIFAR("train: @/records, test: @/records, coarse: true")},
    {"sets.blobs", "classes", "", BLOBS("samples: 48, classes: 3"), BLOBS("samples: 48, classes: 4")},
    {"sets.blobs", "features", "", BLOBS("samples: 48, features: 2"), BLOBS("samples: 48, features: 3")},
    {"sets.blobs", "samples", "", BLOBS("samples: 48"), BLOBS("samples: 36")},
    {"sets.blobs", "test_samples", "", "data.set={kind: blobs, samples: 48, test_samples: 12}",
     "data.set={kind: blobs, samples: 48, test_samples: 17}"},
    {"sets.blobs", "spread", "", BLOBS("samples: 48, spread: 0.05"), BLOBS("samples: 48, spread: 0.1")},
    {"sets.spirals", "classes", "", SPIRALS("samples: 48, classes: 2"), SPIRALS("samples: 48, classes: 3")},
    {"sets.spirals", "samples", "", SPIRALS("samples: 48"), SPIRALS("samples: 36")},
    {"sets.spirals", "test_samples", "model=logistic",
     "data.set={kind: spirals, samples: 48, test_samples: 12}",
     "data.set={kind: spirals, samples: 48, test_samples: 17}"},
    {"sets.spirals", "noise", "", SPIRALS("samples: 48, noise: 0.01"), SPIRALS("samples: 48, noise: 0.05")},
    {"sets.spirals", "turns", "", SPIRALS("samples: 48, turns: 1"), SPIRALS("samples: 48, turns: 2")},
    {"sets.images", "classes", "model=logistic", IMAGES("classes: 10"), IMAGES("classes: 5")},
    {"sets.images", "channels", "model=logistic", IMAGES("channels: 1"), IMAGES("channels: 2")},
    {"sets.images", "size", "model=logistic",
     "data.set={kind: images, size: 4, samples: 48, test_samples: 12}",
     "data.set={kind: images, size: 5, samples: 48, test_samples: 12}"},
    {"sets.images", "samples", "model=logistic",
     "data.set={kind: images, size: 4, samples: 48, test_samples: 12}",
     "data.set={kind: images, size: 4, samples: 36, test_samples: 12}"},
    {"sets.images", "test_samples", "model=logistic",
     "data.set={kind: images, size: 4, samples: 48, test_samples: 12}",
     "data.set={kind: images, size: 4, samples: 48, test_samples: 17}"},
    {"sets.images", "noise", "model=logistic", IMAGES("noise: 0.2"), IMAGES("noise: 0.3")},
    {"splits.sizes", "sizes", "", "data.split={kind: sizes, sizes: [1, 1, 2]}",
     "data.split={kind: sizes, sizes: [1, 2, 3]}"},
    {"splits.proportional", "to", "", "data.split={kind: proportional, to: speed}", NULL},
    {"splits.by-label", "classes", "", "data.split={kind: by-label, classes: 1}",
     "data.split={kind: by-label, classes: 2}"},
    {"splits.dirichlet", "alpha", "", "data.split={kind: dirichlet, alpha: 1}",
     "data.split={kind: dirichlet, alpha: 100}"},
    {"splits.files", "files", "", FILES("[@/images, @/second, @/third]", "[@/labels, @/labels2, @/labels3]"),
     FILES("[@/images, @/other, @/third]", "[@/labels, @/labels2, @/labels3]")},
    {"splits.files", "labels", "", FILES("[@/images, @/second, @/third]", "[@/labels, @/labels2, @/labels3]"),
     FILES("[@/images, @/second, @/third]", "[@/labels, @/three, @/labels3]")},

    {"layers.conv", "out", PICTURES, CONV("out: 2, kernel: 3"), CONV("out: 3, kernel: 3")},
    {"layers.conv", "kernel", PICTURES, CONV("out: 2, kernel: 3"), CONV("out: 2, kernel: 2")},
    {"layers.conv", "stride", PICTURES, CONV("out: 2, kernel: 2"), CONV("out: 2, kernel: 2, stride: 2")},
    {"layers.conv", "pad", PICTURES, CONV("out: 2, kernel: 3"), CONV("out: 2, kernel: 3, pad: 1")},
    {"layers.conv", "groups", PICTURES "|data.set.channels=2", CONV("out: 2, kernel: 3"),
     CONV("out: 2, kernel: 3, groups: 2")},
    {"layers.conv", "bias", PICTURES, CONV("out: 2, kernel: 3"), CONV("out: 2, kernel: 3, bias: false")},
    {"layers.conv", "init", PICTURES, CONV("out: 2, kernel: 3"),
     CONV("out: 2, kernel: 3, init: kaiming-normal")},
    {"layers.batchnorm", "eps", "", "model=[{linear: {out: 4}}, {batchnorm: {eps: 0.1}}, {linear: {out: 3}}]",
     "model=[{linear: {out: 4}}, {batchnorm: {eps: 0.2}}, {linear: {out: 3}}]"},
    {"layers.batchnorm", "momentum", "",
     "model=[{linear: {out: 4}}, {batchnorm: {momentum: 0.1}}, {linear: {out: 3}}]",
     "model=[{linear: {out: 4}}, {batchnorm: {momentum: 0.9}}, {linear: {out: 3}}]"},
    {"layers.linear", "out", "", LINEAR("out: 4"), LINEAR("out: 5")},
    {"layers.linear", "bias", "", LINEAR("out: 4"), LINEAR("out: 4, bias: false")},
    {"layers.linear", "init", "", LINEAR("out: 4"), LINEAR("out: 4, init: xavier-uniform")},
    {"layers.maxpool", "kernel", PICTURES, POOL("{maxpool: {kernel: 2}}"), POOL("{maxpool: {kernel: 4}}")},
    {"layers.maxpool", "stride", PICTURES, POOL("{maxpool: {kernel: 2}}"),
     POOL("{maxpool: {kernel: 2, stride: 1}}")},
    {"layers.maxpool", "pad", PICTURES, POOL("{maxpool: {kernel: 2}}"),
     POOL("{maxpool: {kernel: 2, pad: 1}}")},
    {"layers.avgpool", "kernel", PICTURES, POOL("{avgpool: {kernel: 2}}"), POOL("{avgpool: {kernel: 4}}")},
    {"layers.avgpool", "stride", PICTURES, POOL("{avgpool: {kernel: 2}}"),
     POOL("{avgpool: {kernel: 2, stride: 1}}")},
    {"layers.avgpool", "pad", PICTURES, POOL("{avgpool: {kernel: 2}}"),
     POOL("{avgpool: {kernel: 2, pad: 1}}")},
    {"layers.dropout", "rate", "", "model=[{linear: {out: 8}}, {dropout: {rate: 0.5}}, {linear: {out: 3}}]",
     "model=[{linear: {out: 8}}, {dropout: {rate: 0.2}}, {linear: {out: 3}}]"},

    {"optimisers.sgd", "lr", "", OPTIM("sgd, lr: 0.1"), OPTIM("sgd, lr: 0.2")},
    {"optimisers.sgd", "momentum", "", OPTIM("sgd, lr: 0.1"), OPTIM("sgd, lr: 0.1, momentum: 0.5")},
    {"optimisers.sgd", "nesterov", "", OPTIM("sgd, lr: 0.1, momentum: 0.5"),
     OPTIM("sgd, lr: 0.1, momentum: 0.5, nesterov: true")},
    {"optimisers.sgd", "weight_decay", "", OPTIM("sgd, lr: 0.1"), OPTIM("sgd, lr: 0.1, weight_decay: 0.1")},
    {"optimisers.adagrad", "lr", "", OPTIM("adagrad, lr: 0.1"), OPTIM("adagrad, lr: 0.2")},
    {"optimisers.adagrad", "lr_decay", "", OPTIM("adagrad, lr: 0.1"),
     OPTIM("adagrad, lr: 0.1, lr_decay: 0.5")},
    {"optimisers.adagrad", "weight_decay", "", OPTIM("adagrad, lr: 0.1"),
     OPTIM("adagrad, lr: 0.1, weight_decay: 0.1")},
    {"optimisers.adagrad", "eps", "", OPTIM("adagrad, lr: 0.1"), OPTIM("adagrad, lr: 0.1, eps: 0.1")},
    {"optimisers.rmsprop", "lr", "", OPTIM("rmsprop, lr: 0.01"), OPTIM("rmsprop, lr: 0.02")},
    {"optimisers.rmsprop", "alpha", "", OPTIM("rmsprop, lr: 0.01"), OPTIM("rmsprop, lr: 0.01, alpha: 0.5")},
    {"optimisers.rmsprop", "momentum", "", OPTIM("rmsprop, lr: 0.01"),
     OPTIM("rmsprop, lr: 0.01, momentum: 0.5")},
    {"optimisers.rmsprop", "weight_decay", "", OPTIM("rmsprop, lr: 0.01"),
     OPTIM("rmsprop, lr: 0.01, weight_decay: 0.1")},
    {"optimisers.rmsprop", "eps", "", OPTIM("rmsprop, lr: 0.01"), OPTIM("rmsprop, lr: 0.01, eps: 0.1")},
    {"optimisers.adam", "lr", "", OPTIM("adam, lr: 0.01"), OPTIM("adam, lr: 0.02")},
    {"optimisers.adam", "beta1", "", OPTIM("adam, lr: 0.01"), OPTIM("adam, lr: 0.01, beta1: 0.5")},
    {"optimisers.adam", "beta2", "", OPTIM("adam, lr: 0.01"), OPTIM("adam, lr: 0.01, beta2: 0.5")},
    {"optimisers.adam", "weight_decay", "", OPTIM("adam, lr: 0.01"),
     OPTIM("adam, lr: 0.01, weight_decay: 0.1")},
    {"optimisers.adam", "eps", "", OPTIM("adam, lr: 0.01"), OPTIM("adam, lr: 0.01, eps: 0.1")},
    {"optimisers.adamw", "lr", "", OPTIM("adamw, lr: 0.01"), OPTIM("adamw, lr: 0.02")},
    {"optimisers.adamw", "beta1", "", OPTIM("adamw, lr: 0.01"), OPTIM("adamw, lr: 0.01, beta1: 0.5")},
    {"optimisers.adamw", "beta2", "", OPTIM("adamw, lr: 0.01"), OPTIM("adamw, lr: 0.01, beta2: 0.5")},
    {"optimisers.adamw", "weight_decay", "", OPTIM("adamw, lr: 0.01"),
     OPTIM("adamw, lr: 0.01, weight_decay: 0.5")},
    {"optimisers.adamw", "eps", "", OPTIM("adamw, lr: 0.01"), OPTIM("adamw, lr: 0.01, eps: 0.1")},
    {"schedules.step", "epochs", "", "optim.schedule={kind: step, epochs: [1]}",
     "optim.schedule={kind: step, epochs: [0.5]}"},
    {"schedules.step", "factor", "", "optim.schedule={kind: step, epochs: [1], factor: 0.1}",
     "optim.schedule={kind: step, epochs: [1], factor: 0.2}"},
    {"schedules.cosine", "floor", "", "optim.schedule={kind: cosine, floor: 0}",
     "optim.schedule={kind: cosine, floor: 0.5}"},
    {"speeds.list", "speeds", "", "machines.speed=[1, 1, 1]", "machines.speed=[1, 1, 0.5]"},
    {"speeds.uniform", "between", "", "machines.speed={kind: uniform, between: [0.5, 1]}",
     "machines.speed={kind: uniform, between: [0.1, 1]}"},
    {"speeds.lognormal", "sigma", "", "machines.speed={kind: lognormal, sigma: 0.5}",
     "machines.speed={kind: lognormal, sigma: 1}"},
    {"stragglers.fixed", "agents", "", "machines.stragglers={kind: fixed, agents: [1], factor: 5}",
     "machines.stragglers={kind: fixed, agents: [2], factor: 5}"},
    {"stragglers.fixed", "factor", "", "machines.stragglers={kind: fixed, agents: [1], factor: 5}",
     "machines.stragglers={kind: fixed, agents: [1], factor: 2}"},
    {"stragglers.scatter", "sigma", "", "machines.stragglers={kind: scatter, sigma: 0.1}",
     "machines.stragglers={kind: scatter, sigma: 0.2}"},
    {"stragglers.random", "chance", "", "machines.stragglers={kind: random, chance: 0.1, factor: 5}",
     "machines.stragglers={kind: random, chance: 0.8, factor: 5}"},
    {"stragglers.random", "factor", "", "machines.stragglers={kind: random, chance: 0.5, factor: 5}",
     "machines.stragglers={kind: random, chance: 0.5, factor: 2}"},

    {"strategies.consensus", "every", "", "strategy.every=1", "strategy.every=2"},
    {"strategies.consensus", "learn_every", "", "strategy.learn_every=1", "strategy.learn_every=2"},
    {"strategies.consensus", "mix_every", "", "strategy.mix_every=1", "strategy.mix_every=2"},
    {"strategies.consensus", "order", "", "strategy.order=adapt-then-combine",
     "strategy.order=combine-then-adapt"},
    {"strategies.consensus", "exchange", "", "strategy.exchange=messages", "strategy.exchange=native"},
    {"strategies.consensus", "mix_statistics", "", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
    {"strategies.consensus", "mix_momentum", "", "strategy.mix_momentum=false", "strategy.mix_momentum=true"},
    {"strategies.gossip", "every", "strategy=gossip", "strategy.every=1", "strategy.every=2"},
    {"strategies.gossip", "pairs", "strategy=gossip", "strategy.pairs=1", "strategy.pairs=2"},
    {"strategies.gossip", "mix_statistics", "strategy=gossip", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
    {"strategies.gossip", "mix_momentum", "strategy=gossip", "strategy.mix_momentum=false",
     "strategy.mix_momentum=true"},
    {"strategies.adpsgd", "every", "strategy=adpsgd", "strategy.every=1", "strategy.every=2"},
    {"strategies.adpsgd", "mix_statistics", "strategy=adpsgd", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
    {"strategies.adpsgd", "mix_momentum", "strategy=adpsgd", "strategy.mix_momentum=false",
     "strategy.mix_momentum=true"},
    {"strategies.allreduce", "algorithm", "strategy=allreduce", "strategy.algorithm=star",
     "strategy.algorithm=ring"},
    {"strategies.allreduce", "bucket_kb", "strategy=allreduce", "strategy.bucket_kb=0",
     "strategy.bucket_kb=0.05"},
    {"strategies.allreduce", "backups", "strategy=allreduce|" SLOW, "strategy.backups=0",
     "strategy.backups=1"},
    {"strategies.allreduce", "mix_statistics", "strategy=allreduce", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
    {"strategies.ps", "mode", "strategy=ps", "strategy.mode=sync", "strategy.mode=async"},
    {"strategies.ps", "staleness", "strategy={kind: ps, mode: ssp}|" SLOW, "strategy.staleness=0",
     "strategy.staleness=5"},
    {"strategies.ps", "staleness_aware", "strategy={kind: ps, mode: async}", "strategy.staleness_aware=false",
     "strategy.staleness_aware=true"},
    {"strategies.ps", "servers", "strategy=ps", "strategy.servers=1", "strategy.servers=2"},
    {"strategies.ps", "tree", "strategy=ps", "strategy.tree=0", "strategy.tree=2"},
    {"strategies.ps", "replicate_every", "strategy=ps", "strategy.replicate_every=0",
     "strategy.replicate_every=1"},
    {"strategies.downpour", "push_every", "strategy=downpour", "strategy.push_every=1",
     "strategy.push_every=2"},
    {"strategies.downpour", "pull_every", "strategy=downpour", "strategy.pull_every=1",
     "strategy.pull_every=2"},
    {"strategies.downpour", "servers", "strategy=downpour", "strategy.servers=1", "strategy.servers=2"},
    {"strategies.downpour", "replicate_every", "strategy=downpour", "strategy.replicate_every=0",
     "strategy.replicate_every=1"},
    {"strategies.average", "tau", "strategy=average", "strategy.tau=2", "strategy.tau=3"},
    {"strategies.average", "from_epoch", "strategy=average", "strategy.from_epoch=0",
     "strategy.from_epoch=1"},
    {"strategies.average", "momentum", "strategy={kind: average, tau: 2}", "strategy.momentum=0",
     "strategy.momentum=0.5"},
    {"strategies.average", "nesterov", "strategy={kind: average, tau: 2, momentum: 0.5}",
     "strategy.nesterov=false", "strategy.nesterov=true"},
    {"strategies.average", "block_rate", "strategy={kind: average, tau: 2}", "strategy.block_rate=1",
     "strategy.block_rate=0.5"},
    {"strategies.average", "weights", "strategy=average|data.split={kind: sizes, sizes: [1, 2, 3]}",
     "strategy.weights=equal", "strategy.weights=data"},
    {"strategies.average", "algorithm", "strategy=average", "strategy.algorithm=star",
     "strategy.algorithm=ring"},
    {"strategies.average", "mix_statistics", "strategy=average", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
    {"strategies.average", "mix_momentum", "strategy=average", "strategy.mix_momentum=false",
     "strategy.mix_momentum=true"},
    {"strategies.easgd", "mode", "strategy={kind: easgd, every: 2}|" SLOW, "strategy.mode=sync",
     "strategy.mode=async"},
    {"strategies.easgd", "alpha", "strategy={kind: easgd, every: 2}", "strategy.alpha=0.1",
     "strategy.alpha=0.2"},
    {"strategies.easgd", "every", "strategy=easgd", "strategy.every=2", "strategy.every=3"},
    {"strategies.easgd", "mix_statistics", "strategy={kind: easgd, every: 2}",
     "strategy.mix_statistics=false", "strategy.mix_statistics=true"},
    {"strategies.admm", "mode", "strategy={kind: admm, steps: 2}|" SLOW, "strategy.mode=sync",
     "strategy.mode=async"},
    {"strategies.admm", "rho", "strategy={kind: admm, steps: 2}", "strategy.rho=0.1", "strategy.rho=0.5"},
    {"strategies.admm", "steps", "strategy=admm", "strategy.steps=2", "strategy.steps=3"},
    {"strategies.admm", "barrier", "strategy={kind: admm, steps: 2, mode: async}|" SLOW, "strategy.barrier=1",
     "strategy.barrier=3"},
    {"strategies.admm", "delay", "strategy={kind: admm, steps: 1, mode: async}|machines.speed=[1, 1, 0.1]",
     "strategy.delay=1", "strategy.delay=10"},
    {"strategies.admm", "mix_statistics", "strategy={kind: admm, steps: 2}", "strategy.mix_statistics=false",
     "strategy.mix_statistics=true"},
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

/* ---- what a run comes to ---- */

static void note_event(void *ctx, const veche_event *e)
{
    if (e->kind == VECHE_EVALUATION)
        fprintf(ctx, "%llu %a %a %a %a\n", (unsigned long long)e->round, e->virtual_s, e->loss, e->accuracy,
                e->disagreement);
    if (e->kind == VECHE_NOTICE)
        fprintf(ctx, "%a %s\n", e->virtual_s, e->text);
}

/* The figures of a summary that follow from the experiment. */
static void write_summary(FILE *out, const veche_run *r)
{
    static const char *const others[] = {"real_s", "images_per_s", "run", "digest"};
    char *text = NULL;
    must(veche_summary(r, &text));
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        json_object_del(json, others[i]);
    json_dumpf(json, out, JSON_SORT_KEYS);
    json_decref(json);
    free(text);
}

static void write_names(FILE *out, const veche_run *r)
{
    struct dirent **files;
    int n = scandir(veche_run_folder(r), &files, NULL, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        fprintf(out, "\n%s", files[i]->d_name);
        free(files[i]);
    }
    free(files);
    for (size_t i = 0; i < veche_parameter_count(r); i++)
        fprintf(out, "\n%s", veche_parameter_at(r, i).name);
}

enum { MOST_OVERRIDES = 16 };

/* Each of the overrides, with the folder in place of '@'; all texts lie in `room`. */
static size_t split_overrides(const char *overrides, const char *folder, char *room, size_t n_room,
                              const char *out[MOST_OVERRIDES])
{
    size_t n = 0, used = 0;
    char *all = strdup(overrides), *rest = all;
    for (char *one; (one = strsep(&rest, "|"));) {
        out[n++] = strcpy(room + used, "");
        for (char *piece; (piece = strsep(&one, "@"));)
            used += (size_t)snprintf(room + used, n_room - used, "%s%s", piece, one ? folder : "");
        used++;
        assert_true(used < n_room && n < MOST_OVERRIDES);
    }
    free(all);
    return n;
}

static veche_fault *load(const struct pair *p, const char *overrides, const char *folder,
                         veche_experiment **out)
{
    char *path = path_in(folder, "base.yaml"), room[4000];
    char *all = text_of("%s%s%s", p->with, *p->with ? "|" : "", overrides);
    const char *each[MOST_OVERRIDES];
    size_t n = split_overrides(all, folder, room, sizeof room, each);
    veche_fault *f = veche_load_with(path, each, n, out);
    free(path);
    free(all);
    return f;
}

struct end {
    char *text; /* owned: what it came to; of a run that was refused, the sentence */
    bool is_refused;
};

static veche_fault *play(const struct pair *p, const char *overrides, const char *folder, FILE *out)
{
    veche_experiment *e = NULL;
    veche_run *r = NULL;
    veche_fault *f = load(p, overrides, folder, &e);
    if (!f)
        f = veche_start(e, &(veche_options){.folder = folder, .watch = note_event, .ctx = out}, &r);
    if (!f)
        f = veche_go(r);
    if (!f) {
        write_summary(out, r);
        write_names(out, r);
    }
    veche_close(r);
    veche_experiment_free(e);
    return f;
}

static struct end end_of(const struct pair *p, const char *overrides, const char *folder)
{
    struct end end = {0};
    size_t n;
    FILE *out = open_memstream(&end.text, &n);
    assert_non_null(out);
    veche_fault *f = play(p, overrides, folder, out);
    if (f)
        fprintf(out, "%s", veche_fault_text(f));
    end.is_refused = f != NULL;
    veche_fault_free(f);
    fclose(out);
    return end;
}

/* A key that is not there, or a value that is none, proves nothing. */
static bool is_about_the_setting(const struct end *end)
{
    static const char *const others[] = {"unknown key", "is not a", "is above the most",
                                         "is below the least"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(end->text, others[i]))
            return false;
    return true;
}

static bool differs(const struct pair *p, const char *folder)
{
    struct end one = end_of(p, p->one, folder), again = end_of(p, p->one, folder);
    struct end other = p->other ? end_of(p, p->other, folder) : (struct end){.text = strdup("")};
    const char *wrong = NULL;
    if (one.is_refused)
        wrong = one.text;
    else if (strcmp(one.text, again.text) != 0)
        wrong = "the same experiment comes to two ends";
    else if (other.is_refused && !is_about_the_setting(&other))
        wrong = other.text;
    else if (strcmp(one.text, other.text) == 0)
        wrong = "nothing follows from it";
    if (wrong)
        print_error("%s, %s: %s\n", p->of, p->field, wrong);
    free(one.text);
    free(again.text);
    free(other.text);
    return !wrong;
}

/* ---- tests ---- */

static void put(const char *folder, const char *name, struct bytes b)
{
    put_file(folder, name, b);
    free(b.at);
}

/* In memory where that can be: every run makes sure that what it wrote is on the disk. */
static int make_files(void **state)
{
    char in_memory[] = "/dev/shm/veche-test-XXXXXX";
    char *folder = mkdtemp(in_memory) ? strdup(in_memory) : temporary_folder();
    struct bytes other = make_idx_images(24, 5, 5);
    for (size_t i = 16; i < other.n; i++) /* after the head */
        other.at[i] ^= 0x55;
    put(folder, "base.yaml", (struct bytes){(uint8_t *)strdup(base), sizeof base - 1});
    put(folder, "other", other);
    static const char *const images[] = {"images", "second", "third"}, *const labels[] = {"labels", "labels2",
                                                                                          "labels3"};
    for (size_t i = 0; i < 3; i++) {
        put(folder, images[i], make_idx_images(24, 5, 5));
        put(folder, labels[i], make_idx_labels(24, 10));
    }
    put(folder, "three", make_idx_labels(24, 3));
    put(folder, "records", make_cifar(24, 10, 0, 0));
    put(folder, "others", make_cifar(24, 10, 0, 7));
    *state = folder;
    return 0;
}

static int remove_files(void **state)
{
    remove_folder(*state);
    return 0;
}

static void every_setting_changes_something_or_is_refused(void **state)
{
    bool all = true;
    for (size_t i = 0; i < N_PAIRS; i++)
        all &= !pairs[i].one || differs(&pairs[i], *state);
    assert_true(all);
}

/* As `veche check` does. */
static veche_fault *check(const char *overrides, const char *folder)
{
    veche_experiment *e = NULL;
    char *text = NULL;
    veche_fault *f = load(&(struct pair){.with = ""}, overrides, folder, &e);
    if (!f)
        f = veche_describe_model(e, &text);
    free(text);
    veche_experiment_free(e);
    return f;
}

static void settings_that_others_leave_without_effect_are_refused(void **state)
{
    static const struct {
        const char *overrides, *words;
    } cases[] = {
        {"strategy={kind: allreduce, backups: 1, bucket_kb: 1}", "strategy.bucket_kb: who counts in a round"},
        {"strategy={kind: allreduce, backups: 3}", "strategy.backups: 3 of 3 agents"},
        {"strategy={kind: ps, staleness: 2}", "strategy.staleness: only 'mode: ssp'"},
        {"strategy={kind: ps, staleness_aware: true}", "strategy.staleness_aware: in 'mode: sync'"},
        {"strategy={kind: ps, tree: 2, mode: async}", "strategy.tree: nodes sum the gradients of a round"},
        {"strategy={kind: gossip, pairs: 49}", "strategy.pairs: 49 is more than 16 for each of the 3 edges"},
        {"strategy={kind: gossip, mix_momentum: true}|optim.momentum=0", "strategy.mix_momentum: optim 'sgd' without momentum"},
        {"strategy={kind: allreduce, mix_statistics: true}|model=logistic", "strategy.mix_statistics: the network has no batchnorm"},
        {"strategy={kind: average, tau: end, momentum: 0.5}",
         "strategy.momentum: with 'tau: end' there is one block"},
        {"strategy={kind: average, nesterov: true}", "strategy.nesterov: block momentum looks ahead"},
        {"strategy={kind: admm, barrier: 2}", "strategy.barrier: in 'mode: sync' all agents are waited for"},
        {"strategy={kind: admm, delay: 3}", "strategy.delay: in 'mode: sync' all agents are waited for"},
        {"strategy={kind: admm, mode: async, barrier: 4}",
         "strategy.barrier: 4 cannot call where there are 3 agents"},
        {"optim={kind: sgd, lr: 0.1, nesterov: true}", "nesterov requires a momentum"},
        {"optim.schedule.warmup_from=0.01", "warmup_from: without warmup_epochs"},
        {"data.flip=true", "data.flip: samples of one column"},
        {"data.crop=1", "data.crop: a shift by 1"},
        {NETWORK("across: {latency_ms: 5}"), "this is the wire between sites, but no sites are written"},
        {NETWORK("sites: [[0, 1], [2]]"), "sites are told apart by the wire between them"},
        {"agents=1|topology=complete:1|strategy=allreduce|engine={kind: null, precision: bf16}",
         "engine: 'null' computes nothing"},
        {"engine={kind: null, threads: 2}", "engine: 'null' computes nothing"},
        {"train.stop={accuracy: 90}|train.evaluate_every=never", "train.stop: it is decided at evaluations, and with 'train.evaluate_every: never'"},
        {"train.stop={accuracy: 90}|train.evaluate_every=2 epochs", "train.stop: with train.epochs and train.evaluate_every as they are"},
        {"train.stop={no_progress: 1}", "train.stop.no_progress: the first evaluation and 1 without progress"},
        {"train.stop={loss: 0.1}|agents=1|topology=complete:1|strategy=single|engine=null", "train.stop: engine 'null' computes nothing"},
        {"train.stop={}", "nothing is written here that could end a run"},
        {EVENTS("{random: {crash_every_s: 1, cut_s: 1}}"), "nothing is ever cut"},
        {EVENTS("{random: {cut_every_s: 1, down_s: 1}}"), "nobody ever crashes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct end end = end_of(&(struct pair){.with = ""}, cases[i].overrides, *state);
        if (!end.is_refused || !strstr(end.text, cases[i].words))
            fail_msg("%s: %s", cases[i].overrides, end.is_refused ? end.text : "it trains");
        free(end.text);
        must_fail(check(cases[i].overrides, *state), cases[i].words);
    }
    veche_experiment *e = NULL; /* without a topology, which cannot be taken away by an override */
    veche_run *r = NULL;
    must(veche_parse("data: {set: blobs, batch: 4}\nmodel: logistic\noptim: {kind: sgd, lr: 0.1}\n"
                     "strategy: allreduce\nagents: 3\nengine: ref\ntrain: {epochs: 1}\n"
                     "events: [{random: {cut_every_s: 1, cut_s: 1}}]\n",
                     "base", &e));
    must_fail(veche_start(e, &(veche_options){.folder = *state}, &r),
              "the links that chance cuts are those of the topology");
    veche_experiment_free(e);
}

static void look_for_pairs(const char *of, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct pair *found = NULL;
        for (size_t k = 0; k < N_PAIRS; k++)
            if (strcmp(pairs[k].of, of) == 0 && strcmp(pairs[k].field, fields[i].name) == 0)
                found = &pairs[k];
        if (!found)
            fail_msg("%s: the setting '%s' has no pair of experiments here that shows what it does", of,
                     fields[i].name);
        bool has_one_value = fields[i].choices && !fields[i].choices[1];
        if (found->one && !found->other && !has_one_value)
            fail_msg("%s: the setting '%s' has more than one value", of, fields[i].name);
    }
}

static void every_setting_has_a_pair(void **state)
{
    (void)state;
    struct registry registry = registry_of_everything();
    size_t n;
    const struct section *sections = experiment_sections(&n);
    for (size_t i = 0; i < n; i++)
        look_for_pairs(sections[i].name, sections[i].fields, sections[i].n_fields);
    for (int c = 0; c < N_CATEGORIES; c++)
        for (size_t i = 0; i < registry.of[c].n; i++) {
            const struct kind *kind = kinds_at(&registry.of[c], i);
            char of[100];
            snprintf(of, sizeof of, "%s.%s", category_name((enum category)c), kind->name);
            look_for_pairs(of, kind->fields, kind->n_fields);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_has_a_pair),
        cmocka_unit_test_setup_teardown(settings_that_others_leave_without_effect_are_refused, make_files,
                                        remove_files),
        cmocka_unit_test_setup_teardown(every_setting_changes_something_or_is_refused, make_files,
                                        remove_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
