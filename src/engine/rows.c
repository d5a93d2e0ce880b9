/* rows.c - see rows.h. */
#include "engine/rows.h"

#include <assert.h>

#include "base/text.h"

static void put(struct rows *rows, enum row row, struct row_entry entry)
{
    rows->of[row] = entry;
    rows->n = row + 1 > rows->n ? row + 1 : rows->n;
}

struct rows rows_of(const struct graph *g, const struct optim_settings *optim)
{
    struct rows rows = {.n = 0};
    put(&rows, ROW_PARAMS, (struct row_entry){.name = "parameters", .size = g->size, .like = LIKE_PARAMS});
    put(&rows, ROW_GRADS, (struct row_entry){.name = "gradient", .size = g->size, .like = LIKE_PARAMS});
    put(&rows, ROW_STATS,
        (struct row_entry){.name = "statistics", .size = g->stats_size, .like = LIKE_STATS});
    const struct optim_row *o = optim ? optim_row(optim) : NULL;
    for (size_t i = 0; o && i < o->n_slots; i++)
        put(&rows, (enum row)(ROW_SLOT + i),
            (struct row_entry){
                .name = o->slot_names[i], .size = g->size, .start = o->slot_start[i], .like = LIKE_PARAMS});
    return rows;
}

void rows_keep(struct rows *rows, struct row_entry entry)
{
    enum row row = ROW_KEPT;
    while (row < ROW_INPUTS && rows->of[row].name)
        row++;
    assert(row < ROW_INPUTS && entry.name);
    put(rows, row, entry);
}

void rows_cross(struct rows *rows, const struct graph *part, size_t flights, size_t most)
{
    size_t n = flights * most;
    put(rows, ROW_INPUTS, (struct row_entry){.name = "inputs", .size = n * part->input_size});
    put(rows, ROW_OUTPUTS, (struct row_entry){.name = "outputs", .size = n * part->output_size});
    put(rows, ROW_OUTPUT_GRADS,
        (struct row_entry){.name = "gradients of outputs", .size = n * part->output_grad_size});
    put(rows, ROW_INPUT_GRADS,
        (struct row_entry){.name = "gradients of inputs", .size = n * part->input_grad_size});
}

static const char *owner_of(enum row row)
{
    return row >= ROW_INPUTS ? "part"
           : row >= ROW_KEPT ? "strategy"
           : row >= ROW_SLOT ? "optimiser"
                             : "network";
}

void rows_describe(const struct rows *rows, size_t n_replicas, size_t n_spare, FILE *to)
{
    double all = 0;
    bool awaits_data = false;
    fprintf(to, "%-18s  %-9s  %15s  %9s\n", "row", "of", "floats", "MiB");
    for (enum row row = 0; row < rows->n; row++) {
        const struct row_entry *e = &rows->of[row];
        double mib = (double)e->size * sizeof(float) / 0x1p20;
        if (e->awaits_data)
            fprintf(to, "%-18s  %-9s  %15s\n", e->name, owner_of(row), "set by the data");
        else if (e->size)
            fprintf(to, "%-18s  %-9s  %15s  %9.2f\n", e->name, owner_of(row), text_count(e->size).text, mib);
        awaits_data = awaits_data || e->awaits_data;
        all += mib;
    }
    fprintf(to, "rows: %s%.2f MiB a replica", awaits_data ? "more than " : "", all);
    if (n_replicas > 1)
        fprintf(to, ", %.2f MiB for %zu of them", all * (double)n_replicas, n_replicas);
    fputc('\n', to);
    if (n_spare)
        fprintf(to, "spare rows: at most %zu of each, in memory once used: copies under way, the mean model\n",
                n_spare);
}
