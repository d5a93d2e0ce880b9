/* drop.c - ops from which no path leads to the loss go, with their tensors, parameters and statistics.
 *
 * Law: nothing that stays reads what goes, so it keeps all its bits. Parameters that go had no gradient, ever; those that
 * stay keep their order, names and starts. Gaps in the numbering are closed.
 *
 * Most of what goes here has lost its readers to another pass. A list of layers has none that nobody reads: it would be refused
 * (names.h), since that is more often a name mistyped than a wish.
 */
#include "graph/passes/passes.h"

#include "base/text.h"

enum { GOES = -1 };

struct numbering { /* per op, ...: its number among those that stay, or GOES */
    int *ops, *tensors, *params, *stats;
};

static int *all_go(struct arena *arena, size_t n)
{
    int *numbers = ARENA_NEW(arena, int, n);
    for (size_t i = 0; numbers && i < n; i++)
        numbers[i] = GOES;
    return numbers;
}

/* From the loss back. Until they are numbered what stays is marked with 0. */
static size_t find_staying(const struct graph *g, struct numbering *stays)
{
    size_t n = 0;
    for (size_t i = g->n_ops; i-- > 0;) {
        const struct op *op = &g->ops[i];
        if (op->out >= 0 && stays->tensors[op->out] == GOES)
            continue;
        n++;
        stays->ops[i] = 0;
        for (int k = 0; k < 2 && op->in[k] >= 0; k++)
            stays->tensors[op->in[k]] = 0;
        if (op->weight >= 0)
            stays->params[op->weight] = 0;
        if (op->bias >= 0)
            stays->params[op->bias] = 0;
        if (op->mean >= 0)
            stays->stats[op->mean] = stays->stats[op->var] = 0;
    }
    stays->tensors[0] = 0; /* the samples, read or not */
    return n;
}

static bool is_noted(const struct graph *g, const struct op *op)
{
    for (size_t i = 0; i < g->n_gone; i++)
        if (text_is(g->gone[i].name, op->name))
            return true;
    return false;
}

static void note_unread(struct graph *g, const struct numbering *stays)
{
    for (size_t i = 0; i < g->n_ops; i++)
        if (stays->ops[i] == GOES && !is_noted(g, &g->ops[i]))
            g->gone[g->n_gone++] = (struct gone){.pass = DROP_PASS, .name = g->ops[i].name};
}

static void close_params(struct param *list, size_t *n, size_t *size, int *numbers)
{
    size_t n_before = *n;
    *n = *size = 0;
    for (size_t i = 0; i < n_before; i++) {
        if (numbers[i] == GOES)
            continue;
        numbers[i] = (int)*n;
        list[*n] = list[i];
        list[*n].offset = *size;
        *size += list[(*n)++].size;
    }
}

static int renumbered(const int *numbers, int i)
{
    return i < 0 ? i : numbers[i];
}

/* An op's tensor has its place among tensors as the op among ops. */
static void close_ops(struct graph *g, const struct numbering *stays)
{
    size_t n_before = g->n_ops;
    g->n_ops = 0;
    g->n_tensors = 1;
    for (size_t i = 0; i < n_before; i++) {
        if (stays->ops[i] == GOES)
            continue;
        struct op op = g->ops[i];
        for (int k = 0; k < 2; k++)
            op.in[k] = renumbered(stays->tensors, op.in[k]);
        if (op.out >= 0) {
            struct tensor out = g->tensors[op.out];
            out.producer = (int)g->n_ops;
            stays->tensors[op.out] = (int)g->n_tensors;
            op.out = (int)g->n_tensors;
            g->tensors[g->n_tensors++] = out;
        }
        op.weight = renumbered(stays->params, op.weight);
        op.bias = renumbered(stays->params, op.bias);
        op.mean = renumbered(stays->stats, op.mean);
        op.var = renumbered(stays->stats, op.var);
        g->ops[g->n_ops++] = op;
    }
}

static fault drop(struct graph *g, struct arena *arena)
{
    struct numbering stays = {all_go(arena, g->n_ops), all_go(arena, g->n_tensors),
                              all_go(arena, g->n_params), all_go(arena, g->n_stats)};
    if (!stays.ops || !stays.tensors || !stays.params || !stays.stats)
        return OUT_OF_MEMORY;
    if (find_staying(g, &stays) == g->n_ops)
        return OK;
    note_unread(g, &stays);
    close_params(g->params, &g->n_params, &g->size, stays.params);
    close_params(g->stats, &g->n_stats, &g->stats_size, stays.stats);
    close_ops(g, &stays);
    return OK;
}

fault pass_drop(struct graph *g)
{
    struct arena arena = {0};
    fault f = drop(g, &arena);
    arena_release(&arena);
    return f;
}
