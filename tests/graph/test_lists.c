/* Networks as they are written in experiment files, from the text to the graph. */
#include "api/handle.h"
#include "api/registry.h"
#include "experiment/experiment.h"
#include "graph/graph.h"
#include "support/network.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char frame[] = "data: {set: fashion-mnist, batch: 4}\n"
                            "optim: {kind: sgd, lr: 0.1}\n"
                            "train: {epochs: 1}\n"
                            "model:\n";

typedef fault builder(const struct model_settings *model, struct shape input, size_t classes, struct graph **out);

/* The graph of an experiment whose model is this text (from line 5 on), or the fault of either step. */
static fault build_by(builder *builds, const char *model, struct shape input, struct graph **out)
{
    char text[2000];
    int n = snprintf(text, sizeof text, "%s%s", frame, model);
    assert_true(n > 0 && (size_t)n < sizeof text);
    struct registry registry = registry_of_everything();
    struct experiment *e = NULL;
    TRY(experiment_parse(text, (size_t)n, "net.yaml", NULL, 0, &registry, &e));
    fault f = builds(&e->model, input, 10, out);
    experiment_free(e); /* the graph keeps nothing of it */
    return f;
}

static fault build(const char *model, struct shape input, struct graph **out)
{
    return build_by(graph_build, model, input, out);
}

static void expect_fault(const char *model, const char *text)
{
    struct graph *g = NULL;
    fault f = build(model, (struct shape){1, 28, 28}, &g);
    if (!f)
        fail_msg("this was taken for a network: %s", model);
    if (!strstr(fault_text(f), text))
        fail_msg("'%s' does not say '%s'", fault_text(f), text);
    fault_drop(f);
}

static void every_layer_can_be_written(void **state)
{
    (void)state;
    struct graph *g = NULL;
    fault f = build(
        "  - conv: {out: 4, kernel: 3, stride: 2, pad: 1, bias: false, init: kaiming-normal, name: first}\n"
        "  - batchnorm: {eps: 0.001, momentum: 0.2}\n"
        "  - relu\n"
        "  - residual: [conv: {out: 6, kernel: 3, pad: 1}, tanh]\n"
        "  - sigmoid\n"
        "  - maxpool: {kernel: 3, stride: 2, pad: 1}\n"
        "  - avgpool: {kernel: 2}\n"
        "  - dropout: {rate: 0.1}\n"
        "  - flatten\n"
        "  - linear: {out: 10, bias: false}\n"
        "  - logistic\n",
        (struct shape){1, 28, 28}, &g);
    if (f)
        fail_msg("%s", fault_text(f));
    char *text = described(g);
    assert_string_equal(text,
                        "layer       what                          from             output       parameters\n"
                        "input                                                      1 x 28 x 28\n"
                        "first       conv 3x3, stride 2, pad 1                      4 x 14 x 14          36\n"
                        "1           batchnorm + relu                               4 x 14 x 14           8\n"
                        "3.0         conv 3x3, pad 1                                6 x 14 x 14         222\n"
                        "3.1         tanh                                           6 x 14 x 14\n"
                        "3.shortcut  shortcut, stride 1            1                6 x 14 x 14\n"
                        "3.add       add                           3.1, 3.shortcut  6 x 14 x 14\n"
                        "4           sigmoid                                        6 x 14 x 14\n"
                        "5           maxpool 3x3, stride 2, pad 1                   6 x 7 x 7\n"
                        "6           avgpool 2x2                                    6 x 3 x 3\n"
                        "7           dropout 0.1                                    6 x 3 x 3\n"
                        "8           reshape                                        54\n"
                        "9           linear                                         10                  540\n"
                        "10          logistic\n"
                        "layers: 806 parameters, 99.9 kFLOP forward and 285.5 kFLOP learning, a sample\n");
    free(text);
    assert_true(g->ops[1].eps == 0.001 && g->ops[1].momentum == 0.2);
    graph_free(g);
}

