/* Passes over a graph, each by itself and all together: the network as it is written and the network after them learn side by side in the
 * engine `ref`. */
#include "graph/passes/passes.h"
#include "support/judge.h"
#include "support/must.h"
#include "support/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 6, LESSONS = 3, SEED = 11 };

#define ONLY(pass) (1u << (pass))

static const struct shape small = {4, 6, 6};

static struct graph *written(const struct network *net, struct shape input)
{
    struct graph *g = NULL;
    must(graph_build_as_written(&net->model, input, 3, &g));
    return g;
}

static struct graph *passed(const struct network *net, struct shape input, unsigned which)
{
    struct graph *g = written(net, input);
    must(passes_run(g, which));
    return g;
}

/* "a: b": op a gave way to b. "a:": nobody read it. */
static void expect_gone(const struct graph *g, const char *list)
{
    char text[2000] = "";
    for (size_t i = 0, n = 0; i < g->n_gone; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s: %s", i ? ", " : "",
                              pass_names[g->gone[i].pass], g->gone[i].name,
                              g->gone[i].instead ? g->gone[i].instead : "");
    assert_string_equal(text, list);
}

static bool has_op(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (strcmp(g->ops[i].name, name) == 0)
            return true;
    return false;
}

/* ---- learning ---- */

/* What came of a network in an engine. */
struct life {
    const struct graph *g;             /* borrowed */
    double loss[LESSONS], examined[2]; /* in exams: before the first lesson, and after the last */
    size_t hits[LESSONS];
    float *start, *first, *params, *stats; /* parameters, gradient of the first lesson, ... as they ended */
};

static double examined(struct engine *e)
{
    struct exam exam = {.n = e->setup.test->n};
    must(e->ops->examine(e, &exam, 1));
    return exam.loss;
}

static void step(struct engine *e, size_t size, float *params, float *grads)
{
    must(e->ops->read(e, ROW_GRADS, 0, grads));
    for (size_t i = 0; i < size; i++)
        params[i] -= 0.1f * grads[i];
    must(e->ops->write(e, ROW_PARAMS, 0, params));
}

static struct life live(const struct engine_ops *ops, const struct graph *g, const float *start)
{
    struct life life = {.g = g};
    struct dataset *d = random_dataset(SEED, g->input, g->classes, 20, 9);
    struct engine *e = engine_start(ops, g, d, 1, BATCH, 1, SEED);
    float *grads = calloc(g->size + 1, sizeof *grads);
    life.start = calloc(g->size + 1, sizeof *life.start);
    life.first = calloc(g->size + 1, sizeof *life.first);
    life.params = calloc(g->size + 1, sizeof *life.params);
    life.stats = calloc(g->stats_size + 1, sizeof *life.stats);
    if (start)
        must(ops->write(e, ROW_PARAMS, 0, start));
    must(ops->read(e, ROW_PARAMS, 0, life.params));
    memcpy(life.start, life.params, g->size * sizeof(float));
    life.examined[0] = examined(e);
    struct rng r = rng_stream(SEED, 0, RNG_TEST, 3);
    for (size_t k = 0; k < LESSONS; k++) {
        struct pick picks[BATCH];
        random_picks(&r, &d->train, true, 1, picks, BATCH);
        struct lesson l = {.picks = picks, .seed = SEED + k};
        must(ops->learn(e, &l, 1));
        life.loss[k] = l.loss;
        life.hits[k] = l.hits;
        step(e, g->size, life.params, grads);
        if (k == 0)
            memcpy(life.first, grads, g->size * sizeof(float));
    }
    life.examined[1] = examined(e);
    must(ops->read(e, ROW_STATS, 0, life.stats));
    free(grads);
    engine_close(e);
    random_dataset_free(d);
    return life;
}

static void life_end(struct life *life)
{
    free(life->start);
    free(life->first);
    free(life->params);
    free(life->stats);
}

