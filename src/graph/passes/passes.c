/* passes.c - see passes.h: the passes in turn, and a list of what they took out. */
#include "graph/passes/passes.h"

const char *const pass_names[N_GRAPH_PASSES] = {"identities", "merge", "fuse", "drop"};

static void note(struct graph *g, enum graph_pass pass, const char *name, const char *instead)
{
    g->gone[g->n_gone++] = (struct gone){pass, name, instead};
}

void pass_replace(struct graph *g, enum graph_pass pass, const struct op *op, int by)
{
    int producer = g->tensors[by].producer;
    for (size_t i = 0; i < g->n_ops; i++)
        for (int k = 0; k < 2; k++)
            if (g->ops[i].in[k] == op->out)
                g->ops[i].in[k] = by;
    note(g, pass, op->name, producer < 0 ? "input" : g->ops[producer].name);
}

static fault run_each(struct graph *g, unsigned which)
{
    static void (*const passes[])(struct graph *) = {
        [IDENTITIES_PASS] = pass_identities, [MERGE_PASS] = pass_merge, [FUSE_PASS] = pass_fuse};
    TRY(pass_drop(g));
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
        if (!(which & 1u << k))
            continue;
        graph_count_uses(g);
        passes[k](g);
        TRY(pass_drop(g));
    }
    return OK;
}

fault passes_run(struct graph *g, unsigned which)
{
    if (!g->gone) /* an op goes once */
        g->gone = ARENA_NEW(&g->arena, struct gone, g->n_ops);
    if (!g->gone)
        return OUT_OF_MEMORY;
    size_t before;
    do {
        before = g->n_gone;
        TRY(run_each(g, which));
    } while (g->n_gone > before);
    graph_finish(g);
    return OK;
}

void pass_tell(const struct gone *gone, FILE *to)
{
    static const char *const words[N_GRAPH_PASSES] = {"gives what it reads; its readers read",
                                                      "computes the same as", "is computed by"};
    if (gone->pass == DROP_PASS)
        fprintf(to, "%s is read by no op", gone->name);
    else
        fprintf(to, "%s %s %s", gone->name, words[gone->pass], gone->instead);
}
