/* cross.c - what crosses between parts of a network: floats in [sample][c][h][w] order in the replica's rows. */
#include "engine/dnnl/program.h"

static float *crossing_sample(const struct task *t, enum row row, size_t at, size_t size, size_t sample)
{
    return t->frame->crossing[row - ROW_INPUTS] + at * micro_most(t->program->setup) + sample * size;
}

static void send_chunk(const struct task *t, const struct op_unit *u)
{
    const struct crossing *x = &t->program->setup->graph->sends[u->op->crossing];
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_unpack(&u->in, task_at(t, u->x[0], i), crossing_sample(t, ROW_OUTPUTS, x->at, x->size, i));
}

static void send_back_chunk(const struct task *t, const struct op_unit *u)
{
    const struct crossing *x = &t->program->setup->graph->sends[u->op->crossing];
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_pack(&u->in, crossing_sample(t, ROW_OUTPUT_GRADS, x->at_grad, x->size, i),
                    task_at(t, u->dx[0], i));
}

static void send_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    job_chunk(p, send_chunk, u);
}

static void send_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dx[0]);
    job_chunk(p, send_back_chunk, u);
}

const struct op_maker send_maker = {.forward = send_forward, .backward = send_backward};

static void receive_chunk(const struct task *t, const struct op_unit *u)
{
    const struct crossing *x = &t->program->setup->graph->receives[u->op->crossing];
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_pack(&u->out, crossing_sample(t, ROW_INPUTS, x->at, x->size, i), task_at(t, u->y, i));
}

static void receive_back_chunk(const struct task *t, const struct op_unit *u)
{
    const struct crossing *x = &t->program->setup->graph->receives[u->op->crossing];
    for (size_t i = t->first; i < t->first + t->n; i++)
        layout_unpack(&u->out, task_at(t, u->dy, i),
                      crossing_sample(t, ROW_INPUT_GRADS, x->at_grad, x->size, i));
}

static void receive_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->y);
    job_chunk(p, receive_chunk, u);
}

static void receive_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dy);
    job_chunk(p, receive_back_chunk, u);
}

const struct op_maker receive_maker = {.forward = receive_forward, .backward = receive_backward};
