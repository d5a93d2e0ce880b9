/* Micro-batches and parts on the engine `cuda`: lessons in micro-batches against the judge `ref`, parts against the whole.
 * Needs a GPU; a real one takes a larger choice of networks and cuts than a pretended one, and all of them where
 * VECHE_ALL_CUTS asks for these.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/parts.h"
#include "support/question.h"

enum { MOST_OPS = 512 };

static bool is_pretended(void)
{
    return getenv("PRETENDED_GPU_ORDER") != NULL;
}

/* ---- lessons in micro-batches ---- */

static void check_lessons(const char *what, const struct graph *g, size_t n_replicas, size_t batch,
                          size_t micro_batches, enum nature nature)
{
    struct dataset *d = random_dataset(1, g->input, g->classes, 60, 100);
    struct question q = {.g = g,
                         .data = d,
                         .batch = batch,
                         .micro_batches = micro_batches,
                         .n_replicas = n_replicas,
                         .seed = 5,
                         .exam = 7,
                         .examined = 1};
    check_in_both(&engine_cuda, q, what, nature);
    random_dataset_free(d);
}

/* Every kind of op that has parameters or is random, sums of gradients among them; larger micro-batches and smaller. */
static void lessons_in_micro_batches_agree(void **state)
{
    (void)state;
    struct network n = {0};
    net_conv(&n, 6, 3, 1, 1);
    net_batchnorm(&n);
    net_dropout(&n, 0.3);
    net_residual(&n);
    net_conv(&n, 6, 5, 1, 2);
    net_layer(&n, "tanh");
    net_dropout(&n, 0.2);
    net_end(&n);
    net_linear(&n, 40);
    net_layer(&n, "sigmoid");
    net_linear(&n, 4);
    struct graph *g = net_build(&n, (struct shape){2, 5, 6}, 4);
    static const size_t n_micro[] = {1, 3, 8};
    for (int k = 0; k < 3; k++)
        check_lessons("small", g, 1 + k % 2, 8, n_micro[k], SMOOTH);
    if (!is_pretended()) {
        check_lessons("small", g, 36, 37, 5, SMOOTH);
        check_lessons("small", g, 3, 256, 3, SMOOTH);
    }
    graph_free(g);
    net_release(&n);
}

/* What fused.h takes over in bf16. */
static void fused_lessons_in_micro_batches_agree(void **state)
{
    (void)state;
    struct network n = {0};
    for (int64_t out = 32; out <= 64; out *= 2) {
        net_conv(&n, out, 3, 2, 1);
        net_batchnorm(&n);
        net_layer(&n, "relu");
    }
    net_pool(&n, "maxpool", 2, 2, 0);
    net_linear(&n, 6);
    struct graph *g = net_build(&n, (struct shape){3, 32, 32}, 6);
    check_lessons("two convolutions", g, 1, 3, 2, BENDS);
    graph_free(g);
    net_release(&n);
    if (is_pretended())
        return;
    g = model_build("fashion-cnn", (struct shape){1, 28, 28}, 10);
    check_lessons("fashion-cnn", g, 3, 20, 3, BENDS);
    check_lessons("fashion-cnn", g, 2, 8, 8, BENDS);
    graph_free(g);
}

