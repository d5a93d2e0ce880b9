/* What `veche graph` shows: the tables, what crosses counted once more by reading ops, drawings in which no line crosses a box. */
#include "graph/view/layout.h"
#include "graph/passes/passes.h"
#include "support/must.h"
#include "support/network.h"
#include "support/parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void the_tables_show_a_network_before_and_after_the_passes_and_its_parts(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_dropout(&net, 0);
    net_name(&net, "end");
    net_join(&net, "add", (const char *const[]){"stem", "end"}, 2);
    net_name(&net, "sum");
    net_linear(&net, 3);
    struct graph *g = net_build(&net, (struct shape){2, 8, 8}, 3), *written = NULL;
    must(graph_build_as_written(&net.model, g->input, 3, &written));
    size_t part_of[] = {0, 1, 1, 2, 2, 2};
    struct network_view v = {.written = written, .g = g, .part_of = part_of, .n_parts = 3};
    char *text = NULL;
    must(view_text(&v, &text));
    assert_string_equal(
        text,
        "layers: samples of 2 x 8 x 8, 3 classes\n"
        "\n"
        "as written: 8 operations, 855 parameters; a sample takes 1,539 floats and 5,376 multiply-adds\n"
        "  op  layer      what             reads      output     floats  parameters  multiply-adds\n"
        "   0  stem       conv 3x3, pad 1  input      4 x 8 x 8     256          76          4,608\n"
        "   1  1          batchnorm        stem       4 x 8 x 8     256           8\n"
        "   2  2          relu             1          4 x 8 x 8     256\n"
        "   3  end        dropout 0        2          4 x 8 x 8     256\n"
        "   4  sum        add              stem, end  4 x 8 x 8     256\n"
        "   5  5.flatten  reshape          sum        256           256\n"
        "   6  5          linear           5.flatten  3               3         771            768\n"
        "   7  loss       cross-entropy    5\n"
        "\n"
        "passes:\n"
        "  identities: end gives what it reads; its readers read 2\n"
        "  fuse: 2 is computed by 1\n"
        "\n"
        "after the passes: 6 operations, 855 parameters; a sample takes 1,027 floats and 5,376 "
        "multiply-adds\n"
        "  op  part  layer      what              reads      output     floats  parameters  multiply-adds\n"
        "   0     0  stem       conv 3x3, pad 1   input      4 x 8 x 8     256          76          4,608\n"
        "   1     1  1          batchnorm + relu  stem       4 x 8 x 8     256           8\n"
        "   2     1  sum        add               stem, 1    4 x 8 x 8     256\n"
        "   3     2  5.flatten  reshape           sum        256           256\n"
        "   4     2  5          linear            5.flatten  3               3         771            768\n"
        "   5     2  loss       cross-entropy     5\n"
        "\n"
        "parts:\n"
        "  part  begins with  operations  parameters  multiply-adds\n"
        "     0  stem                  1          76          4,608\n"
        "     1  1                     2           8\n"
        "     2  5.flatten             3         771            768\n"
        "\n"
        "what crosses, in bytes a sample:\n"
        "  made by  output     from part  to part  forward   back\n"
        "  stem     4 x 8 x 8          0        1    1,024  1,024\n"
        "  sum      4 x 8 x 8          1        2    1,024  1,024\n");
    free(text);
    graph_free(g);
    graph_free(written);
    net_release(&net);
}

static void a_network_that_passes_leave_alone_is_shown_once(void **state)
{
    (void)state;
    struct graph *g = model_build("logistic", (struct shape){2, 1, 1}, 3);
    struct network_view v = {.written = g, .g = g};
    char *text = NULL;
    must(view_text(&v, &text));
    assert_string_equal(
        text, "logistic: samples of 2, 3 classes\n"
              "\n"
              "as written: 2 operations, 9 parameters; a sample takes 3 floats and 6 multiply-adds\n"
              "passes: nothing to change\n"
              "  op  layer   what           reads   output  floats  parameters  multiply-adds\n"
              "   0  linear  linear         input   3            3           9              6\n"
              "   1  loss    cross-entropy  linear\n");
    free(text);
    graph_free(g);
}

