/* losses.cu - what is minimised, its gradient, and the hits; the twins of engine/ref/losses.c.
 *
 * Forward is one block for each seat: a thread takes whole samples, and the samples' losses are added in a tree of
 * fixed shape. A loss has few numbers, so all of it is computed in double.
 */
#include "engine/cuda/device.cuh"

enum loss_kind { CROSS_ENTROPY, MSE, HINGE, LOGISTIC };
enum { LOSS_THREADS = 128 };

static __device__ uint32_t largest(struct numbers x, size_t first, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (get(x, first + i) > get(x, first + best))
            best = i;
    return best;
}

static __device__ double log_sum_exp(struct numbers x, size_t first, uint32_t n)
{
    double most = get(x, first + largest(x, first, n)), sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(get(x, first + i) - most);
    return most + log(sum);
}

static __device__ double sample_loss(enum loss_kind kind, struct numbers x, size_t first, uint32_t classes,
                                     uint32_t label)
{
    double sum = 0, of_label = get(x, first + label);
    if (kind == CROSS_ENTROPY)
        return log_sum_exp(x, first, classes) - of_label;
    for (uint32_t i = 0; i < classes; i++) {
        double value = get(x, first + i), d = value - (double)(i == label);
        double z = i == label ? value : -value;
        if (kind == MSE)
            sum += d * d;
        else if (kind == HINGE)
            sum += i == label ? 0 : fmax(0.0, 1 - of_label + value);
        else
            sum += fmax(0.0, -z) + log1p(exp(-fabs(z)));
    }
    return sum / classes;
}

static __device__ double hinge_slope(struct numbers x, size_t first, uint32_t classes, uint32_t label,
                                     uint32_t i)
{
    double inside = 0, of_label = get(x, first + label);
    if (i != label)
        return 1 - of_label + get(x, first + i) > 0;
    for (uint32_t k = 0; k < classes; k++)
        inside += k != label && 1 - of_label + get(x, first + k) > 0;
    return -inside;
}

/* d loss / d x[i] of one sample */
static __device__ double sample_slope(enum loss_kind kind, struct numbers x, size_t first, uint32_t classes,
                                      uint32_t label, uint32_t i)
{
    double value = get(x, first + i), hit = i == label;
    if (kind == CROSS_ENTROPY)
        return exp(value - log_sum_exp(x, first, classes)) - hit;
    if (kind == MSE)
        return 2 * (value - hit) / classes;
    if (kind == HINGE)
        return hinge_slope(x, first, classes, label, i) / classes;
    return (1 / (1 + exp(-value)) - hit) / classes;
}

static __device__ void forward(const struct call *c, enum loss_kind kind)
{
    __shared__ double losses[LOSS_THREADS];
    __shared__ uint32_t hits[LOSS_THREADS];
    struct numbers x = at_seat(c->seats, c->x[0], c->in, c->batch);
    const uint16_t *labels = labels_at_seat(c->seats, c->labels, c->batch);
    uint32_t classes = size_of(c->in), counted = my_seat(c).counted, me = threadIdx.x;
    losses[me] = 0;
    hits[me] = 0;
    for (uint32_t n = me; n < counted; n += LOSS_THREADS) {
        losses[me] += sample_loss(kind, x, n * (size_t)classes, classes, labels[n]);
        hits[me] += largest(x, n * (size_t)classes, classes) == labels[n];
    }
    for (uint32_t half = LOSS_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) {
            losses[me] += losses[me + half];
            hits[me] += hits[me + half];
        }
    }
    if (me == 0) {
        c->outcomes[blockIdx.z].loss = losses[0];
        c->outcomes[blockIdx.z].hits = hits[0];
    }
}

static __device__ void backward(const struct call *c, enum loss_kind kind)
{
    struct numbers x = at_seat(c->seats, c->x[0], c->in, c->batch), dx = at_seat(c->seats, c->dx[0], c->in, c->batch);
    const uint16_t *labels = labels_at_seat(c->seats, c->labels, c->batch);
    uint32_t classes = size_of(c->in);
    for (size_t i = my_first(); i < (size_t)c->batch * classes; i += my_step()) {
        size_t n = i / classes;
        put(dx, i, (float)(sample_slope(kind, x, n * classes, classes, labels[n], i % classes) / c->of));
    }
}

#define LOSS(name, kind)                                                                                     \
    extern "C" __global__ void name##_forward(struct call c)                                                 \
    {                                                                                                        \
        forward(&c, kind);                                                                                   \
    }                                                                                                        \
    extern "C" __global__ void name##_backward(struct call c)                                                \
    {                                                                                                        \
        backward(&c, kind);                                                                                  \
    }

LOSS(cross_entropy, CROSS_ENTROPY)
LOSS(mse, MSE)
LOSS(hinge, HINGE)
LOSS(logistic, LOGISTIC)