static double lesson_mib(const struct graph *g, const struct dataset *d, size_t micro_batches)
{
    struct question q = {
        .g = g, .data = d, .batch = 64, .micro_batches = micro_batches, .n_replicas = 2, .seed = 1};
    struct engine *e = question_open(&engine_cuda, &q);
    char text[400];
    double mib = 0;
    engine_describe(e, text, sizeof text);
    const char *at = strstr(text, "in turn ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "in turn %lf MiB for lessons", &mib), 1);
    engine_close(e);
    return mib;
}

static void micro_batches_take_as_much_less_memory(void **state)
{
    (void)state;
    struct graph *g = model_build("resnet20", (struct shape){3, 32, 32}, 10);
    struct dataset *d = random_dataset(1, g->input, 10, 60, 1);
    double whole = lesson_mib(g, d, 1), eighth = lesson_mib(g, d, 8);
    assert_true(whole > 10 && eighth < whole / 6);
    random_dataset_free(d);
    graph_free(g);
}

/* ---- parts ---- */

/* Micro-batches, how many of them are under way, and whether backward comes in two: all are taken in turn. */
static const struct way {
    size_t micro_batches, flights;
    bool splits;
} ways[] = {{3, 3, true}, {1, 1, false}, {8, 3, true}, {3, 1, false}, {8, 8, false}, {1, 1, true}};
enum { N_WAYS = sizeof ways / sizeof *ways };

/* A network's cuts, and what its whole gave in each way and precision once that was asked for. */
struct cutting {
    const struct subject *subject;
    struct whole *wholes[PRECISION_BF16 + 1][N_WAYS]; /* owned */
    size_t n_cuts, n_into[MOST_PARTS + 1];
};

static void cutting_end(struct cutting *c)
{
    for (int p = 0; p <= PRECISION_BF16; p++)
        for (int k = 0; k < N_WAYS; k++)
            whole_free(c->wholes[p][k]);
    if (all_cuts_are_asked_for())
        print_message("%s: %zu cuts\n", c->subject->what, c->n_cuts);
}

static const struct whole *whole_of(struct cutting *c, struct parts_trial t, size_t way, enum precision precision)
{
    struct whole **whole = &c->wholes[precision][way];
    t.precision = precision;
    if (!*whole)
        *whole = whole_learn(&t);
    return *whole;
}

/* Forward all is the whole's to the bit. Gradients of several readers in several parts are added in another order, and in bf16
 * each is rounded before. Beside a whole that is fused only losses are held to something. */
static void check_cut_in(struct cutting *c, const size_t *part_of, size_t n_parts, size_t turn,
                         enum precision precision)
{
    const struct subject *s = c->subject;
    const struct way *way = &ways[turn % N_WAYS];
    bool rounds = precision == PRECISION_BF16, is_other = s->is_fused && rounds;
    char what[200];
    snprintf(what, sizeof what, "%s in %s, %zu parts, cut %zu, %zu micro-batches, %zu under way%s", s->what,
             precision == PRECISION_BF16 ? "bf16" : "fp32", n_parts, turn, way->micro_batches, way->flights,
             way->splits ? ", backward in two" : "");
    struct parts_trial t = {.ops = &engine_cuda,
                            .precision = precision,
                            .g = s->g,
                            .data = s->data,
                            .part_of = part_of,
                            .n_parts = n_parts,
                            .n_replicas = 1 + turn % 3,
                            .batch = (is_pretended() ? way->micro_batches : 8) + turn % 3,
                            .micro_batches = way->micro_batches,
                            .flights = way->flights,
                            .splits = way->splits,
                            .seed = s->seed + turn % N_WAYS,
                            .apart = is_other ? 1
                                     : rounds ? 5e-2
                                              : 1e-4,
                            .loss_apart = is_other ? 2e-2 : 0,
                            .what = what};
    t.whole = whole_of(c, t, turn % N_WAYS, precision);
    t.exact = rounds ? whole_of(c, t, turn % N_WAYS, PRECISION_FP32) : NULL;
    parts_agree(&t);
}

static void check_cut(struct cutting *c, const size_t *part_of, size_t n_parts, size_t turn)
{
    c->n_into[n_parts]++;
    if (!cut_is_in_share())
        return;
    c->n_cuts++;
    check_cut_in(c, part_of, n_parts, turn, PRECISION_FP32);
    check_cut_in(c, part_of, n_parts, turn + 1, PRECISION_BF16);
}

static void check_random_cut(struct cutting *c, size_t n_parts, size_t turn)
{
    size_t part_of[MOST_OPS];
    struct rng r = rng_stream(c->subject->seed, (uint32_t)n_parts, RNG_TEST, turn);
    assert_true(c->subject->g->n_ops <= MOST_OPS);
    if (cut_anywhere(c->subject->g, &r, n_parts, part_of))
        check_cut(c, part_of, n_parts, turn);
}

/* At every op into two, and some into three and five. */
static void check_all_cuts(struct cutting *c, size_t turn)
{
    size_t part_of[MOST_OPS];
    const struct graph *g = c->subject->g;
    assert_true(g->n_ops <= MOST_OPS);
    for (size_t at = 1; at < g->n_ops; at++) {
        cut_at(g, &at, 1, part_of);
        check_cut(c, part_of, 2, turn + at);
    }
    for (size_t k = 0; k < 2; k++) {
        check_random_cut(c, 3, turn + k);
        check_random_cut(c, 5, turn + 2 + k);
    }
}

/* Small enough for compute-sanitizer. */
static void small_parts_are_the_whole(void **state)
{
    (void)state;
    struct network n = {0};
    net_conv(&n, 6, 3, 1, 1);
    net_residual(&n);
    net_conv(&n, 6, 3, 1, 1);
    net_batchnorm(&n);
    net_end(&n);
    net_dropout(&n, 0.3);
    net_linear(&n, 40);
    net_layer(&n, "relu");
    net_linear(&n, 4);
    struct graph *g = net_build(&n, (struct shape){2, 5, 6}, 4);
    struct dataset *d = random_dataset(6, g->input, 4, 30, 8);
    struct subject s = {"small", g, d, 6, false};
    struct cutting c = {.subject = &s};
    check_random_cut(&c, 3, 0);
    assert_int_equal(c.n_into[3], 1);
    cutting_end(&c);
    random_dataset_free(d);
    graph_free(g);
    net_release(&n);
}

/* Those that are fused in bf16 come last. */
static void named_models_by_parts_are_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t side, n_pretended, n_real; /* cuts */
        bool is_fused;
    } models[] = {{"resnet20", 8, 1, 6, false},    {"logistic", 8, 1, 6, false},
                  {"mlp:12-8", 8, 2, 6, false},    {"lenet", 28, 1, 8, false},
                  {"resnet56", 8, 0, 4, false},    {"resnet32", 8, 0, 4, false},
                  {"resnet44", 8, 0, 4, false},    {"resnet110", 8, 0, 4, false},
                  {"fashion-cnn", 28, 0, 6, true}, {"resnet20", 32, 0, 6, true}};
    enum { N_MODELS = sizeof models / sizeof *models };
    assert_int_equal(N_MODELS, model_kinds.n + 1);
    for (size_t i = 0; i < N_MODELS; i++) {
        struct shape shape = {models[i].name[0] == 'r' ? 3 : 1, models[i].side, models[i].side};
        struct graph *g = model_build(models[i].name, shape, 10);
        struct dataset *d = random_dataset(i, shape, 10, 40, 8);
        struct subject s = {models[i].name, g, d, 77 + i, models[i].is_fused};
        struct cutting c = {.subject = &s};
        if (all_cuts_are_asked_for())
            check_all_cuts(&c, i);
        else
            for (size_t k = 0; k < (is_pretended() ? models[i].n_pretended : models[i].n_real); k++)
                check_random_cut(&c, 2 + k % 4, i + k);
        assert_true(is_pretended() || c.n_into[3] > 0);
        assert_true(is_pretended() || g->n_ops < 5 || c.n_into[5] > 0);
        cutting_end(&c);
        random_dataset_free(d);
        graph_free(g);
    }
}

