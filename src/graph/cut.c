/* cut.c - see cut.h: the crossings first, then part by part its ops in the whole's order.
 *
 * A send stands where the first of its readers stands in the whole. So gradients that come back are added in the
 * whole's order by the same rule as all others: backward goes from the last op to the first.
 */
#include "graph/cut.h"

#include <string.h>

#include "graph/build.h"

enum { NOWHERE = -1 };

struct pair {   /* a send and its receive */
    int tensor; /* of the whole           */
    size_t from, to;
    size_t before;        /* the op of the whole before which both stand: the first reader */
    size_t send, receive; /* indices among the crossings of both parts */
};

struct cutting {
    const struct graph *whole;
    const size_t *part_of;
    size_t n_parts;
    struct arena arena; /* owned: what follows */
    struct pair *pairs;
    size_t n_pairs;
    int (*pair_of)[2]; /* [ops][inputs]: through which pair an input comes, or NOWHERE */
};

static bool reads(const struct op *op, int tensor)
{
    return op->kind != OP_RECEIVE && (op->in[0] == tensor || op->in[1] == tensor);
}

static size_t part_of_tensor(const struct cutting *c, int tensor)
{
    return c->part_of[c->whole->tensors[tensor].producer];
}

/* All readers of a tensor, the last first: a run at the end that lies in one part shares a pair, all others have their own. */
static void pair_readers(struct cutting *c, int tensor)
{
    struct pair *pair = NULL;
    size_t from = part_of_tensor(c, tensor);
    bool at_end = true;
    for (size_t i = c->whole->n_ops; i-- > 0;) {
        const struct op *op = &c->whole->ops[i];
        if (!reads(op, tensor))
            continue;
        size_t to = c->part_of[i];
        at_end = at_end && (!pair || pair->to == to) && to != from;
        if (to != from && !(at_end && pair)) {
            pair = &c->pairs[c->n_pairs++];
            *pair = (struct pair){.tensor = tensor, .from = from, .to = to};
        }
        for (int k = 0; k < 2 && to != from; k++)
            if (op->in[k] == tensor)
                c->pair_of[i][k] = (int)(pair - c->pairs);
        if (to != from)
            pair->before = i;
    }
}

static fault check_cut(const struct graph *whole, const size_t *part_of, size_t n)
{
    for (size_t i = 0; i < whole->n_ops; i++) {
        const struct op *op = &whole->ops[i];
        if (part_of[i] >= n)
            return FAIL(FAULT_USAGE, "layer '%s' is to go to part %zu, but there are %zu parts", op->name,
                        part_of[i], n);
        for (int k = 0; k < 2; k++) {
            int from = op->in[k] > 0 ? whole->tensors[op->in[k]].producer : NOWHERE;
            if (from != NOWHERE && part_of[from] > part_of[i])
                return FAIL(FAULT_USAGE,
                            "layer '%s' of part %zu reads '%s' of part %zu: nothing may flow back", op->name,
                            part_of[i], whole->ops[from].name, part_of[from]);
        }
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;
        while (i < whole->n_ops && part_of[i] != k)
            i++;
        if (i == whole->n_ops)
            return FAIL(FAULT_USAGE, "part %zu of the network has no layers", k);
    }
    return OK;
}

static fault find_pairs(struct cutting *c)
{
    size_t n_ops = c->whole->n_ops;
    c->pairs = ARENA_NEW(&c->arena, struct pair, 2 * n_ops);
    c->pair_of = (int(*)[2])ARENA_NEW(&c->arena, int, 2 * n_ops);
    if (!c->pairs || !c->pair_of)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n_ops; i++)
        c->pair_of[i][0] = c->pair_of[i][1] = NOWHERE;
    for (size_t t = 1; t < c->whole->n_tensors; t++)
        pair_readers(c, (int)t);
    return OK;
}

struct growing { /* a part */
    struct graph *g;
    size_t index;
    int *tensor;   /* per tensor of the whole: the part's own, or NOWHERE */
    int *received; /* per pair: the tensor that it came in as, or NOWHERE */
};