/* A line for each op: its name, its kind, and who made what it reads, as it is written. */
static void expect_wiring(const char *model, const char *wiring)
{
    struct graph *g = NULL;
    fault f = build_by(graph_build_as_written, model, (struct shape){2, 6, 6}, &g);
    if (f)
        fail_msg("%s", fault_text(f));
    char text[2000] = "";
    for (size_t i = 0, n = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %s", op->name, op_rows[op->kind].name);
        for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
            int producer = g->tensors[op->in[k]].producer;
            n += (size_t)snprintf(text + n, sizeof text - n, " %s",
                                  producer < 0 ? "input" : g->ops[producer].name);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "\n");
    }
    assert_string_equal(text, wiring);
    graph_free(g);
}

#define END                "  - globalpool\n  - linear: {out: 10, name: end}\n"
#define ENDS(before, pool) pool " globalpool " before "\nend linear " pool "\nloss cross-entropy end\n"

static void a_layer_reads_any_earlier_one_by_its_name(void **state)
{
    (void)state;
    expect_wiring("  - conv: {out: 3, kernel: 1, name: stem}\n"
                  "  - tanh: {name: one}\n"
                  "  - sigmoid: {from: stem, name: two}\n"
                  "  - conv: {out: 3, kernel: 1, from: input, name: three}\n"
                  "  - add: one\n"
                  "  - concat: {from: two, name: c}\n"
                  "  - add: {from: [one, two, stem], name: sum}\n"
                  "  - concat: [sum, c, input]\n" END,
                  "stem conv input\n"
                  "one tanh stem\n"
                  "two sigmoid stem\n"
                  "three conv input\n"
                  "4 add three one\n"
                  "c concat 4 two\n"
                  "sum.1 add one two\n"
                  "sum add sum.1 stem\n"
                  "7.1 concat sum c\n"
                  "7 concat 7.1 input\n" ENDS("7", "8"));
}

static void a_body_sees_what_stands_around_it_and_is_seen_by_its_name(void **state)
{
    (void)state;
    expect_wiring("  - conv: {out: 2, kernel: 1, name: stem}\n"
                  "  - residual:\n"
                  "      name: block\n"
                  "      layers:\n"
                  "        - conv: {out: 2, kernel: 1, name: stem}\n"
                  "        - tanh: {name: t}\n"
                  "        - add: stem\n" /* the nearest of that name */
                  "        - residual:\n"
                  "            - sigmoid: {name: s}\n"
                  "            - add: t\n"
                  "            - add: input\n"
                  "  - add: block.t\n"
                  "  - add: {from: stem, name: last}\n"
                  "  - residual: {from: block, name: other, layers: [tanh: {from: block.stem}]}\n"
                  "  - add: last\n" END,
                  "stem conv input\n"
                  "block.stem conv stem\n"
                  "block.t tanh block.stem\n"
                  "block.2 add block.t block.stem\n"
                  "block.3.s sigmoid block.2\n"
                  "block.3.1 add block.3.s block.t\n"
                  "block.3.2 add block.3.1 input\n"
                  "block.3.add add block.3.2 block.2\n"
                  "block.add add block.3.add stem\n"
                  "2 add block.add block.t\n"
                  "last add 2 stem\n"
                  "other.0 tanh block.stem\n"
                  "other.add add other.0 block.add\n"
                  "5 add other.add last\n" ENDS("5", "6"));
}

