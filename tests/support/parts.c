/* parts.c - see parts.h. */
#include "support/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/cut.h"
#include "support/data_files.h"

enum { LESSONS = 2, MOST_REPLICAS = 8, MOST_PICKS = 512 };

struct side {
    struct graph *parts[MOST_PARTS];
    struct engine *engines[MOST_PARTS];
    float *inputs[MOST_PARTS], *output_grads[MOST_PARTS]; /* copies of what was carried to a part */
};

static void expect_ok(const struct parts_trial *t, fault f)
{
    if (f)
        fail_msg("%s: %s", t->what, fault_text(f));
}

static float *floats(size_t n)
{
    float *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* Parameters and statistics of the whole, off the round values that they start from. */
static void whole_start(const struct graph *g, uint64_t seed, size_t replica, float *params, float *stats)
{
    struct rng r = rng_stream(seed, (uint32_t)replica, RNG_TEST, 2);
    graph_init(g, seed, params, stats);
    for (size_t i = 0; i < g->size; i++)
        params[i] += 0.05f * (float)rng_normal(&r);
    for (size_t i = 0; i < g->stats_size; i++)
        stats[i] += 0.1f * (float)rng_uniform(&r);
}

static const struct param *param_numbered(const struct param *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("there is no parameter %s", name);
    return NULL;
}

/* The floats of a part's parameters (or statistics) among the whole's. */
static void take_share(const struct param *part, size_t n, const struct param *whole, size_t n_whole,
                       const float *from, float *to)
{
    for (size_t i = 0; i < n; i++) {
        const struct param *p = param_numbered(whole, n_whole, part[i].name);
        assert_int_equal(p->size, part[i].size);
        memcpy(to + part[i].offset, from + p->offset, p->size * sizeof *to);
    }
}

static void take_params(const struct graph *part, const struct graph *whole, const float *from, float *to)
{
    take_share(part->params, part->n_params, whole->params, whole->n_params, from, to);
}

static void take_stats(const struct graph *part, const struct graph *whole, const float *from, float *to)
{
    take_share(part->stats, part->n_stats, whole->stats, whole->n_stats, from, to);
}

static struct engine *open_engine(const struct parts_trial *t, const struct graph *g, bool passes)
{
    struct engine_setup s = {.graph = g, .train = &t->data->train, .test = &t->data->test};
    s.rows = rows_of(g, NULL);
    s.n_replicas = t->n_replicas;
    s.batch = t->batch;
    s.micro_batches = t->micro_batches;
    s.threads = t->threads;
    s.precision = t->precision;
    if (passes) {
        s.flights = t->flights;
        s.splits = t->splits;
        rows_cross(&s.rows, g, s.flights, micro_most(&s));
    }
    struct engine *e = NULL;
    expect_ok(t, t->ops->open(&s, &e));
    float *params = floats(t->g->size), *stats = floats(t->g->stats_size);
    float *own = floats(g->size), *own_stats = floats(g->stats_size);
    for (size_t i = 0; i < t->n_replicas; i++) {
        whole_start(t->g, t->seed, i, params, stats);
        take_params(g, t->g, params, own);
        take_stats(g, t->g, stats, own_stats);
        expect_ok(t, t->ops->write(e, ROW_PARAMS, i, own));
        expect_ok(t, t->ops->write(e, ROW_STATS, i, own_stats));
    }
    free(params);
    free(stats);
    free(own);
    free(own_stats);
    return e;
}

static void open_parts(const struct parts_trial *t, struct side *s)
{
    expect_ok(t, graph_cut(t->g, t->part_of, t->n_parts, s->parts));
    for (size_t k = 0; k < t->n_parts; k++)
        s->engines[k] = open_engine(t, s->parts[k], true);
}

static void close_parts(const struct parts_trial *t, struct side *s)
{
    for (size_t k = 0; k < t->n_parts; k++) {
        engine_close(s->engines[k]);
        graph_free(s->parts[k]);
    }
}

/* Values (or gradients) of one crossing, of one micro-batch, from one engine's row to another's. */
static void carry(const struct parts_trial *t, struct engine *from, enum row row, size_t at,
                  struct engine *to, enum row to_row, size_t to_at, size_t n, size_t replica, size_t flight)
{
    if (at == NOT_LEARNT) {
        assert_true(to_at == NOT_LEARNT);
        return;
    }
    float *there = floats(row_size(&from->setup, row)), *here = floats(row_size(&to->setup, to_row));
    expect_ok(t, t->ops->read(from, row, replica, there));
    expect_ok(t, t->ops->read(to, to_row, replica, here));
    memcpy(here + crossing_at(&to->setup, to_row, flight, to_at),
           there + crossing_at(&from->setup, row, flight, at), n * sizeof *here);
    expect_ok(t, t->ops->write(to, to_row, replica, here));
    free(there);
    free(here);
}

static void carry_values(const struct parts_trial *t, struct side *s, size_t part, size_t micro,
                         size_t replica, size_t flight)
{
    const struct graph *g = s->parts[part];
    size_t n = micro_of(&s->engines[part]->setup, micro).n;
    for (size_t i = 0; i < g->n_receives; i++) {
        const struct crossing *to = &g->receives[i], *from = &s->parts[to->part]->sends[to->other];
        assert_true(from->part == part && from->other == i && from->size == to->size);
        carry(t, s->engines[to->part], ROW_OUTPUTS, from->at, s->engines[part], ROW_INPUTS, to->at,
              n * to->size, replica, flight);
    }
}

static void carry_gradients(const struct parts_trial *t, struct side *s, size_t part, size_t micro,
                            size_t replica, size_t flight)
{
    const struct graph *g = s->parts[part];
    size_t n = micro_of(&s->engines[part]->setup, micro).n;
    for (size_t i = 0; i < g->n_sends; i++) {
        const struct crossing *to = &g->sends[i], *from = &s->parts[to->part]->receives[to->other];
        carry(t, s->engines[to->part], ROW_INPUT_GRADS, from->at_grad, s->engines[part], ROW_OUTPUT_GRADS,
              to->at_grad, n * to->size, replica, flight);
    }
}

struct outcome {
    double loss;
    size_t hits;
};

static void pass_all(const struct parts_trial *t, struct engine *e, enum pass_kind kind, size_t micro,
                     const struct pick *picks, uint64_t seed, struct outcome *outcomes)
{
    struct pass passes[MOST_REPLICAS];
    for (size_t i = 0; i < t->n_replicas; i++)
        passes[i] = (struct pass){.replica = i,
                                  .flight = micro % t->flights,
                                  .kind = kind,
                                  .micro = micro,
                                  .picks = picks + i * t->batch,
                                  .seed = seed + i,
                                  .adds = micro > 0};
    expect_ok(t, t->ops->pass(e, passes, t->n_replicas));
    for (size_t i = 0; i < t->n_replicas && kind == PASS_FORWARD && graph_has_loss(e->setup.graph); i++) {
        outcomes[i].loss += passes[i].loss;
        outcomes[i].hits += passes[i].hits;
    }
}

static void forward(const struct parts_trial *t, struct side *s, size_t micro, const struct pick *picks,
                    uint64_t seed, struct outcome *outcomes)
{
    for (size_t k = 0; k < t->n_parts; k++) {
        for (size_t i = 0; i < t->n_replicas; i++)
            carry_values(t, s, k, micro, i, micro % t->flights);
        pass_all(t, s->engines[k], PASS_FORWARD, micro, picks, seed, outcomes);
    }
}

static void backward(const struct parts_trial *t, struct side *s, size_t micro, const struct pick *picks,
                     uint64_t seed)
{
    for (size_t k = t->n_parts; k-- > 0;) {
        for (size_t i = 0; i < t->n_replicas; i++)
            carry_gradients(t, s, k, micro, i, micro % t->flights);
        pass_all(t, s->engines[k], t->splits ? PASS_INPUTS : PASS_BACKWARD, micro, picks, seed, NULL);
    }
}

/* As many micro-batches forward as may be under way, then these backward, and so on. */
static void learn_by_parts(const struct parts_trial *t, struct side *s, const struct pick *picks,
                           uint64_t seed, struct outcome *outcomes)
{
    size_t n = t->micro_batches;
    for (size_t done = 0; done < n; done += t->flights) {
        size_t end = done + t->flights < n ? done + t->flights : n;
        for (size_t k = done; k < end; k++)
            forward(t, s, k, picks, seed, outcomes);
        for (size_t k = done; k < end; k++)
            backward(t, s, k, picks, seed);
        for (size_t k = done; t->splits && k < end; k++)
            for (size_t p = 0; p < t->n_parts; p++)
                pass_all(t, s->engines[p], PASS_WEIGHTS, k, picks, seed, NULL);
    }
}

static double farthest(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = isnan(a[i]) != isnan(b[i]) ? INFINITY : fmax(worst, fabs((double)a[i] - b[i]));
    return worst;
}

static double largest_of(const float *a, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)a[i]) > most)
            most = fabs((double)a[i]);
    return most;
}