static fault start_part(struct cutting *c, size_t index, struct growing *out)
{
    struct arena arena = {0};
    struct graph *g = ARENA_NEW(&arena, struct graph, 1);
    if (!g)
        return OUT_OF_MEMORY;
    const struct graph *w = c->whole;
    *g =
        (struct graph){.arena = arena, .whole = w, .name = w->name, .input = w->input, .classes = w->classes};
    size_t most = w->n_ops + c->n_pairs;
    g->ops = ARENA_NEW(&g->arena, struct op, most);
    g->tensors = ARENA_NEW(&g->arena, struct tensor, most + 1);
    g->params = ARENA_NEW(&g->arena, struct param, w->n_params);
    g->stats = ARENA_NEW(&g->arena, struct param, w->n_stats);
    g->sends = ARENA_NEW(&g->arena, struct crossing, c->n_pairs);
    g->receives = ARENA_NEW(&g->arena, struct crossing, c->n_pairs);
    *out = (struct growing){.g = g, .index = index};
    out->tensor = ARENA_NEW(&c->arena, int, w->n_tensors);
    out->received = ARENA_NEW(&c->arena, int, c->n_pairs);
    if (!g->ops || !g->tensors || !g->params || !g->stats || !g->sends || !g->receives || !out->tensor ||
        !out->received) {
        graph_free(g);
        return OUT_OF_MEMORY;
    }
    memset(out->tensor, NOWHERE, w->n_tensors * sizeof *out->tensor);
    memset(out->received, NOWHERE, c->n_pairs * sizeof *out->received);
    g->tensors[g->n_tensors++] = w->tensors[0];
    out->tensor[0] = 0;
    return OK;
}

static int add_tensor(struct growing *p, const struct graph *whole, int tensor)
{
    struct graph *g = p->g;
    g->tensors[g->n_tensors] = whole->tensors[tensor];
    g->tensors[g->n_tensors].producer = (int)g->n_ops;
    return (int)g->n_tensors++;
}

static int add_param(const struct param *from, int index, struct param *list, size_t *n, size_t *size)
{
    if (index < 0)
        return -1;
    list[*n] = from[index];
    list[*n].offset = *size;
    *size += list[*n].size;
    return (int)(*n)++;
}

/* Parameters stay in the whole's order, which is that of the ops. */
static void add_op(struct cutting *c, struct growing *p, size_t i)
{
    const struct graph *w = c->whole;
    const struct op *op = &w->ops[i];
    struct graph *g = p->g;
    struct op copy = *op;
    for (int k = 0; k < 2 && op->in[k] >= 0; k++)
        copy.in[k] = c->pair_of[i][k] == NOWHERE ? p->tensor[op->in[k]] : p->received[c->pair_of[i][k]];
    if (op->out >= 0)
        copy.out = p->tensor[op->out] = add_tensor(p, w, op->out);
    copy.weight = add_param(w->params, op->weight, g->params, &g->n_params, &g->size);
    copy.bias = add_param(w->params, op->bias, g->params, &g->n_params, &g->size);
    copy.mean = add_param(w->stats, op->mean, g->stats, &g->n_stats, &g->stats_size);
    copy.var = add_param(w->stats, op->var, g->stats, &g->n_stats, &g->stats_size);
    g->ops[g->n_ops++] = copy;
}

static struct op crossing_op(enum op_kind kind, const char *name, size_t number, size_t crossing)
{
    struct op op = {.kind = kind, .name = name, .number = number, .in = {0, -1}, .out = -1};
    op.weight = op.bias = op.mean = op.var = -1;
    op.crossing = (int)crossing;
    return op;
}

/* Where the values of a tensor lie that has crossed before, else behind all others. */
static size_t place_values(const struct graph *g, const struct crossing *list, size_t n, int tensor,
                           size_t size, size_t *end)
{
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &g->ops[list[i].op];
        int other = op->kind == OP_SEND ? op->in[0] : op->out;
        if (g->tensors[other].whole == tensor)
            return list[i].at;
    }
    *end += size;
    return *end - size;
}

static size_t place_gradient(const struct graph *whole, int tensor, size_t size, size_t *end)
{
    if (!whole->tensors[tensor].learns)
        return NOT_LEARNT;
    *end += size;
    return *end - size;
}

