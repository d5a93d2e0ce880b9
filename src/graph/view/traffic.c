/* traffic.c - what each part has, and what crosses between them, as graph_cut has it. */
#include "graph/build.h"
#include "graph/cut.h"
#include "graph/view/view.h"

size_t view_floats(const struct graph *g)
{
    size_t n = 0;
    for (size_t t = 1; t < g->n_tensors; t++)
        n += shape_size(g->tensors[t].shape);
    return n;
}

static struct crossed *find_crossed(struct traffic *t, int tensor, size_t to)
{
    for (size_t i = 0; i < t->n_crossed; i++)
        if (t->crossed[i].tensor == tensor && t->crossed[i].to == to)
            return &t->crossed[i];
    return NULL;
}

static void add_sends(struct traffic *t, const struct graph *part, size_t from)
{
    for (size_t i = 0; i < part->n_sends; i++) {
        const struct crossing *send = &part->sends[i];
        int tensor = part->tensors[part->ops[send->op].in[0]].whole;
        struct crossed *c = find_crossed(t, tensor, send->part);
        if (!c) {
            c = &t->crossed[t->n_crossed++];
            *c = (struct crossed){tensor, from, send->part, send->size, 0};
        }
        c->floats_back += send->at_grad == NOT_LEARNT ? 0 : send->size;
    }
}

static fault collect(const struct network_view *v, struct graph *const *parts, struct arena *arena,
                     struct traffic *out)
{
    struct traffic t = {0};
    size_t n_sends = 0;
    for (size_t k = 0; k < v->n_parts; k++)
        n_sends += parts[k]->n_sends;
    t.parts = ARENA_NEW(arena, struct part_load, v->n_parts);
    t.crossed = ARENA_NEW(arena, struct crossed, n_sends);
    if (!t.parts || !t.crossed)
        return OUT_OF_MEMORY;
    for (size_t i = v->g->n_ops; i-- > 0;) {
        t.parts[v->part_of[i]].first_op = i;
        t.parts[v->part_of[i]].n_ops++;
    }
    for (size_t k = 0; k < v->n_parts; k++) {
        t.parts[k].parameters = parts[k]->size;
        t.parts[k].flops_forward = parts[k]->flops_forward;
        add_sends(&t, parts[k], k);
    }
    *out = t;
    return OK;
}

fault traffic_find(const struct network_view *v, struct arena *arena, struct traffic *out)
{
    if (!v->part_of) {
        *out = (struct traffic){0};
        return OK;
    }
    struct graph **parts = ARENA_NEW(arena, struct graph *, v->n_parts);
    if (!parts)
        return OUT_OF_MEMORY;
    TRY(graph_cut(v->g, v->part_of, v->n_parts, parts));
    fault f = collect(v, parts, arena, out);
    for (size_t k = 0; k < v->n_parts; k++)
        graph_free(parts[k]);
    return f;
}
