/* question.h - the same lessons and exams for several engines, and how far their answers are apart.
 *
 *   struct question q = {.g = g, .data = d, .batch = 6, .n_replicas = 3, .seed = 5, .exam = 7};
 *   struct answer want = ask(&engine_ref, &q), have = ask(&engine_dnnl, &q);
 *   check_answer(&q, &have, &want, "lenet", 1e-4, 1e-4);
 *   answer_release(&have);
 *   answer_release(&want);
 *
 * Everything here asserts (cmocka) that it succeeds.
 */
#ifndef VECHE_TESTS_QUESTION_H
#define VECHE_TESTS_QUESTION_H

#include "support/network.h"

struct question {
    const struct graph *g;
    const struct dataset *data;
    size_t batch, n_replicas;
    size_t micro_batches; /* 0: the batch at once */
    enum precision precision; /* `ref` and its rounding twin compute in fp32 in any case */
    uint64_t seed;
    size_t exam;     /* samples in the exam of the first replica; the others' are of all lengths */
    size_t examined; /* replicas that take one, the first so many; 0: all. An engine may run 64 samples for any exam */
    int threads;
    bool exact; /* the first layer's weights are -1, 0 and 1 */
    bool calm;  /* no number comes near a relu's kink, where bf16 would fall on the other side */
};

struct answer { /* of all replicas */
    double *loss, *exam_loss;
    size_t *hits, *exam_hits;
    float *grads, *stats; /* [replica][...] */
};

/* Three lessons for every replica (the later ones must not see what the first left behind, and a graph of the
 * third is a replay), then an exam. */
struct answer ask(const struct engine_ops *ops, const struct question *q);
void answer_release(struct answer *a);

/* The steps of `ask`. Parameters and statistics have some noise, different for each replica. */
struct answer answer_new(const struct question *q);
struct engine *question_open(const struct engine_ops *ops, const struct question *q);
void question_write(const struct question *q, struct engine *e, size_t replica);
/* A lesson for every replica, the last one's first, so that seats and replicas differ; the caller frees. */
struct lesson *question_lessons(const struct question *q, uint64_t round, struct pick *picks);
void question_learn(const struct question *q, struct engine *e, uint64_t round, struct answer *a);

/* How far two spans are apart, against the length of the second. */
double apart(const float *a, const float *b, size_t n);
/* The same of the worst of the weights' gradients, each against its own length: a large one does not hide a
 * small one. Biases are left out: before a batchnorm their gradient is nothing but rounding. */
double worst_apart(const struct graph *g, const float *have, const float *want);

/* How far one replica's answer is from another's, each part against its own length. */
struct distance {
    double loss, exam, stats, grads, worst; /* grads: as a whole; worst: of a weight */
};
struct distance answer_distance(const struct question *q, const struct answer *have,
                                const struct answer *want, size_t replica);

/* Holds everything to `bound`, gradients to one of their own: as a whole, or, in a calm network, weight by
 * weight. */
void check_answer(const struct question *q, const struct answer *have, const struct answer *want,
                  const char *what, double bound, double of_grads);

/* What a network does with the little that bf16 rounds off. */
enum nature {
    SMOOTH, /* gives back about as much: gradients are those of `ref`                             */
    BENDS,  /* relus and pools: those of the rounding twin, which stands on the same side of kinks */
    DEEP    /* after many layers no two programs that round stand on the same side: gradients are as far from
               those of `ref` as the twin's are, and no further                                    */
};

/* An engine in both precisions: in fp32 to 1e-4 and with as many hits as `ref`; in bf16, where the processor
 * has it, to 2e-2, gradients as the network's nature allows. Engines round about where the twin does.
 */
void check_in_both(const struct engine_ops *ops, struct question q, const char *what, enum nature nature);

/* Not every processor computes in bf16; the engine says so when it is opened. */
#define NO_BF16 "this processor does not compute in bf16"
bool can_bf16(const struct engine_ops *ops, const struct question *q);

/* Whether an engine cannot be used here; says why, as its test is skipped. */
bool is_missing(const struct engine_ops *ops);

void *zeros(size_t n, size_t size); /* at least one; the caller frees */

#endif