static const struct param *same_param(const struct param *list, size_t n, const struct param *p)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, p->name) == 0 && list[i].size == p->size)
            return &list[i];
    fail_msg("'%s' was not there before", p->name);
    return NULL;
}

/* Of each that stays: the floats of one row against those of the other. */
static void expect_same_floats(const struct life *a, const float *of_a, const struct life *b,
                               const float *of_b)
{
    for (size_t i = 0; i < b->g->n_params; i++) {
        const struct param *p = &b->g->params[i], *q = same_param(a->g->params, a->g->n_params, p);
        if (memcmp(of_a + q->offset, of_b + p->offset, p->size * sizeof(float)) != 0)
            fail_msg("%s has other bits", p->name);
    }
}

static void expect_same_forward(const struct life *a, const struct life *b)
{
    expect_same_floats(a, a->start, b, b->start);
    assert_memory_equal(&a->loss[0], &b->loss[0], sizeof a->loss[0]);
    assert_memory_equal(&a->examined[0], &b->examined[0], sizeof a->examined[0]);
    assert_int_equal(a->hits[0], b->hits[0]);
}

static void expect_same_bits(const struct life *a, const struct life *b)
{
    expect_same_forward(a, b);
    expect_same_floats(a, a->first, b, b->first);
    expect_same_floats(a, a->params, b, b->params);
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->examined, b->examined, sizeof a->examined);
    assert_int_equal(a->g->stats_size, b->g->stats_size);
    assert_memory_equal(a->stats, b->stats, a->g->stats_size * sizeof(float));
}

static double larger_of(double a, double b)
{
    return a > b ? a : b;
}

/* The largest difference of the first gradients, of the largest gradient. */
static double apart(const struct life *a, const struct life *b)
{
    double worst = 0, most = 1e-3;
    for (size_t i = 0; i < b->g->n_params; i++) {
        const struct param *p = &b->g->params[i], *q = same_param(a->g->params, a->g->n_params, p);
        for (size_t k = 0; k < p->size; k++) {
            worst = larger_of(worst, fabs((double)a->first[q->offset + k] - b->first[p->offset + k]));
            most = larger_of(most, fabs(b->first[p->offset + k]));
        }
    }
    return worst / most;
}

/* In floats the sums are rounded elsewhere, in doubles there are nine digits more to see that they are the same sums. */
static void expect_same_function(const struct graph *a, const struct graph *b)
{
    struct life one = live(&engine_ref, a, NULL), two = live(&engine_ref, b, NULL);
    struct judge *exact_one = judge_new(a, BATCH, SEED), *exact_two = judge_new(b, BATCH, SEED);
    expect_same_forward(&one, &two);
    assert_true(apart(&one, &two) < 1e-4);
    assert_int_equal(a->size, b->size);
    assert_true(judge_learn(exact_one) == judge_learn(exact_two));
    double worst = 0, most = 1e-3;
    for (size_t i = 0; i < a->size; i++) {
        worst = larger_of(worst, fabs(exact_one->grads[i] - exact_two->grads[i]));
        most = larger_of(most, fabs(exact_one->grads[i]));
    }
    assert_true(worst / most < 1e-11);
    assert_memory_equal(exact_one->stats, exact_two->stats, a->stats_size * sizeof(double));
    judge_free(exact_one);
    judge_free(exact_two);
    life_end(&one);
    life_end(&two);
}

/* Both networks are let go. */
static void expect_same_life(struct graph *a, struct graph *b)
{
    struct life one = live(&engine_ref, a, NULL), two = live(&engine_ref, b, NULL);
    expect_same_bits(&one, &two);
    life_end(&one);
    life_end(&two);
    graph_free(a);
    graph_free(b);
}

/* ---- what nobody reads is dropped ---- */

/* A list of layers that nobody reads is refused, so this one is built by hand: `dead` adds a branch of two
 * convolutions, a batchnorm and a dropout. */