static void what_does_not_fit_is_named_with_line_and_column(void **state)
{
    (void)state;
    expect_fault("  - linear: {out: 10}\n  - conv: {out: 3, kernel: 2}\n",
                 "net.yaml:6:5: 1 (conv): a window of 2 x 2 does not fit into 1 x 1 pixels with padding 0");
    expect_fault("  - residual:\n      - relu\n      - maxpool: {kernel: 29}\n",
                 "net.yaml:7:9: 0.1 (maxpool): a window");
    expect_fault("  - relu\n  - linear: {out: 7}\n",
                 "net.yaml:6:5: the network ends in 7, but the data have 10 classes");
    expect_fault("  - hinge\n",
                 "net.yaml:5:5: the network ends in 1 x 28 x 28, but the data have 10 classes");
    expect_fault("  mlp:10-x\n", "'mlp:10-x'");
    expect_fault("  - conv: {out: 3, kernel: 1, name: a}\n  - maxpool: {kernel: 2}\n  - add: a\n",
                 "net.yaml:7:5: 2: 3 x 14 x 14 and 3 x 28 x 28 cannot be added");
    expect_fault("  - conv: {out: 3, kernel: 1, name: a}\n  - add: input\n",
                 "net.yaml:6:5: 1: 3 x 28 x 28 and 1 x 28 x 28 cannot be added");
    expect_fault(
        "  - conv: {out: 3, kernel: 1, name: a}\n  - maxpool: {kernel: 2}\n  - concat: {from: a, name: c}\n",
        "net.yaml:7:5: c: 3 x 14 x 14 and 3 x 28 x 28 have not the same pixels");
    expect_fault("  - conv: {out: 6, kernel: 1}\n  - conv: {out: 8, kernel: 1, groups: 3}\n",
                 "net.yaml:6:5: 1 (conv): 3 groups do not divide the 6 channels read and the 8 made");
    expect_fault("  - conv: {out: 6, kernel: 1}\n  - conv: {out: 8, kernel: 1, groups: 4}\n",
                 "net.yaml:6:5: 1 (conv): 4 groups do not divide the 6 channels read and the 8 made");
}

static void a_name_that_leads_nowhere_is_named_with_the_nearest(void **state)
{
    (void)state;
    expect_fault("  - tanh: {name: stem}\n  - tanh: {from: stme}\n",
                 "net.yaml:6:18: 'stme' is not the name of an earlier layer; did you mean 'stem'?");
    expect_fault("  - tanh\n  - add: x\n", "net.yaml:6:10: 'x' is not the name of an earlier layer: input");
    expect_fault(
        "  - tanh: {from: later}\n  - tanh: {name: later}\n",
        "net.yaml:5:18: 'later' does not stand before this layer, which can read earlier ones only: input");
    expect_fault("  - tanh: {name: itself, from: itself}\n", "'itself' does not stand before this layer");
    expect_fault("  - residual: [tanh: {name: inside}]\n  - add: inside\n",
                 "net.yaml:6:10: 'inside' is not the name of an earlier layer: input");
    expect_fault("  - residual: [tanh: {name: inside}]\n  - add: 0.inside\n", "'0.inside' is not the name");
    expect_fault("  - residual: {name: block, layers: [tanh, add: block]}\n",
                 "'block' does not stand before");
    expect_fault("  - tanh: {name: t}\n  - residual: [tanh: {from: t}, tanh: {name: t}]\n",
                 "net.yaml:6:29: 't' does not stand before this layer, which can read earlier ones only: "
                 "input"); /* the nearest t is the later one */
    expect_fault("  - residual: {name: block, layers: [tanh: {name: inside}]}\n  - add: block.insde\n",
                 "'block.insde' is not the name of an earlier layer; did you mean 'block.inside'?");
    expect_fault("  - tanh: {name: input}\n",
                 "net.yaml:5:5: 'input' stands for the samples and cannot be a layer's name");
    expect_fault("  - tanh: {name: a}\n  - tanh\n  - tanh: {name: a}\n",
                 "net.yaml:7:5: the name 'a' is taken by another layer");
}

