/* Profiles: read from a file's text, or made of a network. */
#include "layers.h"

#include <setjmp.h>

#include "engine/engine.h"
#include "graph/cut.h"
#include "support/network.h"

#define HEAD "layer,forward_ms,backward_ms,activation_bytes,parameter_bytes\n"

static void columns_come_in_any_order(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct profile p = profile_of_text("parameter_bytes, backward_ms ,layer,activation_bytes,forward_ms,weights_ms\r\n"
                                       "40,6,one,100,3,5\r\n\r\n"
                                       " 0 , 8 ,two words,200,2.5,0\r\n",
                                       &arena);
    assert_int_equal(p.n_layers, 2);
    assert_string_equal(p.layers[1].name, "two words");
    near(p.layers[0].forward_s, 0.003);
    near(p.layers[0].weights_s, 0.005);
    near(p.layers[0].inputs_s, 0.001);
    near(p.layers[1].inputs_s, 0.008);
    near(p.layers[0].parameter_bytes, 40);
    near(p.edge[1], 100);
    near(p.edge[0] + p.edge[2], 0);
    arena_release(&arena);
}

static void backward_splits_evenly_where_the_profile_does_not_say(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct profile p = profile_of_text(HEAD "a,1,4,0,0", &arena);
    near(p.layers[0].inputs_s, 0.002);
    near(p.layers[0].weights_s, 0.002);
    arena_release(&arena);
}

static void refused(const char *text, const char *sentence)
{
    struct arena arena = {0};
    struct profile p;
    char *copy = arena_text(&arena, text);
    must_fail(profile_read_text(copy, "layers.csv", &arena, &p), sentence);
    arena_release(&arena);
}

static void what_is_wrong_with_a_file_is_said_with_its_place(void **state)
{
    (void)state;
    refused("", "layers.csv: is empty");
    refused("layer,forward_ms,backward_ms,parameter_bytes\na,1,1,1\n", "layers.csv:1:1: the column 'activation_bytes' is missing");
    refused("layer,forward_mss,backward_ms\n", "layers.csv:1:7: there is no column 'forward_mss'; did you mean 'forward_ms'?");
    refused("layer,layer\n", "layers.csv:1:7: the column 'layer' is there twice");
    refused(HEAD, "there are no layers");
    refused(HEAD "a,1,2,3,4\nb,1,x,3,4\n", "layers.csv:3:5: backward_ms: 'x' is not a number");
    refused(HEAD "a,1,-2,3,4\n", "layers.csv:2:5: backward_ms: ");
    refused(HEAD "a,nan,2,3,4\n", "layers.csv:2:3: forward_ms: 'nan' is not a finite number");
    refused(HEAD "a,1,,3,4\n", "layers.csv:2:5: backward_ms: the cell is empty");
    refused(HEAD ",1,2,3,4\n", "layers.csv:2:1: layer: the cell is empty");
    refused(HEAD "a,1,2,3\n", "layers.csv:2:7: the line ends before its column 'parameter_bytes'");
    refused(HEAD "a,1,2,3,4,5\n", "layers.csv:2:11: there are more cells than the 5 columns");
    refused(HEAD "a,1,2,3,4\na,1,2,3,4\n", "layers.csv:3:1: there are two layers 'a'");
    refused("weights_ms," HEAD "3,a,1,2,3,4\n", "layers.csv:2:1: weights_ms is more than backward_ms");
}

static void a_layer_that_is_not_there_is_refused_with_the_nearest(void **state)
{
    (void)state;
    struct arena arena = {0};
    size_t at = 9;
    struct profile p = profile_of_text(HEAD "conv1,1,2,3,4\nrelu1,1,2,3,4\n", &arena);
    must(profile_find(&p, "relu1", &at));
    assert_int_equal(at, 1);
    must_fail(profile_find(&p, "rellu1", &at), "there is no layer 'rellu1'; did you mean 'relu1'?");
    must_fail(profile_find(&p, "transformer", &at), "there is no layer 'transformer'; the first is 'conv1', the last 'relu1'");
    arena_release(&arena);
}

/* ---- of a network ---- */

static double floats_of(const struct graph *g, int tensor, size_t n_samples)
{
    return (double)(shape_size(g->tensors[tensor].shape) * n_samples * sizeof(float));
}

