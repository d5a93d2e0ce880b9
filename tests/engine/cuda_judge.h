/* cuda_judge.h - lessons for the engine `cuda` and the judge `ref`, and how far their answers are apart; for
 * the tests of that engine. */
#ifndef VECHE_TESTS_CUDA_JUDGE_H
#define VECHE_TESTS_CUDA_JUDGE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/network.h"
#include "support/rounded.h"

/* Where there is no GPU the whole program is skipped. */
static inline bool no_gpu(void)
{
    fault f = engine_cuda.usable();
    if (f)
        printf("SKIPPED: %s\n", fault_text(f));
    fault_drop(f);
    return f != OK;
}

static inline double apart(const float *a, const float *b, size_t n)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += (double)b[i] * b[i];
    }
    return sqrt(difference) / (sqrt(length) + 1e-30);
}

struct question {
    const struct graph *g;
    const struct dataset *data;
    size_t batch, n_replicas;
    enum precision precision;
    uint64_t seed;
    bool exact; /* the first layer's weights are -1, 0 and 1 */
    bool calm;  /* no number comes near a relu's kink, where bf16 would fall on the other side */
};

struct answer { /* of all replicas */
    double *loss, *exam_loss;
    size_t *hits, *exam_hits;
    float *grads, *stats; /* [replica][...] */
};

