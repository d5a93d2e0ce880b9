/* question.c - see question.h. */
#include "support/question.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "support/rounded.h"

void *zeros(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

double apart(const float *a, const float *b, size_t n)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += (double)b[i] * b[i];
    }
    return sqrt(difference) / (sqrt(length) + 1e-30);
}

double worst_apart(const struct graph *g, const float *have, const float *want)
{
    double worst = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        const struct param *p = &g->params[i];
        double off = apart(have + p->offset, want + p->offset, p->size);
        worst = p->n_dims > 1 && off > worst ? off : worst;
    }
    return worst;
}

struct answer answer_new(const struct question *q)
{
    size_t n = q->n_replicas;
    return (struct answer){zeros(n, sizeof(double)),
                           zeros(n, sizeof(double)),
                           zeros(n, sizeof(size_t)),
                           zeros(n, sizeof(size_t)),
                           zeros(n * q->g->size, sizeof(float)),
                           zeros(n * q->g->stats_size, sizeof(float))};
}

void answer_release(struct answer *a)
{
    free(a->loss);
    free(a->exam_loss);
    free(a->hits);
    free(a->exam_hits);
    free(a->grads);
    free(a->stats);
}

static struct engine_setup setup_of(const struct engine_ops *ops, const struct question *q)
{
    bool judges = ops == &engine_ref || ops == &engine_rounded;
    return (struct engine_setup){.graph = q->g,
                                 .rows = rows_of(q->g, NULL),
                                 .train = &q->data->train,
                                 .test = &q->data->test,
                                 .n_replicas = q->n_replicas,
                                 .batch = q->batch,
                                 .micro_batches = q->micro_batches,
                                 .threads = q->threads,
                                 .precision = judges ? PRECISION_FP32 : q->precision};
}

struct engine *question_open(const struct engine_ops *ops, const struct question *q)
{
    struct engine_setup setup = setup_of(ops, q);
    struct engine *e = NULL;
    must(ops->open(&setup, &e));
    return e;
}

static void fill(float *params, const struct param *p, float low, float high)
{
    for (size_t i = 0; i < p->size; i++)
        params[p->offset + i] = i % 5 == 4 ? low : high;
}

/* Biases before every relu keep four channels in five well above zero, the fifth well below. */
static void calm(const struct graph *g, float *params)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        if (op->kind == OP_BATCHNORM) {
            fill(params, &g->params[op->weight], 0.25f, 0.3f);
            fill(params, &g->params[op->bias], op->relu ? -1.5f : 1.5f, 1.5f);
        }
        if (op->kind == OP_RELU && g->tensors[op->in[0]].producer >= 0) {
            const struct op *before = &g->ops[g->tensors[op->in[0]].producer];
            if (before->bias >= 0)
                fill(params, &g->params[before->bias], -5, 5);
        }
    }
}

void question_write(const struct question *q, struct engine *e, size_t replica)
{
    const struct graph *g = q->g;
    struct rng r = rng_stream(q->seed, (uint32_t)replica, RNG_TEST, 7);
    float *params = zeros(g->size + g->stats_size, sizeof *params);
    graph_init(g, q->seed + replica, params, params + g->size);
    for (size_t i = 0; i < g->size; i++)
        params[i] += 0.02f * (float)rng_normal(&r);
    for (size_t i = 0; i < g->stats_size; i++)
        params[g->size + i] += 0.2f * (float)rng_uniform(&r);
    for (size_t i = 0; q->exact && i < g->params[0].size; i++)
        params[g->params[0].offset + i] = (float)rng_below(&r, 3) - 1;
    if (q->calm)
        calm(g, params);
    must(e->ops->write(e, ROW_PARAMS, replica, params));
    must(e->ops->write(e, ROW_STATS, replica, params + g->size));
    free(params);
}