/* Bytes across the cut before op i: of each tensor made before it and read at it or behind, once. */
static double bytes_across(const struct graph *g, size_t cut, size_t n_samples)
{
    double bytes = 0;
    for (size_t t = 1; t < g->n_tensors; t++) {
        bool crosses = false;
        for (size_t i = cut; i < g->n_ops; i++)
            crosses = crosses || g->ops[i].in[0] == (int)t || g->ops[i].in[1] == (int)t;
        if (crosses && (size_t)g->tensors[t].producer < cut)
            bytes += floats_of(g, (int)t, n_samples);
    }
    return bytes;
}

static void what_crosses_a_cut_of_a_network_counts_once_for_each_tensor(void **state)
{
    (void)state;
    static const char *const models[] = {"resnet20", "fashion-cnn", "mlp:50-20"};
    for (size_t k = 0; k < 3; k++) {
        struct arena arena = {0};
        struct profile p;
        struct graph *g = model_build(models[k], (struct shape){k ? 1 : 3, k ? 28 : 32, k ? 28 : 32}, 10);
        must(profile_of_graph(g, 4, &arena, &p));
        assert_int_equal(p.n_layers, g->n_ops);
        double parameters = 0;
        for (size_t i = 0; i <= g->n_ops; i++)
            near(p.edge[i], bytes_across(g, i, 4));
        for (size_t i = 0; i < g->n_ops; i++)
            parameters += p.layers[i].parameter_bytes;
        near(parameters, (double)(g->size * sizeof(float)));
        graph_free(g);
        arena_release(&arena);
    }
}

/* What the time line sends from part to part is what the parts themselves send. */
static void parts_of_a_network_send_what_its_profile_says(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct profile p;
    struct graph *g = model_build("resnet20", (struct shape){3, 32, 32}, 10), *parts[2];
    size_t part_of[512], cut = g->n_ops / 2;
    assert_true(g->n_ops < 512);
    for (size_t i = 0; i < g->n_ops; i++)
        part_of[i] = i >= cut;
    must(graph_cut(g, part_of, 2, parts));
    must(profile_of_graph(g, 1, &arena, &p));
    near(p.edge[cut], (double)(parts[0]->output_size * sizeof(float)));
    graph_free(parts[0]);
    graph_free(parts[1]);
    graph_free(g);
    arena_release(&arena);
}

static void times_that_are_shared_out_add_up(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct profile p;
    struct graph *g = model_build("fashion-cnn", (struct shape){1, 28, 28}, 10);
    double seconds = 0;
    must(profile_of_graph(g, 4, &arena, &p));
    profile_share_out(g, 0.25, &p);
    for (size_t i = 0; i < p.n_layers; i++)
        seconds += profile_layer_s(&p.layers[i]);
    near(seconds, 0.25);
    near(p.layers[0].inputs_s, 0); /* nobody wants the gradient of the samples */
    near(p.layers[0].weights_s, p.layers[0].forward_s);
    graph_free(g);
    arena_release(&arena);
}

static void layers_are_measured_by_their_passes(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct profile p;
    struct graph *g = model_build("mlp:30-20", (struct shape){1, 8, 8}, 10);
    struct engine_setup setup = {.graph = g, .batch = 6, .micro_batches = 4, .threads = 1};
    must(profile_of_graph(g, 2, &arena, &p));
    must(profile_measure(&engine_ref, &setup, &p));
    for (size_t i = 0; i < p.n_layers; i++)
        assert_true(p.layers[i].forward_s > 0 && p.layers[i].inputs_s >= 0 && isfinite(profile_layer_s(&p.layers[i])));
    graph_free(g);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_any_order),
        cmocka_unit_test(backward_splits_evenly_where_the_profile_does_not_say),
        cmocka_unit_test(what_is_wrong_with_a_file_is_said_with_its_place),
        cmocka_unit_test(a_layer_that_is_not_there_is_refused_with_the_nearest),
        cmocka_unit_test(what_crosses_a_cut_of_a_network_counts_once_for_each_tensor),
        cmocka_unit_test(parts_of_a_network_send_what_its_profile_says),
        cmocka_unit_test(times_that_are_shared_out_add_up),
        cmocka_unit_test(layers_are_measured_by_their_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
