/* rows.c - rows under way: a message refers to the sender's row for as long as nobody writes it, then to a
 * copy.
 *
 * Copies are as many as there are spare rows. Where agents run ahead of others that do not read their mail,
 * the oldest of it is given up, as a network gives up what nobody fetches. */
#include <stdlib.h>

#include "world/local/inside.h"

#define NOBODY ((size_t)-1)

size_t local_spare_rows(size_t n_agents, size_t n_edges)
{
    return 1 + 4 * n_agents + 2 * n_edges; /* memory that is never touched costs nothing */
}

size_t local_mean_row(size_t n_agents)
{
    return n_agents;
}

fault rows_open(struct local *w)
{
    size_t n_spare = w->engine->setup.n_spare;
    for (int row = 0; row < N_ROWS; row++) {
        w->free_rows[row] = malloc(n_spare * sizeof(size_t));
        if (!w->free_rows[row])
            return OUT_OF_MEMORY;
        for (size_t i = n_spare; i-- > 1;) /* the first is the watcher's; lower ones are used first */
            w->free_rows[row][w->n_free_rows[row]++] = w->n + i;
    }
    return OK;
}

void rows_close(struct local *w)
{
    for (int row = 0; row < N_ROWS; row++)
        free(w->free_rows[row]);
    while (w->free_snapshots) {
        struct snapshot *next = w->free_snapshots->next;
        free(w->free_snapshots);
        w->free_snapshots = next;
    }
}

fault snapshot_take(struct actor *a, enum row row, struct snapshot **out)
{
    struct local *w = a->world;
    struct snapshot *s = a->live[row];
    if (!s) {
        s = w->free_snapshots;
        if (s)
            w->free_snapshots = s->next;
        else if (!(s = malloc(sizeof *s)))
            return OUT_OF_MEMORY;
        *s = (struct snapshot){.row = row, .at = a->link.self, .owner = a->link.self};
        a->live[row] = s;
    }
    s->refs++;
    *out = s;
    return OK;
}

void snapshot_drop(struct local *w, struct snapshot *s)
{
    if (--s->refs)
        return;
    if (s->owner == NOBODY)
        w->free_rows[s->row][w->n_free_rows[s->row]++] = s->at;
    else
        w->actors[s->owner].live[s->row] = NULL;
    s->next = w->free_snapshots;
    w->free_snapshots = s;
}

fault about_to_write(struct actor *a, enum row row)
{
    struct local *w = a->world;
    struct snapshot *s = a->live[row];
    if (!s)
        return OK;
    while (!w->n_free_rows[row])
        if (!give_up_oldest(w, row))
            return FAIL(FAULT_MEMORY, "out of memory: all %zu spare rows of parameters are in use",
                        w->engine->setup.n_spare - 1);
    size_t mine = s->at;
    float one = 1;
    s->at = w->free_rows[row][--w->n_free_rows[row]];
    s->owner = NOBODY;
    a->live[row] = NULL;
    return tape_blend(w->tape, (struct blend){row, s->at, NO_ROW, &mine, &one, 1});
}