static size_t n_random_into[MOST_PARTS + 1];

static void check_random_network(const struct subject *s, size_t i)
{
    struct cutting c = {.subject = s};
    if (all_cuts_are_asked_for())
        check_all_cuts(&c, i);
    else
        check_random_cut(&c, 2 + i % 4, i);
    for (size_t k = 0; k <= MOST_PARTS; k++)
        n_random_into[k] += c.n_into[k];
    cutting_end(&c);
}

static void random_networks_by_parts_are_the_whole(void **state)
{
    (void)state;
    each_random_subject(all_cuts_are_asked_for() ? 200 : is_pretended() ? 12 : 30, check_random_network);
    assert_true(n_random_into[2] > 0 && n_random_into[3] > 0 && n_random_into[5] > 0);
}

static void parts_of_streamed_samples_are_the_whole(void **state)
{
    (void)state;
    streamed_parts_agree(&engine_cuda);
}

/* ---- passes of a call that have nothing in common ---- */

enum { REPLICAS = 3, BATCH = 7, MICRO = 3, FLIGHTS = 2 };

static struct engine *open_mixed(const struct graph *g, const struct dataset *d, enum precision precision,
                                 size_t flights)
{
    struct engine_setup s = {.graph = g, .train = &d->train, .test = &d->test, .rows = rows_of(g, NULL)};
    s.n_replicas = REPLICAS;
    s.batch = BATCH;
    s.micro_batches = MICRO;
    s.flights = flights;
    s.splits = flights > 0;
    s.precision = precision;
    struct engine *e = NULL;
    must(engine_cuda.open(&s, &e));
    return e;
}

/* One replica after the other begins; each call has the next pass of every one, the last replica's first. */
static void learn_by_mixed_passes(struct engine *e, const struct lesson *lessons, double *loss)
{
    static const struct turn {
        enum pass_kind kind;
        size_t micro;
    } turns[] = {{PASS_FORWARD, 0}, {PASS_FORWARD, 1}, {PASS_INPUTS, 0}, {PASS_WEIGHTS, 0}, {PASS_FORWARD, 2},
                 {PASS_INPUTS, 1},  {PASS_WEIGHTS, 1}, {PASS_INPUTS, 2}, {PASS_WEIGHTS, 2}};
    enum { TURNS = sizeof turns / sizeof *turns };
    for (size_t time = 0; time < TURNS + REPLICAS - 1; time++) {
        struct pass passes[REPLICAS];
        size_t n = 0;
        for (size_t i = REPLICAS; i-- > 0;) {
            if (time < i || time - i >= TURNS)
                continue;
            const struct turn *t = &turns[time - i];
            passes[n++] = (struct pass){.replica = i,
                                        .flight = t->micro % FLIGHTS,
                                        .kind = t->kind,
                                        .micro = t->micro,
                                        .picks = lessons[i].picks,
                                        .seed = lessons[i].seed,
                                        .adds = t->micro > 0};
        }
        must(e->ops->pass(e, passes, n));
        for (size_t i = 0; i < n; i++)
            loss[passes[i].replica] += passes[i].loss;
    }
}