static void build_with_branch(struct builder *b, int x, bool dead)
{
    struct conv_layer conv = {.out = 3, .kernel = 3, .stride = 1, .pad = 1, .bias = true};
    int y = build_conv(b, "first", x, conv);
    int z = y;
    if (dead) {
        z = build_conv(b, "dead.conv", y, conv);
        z = build_batchnorm(b, "dead.norm", z, (struct batchnorm_layer){.eps = 1e-5, .momentum = 0.1});
        z = build_dropout(b, "dead.drop", z, 0.5);
        build_conv(b, "dead.end", z, conv);
    }
    y = build_pointwise(b, OP_TANH, "second", y);
    y = build_batchnorm(b, "norm", y, (struct batchnorm_layer){.eps = 1e-5, .momentum = 0.1});
    y = build_linear(b, "end", y, (struct linear_layer){.out = 3, .bias = true});
    build_loss(b, OP_CROSS_ENTROPY, "loss", y);
}

static void build_dead(struct builder *b, int x, const struct choice *c)
{
    (void)c;
    build_with_branch(b, x, true);
}

static void build_living(struct builder *b, int x, const struct choice *c)
{
    (void)c;
    build_with_branch(b, x, false);
}

static struct graph *by_hand(void (*build)(struct builder *b, int x, const struct choice *c))
{
    struct model_row row = {build, 0};
    struct kind kind = {.name = "branch", .row = &row};
    struct model_settings model = {.named = {.kind = &kind}, .place = {"net", 1, 1}};
    struct graph *g = NULL;
    must(graph_build_as_written(&model, small, 3, &g));
    return g;
}

/* But for what went. */
static void expect_described_as(struct graph *g, const struct graph *as)
{
    size_t n_gone = g->n_gone;
    g->n_gone = 0;
    char *text = described(g), *other = described(as);
    assert_string_equal(text, other);
    g->n_gone = n_gone;
    free(text);
    free(other);
}

/* The dead branch stands in the middle: numbers behind it move up, starts stay. */
static void what_nobody_reads_is_dropped_with_its_parameters(void **state)
{
    (void)state;
    struct graph *before = by_hand(build_dead), *after = by_hand(build_dead), *never = by_hand(build_living);
    must(passes_run(after, ONLY(DROP_PASS)));
    expect_gone(after, "drop dead.conv: , drop dead.norm: , drop dead.drop: , drop dead.end: ");
    assert_int_equal(before->n_ops, after->n_ops + 4);
    expect_described_as(after, never);
    struct life one = live(&engine_ref, after, NULL), two = live(&engine_ref, never, one.start);
    expect_same_bits(&one, &two);
    float *start = calloc(before->size + before->stats_size, sizeof *start);
    graph_init(before, SEED, start, start + before->size);
    struct life whole = {.g = before};
    expect_same_floats(&whole, start, &one, one.start);
    free(start);
    life_end(&one);
    life_end(&two);
    graph_free(before);
    graph_free(after);
    graph_free(never);
}

static void a_layer_that_nobody_reads_is_refused_where_it_is_written(void **state)
{
    (void)state;
    struct network net = {0};
    struct graph *g = NULL;
    net_conv(&net, 3, 3, 1, 1);
    net_name(&net, "stem");
    net_layer(&net, "tanh");
    net_linear(&net, 3);
    net_from(&net, "stem");
    must_fail(net_try(&net, small, 3, &g), "net:2:1: 1 (tanh): no layer reads what this one computes");
    net_release(&net);
}

/* ---- identities go ---- */

static void add_identities(struct network *net)
{
    net_dropout(net, 0);
    net_pool(net, "maxpool", 1, 1, 0);
    net_pool(net, "avgpool", 1, 0, 0);
}

