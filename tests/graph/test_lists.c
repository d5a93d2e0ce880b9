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

/* The graph of an experiment whose model is this text (from line 5 on), or the fault of either step. */
static fault build(const char *model, struct shape input, struct graph **out)
{
    char text[2000];
    int n = snprintf(text, sizeof text, "%s%s", frame, model);
    assert_true(n > 0 && (size_t)n < sizeof text);
    struct registry registry = registry_of_everything();
    struct experiment *e = NULL;
    TRY(experiment_parse(text, (size_t)n, "net.yaml", NULL, 0, &registry, &e));
    fault f = graph_build(&e->model, input, 10, out);
    experiment_free(e); /* the graph keeps nothing of it */
    return f;
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
                        "layer       what                          output       parameters\n"
                        "input                                     1 x 28 x 28\n"
                        "first       conv 3x3, stride 2, pad 1     4 x 14 x 14          36\n"
                        "1           batchnorm + relu              4 x 14 x 14           8\n"
                        "3.0         conv 3x3, pad 1               6 x 14 x 14         222\n"
                        "3.1         tanh                          6 x 14 x 14\n"
                        "3.shortcut  shortcut, stride 1            6 x 14 x 14\n"
                        "3.add       add                           6 x 14 x 14\n"
                        "4           sigmoid                       6 x 14 x 14\n"
                        "5           maxpool 3x3, stride 2, pad 1  6 x 7 x 7\n"
                        "6           avgpool 2x2                   6 x 3 x 3\n"
                        "7           dropout 0.1                   6 x 3 x 3\n"
                        "8           reshape                       54\n"
                        "9           linear                        10                  540\n"
                        "10          logistic\n"
                        "layers: 806 parameters, 99.9 kFLOP forward and 285.5 kFLOP learning, a sample\n");
    free(text);
    assert_true(g->ops[1].eps == 0.001 && g->ops[1].momentum == 0.2);
    graph_free(g);
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
        cmocka_unit_test(what_does_not_fit_is_named_with_line_and_column),
        cmocka_unit_test(settings_out_of_range_never_reach_the_graph),
        cmocka_unit_test(the_networks_in_models_can_be_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