/* ---- any network, cut anywhere ---- */

static const struct crossed *crossed_to(const struct traffic *t, int tensor, size_t part)
{
    const struct crossed *found = NULL;
    for (size_t i = 0; i < t->n_crossed; i++)
        if (t->crossed[i].tensor == tensor && t->crossed[i].to == part) {
            assert_null(found);
            found = &t->crossed[i];
        }
    return found;
}

static size_t readers_in(const struct network_view *v, int tensor, size_t part)
{
    size_t n = 0;
    for (size_t i = 0; i < v->g->n_ops; i++)
        n += v->part_of[i] == part && (v->g->ops[i].in[0] == tensor || v->g->ops[i].in[1] == tensor);
    return n;
}

/* What the readers say: a tensor goes once to each other part that reads it; back comes at least one gradient, at most one from
 * each reader. */
static void expect_traffic(const struct network_view *v, const struct traffic *t)
{
    size_t n = 0;
    for (size_t i = 1; i < v->g->n_tensors; i++)
        for (size_t part = 0; part < v->n_parts; part++) {
            const struct tensor *tensor = &v->g->tensors[i];
            size_t readers = readers_in(v, (int)i, part), from = v->part_of[tensor->producer];
            const struct crossed *c = crossed_to(t, (int)i, part);
            assert_int_equal(c != NULL, readers > 0 && part != from);
            if (!c)
                continue;
            size_t size = shape_size(tensor->shape);
            assert_int_equal(c->from, from);
            assert_int_equal(c->floats, size);
            assert_int_equal(c->floats_back > 0, tensor->learns);
            assert_true(c->floats_back % size == 0 && c->floats_back <= readers * size);
            n++;
        }
    assert_int_equal(t->n_crossed, n);
    size_t n_ops = 0, parameters = 0;
    for (size_t k = 0; k < v->n_parts; k++) {
        n_ops += t->parts[k].n_ops;
        parameters += t->parts[k].parameters;
    }
    assert_int_equal(n_ops, v->g->n_ops);
    assert_int_equal(parameters, v->g->size);
}

static bool overlap(double a, double b, double c, double d)
{
    return a < d && c < b;
}

/* Boxes stand one below the other, each in its part's band; what an op reads comes from above; lines that run down side by side
 * have lanes of their own. */
static void expect_layout(const struct network_view *v, const struct view_layout *l)
{
    assert_int_equal(l->n_rows, v->g->n_ops + 1);
    for (size_t r = 1; r < l->n_rows; r++) {
        const struct op *op = &v->g->ops[l->rows[r].op];
        const struct view_band *b = &l->bands[v->part_of[l->rows[r].op]];
        assert_true(l->rows[r].top >= l->rows[r - 1].top + view_box_height + 4);
        assert_true(b->top < l->rows[r].top && l->rows[r].top + view_box_height < b->bottom);
        for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
            size_t from = l->row_of[op->in[k]];
            assert_true(from < r);
            assert_true(!view_is_far(v, l, r, k) || (l->rows[from].lane >= 0 && l->rows[from].last >= r));
            assert_true(view_is_far(v, l, r, k) || from + 1 == r);
        }
    }
    for (size_t a = 0; a < l->n_rows; a++) {
        assert_true(l->rows[a].lane < (int)l->n_lanes);
        for (size_t b = 0; b < a; b++)
            assert_true(l->rows[a].lane < 0 || l->rows[a].lane != l->rows[b].lane ||
                        !overlap((double)a, (double)l->rows[a].last, (double)b, (double)l->rows[b].last));
    }
    for (size_t k = 0; k + 1 < v->n_parts; k++)
        assert_true(l->bands[k].bottom < l->bands[k].told_at && l->bands[k].told_at < l->bands[k + 1].top);
    assert_true(l->bands[v->n_parts - 1].bottom <= l->bottom);
}