static void an_op_that_gives_what_it_reads_is_left_out_to_the_bit(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 5, 3, 1, 1);
    add_identities(&net);
    net_layer(&net, "relu");
    net_dropout(&net, 0.3); /* its numbers go by its key, whatever went before it */
    net_layer(&net, "globalpool");
    net_layer(&net, "globalpool");
    net_linear(&net, 3);
    net_dropout(&net, 0);
    struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(IDENTITIES_PASS));
    expect_gone(after, "identities 1: 0, identities 2: 0, identities 3: 0, identities 7: 6, identities 9: 8");
    assert_int_equal(after->n_ops, 6);
    assert_int_equal(after->ops[2].kind, OP_DROPOUT);
    assert_int_equal(after->ops[2].key, 5);
    assert_int_equal(after->ops[2].number, 2);
    expect_same_life(before, after);
    net_release(&net);
}

static void what_is_nearly_an_identity_stays(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_dropout(&net, 0.01);
    net_pool(&net, "maxpool", 1, 2, 0);
    net_pool(&net, "avgpool", 2, 1, 1);
    net_conv(&net, 4, 1, 1, 0);
    net_layer(&net, "globalpool");
    net_linear(&net, 3);
    struct graph *g = passed(&net, small, ALL_PASSES);
    expect_gone(g, "");
    graph_free(g);
    net_release(&net);
}

/* Then the gradients of its readers and of the input's other ones are one sum. */
static void an_identity_beside_other_readers_keeps_the_function(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    net_dropout(&net, 0);
    net_name(&net, "same");
    net_conv(&net, 4, 3, 1, 1);
    net_from(&net, "same");
    net_name(&net, "a");
    net_conv(&net, 4, 3, 1, 1);
    net_from(&net, "stem");
    net_name(&net, "b");
    net_join(&net, "add", (const char *const[]){"a", "b", "same", "stem"}, 4);
    net_linear(&net, 3);
    struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(IDENTITIES_PASS));
    expect_gone(after, "identities same: stem");
    expect_same_function(before, after);
    graph_free(before);
    graph_free(after);
    net_release(&net);
}

static void the_samples_themselves_may_be_read_in_place_of_an_identity(void **state)
{
    (void)state;
    struct network net = {0};
    add_identities(&net);
    net_linear(&net, 3);
    struct graph *before = written(&net, small), *after = passed(&net, small, ALL_PASSES);
    expect_gone(after, "identities 0: input, identities 1: input, identities 2: input");
    expect_same_life(before, after);
    net_release(&net);
}

/* ---- equal ops become one ---- */

/* Two branches from one convolution, equal but for `last`. */
static void add_twins(struct network *net, const char *const *kinds, size_t n)
{
    net_conv(net, 4, 3, 1, 1);
    net_name(net, "stem");
    for (int branch = 0; branch < 2; branch++) {
        for (size_t i = 0; i < n; i++) {
            struct layer *l = net_layer(net, kinds[i]);
            if (i == 0)
                net_from(net, "stem");
            if (strstr(kinds[i], "pool"))
                *(struct pool_layer *)l->settings = (struct pool_layer){3, 1, 1};
        }
        net_name(net, branch ? "b" : "a");
    }
}

static void end_twins(struct network *net, const char *join)
{
    net_join(net, join, (const char *const[]){"a", "b"}, 2);
    net_linear(net, 3);
}

static void equal_branches_become_one(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tanh", "maxpool", "sigmoid", "avgpool"};
    static const char *const joins[] = {"add", "concat"};
    for (size_t i = 0; i < 2; i++) {
        struct network net = {0};
        add_twins(&net, kinds, 4);
        end_twins(&net, joins[i]);
        struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(MERGE_PASS));
        expect_gone(after, "merge 5: 1, merge 6: 2, merge 7: 3, merge b: a");
        expect_same_function(before, after);
        graph_free(before);
        graph_free(after);
        net_release(&net);
    }
}

static void what_learns_or_is_random_is_not_merged(void **state)
{
    (void)state;
    static const char *const kinds[] = {"batchnorm", "dropout"};
    for (size_t i = 0; i < 2; i++) {
        struct network net = {0};
        add_twins(&net, &kinds[i], 1);
        end_twins(&net, "add");
        struct graph *g = passed(&net, small, ALL_PASSES);
        expect_gone(g, "");
        graph_free(g);
        net_release(&net);
    }
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    for (int i = 0; i < 2; i++) {
        net_conv(&net, 4, 3, 1, 1);
        net_from(&net, "stem");
        net_name(&net, i ? "b" : "a");
    }
    end_twins(&net, "add");
    struct graph *g = passed(&net, small, ALL_PASSES);
    expect_gone(g, "");
    graph_free(g);
    net_release(&net);
}