static inline void *zeros(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

static inline void must(fault f)
{
    if (f)
        fail_msg("%s", fault_text(f));
}

static inline struct answer answer_new(const struct question *q)
{
    size_t n = q->n_replicas;
    return (struct answer){zeros(n, sizeof(double)),
                           zeros(n, sizeof(double)),
                           zeros(n, sizeof(size_t)),
                           zeros(n, sizeof(size_t)),
                           zeros(n * q->g->size, sizeof(float)),
                           zeros(n * q->g->stats_size, sizeof(float))};
}

static inline void answer_release(struct answer *a)
{
    free(a->loss);
    free(a->exam_loss);
    free(a->hits);
    free(a->exam_hits);
    free(a->grads);
    free(a->stats);
}

static inline struct engine *open_engine(const struct engine_ops *ops, const struct question *q)
{
    struct engine_setup setup = {.graph = q->g,
                                 .train = &q->data->train,
                                 .test = &q->data->test,
                                 .n_replicas = q->n_replicas,
                                 .batch = q->batch,
                                 .precision = ops == &engine_cuda ? q->precision : PRECISION_FP32};
    struct engine *e = NULL;
    must(ops->open(&setup, &e));
    return e;
}

static inline void fill(float *params, const struct param *p, float low, float high)
{
    for (size_t i = 0; i < p->size; i++)
        params[p->offset + i] = i % 5 == 4 ? low : high;
}

/* Biases before every relu keep four channels in five well above zero, the fifth well below. */
static inline void calm(const struct graph *g, float *params)
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

/* Parameters and statistics with some noise, different for each replica. */
static inline void write_rows(struct engine *e, const struct question *q, size_t replica)
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

/* Lessons for all replicas, the last one first, so that seats and replicas differ. */
static inline struct lesson *make_lessons(const struct question *q, uint64_t round, struct pick *picks)
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

static inline void learn(struct engine *e, const struct question *q, uint64_t round, struct answer *a)
{
    struct pick *picks = zeros(q->n_replicas * q->batch, sizeof *picks);
    struct lesson *lessons = make_lessons(q, round, picks);
    must(e->ops->learn(e, lessons, q->n_replicas));
    for (size_t i = 0; i < q->n_replicas; i++) {
        a->loss[lessons[i].replica] = lessons[i].loss;
        a->hits[lessons[i].replica] = lessons[i].hits;
    }
    free(lessons);
    free(picks);
}

static inline void examine(struct engine *e, const struct question *q, struct answer *a)
{
    struct exam *exams = zeros(q->n_replicas, sizeof *exams);
    for (size_t i = 0; i < q->n_replicas; i++) /* of all lengths, from none to more than a piece */
        exams[i] =
            (struct exam){.replica = i, .on_train = i % 3 == 1, .first = i % 5, .n = (7 + 35 * i) % 86};
    for (size_t i = 0; i < q->n_replicas; i++)
        if (exams[i].on_train)
            exams[i].n = exams[i].n % 45;
    must(e->ops->examine(e, exams, q->n_replicas));
    for (size_t i = 0; i < q->n_replicas; i++) {
        a->exam_loss[i] = exams[i].loss;
        a->exam_hits[i] = exams[i].hits;
    }
    free(exams);
}

/* Three lessons (the later ones must not see what the first left behind, and the third is a replay), an exam.
 */
static inline struct answer ask(const struct engine_ops *ops, const struct question *q)
{
    struct answer a = answer_new(q);
    struct engine *e = open_engine(ops, q);
    for (size_t i = 0; i < q->n_replicas; i++)
        write_rows(e, q, i);
    for (uint64_t round = 0; round < 3; round++)
        learn(e, q, round, &a);
    examine(e, q, &a);
    for (size_t i = 0; i < q->n_replicas; i++) {
        must(ops->read(e, ROW_GRADS, i, a.grads + i * q->g->size));
        must(ops->read(e, ROW_STATS, i, a.stats + i * q->g->stats_size));
    }
    ops->close(e);
    return a;
}

/* How far the worst of the weights' gradients is off, each against its own length: a large one does not hide
 * a small one. Biases are left out: before a batchnorm their gradient is nothing but rounding. */
static inline double worst_apart(const struct graph *g, const float *have, const float *want)
{
    double worst = 0;
    for (size_t i = 0; i < g->n_params; i++) {
        const struct param *p = &g->params[i];
        double off = apart(have + p->offset, want + p->offset, p->size);
        worst = p->n_dims > 1 && off > worst ? off : worst;
    }
    return worst;
}

/* Errors of whole networks are worth seeing even when they are small. */
static inline bool verbose(const char *what)
{
    return strstr(what, "blocks") || strstr(what, "resnet") || strstr(what, "fashion");
}

static inline void complain(const struct question *q, const float *have, const float *want)
{
    for (size_t i = 0; i < q->g->n_params; i++) {
        const struct param *p = &q->g->params[i];
        print_message("  %-24s %.2e\n", p->name, apart(have + p->offset, want + p->offset, p->size));
    }
}

/* How far one replica's answer is from another's, each part against its own length. */
struct distance {
    double loss, exam, stats, grads, worst; /* grads: as a whole; worst: of a weight */
};

static inline struct distance distance(const struct question *q, const struct answer *have,
                                       const struct answer *want, size_t i)
{
    size_t size = q->g->size, stats = q->g->stats_size;
    const float *a = have->grads + i * size, *b = want->grads + i * size;
    return (struct distance){
        .loss = fabs(have->loss[i] - want->loss[i]) / (fabs(want->loss[i]) + 1e-3),
        .exam = fabs(have->exam_loss[i] - want->exam_loss[i]) / (fabs(want->exam_loss[i]) + 1e-3),
        .stats = apart(have->stats + i * stats, want->stats + i * stats, stats),
        .grads = apart(a, b, size),
        .worst = worst_apart(q->g, a, b),
    };
}

/* Holds everything to `bound`, gradients to one of their own: as a whole, or, in a calm network, weight by
 * weight. */
static inline void check_replica(const struct question *q, const struct answer *have,
                                 const struct answer *want, size_t i, const char *what, double bound,
                                 double of_grads)
{
    struct distance d = distance(q, have, want, i);
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

static inline void check_answer(const struct question *q, const struct answer *have,
                                const struct answer *want, const char *what, double bound, double of_grads)
{
    for (size_t i = 0; i < q->n_replicas; i++)
        check_replica(q, have, want, i, what, bound, of_grads);
}

static inline void check_in_fp32(struct question q, const struct answer *want, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s, fp32", what);
    q.precision = PRECISION_FP32;
    struct answer have = ask(&engine_cuda, &q);
    check_answer(&q, &have, want, text, 1e-4, q.calm ? 1e-3 : 1e-4);
    for (size_t i = 0; i < q.n_replicas; i++) {
        assert_int_equal(have.hits[i], want->hits[i]);
        assert_int_equal(have.exam_hits[i], want->exam_hits[i]);
    }
    answer_release(&have);
}

/* What a network does with the little that bf16 rounds off. */
enum nature {
    SMOOTH, /* gives back about as much: gradients are those of `ref`                             */
    BENDS,  /* relus and pools: those of the rounding twin, which stands on the same side of kinks */
    DEEP    /* after many layers no two programs that round stand on the same side: gradients are as far from
               those of `ref` as the twin's are, and no further                                    */
};

static inline void check_in_bf16(struct question q, const struct answer *want, const char *what,
                                 enum nature nature)
{
    char text[160];
    q.precision = PRECISION_BF16;
    struct answer have = ask(&engine_cuda, &q), twin = ask(&engine_rounded, &q);
    if (nature != DEEP) {
        snprintf(text, sizeof text, "%s, bf16 and the twin", what);
        check_answer(&q, &have, &twin, text, 2e-2, 2e-2);
    }
    snprintf(text, sizeof text, "%s, bf16", what);
    check_answer(&q, &have, want, text, 2e-2, nature == SMOOTH ? 2e-2 : 1);
    for (size_t i = 0; nature == DEEP && i < q.n_replicas; i++) {
        struct distance ours = distance(&q, &have, want, i), by_rounding = distance(&q, &twin, want, i);
        assert_true(ours.grads < 1.5 * by_rounding.grads && ours.worst < 1.5 * by_rounding.worst);
    }
    answer_release(&have);
    answer_release(&twin);
}

static inline void check_question(struct question q, const char *what, enum nature nature)
{
    struct answer want = ask(&engine_ref, &q);
    check_in_fp32(q, &want, what);
    check_in_bf16(q, &want, what, nature);
    answer_release(&want);
}

static inline void check_network(const struct network *n, struct shape input, size_t classes, size_t batch,
                                 size_t n_replicas, enum nature nature, const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    check_question((struct question){g, d, batch, n_replicas, PRECISION_FP32, seed, false, false}, what,
                   nature);
    random_dataset_free(d);
    graph_free(g);
}

/* The largest of several numbers is not continuous, so what is pooled here is exact in both precisions:
 * inputs of 0 and 1, weights of -1, 0, 1. */
static inline void check_exact_in_bf16(const struct network *n, struct shape input, size_t classes,
                                       size_t batch, const char *what, uint64_t seed)
{
    struct graph *g = net_build(n, input, classes);
    struct dataset *d = random_dataset(seed, input, classes, 50, 90);
    struct samples *sets[] = {&d->train, &d->test};
    for (int k = 0; k < 2; k++) {
        uint8_t *pixels = (uint8_t *)sets[k]->pixels;
        for (size_t i = 0; i < sets[k]->n * shape_size(input); i++)
            pixels[i] = pixels[i] < 128 ? 0 : 255;
        for (size_t c = 0; c < input.c; c++) {
            sets[k]->mean[c] = 0;
            sets[k]->deviation[c] = 1;
        }
    }
    struct question q = {g, d, batch, 3, PRECISION_BF16, seed, true, false};
    struct answer want = ask(&engine_ref, &q), have = ask(&engine_cuda, &q);
    check_answer(&q, &have, &want, what, 2e-2, 2e-2);
    answer_release(&have);
    answer_release(&want);
    random_dataset_free(d);
    graph_free(g);
}

#endif