struct lesson *question_lessons(const struct question *q, uint64_t round, struct pick *picks)
{
    struct lesson *lessons = zeros(q->n_replicas, sizeof *lessons);
    bool has_pixels = q->data->train.h > 1;
    for (size_t i = 0; i < q->n_replicas; i++) {
        struct rng r = rng_stream(q->seed, (uint32_t)i, RNG_TEST, 8 + round);
        size_t replica = q->n_replicas - 1 - i;
        random_picks(&r, &q->data->train, has_pixels, has_pixels ? 2 : 0, picks + i * q->batch, q->batch);
        lessons[i] = (struct lesson){.replica = replica, .picks = picks + i * q->batch, .seed = q->seed + i};
    }
    return lessons;
}

void question_learn(const struct question *q, struct engine *e, uint64_t round, struct answer *a)
{
    struct pick *picks = zeros(q->n_replicas * q->batch, sizeof *picks);
    struct lesson *lessons = question_lessons(q, round, picks);
    must(e->ops->learn(e, lessons, q->n_replicas));
    for (size_t i = 0; i < q->n_replicas; i++) {
        a->loss[lessons[i].replica] = lessons[i].loss;
        a->hits[lessons[i].replica] = lessons[i].hits;
    }
    free(lessons);
    free(picks);
}

static void examine(const struct question *q, struct engine *e, struct answer *a)
{
    struct exam *exams = zeros(q->n_replicas, sizeof *exams);
    size_t n_exams = q->examined ? q->examined : q->n_replicas;
    for (size_t i = 0; i < n_exams; i++) {
        size_t n = (q->exam + 35 * i) % 86;
        bool on_train = i % 3 == 1;
        exams[i] =
            (struct exam){.replica = i, .on_train = on_train, .first = i % 5, .n = on_train ? n % 45 : n};
    }
    must(e->ops->examine(e, exams, n_exams));
    for (size_t i = 0; i < n_exams; i++) {
        a->exam_loss[i] = exams[i].loss;
        a->exam_hits[i] = exams[i].hits;
    }
    free(exams);
}

struct answer ask(const struct engine_ops *ops, const struct question *q)
{
    struct answer a = answer_new(q);
    struct engine *e = question_open(ops, q);
    for (size_t i = 0; i < q->n_replicas; i++)
        question_write(q, e, i);
    for (uint64_t round = 0; round < 3; round++)
        question_learn(q, e, round, &a);
    examine(q, e, &a);
    for (size_t i = 0; i < q->n_replicas; i++) {
        must(ops->read(e, ROW_GRADS, i, a.grads + i * q->g->size));
        must(ops->read(e, ROW_STATS, i, a.stats + i * q->g->stats_size));
    }
    ops->close(e);
    return a;
}

/* Errors of whole networks are worth seeing even when they are small. */
static bool verbose(const char *what)
{
    return strstr(what, "blocks") || strstr(what, "resnet") || strstr(what, "fashion");
}

static void complain(const struct question *q, const float *have, const float *want)
{
    for (size_t i = 0; i < q->g->n_params; i++) {
        const struct param *p = &q->g->params[i];
        print_message("  %-24s %.2e\n", p->name, apart(have + p->offset, want + p->offset, p->size));
    }
}

struct distance answer_distance(const struct question *q, const struct answer *have,
                                const struct answer *want, size_t replica)
{
    size_t i = replica, size = q->g->size, stats = q->g->stats_size;
    const float *a = have->grads + i * size, *b = want->grads + i * size;
    return (struct distance){
        .loss = fabs(have->loss[i] - want->loss[i]) / (fabs(want->loss[i]) + 1e-3),
        .exam = fabs(have->exam_loss[i] - want->exam_loss[i]) / (fabs(want->exam_loss[i]) + 1e-3),
        .stats = apart(have->stats + i * stats, want->stats + i * stats, stats),
        .grads = apart(a, b, size),
        .worst = worst_apart(q->g, a, b),
    };
}