/* Each pool is the second one but for one thing; all make a single pixel. */
static void pools_are_equal_only_if_all_their_settings_are(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        int64_t kernel, stride, pad;
    } pools[] = {{"maxpool", 3, 6, 0}, {"maxpool", 5, 6, 0}, {"maxpool", 5, 5, 0},
                 {"maxpool", 5, 6, 1}, {"avgpool", 5, 6, 0}, {"maxpool", 5, 6, 0}};
    struct network net = {0};
    const char *names[6];
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    for (size_t i = 0; i < 6; i++) {
        net_pool(&net, pools[i].kind, pools[i].kernel, pools[i].stride, pools[i].pad);
        net_from(&net, "stem");
        names[i] = net_name(&net, NULL);
    }
    net_join(&net, "concat", names, 6);
    net_linear(&net, 3);
    struct graph *g = passed(&net, small, ALL_PASSES);
    expect_gone(g, "merge name7: name3"); /* the last is the second itself */
    graph_free(g);
    net_release(&net);
}

/* Blocks of 6, 8 and 6 channels: the shortcuts beside the first and the last are equal, that beside the second is wider. */
static void shortcuts_are_equal_only_if_they_are_as_wide(void **state)
{
    (void)state;
    struct network net = {0};
    const char *names[3];
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    for (size_t i = 0; i < 3; i++) {
        struct layer *block = net_layer(&net, "residual");
        net_from(&net, "stem");
        names[i] = net_name(&net, NULL);
        net.outer[net.depth++] = net.end;
        net.end = &block->body;
        net_conv(&net, i == 1 ? 8 : 6, 3, 1, 1);
        net_end(&net);
    }
    net_join(&net, "concat", names, 3);
    net_linear(&net, 3);
    struct graph *before = written(&net, small), *after = passed(&net, small, ALL_PASSES);
    expect_gone(after, "merge name6.shortcut: name2.shortcut");
    expect_same_function(before, after);
    graph_free(before);
    graph_free(after);
    net_release(&net);
}

static void sums_are_equal_only_with_the_same_relu(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "stem");
    net_layer(&net, "tanh");
    net_name(&net, "t");
    net_join(&net, "add", (const char *const[]){"stem", "t"}, 2);
    net_layer(&net, "relu");
    net_name(&net, "a");
    net_join(&net, "add", (const char *const[]){"stem", "t"}, 2);
    net_name(&net, "b");
    end_twins(&net, "add");
    struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(FUSE_PASS));
    must(passes_run(after, ONLY(MERGE_PASS)));
    expect_gone(after, "fuse a: 2");
    expect_same_function(before, after);
    graph_free(before);
    graph_free(after);
    net_release(&net);
}

static void sums_are_equal_only_in_the_same_order(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_name(&net, "a");
    net_layer(&net, "tanh");
    net_name(&net, "b");
    static const char *const pairs[][2] = {{"a", "b"}, {"b", "a"}, {"a", "b"}};
    const char *sums[3];
    for (size_t i = 0; i < 3; i++) {
        net_join(&net, "add", pairs[i], 2);
        sums[i] = net_name(&net, NULL);
    }
    net_join(&net, "concat", sums, 3);
    net_linear(&net, 3);
    struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(MERGE_PASS));
    expect_gone(after, "merge name5: name3");
    expect_same_function(before, after);
    graph_free(before);
    graph_free(after);
    net_release(&net);
}

/* ---- neighbours are fused ---- */