/* What a lesson of the whole gave, of all replicas. */
struct whole {
    struct outcome outcomes[LESSONS][MOST_REPLICAS];
    float *grads[LESSONS], *stats[LESSONS]; /* owned */
};

/* Picks of the k-th lesson, of all replicas; gives the seed of the first. */
static uint64_t pick_lesson(const struct parts_trial *t, int k, struct pick *picks)
{
    struct rng r = rng_stream(t->seed, (uint32_t)k, RNG_TEST, 3);
    assert_true(t->n_replicas <= MOST_REPLICAS && t->n_replicas * t->batch <= MOST_PICKS);
    random_picks(&r, &t->data->train, true, 1, picks, t->n_replicas * t->batch);
    return rng_next(&r);
}

static float *read_all(const struct parts_trial *t, struct engine *e, enum row row)
{
    size_t n = row_size(&e->setup, row);
    float *all = floats(n * t->n_replicas);
    for (size_t i = 0; i < t->n_replicas; i++)
        expect_ok(t, t->ops->read(e, row, i, all + i * n));
    return all;
}

struct whole *whole_learn(const struct parts_trial *t)
{
    struct whole *w = calloc(1, sizeof *w);
    assert_non_null(w);
    struct engine *e = open_engine(t, t->g, false);
    for (int k = 0; k < LESSONS; k++) {
        struct pick picks[MOST_PICKS];
        struct lesson lessons[MOST_REPLICAS];
        uint64_t seed = pick_lesson(t, k, picks);
        for (size_t i = 0; i < t->n_replicas; i++)
            lessons[i] = (struct lesson){.replica = i, .picks = picks + i * t->batch, .seed = seed + i};
        expect_ok(t, t->ops->learn(e, lessons, t->n_replicas));
        for (size_t i = 0; i < t->n_replicas; i++)
            w->outcomes[k][i] = (struct outcome){lessons[i].loss, lessons[i].hits};
        w->grads[k] = read_all(t, e, ROW_GRADS);
        w->stats[k] = read_all(t, e, ROW_STATS);
    }
    engine_close(e);
    return w;
}