static void write_start(struct engine *e, uint64_t seed)
{
    const struct graph *g = e->setup.graph;
    float *params = zeros(g->size, sizeof *params), *stats = zeros(g->stats_size, sizeof *stats);
    for (size_t i = 0; i < REPLICAS; i++) {
        graph_init(g, seed + i, params, stats);
        must(e->ops->write(e, ROW_PARAMS, i, params));
        must(e->ops->write(e, ROW_STATS, i, stats));
    }
    free(params);
    free(stats);
}

static void same_row(struct engine *a, struct engine *b, enum row row, size_t replica)
{
    size_t n = row_size(&a->setup, row);
    float *x = zeros(n, sizeof *x), *y = zeros(n, sizeof *y);
    must(a->ops->read(a, row, replica, x));
    must(b->ops->read(b, row, replica, y));
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static void passes_of_all_kinds_go_together(void **state)
{
    (void)state;
    struct network n = {0};
    net_conv(&n, 5, 3, 1, 1);
    net_batchnorm(&n);
    net_dropout(&n, 0.3);
    net_linear(&n, 4);
    struct graph *g = net_build(&n, (struct shape){2, 5, 6}, 4);
    struct dataset *d = random_dataset(3, g->input, 4, 40, 4);
    for (enum precision p = PRECISION_FP32; p <= PRECISION_BF16; p++) {
        struct engine *whole = open_mixed(g, d, p, 0), *mixed = open_mixed(g, d, p, FLIGHTS);
        struct rng r = rng_stream(8, 0, RNG_TEST, 5);
        struct pick picks[REPLICAS * BATCH];
        struct lesson lessons[REPLICAS];
        double loss[REPLICAS] = {0};
        random_picks(&r, &d->train, true, 1, picks, REPLICAS * BATCH);
        for (size_t i = 0; i < REPLICAS; i++)
            lessons[i] = (struct lesson){.replica = i, .picks = picks + i * BATCH, .seed = 50 + i};
        write_start(whole, 6);
        write_start(mixed, 6);
        must(whole->ops->learn(whole, lessons, REPLICAS));
        learn_by_mixed_passes(mixed, lessons, loss);
        for (size_t i = 0; i < REPLICAS; i++) {
            assert_true(loss[i] == lessons[i].loss);
            same_row(whole, mixed, ROW_GRADS, i);
            same_row(whole, mixed, ROW_STATS, i);
        }
        engine_close(whole);
        engine_close(mixed);
    }
    random_dataset_free(d);
    graph_free(g);
    net_release(&n);
}

/* A GPU's context lasts while anybody has an engine there, and takes longer to make than an engine. */
static int hold_the_device(void **state)
{
    struct graph *g = model_build("logistic", (struct shape){1, 2, 2}, 2);
    struct engine_setup s = {.graph = g, .rows = rows_of(g, NULL), .n_replicas = 1, .batch = 1};
    struct engine *e = NULL;
    must(engine_cuda.open(&s, &e));
    *state = e;
    return 0;
}

static int let_go(void **state)
{
    struct engine *e = *state;
    const struct graph *g = e->setup.graph;
    engine_close(e);
    graph_free((struct graph *)g);
    return 0;
}

/* An argument is a pattern: only the tests whose names match it are run. */
int main(int argc, char **argv)
{
    if (is_missing(&engine_cuda))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lessons_in_micro_batches_agree),
        cmocka_unit_test(fused_lessons_in_micro_batches_agree),
        cmocka_unit_test(micro_batches_take_as_much_less_memory),
        cmocka_unit_test(small_parts_are_the_whole),
        cmocka_unit_test(named_models_by_parts_are_the_whole),
        cmocka_unit_test(random_networks_by_parts_are_the_whole),
        cmocka_unit_test(parts_of_streamed_samples_are_the_whole),
        cmocka_unit_test(passes_of_all_kinds_go_together),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, hold_the_device, let_go);
}