static void a_relu_becomes_part_of_the_op_before_it_to_the_bit(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 6, 3, 1, 1);
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_dropout(&net, 0.4);
    net_residual(&net);
    net_conv(&net, 6, 3, 1, 1);
    net_batchnorm(&net);
    net_end(&net);
    net_layer(&net, "relu");
    net_layer(&net, "globalpool");
    net_linear(&net, 3);
    struct graph *before = written(&net, small), *after = passed(&net, small, ONLY(FUSE_PASS));
    expect_gone(after, "fuse 2: 1, fuse 5: 4.add");
    assert_true(after->ops[1].relu);
    assert_int_equal(after->ops[2].key, after->ops[2].number); /* no pass but this one finds anything */
    expect_same_life(before, after);
    net_release(&net);
}

/* ---- all of them ---- */

static void what_is_not_computed_is_told(void **state)
{
    (void)state;
    struct network net = {0};
    static const char *const kinds[] = {"tanh"};
    add_twins(&net, kinds, 1);
    net_join(&net, "add", (const char *const[]){"a", "b"}, 2);
    net_layer(&net, "relu");
    net_dropout(&net, 0);
    net_linear(&net, 3);
    struct graph *g = passed(&net, small, ALL_PASSES);
    char *text = described(g);
    const char *told = strstr(text, "not computed");
    static const char expected[] = "not computed: 5 gives what it reads; its readers read 4\n"
                                   "not computed: b computes the same as a\n"
                                   "layers: ";
    assert_non_null(told);
    assert_int_equal(strncmp(told, expected, strlen(expected)), 0);
    free(text);
    graph_free(g);
    net_release(&net);
}

static void one_pass_makes_work_for_the_others(void **state)
{
    (void)state;
    struct network net = {0};
    net_conv(&net, 4, 3, 1, 1);
    net_batchnorm(&net);
    net_name(&net, "norm");
    net_dropout(&net, 0); /* once it is gone the relus are equal, once they are one it is the only reader */
    net_layer(&net, "relu");
    net_name(&net, "a");
    net_layer(&net, "relu");
    net_from(&net, "norm");
    net_name(&net, "b");
    end_twins(&net, "add");
    struct graph *before = written(&net, small), *after = passed(&net, small, ALL_PASSES);
    expect_gone(after, "identities 2: norm, merge b: a, fuse a: norm");
    assert_false(has_op(after, "a"));
    expect_same_function(before, after);
    graph_free(before);
    graph_free(after);
    net_release(&net);
}

/* Layers that read any earlier one of the same shape, many of them equal, many doing nothing; what is left over is joined at
 * the end. */
static void random_network(struct network *net, struct rng *r, size_t n)
{
    static const char *const plain[] = {"relu", "tanh", "sigmoid", "batchnorm", "relu"};
    const char *names[40];
    bool is_read[40] = {false};
    size_t ends = 0;
    for (size_t i = 0; i < n; i++) {
        size_t from = i ? i - 1 - rng_below(r, smaller(i, 2)) : 0, kind = i ? rng_below(r, 12) : 0;
        size_t other = i ? rng_below(r, i) : 0;
        if (kind == 0)
            net_conv(net, 4, 3, 1, 1);
        else if (kind <= 2)
            net_dropout(net, kind == 1 ? 0 : 0.2);
        else if (kind <= 4)
            net_pool(net, kind == 3 ? "maxpool" : "avgpool", 1, 1, 0);
        else if (kind == 5)
            net_pool(net, "maxpool", 3, 1, 1);
        else if (kind == 6 && other != from)
            net_join(net, "add", (const char *const[]){names[from], names[other]}, 2);
        else
            net_layer(net, plain[kind % 5]);
        if (i && net->last->from.n == 0)
            net_from(net, names[from]);
        is_read[from] = is_read[from] || i;
        is_read[other] = is_read[other] || net->last->from.n == 2;
        names[i] = net_name(net, NULL);
    }
    for (size_t i = 0; i < n; i++)
        if (!is_read[i])
            names[ends++] = names[i];
    if (ends > 1)
        net_join(net, "concat", names, ends);
    net_layer(net, "globalpool");
    net_layer(net, "globalpool");
    net_linear(net, 3);
}