static void layers_that_join_too_few_or_too_many_are_refused(void **state)
{
    (void)state;
    expect_fault("  - tanh: {name: a}\n  - tanh: {from: [a, input]}\n",
                 "net.yaml:6:18: tanh reads one layer, but 2 are named: join them by add or concat first");
    expect_fault("  - tanh: {name: a}\n  - add: a\n", "net.yaml:6:10: add joins 'a' with itself");
    expect_fault("  - tanh: {name: a}\n  - tanh\n  - concat: [a, input, a]\n",
                 "net.yaml:7:13: concat joins 'a' with itself");
    expect_fault("  - tanh\n  - add\n", "net.yaml:6:5: model.1: add joins layers, but none are named");
}

static void what_no_layer_reads_is_named(void **state)
{
    (void)state;
    expect_fault("  - tanh: {name: a}\n  - tanh: {name: b}\n  - tanh: {from: a}\n" END,
                 "net.yaml:6:5: b (tanh): no layer reads what this one computes");
    expect_fault("  - tanh: {name: a}\n  - residual:\n      - sigmoid\n      - tanh: {from: a}\n" END,
                 "net.yaml:7:9: 1.0 (sigmoid): no layer reads what this one computes");
    expect_fault("  - tanh: {name: a}\n  - residual: [sigmoid]\n  - tanh: {from: a}\n" END,
                 "net.yaml:6:5: 1 (residual): no layer reads what this one computes");
    expect_fault("  - globalpool\n  - linear: {out: 10, name: a}\n  - flatten\n  - mse: {from: a}\n",
                 "net.yaml:7:5: 2 (flatten): no layer reads what this one computes");
}

static void settings_out_of_range_never_reach_the_graph(void **state)
{
    (void)state;
    static const char *const bad[] = {"  - conv: {kernel: 3}\n",
                                      "  - conv: {out: 0, kernel: 3}\n",
                                      "  - conv: {out: 3, kernel: 0}\n",
                                      "  - conv: {out: 3, kernel: 3, stride: 0}\n",
                                      "  - conv: {out: 3, kernel: 3, pad: -1}\n",
                                      "  - dropout: {rate: 1}\n",
                                      "  - dropout: {rate: -0.1}\n",
                                      "  - batchnorm: {eps: 0}\n",
                                      "  - batchnorm: {momentum: 1.1}\n",
                                      "  - maxpool: {kernel: 2, stride: 0}\n",
                                      "  - linear: {out: 1.5}\n",
                                      "  - linear: {out: 10, init: ones}\n",
                                      "  - residual\n",
                                      "  - residual: []\n",
                                      "  - softmax\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_fault(bad[i], "net.yaml:5:");
}

static void the_networks_in_models_can_be_built(void **state)
{
    (void)state;
    glob_t files;
    assert_int_equal(glob("models/*.yaml", 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 3);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        veche_experiment *file = NULL;
        struct graph *g = NULL;
        fault f = veche_load(files.gl_pathv[i], &file);
        if (f)
            fail_msg("%s", fault_text(f));
        const struct experiment *e = file->parsed;
        bool colour = strcmp(e->data.set.kind->name, "cifar-10") == 0;
        f = graph_build(&e->model, colour ? (struct shape){3, 32, 32} : (struct shape){1, 28, 28}, 10, &g);
        if (f)
            fail_msg("%s", fault_text(f));
        graph_free(g);
        veche_experiment_free(file);
    }
    globfree(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_can_be_written),
        cmocka_unit_test(a_layer_reads_any_earlier_one_by_its_name),
        cmocka_unit_test(a_body_sees_what_stands_around_it_and_is_seen_by_its_name),
        cmocka_unit_test(a_name_that_leads_nowhere_is_named_with_the_nearest),
        cmocka_unit_test(layers_that_join_too_few_or_too_many_are_refused),
        cmocka_unit_test(what_no_layer_reads_is_named),
        cmocka_unit_test(what_does_not_fit_is_named_with_line_and_column),
        cmocka_unit_test(settings_out_of_range_never_reach_the_graph),
        cmocka_unit_test(the_networks_in_models_can_be_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
