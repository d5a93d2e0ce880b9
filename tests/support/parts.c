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

enum { LESSONS = 2, MOST_PARTS = 8 };

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
    struct pass passes[8];
    assert_true(t->n_replicas <= 8);
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

static void expect_near(const struct parts_trial *t, const char *what, const float *is, const float *should,
                        size_t n)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)should[i]));
        worst = fmax(worst, fabs((double)is[i] - should[i]));
        if (isnan(is[i]) != isnan(should[i]))
            worst = INFINITY;
    }
    if (t->apart == 0 ? worst > 0 : worst > t->apart * fmax(most, 1e-3))
        fail_msg("%s: %s is %g from the whole's, whose largest is %g", t->what, what, worst, most);
}

static void compare_row(const struct parts_trial *t, struct side *s, struct engine *whole, enum row row,
                        const char *what,
                        void (*take)(const struct graph *, const struct graph *, const float *, float *))
{
    float *all = floats(row_size(&whole->setup, row));
    for (size_t i = 0; i < t->n_replicas; i++) {
        expect_ok(t, t->ops->read(whole, row, i, all));
        for (size_t k = 0; k < t->n_parts; k++) {
            size_t n = row_size(&s->engines[k]->setup, row);
            float *should = floats(n), *is = floats(n);
            take(s->parts[k], t->g, all, should);
            expect_ok(t, t->ops->read(s->engines[k], row, i, is));
            expect_near(t, what, is, should, n);
            free(should);
            free(is);
        }
    }
    free(all);
}

static void learn_both(const struct parts_trial *t, struct side *s, struct engine *whole, struct rng *r)
{
    struct pick picks[8 * 64];
    struct lesson lessons[8];
    struct outcome outcomes[8] = {0};
    uint64_t seed = rng_next(r);
    assert_true(t->n_replicas * t->batch <= sizeof picks / sizeof *picks);
    random_picks(r, &t->data->train, true, 1, picks, t->n_replicas * t->batch);
    for (size_t i = 0; i < t->n_replicas; i++)
        lessons[i] = (struct lesson){.replica = i, .picks = picks + i * t->batch, .seed = seed + i};
    expect_ok(t, t->ops->learn(whole, lessons, t->n_replicas));
    learn_by_parts(t, s, picks, seed, outcomes);
    for (size_t i = 0; i < t->n_replicas; i++) {
        double far = fabs(outcomes[i].loss - lessons[i].loss);
        if (far > t->loss_apart * fmax(1, fabs(lessons[i].loss)))
            fail_msg("%s: the loss is %.17g, the whole's %.17g", t->what, outcomes[i].loss, lessons[i].loss);
        if (t->apart == 0)
            assert_int_equal(outcomes[i].hits, lessons[i].hits);
    }
    compare_row(t, s, whole, ROW_GRADS, "a gradient", take_params);
    compare_row(t, s, whole, ROW_STATS, "a statistic", take_stats);
}

void parts_agree(const struct parts_trial *t)
{
    struct side s = {.parts = {NULL}};
    struct rng r = rng_stream(t->seed, 0, RNG_TEST, 3);
    assert_true(t->n_parts <= MOST_PARTS);
    struct engine *whole = open_engine(t, t->g, false);
    open_parts(t, &s);
    for (int k = 0; k < LESSONS; k++)
        learn_both(t, &s, whole, &r);
    close_parts(t, &s);
    engine_close(whole);
}

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

bool cut_anywhere(const struct graph *g, struct rng *r, size_t n, size_t *part_of)
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