static void check_replica(const struct question *q, const struct answer *have, const struct answer *want,
                          size_t i, const char *what, double bound, double of_grads)
{
    struct distance d = answer_distance(q, have, want, i);
    double grads = q->calm ? d.worst : d.grads;
    if (verbose(what))
        print_message(
            "%-32s replica %zu: loss %.1e exam %.1e statistics %.1e gradients %.1e worst weight %.1e\n", what,
            i, d.loss, d.exam, d.stats, d.grads, d.worst);
    if (d.loss < bound && d.exam < bound && d.stats < bound && grads < of_grads)
        return;
    complain(q, have->grads + i * q->g->size, want->grads + i * q->g->size);
    fail_msg("%s, replica %zu of %zu: off by %.2e in loss, %.2e in the exam, %.2e in statistics, %.2e in "
             "gradients",
             what, i, q->n_replicas, d.loss, d.exam, d.stats, grads);
}

void check_answer(const struct question *q, const struct answer *have, const struct answer *want,
                  const char *what, double bound, double of_grads)
{
    for (size_t i = 0; i < q->n_replicas; i++)
        check_replica(q, have, want, i, what, bound, of_grads);
}

static void check_in_fp32(const struct engine_ops *ops, struct question q, const struct answer *want,
                          const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s, fp32", what);
    q.precision = PRECISION_FP32;
    struct answer have = ask(ops, &q);
    check_answer(&q, &have, want, text, 1e-4, q.calm ? 1e-3 : 1e-4);
    for (size_t i = 0; i < q.n_replicas; i++) {
        assert_int_equal(have.hits[i], want->hits[i]);
        assert_int_equal(have.exam_hits[i], want->exam_hits[i]);
    }
    answer_release(&have);
}

static void check_in_bf16(const struct engine_ops *ops, struct question q, const struct answer *want,
                          const char *what, enum nature nature)
{
    char text[160];
    q.precision = PRECISION_BF16;
    struct answer have = ask(ops, &q), twin = ask(&engine_rounded, &q);
    if (nature != DEEP) {
        snprintf(text, sizeof text, "%s, bf16 and the twin", what);
        check_answer(&q, &have, &twin, text, 2e-2, 2e-2);
    }
    snprintf(text, sizeof text, "%s, bf16", what);
    check_answer(&q, &have, want, text, 2e-2, nature == SMOOTH ? 2e-2 : 1);
    for (size_t i = 0; nature == DEEP && i < q.n_replicas; i++) {
        struct distance ours = answer_distance(&q, &have, want, i),
                        by_rounding = answer_distance(&q, &twin, want, i);
        assert_true(ours.grads < 1.5 * by_rounding.grads && ours.worst < 1.5 * by_rounding.worst);
    }
    answer_release(&have);
    answer_release(&twin);
}

bool can_bf16(const struct engine_ops *ops, const struct question *q)
{
    struct engine_setup setup = setup_of(ops, q);
    setup.precision = PRECISION_BF16;
    setup.batch = setup.micro_batches = setup.n_replicas = 1;
    struct engine *e = NULL;
    fault f = ops->open(&setup, &e);
    if (!f)
        ops->close(e);
    bool can = !f || !strstr(fault_text(f), NO_BF16);
    fault_drop(f);
    return can;
}

void check_in_both(const struct engine_ops *ops, struct question q, const char *what, enum nature nature)
{
    struct answer want = ask(&engine_ref, &q);
    check_in_fp32(ops, q, &want, what);
    if (can_bf16(ops, &q))
        check_in_bf16(ops, q, &want, what, nature);
    else
        skip_part("in bf16", NO_BF16);
    answer_release(&want);
}

bool is_missing(const struct engine_ops *ops)
{
    fault f = ops->usable();
    if (f)
        printf("SKIPPED: %s\n", fault_text(f));
    fault_drop(f);
    return f != OK;
}
