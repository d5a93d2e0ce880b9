/* loss.c - each sample's loss, whether it was a hit, and the gradient of the mean over the batch.
 *
 * The gradient is made together with the loss, so a loss has no jobs of its own backward. A hit is a sample
 * whose largest output is the label; of equal outputs the first counts as the largest.
 */
#include <math.h>

#include "engine/dnnl/kernels.h"

static size_t largest(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* Each gives the loss of a sample and turns its outputs x into d loss / d x. */
static double cross_entropy(float *x, size_t n, size_t label)
{
    double most = x[largest(x, n)], sum = 0, of_label = x[label];
    for (size_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    double log_sum = most + log(sum);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(exp(x[i] - log_sum) - (i == label));
    return log_sum - of_label;
}

static double mse(float *x, size_t n, size_t label)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (i == label);
        sum += d * d;
        x[i] = (float)(2 * d / (double)n);
    }
    return sum / (double)n;
}

static double hinge(float *x, size_t n, size_t label)
{
    double sum = 0, of_label = x[label];
    size_t n_inside = 0;
    for (size_t i = 0; i < n; i++) {
        double d = i == label ? 0 : 1 - of_label + x[i];
        bool inside = d > 0;
        sum += inside ? d : 0;
        n_inside += inside;
        x[i] = (float)(inside / (double)n);
    }
    x[label] = (float)(-(double)n_inside / (double)n);
    return sum / (double)n;
}

static double logistic(float *x, size_t n, size_t label)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double z = i == label ? x[i] : -(double)x[i];
        sum += fmax(0, -z) + log1p(exp(-fabs(z)));
        x[i] = (float)((1 / (1 + exp(-(double)x[i])) - (i == label)) / (double)n);
    }
    return sum / (double)n;
}

typedef double loss_fn(float *x, size_t n, size_t label);

static loss_fn *loss_of(enum op_kind kind)
{
    switch (kind) {
    case OP_MSE:
        return mse;
    case OP_HINGE:
        return hinge;
    case OP_LOGISTIC:
        return logistic;
    default:
        return cross_entropy;
    }
}

static void loss_chunk(const struct task *t, const struct op_unit *u)
{
    const struct program *p = t->program;
    const struct frame *f = t->frame;
    struct result *r = (struct result *)task_kept(t, p->results) + t->index;
    loss_fn *loss = loss_of(u->op->kind);
    float *x = task_kept(t, p->flat);
    size_t n = shape_size(u->in.shape);
    *r = (struct result){0};
    for (size_t i = t->first; i < t->first + t->n && i < f->counted; i++) {
        size_t label = f->samples->labels[f->picks[i].sample];
        layout_unpack(&u->in, task_at(t, u->x[0], i), x);
        r->hits += largest(x, n) == label;
        r->loss += loss(x, n, label);
        if (!p->is_learning || !u->wanted[0])
            continue;
        for (size_t k = 0; k < n; k++)
            x[k] /= (float)p->setup->batch;
        layout_pack(&u->in, x, task_at(t, u->dx[0], i));
    }
}

static void loss_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->dx[0]);
    job_chunk(p, loss_chunk, u);
}

const struct op_maker loss_maker = {.forward = loss_forward};
