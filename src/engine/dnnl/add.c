/* add.c - y = a + b, relu; the last step of a batchnorm before it may be fused in.
 *
 * Backward both inputs have the same gradient, dy behind the relu. An input whose gradient was not begun yet
 * borrows the buffer it lies in; the other adds it to its own. Both may be one tensor, one after the other.
 */
#include "engine/dnnl/kernels.h"

static void add_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->fused ? u->fused->x[0] : u->x[0]);
    buffer_use(p, u->x[1]);
    buffer_use(p, u->y);
    if (u->fused)
        job_chunk(p, norm_apply_add_chunk, u);
    else
        job_chunk(p, add_chunk, u);
}

/* The gradient behind the relu, and the sums of the batchnorm fused into the add; gives the buffer it lies
 * in. */
static int add_mask(struct program *p, const struct op_unit *u)
{
    int own = p->grads[u->op->out];
    if (u->op->relu || u->fused) {
        buffer_use(p, u->dy);
        buffer_use(p, u->y);
        if (u->op->relu)
            buffer_use(p, own);
        if (u->fused) {
            buffer_use(p, u->fused->x[0]);
            job_chunk(p, norm_back_add_chunk, u);
        } else {
            job_chunk(p, relu_back_chunk, u);
        }
    }
    if (u->fused) {
        job_after(p, norm_finish_back, u->fused);
        u->fused->final_phase = p->n_phases;
    }
    return u->op->relu ? own : u->dy;
}

static void add_to_first_chunk(const struct task *t, const struct op_unit *u)
{
    add_two(&u->in, t->n, task_chunk(t, u->prior[0]), task_chunk(t, u->g), task_chunk(t, u->dx[0]));
}

static void add_to_second_chunk(const struct task *t, const struct op_unit *u)
{
    add_two(&u->in, t->n, task_chunk(t, u->prior[1]), task_chunk(t, u->g), task_chunk(t, u->dx[1]));
}

/* Both inputs have the same gradient: one that had none yet borrows the buffer, the other adds it to its own.
 */
static void add_backward(struct program *p, struct op_unit *u)
{
    u->g = add_mask(p, u);
    for (int k = 0; k < 2; k++) {
        if (!u->wanted[k])
            continue;
        if (!u->adds[k]) {
            p->now[u->op->in[k]] = u->g;
            continue;
        }
        if (k == 1 && u->op->in[0] == u->op->in[1])
            u->prior[1] = p->now[u->op->in[1]]; /* where the first one has left it */
        buffer_use(p, u->prior[k]);
        buffer_use(p, u->g);
        buffer_use(p, u->dx[k]);
        if (k == 0)
            job_chunk(p, add_to_first_chunk, u);
        else
            job_chunk(p, add_to_second_chunk, u);
        p->now[u->op->in[k]] = u->dx[k];
    }
}

const struct op_maker add_maker = {.forward = add_forward, .backward = add_backward, .takes_prior = true};