void whole_free(struct whole *w)
{
    for (int k = 0; w && k < LESSONS; k++) {
        free(w->grads[k]);
        free(w->stats[k]);
    }
    free(w);
}

/* `exact`: the whole's row in fp32, or NULL. */
static void compare_row(const struct parts_trial *t, struct side *s, const float *all, const float *exact,
                        size_t n_all, enum row row, const char *what,
                        void (*take)(const struct graph *, const struct graph *, const float *, float *))
{
    for (size_t i = 0; i < t->n_replicas; i++, all += n_all, exact += exact ? n_all : 0) {
        double most = largest_of(all, n_all), rounding = exact ? farthest(all, exact, n_all) : 0,
               bound = t->apart == 0 ? 0 : fmax(t->apart * fmax(most, 1e-3), 2 * rounding);
        for (size_t k = 0; k < t->n_parts; k++) {
            size_t n = row_size(&s->engines[k]->setup, row);
            float *should = floats(n), *is = floats(n);
            take(s->parts[k], t->g, all, should);
            expect_ok(t, t->ops->read(s->engines[k], row, i, is));
            double worst = farthest(is, should, n);
            if (!(worst <= bound))
                fail_msg("%s: %s is %g from the whole's, whose largest is %g, and which is %g from that in fp32", t->what, what,
                         worst, most, rounding);
            free(should);
            free(is);
        }
    }
}

