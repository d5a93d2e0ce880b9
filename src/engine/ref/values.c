/* values.c - the ops that work number by number: add, concat, relu, tanh, sigmoid, dropout, reshape; and those that
 * carry numbers to other parts and from there. */
#include <math.h>

#include "engine/host.h"
#include "engine/ref/ref.h"

static size_t n_values(const struct ref_call *c)
{
    return c->batch * shape_size(c->in);
}

static void add_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++) {
        double sum = (double)c->x[0][i] + c->x[1][i];
        c->y[i] = (real)(c->op->relu && sum < 0 ? 0 : sum);
    }
}

static void add_backward(struct ref_call *c)
{
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; c->dx[k] && i < n_values(c); i++)
            ref_put(c, k, i, c->op->relu && !(c->y[i] > 0) ? 0 : c->dy[i]);
}

const struct ref_row ref_add = {add_forward, add_backward};

/* The shape of the second input of a concat. */
static struct shape second_of(const struct ref_call *c)
{
    return (struct shape){c->out.c - c->in.c, c->in.h, c->in.w};
}

static void concat_forward(struct ref_call *c)
{
    size_t first = shape_size(c->in), second = shape_size(second_of(c));
    for (size_t n = 0; n < c->batch; n++) {
        real *y = c->y + n * (first + second);
        for (size_t i = 0; i < first; i++)
            y[i] = c->x[0][n * first + i];
        for (size_t i = 0; i < second; i++)
            y[first + i] = c->x[1][n * second + i];
    }
}

static void concat_backward(struct ref_call *c)
{
    size_t first = shape_size(c->in), second = shape_size(second_of(c));
    for (size_t n = 0; n < c->batch; n++) {
        const real *dy = c->dy + n * (first + second);
        for (size_t i = 0; c->dx[0] && i < first; i++)
            ref_put(c, 0, n * first + i, dy[i]);
        for (size_t i = 0; c->dx[1] && i < second; i++)
            ref_put(c, 1, n * second + i, dy[first + i]);
    }
}

const struct ref_row ref_concat = {concat_forward, concat_backward};

static void relu_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->y[i] = c->x[0][i] < 0 ? 0 : c->x[0][i];
}

static void relu_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->y[i] > 0 ? c->dy[i] : 0);
}

const struct ref_row ref_relu = {relu_forward, relu_backward};

static void tanh_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->y[i] = (real)tanh(c->x[0][i]);
}

static void tanh_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->dy[i] * (1 - (double)c->y[i] * c->y[i]));
}

const struct ref_row ref_tanh = {tanh_forward, tanh_backward};

static void sigmoid_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->y[i] = (real)(1 / (1 + exp(-(double)c->x[0][i])));
}

static void sigmoid_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->dy[i] * ((double)c->y[i] * (1 - (double)c->y[i])));
}

const struct ref_row ref_sigmoid = {sigmoid_forward, sigmoid_backward};

/* What a number is multiplied with while learning: 0 or 1 / (1 - rate), by a hash of its
 * position in the whole batch. */
static double dropout_factor(const struct ref_call *c, size_t i)
{
    if (!c->learning)
        return 1;
    i += c->at.first * shape_size(c->in);
    return dropout_keeps(c->key, c->op->rate, i) ? 1 / (1 - c->op->rate) : 0;
}

static void dropout_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->y[i] = (real)(c->x[0][i] * dropout_factor(c, i));
}

static void dropout_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->dy[i] * dropout_factor(c, i));
}

const struct ref_row ref_dropout = {dropout_forward, dropout_backward};

static void reshape_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->y[i] = c->x[0][i];
}

static void reshape_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->dy[i]);
}

const struct ref_row ref_reshape = {reshape_forward, reshape_backward};

static void send_forward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        c->values[i] = c->x[0][i];
}

static void send_backward(struct ref_call *c)
{
    for (size_t i = 0; i < n_values(c); i++)
        ref_put(c, 0, i, c->slopes[i]);
}

const struct ref_row ref_send = {send_forward, send_backward};

static void receive_forward(struct ref_call *c)
{
    for (size_t i = 0; i < c->batch * shape_size(c->out); i++)
        c->y[i] = c->values[i];
}

static void receive_backward(struct ref_call *c)
{
    for (size_t i = 0; i < c->batch * shape_size(c->out); i++)
        c->slopes[i] = c->dy[i];
}

const struct ref_row ref_receive = {receive_forward, receive_backward};