static fault add_send(struct cutting *c, struct growing *p, struct pair *pair)
{
    struct graph *g = p->g;
    size_t number = (size_t)c->whole->tensors[pair->tensor].producer;
    const char *name = arena_printf(&g->arena, "%s to part %zu", c->whole->ops[number].name, pair->to);
    if (!name)
        return OUT_OF_MEMORY;
    size_t size = shape_size(c->whole->tensors[pair->tensor].shape);
    struct crossing send = {.op = (int)g->n_ops, .part = pair->to, .size = size};
    send.at = place_values(g, g->sends, g->n_sends, pair->tensor, size, &g->output_size);
    send.at_grad = place_gradient(c->whole, pair->tensor, size, &g->output_grad_size);
    struct op op = crossing_op(OP_SEND, name, number, g->n_sends);
    op.in[0] = p->tensor[pair->tensor];
    g->ops[g->n_ops++] = op;
    pair->send = g->n_sends;
    g->sends[g->n_sends++] = send;
    return OK;
}

static fault add_receive(struct cutting *c, struct growing *p, struct pair *pair)
{
    struct graph *g = p->g;
    size_t number = (size_t)c->whole->tensors[pair->tensor].producer;
    const char *name = arena_printf(&g->arena, "%s from part %zu", c->whole->ops[number].name, pair->from);
    if (!name)
        return OUT_OF_MEMORY;
    size_t size = shape_size(c->whole->tensors[pair->tensor].shape);
    struct crossing receive = {.op = (int)g->n_ops, .part = pair->from, .size = size};
    receive.at = place_values(g, g->receives, g->n_receives, pair->tensor, size, &g->input_size);
    receive.at_grad = place_gradient(c->whole, pair->tensor, size, &g->input_grad_size);
    struct op op = crossing_op(OP_RECEIVE, name, number, g->n_receives);
    op.out = p->received[pair - c->pairs] = add_tensor(p, c->whole, pair->tensor);
    g->ops[g->n_ops++] = op;
    pair->receive = g->n_receives;
    g->receives[g->n_receives++] = receive;
    return OK;
}

static fault fill_part(struct cutting *c, struct growing *p)
{
    for (size_t i = 0; i < c->whole->n_ops; i++) {
        for (size_t k = 0; k < c->n_pairs; k++) {
            struct pair *pair = &c->pairs[k];
            if (pair->before == i && pair->from == p->index)
                TRY(add_send(c, p, pair));
            if (pair->before == i && pair->to == p->index)
                TRY(add_receive(c, p, pair));
        }
        if (c->part_of[i] == p->index)
            add_op(c, p, i);
    }
    graph_count_uses(p->g);
    graph_count_flops(p->g);
    return OK;
}

static fault make_part(struct cutting *c, size_t index, struct graph **out)
{
    struct growing p;
    TRY(start_part(c, index, &p));
    fault f = fill_part(c, &p);
    if (f)
        graph_free(p.g);
    else
        *out = p.g;
    return f;
}

/* Each end learns where the other is. */
static void join_ends(struct cutting *c, struct graph **parts)
{
    for (size_t k = 0; k < c->n_pairs; k++) {
        const struct pair *pair = &c->pairs[k];
        parts[pair->from]->sends[pair->send].other = pair->receive;
        parts[pair->to]->receives[pair->receive].other = pair->send;
    }
}

static fault cut(struct cutting *c, struct graph **parts)
{
    TRY(find_pairs(c));
    for (size_t k = 0; k < c->n_parts; k++) {
        fault f = make_part(c, k, &parts[k]);
        while (f && k-- > 0)
            graph_free(parts[k]);
        TRY(f);
    }
    join_ends(c, parts);
    return OK;
}

fault graph_cut(const struct graph *whole, const size_t *part_of, size_t n, struct graph **parts)
{
    TRY(check_cut(whole, part_of, n));
    struct cutting c = {.whole = whole, .part_of = part_of, .n_parts = n};
    fault f = cut(&c, parts);
    arena_release(&c.arena);
    return f;
}

size_t graph_cut_at(const struct graph *g, const char *layer)
{
    size_t n = strlen(layer), within = g->n_ops;
    for (size_t i = g->n_ops; i-- > 0;) {
        const char *name = g->ops[i].name;
        if (strcmp(name, layer) == 0)
            return i;
        if (strncmp(name, layer, n) == 0 && name[n] == '.')
            within = i;
    }
    return within;
}