static void learn_and_compare(const struct parts_trial *t, struct side *s, const struct whole *w, int k)
{
    struct pick picks[MOST_PICKS];
    struct outcome outcomes[MOST_REPLICAS] = {0};
    uint64_t seed = pick_lesson(t, k, picks);
    learn_by_parts(t, s, picks, seed, outcomes);
    for (size_t i = 0; i < t->n_replicas; i++) {
        const struct outcome *should = &w->outcomes[k][i];
        double far = fabs(outcomes[i].loss - should->loss);
        if (!(far <= t->loss_apart * fmax(1, fabs(should->loss))))
            fail_msg("%s: the loss is %.17g, the whole's %.17g", t->what, outcomes[i].loss, should->loss);
        if (t->apart == 0)
            assert_int_equal(outcomes[i].hits, should->hits);
    }
    compare_row(t, s, w->grads[k], t->exact ? t->exact->grads[k] : NULL, t->g->size, ROW_GRADS, "a gradient", take_params);
    compare_row(t, s, w->stats[k], t->exact ? t->exact->stats[k] : NULL, t->g->stats_size, ROW_STATS, "a statistic", take_stats);
}

void parts_agree(const struct parts_trial *t)
{
    struct side s = {.parts = {NULL}};
    assert_true(t->n_parts <= MOST_PARTS);
    struct whole *own = t->whole ? NULL : whole_learn(t);
    open_parts(t, &s);
    for (int k = 0; k < LESSONS; k++)
        learn_and_compare(t, &s, own ? own : t->whole, k);
    close_parts(t, &s);
    whole_free(own);
}

bool all_cuts_are_asked_for(void)
{
    return getenv("VECHE_ALL_CUTS") != NULL;
}

bool cut_is_in_share(void)
{
    static size_t n_seen;
    const char *share = getenv("VECHE_CUTS_SHARE");
    size_t mine = 0, of = 1;
    if (share && (sscanf(share, "%zu/%zu", &mine, &of) != 2 || mine >= of))
        fail_msg("VECHE_CUTS_SHARE=%s is no share like 0/4 or 3/4", share);
    return n_seen++ % of == mine;
}

/* ---- samples on disk ---- */

enum { ON_DISK = 40, SIDE = 5, CLASSES = 4 };

static char *put_idx(const char *folder, const char *name, struct bytes b)
{
    put_file(folder, name, b);
    free(b.at);
    return path_in(folder, name);
}

static struct dataset *open_idx(struct idx_settings *files, bool streams)
{
    struct data_settings s = {.set = {.kind = kind_find(&data_set_kinds, "idx"), .settings = files},
                              .split = {.kind = kind_find(&split_kinds, "shuffle")},
                              .batch = 6,
                              .stream = streams,
                              .window_mb = streams ? 8 * SAMPLES_AT_ONCE * SIDE * SIDE * 1.001e-6 : 0};
    struct dataset *d = NULL;
    assert_ok(dataset_open(&s, 3, &d));
    assert_true(streams == !d->train.pixels);
    return d;
}

/* The first part alone has samples; what the last one wants of them is their labels. */
static void streamed_cut_agrees(struct parts_trial t, const struct dataset *held,
                                const struct dataset *streamed)
{
    static const struct {
        size_t micro_batches, flights;
        bool splits;
    } ways[] = {{1, 1, false}, {3, 2, true}, {3, 3, false}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        char what[100];
        snprintf(what, sizeof what, "%s, streamed, %zu micro-batches", t.ops->name, ways[k].micro_batches);
        t.what = what;
        t.micro_batches = ways[k].micro_batches;
        t.flights = ways[k].flights;
        t.splits = ways[k].splits;
        t.data = held;
        t.whole = NULL;
        struct whole *whole = whole_learn(&t);
        t.data = streamed;
        t.whole = whole;
        parts_agree(&t);
        whole_free(whole);
    }
}