static void check_view(const struct subject *s, size_t i)
{
    size_t part_of[512];
    struct rng r = rng_stream(s->seed, 0, RNG_TEST, i);
    struct network_view v = {.written = s->g, .g = s->g, .part_of = part_of, .n_parts = 2 + i % 4};
    assert_true(s->g->n_ops <= sizeof part_of / sizeof *part_of);
    if (!cut_anywhere(s->g, &r, v.n_parts, part_of))
        return;
    struct arena arena = {0};
    struct traffic t;
    struct view_layout l;
    must(traffic_find(&v, &arena, &t));
    expect_traffic(&v, &t);
    must(view_lay_out(&v, &t, 100, &arena, &l));
    expect_layout(&v, &l);
    arena_release(&arena);
}

static void what_crosses_is_what_other_parts_read_and_no_line_crosses_a_box(void **state)
{
    (void)state;
    each_random_subject(60, check_view);
}

/* ---- parts by the names of layers ---- */

static const char *const some_names[] = {"layer2.0", "layer3.1.conv2", "linear"};

static void a_part_begins_with_the_first_op_of_a_layer(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 8, 8}, 10);
    size_t part_of[128], part = 0;
    must(view_cut_at(g, some_names, 3, part_of));
    for (size_t i = 0; i < g->n_ops; i++) {
        part += part < 3 && strncmp(g->ops[i].name, some_names[part], strlen(some_names[part])) == 0;
        assert_int_equal(part_of[i], part);
    }
    assert_int_equal(part, 3);
    graph_free(g);
    g = model_build("fashion-cnn", (struct shape){1, 28, 28}, 10);
    must(view_cut_at(g, (const char *const[]){"fc1"}, 1, part_of));
    for (size_t i = 0; i < g->n_ops; i++)
        if (strcmp(g->ops[i].name, "fc1.flatten") == 0)
            assert_int_equal(part_of[i], 0); /* the op fc1 itself begins the part */
    graph_free(g);
}

static void names_at_which_nothing_can_be_cut_are_refused(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 8, 8}, 10);
    static const struct {
        const char *layers[2], *words;
    } bad[] = {
        {{"conv1"}, "'conv1' begins the network, so that nothing would be left for the part before it"},
        {{"linaer"}, "resnet20 has no layer 'linaer'; did you mean 'linear'?"},
        {{"layer9"}, "resnet20 has no layer 'layer9'; did you mean 'layer1'?"},
        {{"transformer"}, "resnet20 has no layer 'transformer'; `veche graph` without a cut lists them"},
        {{"layer1.2.relu2"},
         "no part can begin with 'layer1.2.relu2', in whose place 'layer1.2.add' is read (pass fuse)"},
        {{"layer3", "layer2"}, "'layer2' does not stand behind 'layer3'"},
        {{"pool", "pool"}, "'pool' does not stand behind 'pool'"}};
    size_t part_of[128];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        must_fail(view_cut_at(g, bad[i].layers, bad[i].layers[1] ? 2 : 1, part_of), bad[i].words);
    graph_free(g);
}

static void a_network_of_thousands_of_operations_is_not_drawn(void **state)
{
    (void)state;
    struct network net = {0};
    for (int i = 0; i < 5000; i++)
        net_layer(&net, "tanh");
    net_linear(&net, 2);
    struct graph *g = net_build(&net, (struct shape){2, 1, 1}, 2);
    struct network_view v = {.written = g, .g = g};
    char *svg = NULL;
    must_fail(view_svg(&v, &svg), "the network has 5002 operations, and up to 5000 are drawn");
    assert_null(svg);
    graph_free(g);
    net_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_show_a_network_before_and_after_the_passes_and_its_parts),
        cmocka_unit_test(a_network_that_passes_leave_alone_is_shown_once),
        cmocka_unit_test(what_crosses_is_what_other_parts_read_and_no_line_crosses_a_box),
        cmocka_unit_test(a_part_begins_with_the_first_op_of_a_layer),
        cmocka_unit_test(names_at_which_nothing_can_be_cut_are_refused),
        cmocka_unit_test(a_network_of_thousands_of_operations_is_not_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