static void random_networks_keep_their_function(void **state)
{
    (void)state;
    size_t gone[N_GRAPH_PASSES] = {0};
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 21);
        random_network(&net, &r, 3 + seed % 30);
        struct graph *before = written(&net, small), *after = passed(&net, small, ALL_PASSES);
        assert_int_equal(before->n_ops, after->n_ops + after->n_gone);
        expect_same_function(before, after);
        for (size_t i = 0; i < after->n_gone; i++)
            gone[after->gone[i].pass]++;
        graph_free(before);
        graph_free(after);
        net_release(&net);
    }
    assert_true(gone[IDENTITIES_PASS] > 50 && gone[MERGE_PASS] > 20 && gone[FUSE_PASS] > 10);
    assert_int_equal(gone[DROP_PASS], 0); /* a list has nothing that nobody reads */
}

/* Among them ops that read one tensor twice. */
static void every_engine_learns_what_passes_have_left(void **state)
{
    (void)state;
#ifdef VECHE_HAS_DNNL
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct network net = {0};
        struct rng r = rng_stream(seed, 0, RNG_TEST, 21);
        random_network(&net, &r, 3 + seed % 30);
        struct graph *g = passed(&net, small, ALL_PASSES);
        struct life one = live(&engine_ref, g, NULL), two = live(&engine_dnnl, g, NULL);
        assert_true(apart(&one, &two) < 1e-3);
        assert_true(fabs(one.loss[0] - two.loss[0]) < 1e-4 * one.loss[0]);
        assert_true(fabs(one.examined[0] - two.examined[0]) < 1e-4 * one.examined[0]);
        life_end(&one);
        life_end(&two);
        graph_free(g);
        net_release(&net);
    }
#else
    skip_because("built without oneDNN");
#endif
}

/* Their published figures were made with these bits. */
static void named_models_are_only_fused(void **state)
{
    (void)state;
    for (size_t i = 0; i < model_kinds.n; i++) {
        const char *name = model_kinds.rows[i].pattern ? "mlp:9-8" : model_kinds.rows[i].name;
        struct graph *g = model_build(name, (struct shape){1, 28, 28}, 10);
        for (size_t k = 0; k < g->n_gone; k++)
            assert_int_equal(g->gone[k].pass, FUSE_PASS);
        for (size_t k = 0; k < g->n_ops; k++)
            assert_int_equal(g->ops[k].key, k);
        for (size_t k = 0; k < g->n_params; k++)
            assert_int_equal(g->params[k].key, k);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_reads_is_dropped_with_its_parameters),
        cmocka_unit_test(a_layer_that_nobody_reads_is_refused_where_it_is_written),
        cmocka_unit_test(an_op_that_gives_what_it_reads_is_left_out_to_the_bit),
        cmocka_unit_test(what_is_nearly_an_identity_stays),
        cmocka_unit_test(an_identity_beside_other_readers_keeps_the_function),
        cmocka_unit_test(the_samples_themselves_may_be_read_in_place_of_an_identity),
        cmocka_unit_test(equal_branches_become_one),
        cmocka_unit_test(what_learns_or_is_random_is_not_merged),
        cmocka_unit_test(pools_are_equal_only_if_all_their_settings_are),
        cmocka_unit_test(shortcuts_are_equal_only_if_they_are_as_wide),
        cmocka_unit_test(sums_are_equal_only_with_the_same_relu),
        cmocka_unit_test(sums_are_equal_only_in_the_same_order),
        cmocka_unit_test(a_relu_becomes_part_of_the_op_before_it_to_the_bit),
        cmocka_unit_test(what_is_not_computed_is_told),
        cmocka_unit_test(one_pass_makes_work_for_the_others),
        cmocka_unit_test(random_networks_keep_their_function),
        cmocka_unit_test(every_engine_learns_what_passes_have_left),
        cmocka_unit_test(named_models_are_only_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