void streamed_parts_agree(const struct engine_ops *ops)
{
    char *folder = temporary_folder();
    char *paths[] = {put_idx(folder, "images", make_idx_images(ON_DISK, SIDE, SIDE)),
                     put_idx(folder, "labels", make_idx_labels(ON_DISK, CLASSES)),
                     put_idx(folder, "test-images", make_idx_images(ON_DISK, SIDE, SIDE)),
                     put_idx(folder, "test-labels", make_idx_labels(ON_DISK, CLASSES))};
    struct idx_settings files = {paths[0], paths[1], paths[2], paths[3], CLASSES};
    struct dataset *held = open_idx(&files, false), *streamed = open_idx(&files, true);
    struct network net = {0};
    net_conv(&net, 3, 3, 1, 1);
    net_batchnorm(&net);
    net_layer(&net, "relu");
    net_dropout(&net, 0.3);
    net_linear(&net, 6);
    net_layer(&net, "tanh");
    net_linear(&net, CLASSES);
    struct graph *g = net_build(&net, (struct shape){1, SIDE, SIDE}, CLASSES);
    size_t part_of[16];
    assert_true(g->n_ops <= 16);
    cut_at(g, (const size_t[]){2, 4}, 2, part_of);
    struct parts_trial t = {.ops = ops, .g = g, .part_of = part_of, .n_parts = 3, .threads = 2, .seed = 4};
    t.n_replicas = 2;
    t.batch = 6;
    streamed_cut_agrees(t, held, streamed);
    dataset_close(held);
    dataset_close(streamed);
    graph_free(g);
    net_release(&net);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        free(paths[i]);
    remove_folder(folder);
}

/* ---- networks and cuts ---- */

void each_random_subject(size_t n, void (*check)(const struct subject *s, size_t i))
{
    for (size_t i = 0; i < n; i++) {
        struct rng r = rng_stream(2024, 0, RNG_TEST, i);
        struct shape shape = {1 + rng_below(&r, 3), 6, 6};
        shape.w = shape.h = 5 + rng_below(&r, 4);
        struct network net = {0};
        net_random(&net, &r, shape, 4, 3 + rng_below(&r, 9));
        struct graph *g = net_build(&net, shape, 4);
        struct dataset *d = random_dataset(i, shape, 4, 30, 8);
        char what[64];
        snprintf(what, sizeof what, "random network %zu", i);
        check(&(struct subject){.what = what, .g = g, .data = d, .seed = i}, i);
        random_dataset_free(d);
        graph_free(g);
        net_release(&net);
    }
}

void cut_at(const struct graph *g, const size_t *at, size_t n_cuts, size_t *part_of)
{
    for (size_t i = 0, part = 0; i < g->n_ops; i++) {
        while (part < n_cuts && i >= at[part])
            part++;
        part_of[i] = part;
    }
}

/* Where the inputs of an op lie at most. */
static size_t lowest_part(const struct graph *g, const struct op *op, const size_t *part_of)
{
    size_t lowest = 0;
    for (int k = 0; k < 2; k++)
        if (op->in[k] > 0 && part_of[g->tensors[op->in[k]].producer] > lowest)
            lowest = part_of[g->tensors[op->in[k]].producer];
    return lowest;
}

static bool try_cut(const struct graph *g, struct rng *r, size_t n, size_t *part_of)
{
    bool has[MOST_PARTS] = {false};
    size_t n_has = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        part_of[i] = lowest_part(g, &g->ops[i], part_of);
        while (part_of[i] + 1 < n && rng_below(r, g->n_ops) < n)
            part_of[i]++;
        n_has += !has[part_of[i]];
        has[part_of[i]] = true;
    }
    return n_has == n;
}

bool cut_anywhere(const struct graph *g, struct rng *r, size_t n, size_t *part_of)
{
    size_t at[MOST_PARTS];
    assert_true(n <= MOST_PARTS);
    for (int tries = 0; tries < 100; tries++)
        if (try_cut(g, r, n, part_of))
            return true;
    for (size_t i = 1; i < n; i++)
        at[i - 1] = i * g->n_ops / n;
    cut_at(g, at, n - 1, part_of);
    return g->n_ops >= n;
}
