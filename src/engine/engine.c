/* engine.c - the engines one may name, and opening one. The only place that asks what this build has. */
#include "engine/engine.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

#ifdef VECHE_HAS_DNNL
#define DNNL_ROW .row = &engine_dnnl
#else
#define DNNL_ROW .missing = "this veche was built without oneDNN"
#endif

static const struct kind rows[] = {
    {.name = "auto", .help = "the first below that can be used"},
    {.name = "dnnl", .help = "oneDNN on the processor's cores", DNNL_ROW},
    {.name = "ref", .help = "naive loops: slow, the judge of the others", .row = &engine_ref},
    {.name = "null", .help = "computes nothing: to measure everything else", .row = &engine_null},
};

const struct kinds engine_kinds = {.rows = rows, .n = COUNT(rows)};

static bool can_be_used(const struct kind *k)
{
    return k->row && !k->missing;
}

fault engine_choose(const struct kind *kind, const struct engine_ops **out)
{
    if (kind == &rows[0])
        while (!can_be_used(kind))
            kind++;
    if (!can_be_used(kind))
        return FAIL(FAULT_ENGINE, "engine '%s' cannot be used: %s", kind->name, kind->missing);
    *out = kind->row;
    return OK;
}

fault engine_open(const struct kind *kind, const struct engine_setup *setup, struct engine **out)
{
    const struct engine_ops *ops;
    TRY(engine_choose(kind, &ops));
    return ops->open(setup, out);
}

void engine_close(struct engine *e)
{
    if (e)
        e->ops->close(e);
}

size_t row_size(const struct engine_setup *setup, enum row row)
{
    size_t n_slots = setup->optim ? optim_row(setup->optim)->n_slots : 0;
    switch (row) {
    case ROW_PARAMS:
    case ROW_GRADS:
        return setup->graph->size;
    case ROW_STATS:
        return setup->graph->stats_size;
    case ROW_SLOT0:
        return n_slots > 0 ? setup->graph->size : 0;
    case ROW_SLOT1:
        return n_slots > 1 ? setup->graph->size : 0;
    case ROW_KEEP0:
        return setup->n_keep > 0 ? setup->graph->size : 0;
    case ROW_KEEP1:
        return setup->n_keep > 1 ? setup->graph->size : 0;
    case N_ROWS:
        break;
    }
    return 0;
}
