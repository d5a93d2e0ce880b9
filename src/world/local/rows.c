/* rows.c - rows under way: a message refers to floats of the sender's row for as long as they are not written,
 * then to a copy.
 *
 * Copies are as many as there are spare rows. Where agents run ahead of others that do not read their mail,
 * the oldest of it is given up, as a network gives up what is never fetched. */
#include <stdlib.h>

#include "world/local/inside.h"

#define NO_OWNER ((size_t)-1)

size_t local_spare_rows(size_t n_members, size_t n_edges)
{
    return 1 + 4 * n_members + 2 * n_edges; /* memory that is never touched costs nothing */
}

fault rows_open(struct local *w)
{
    size_t n_spare = w->engine->setup.n_spare;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
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
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        free(w->free_rows[row]);
    while (w->free_snapshots) {
        struct snapshot *next = w->free_snapshots->next;
        free(w->free_snapshots);
        w->free_snapshots = next;
    }
}

static struct snapshot *snapshot_new(struct local *w)
{
    struct snapshot *s = w->free_snapshots;
    if (s)
        w->free_snapshots = s->next;
    else
        s = malloc(sizeof *s);
    return s;
}

fault snapshot_take(struct actor *a, enum row row, size_t first, size_t end, struct snapshot **out)
{
    struct snapshot *s = a->live[row];
    while (s && (s->first != first || s->end != end))
        s = s->next;
    if (!s) {
        s = snapshot_new(a->world);
        if (!s)
            return OUT_OF_MEMORY;
        *s = (struct snapshot){.row = row,
                               .first = first,
                               .end = end,
                               .at = a->link.self,
                               .owner = a->link.self,
                               .next = a->live[row]};
        a->live[row] = s;
    }
    s->refs++;
    *out = s;
    return OK;
}

/* It is no longer what its owner's row holds. */
static void leave_owner(struct local *w, struct snapshot *s)
{
    struct snapshot **at = &w->actors[s->owner].live[s->row];
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
}

void snapshot_drop(struct local *w, struct snapshot *s)
{
    if (--s->refs)
        return;
    if (s->owner == NO_OWNER)
        w->free_rows[s->row][w->n_free_rows[s->row]++] = s->at;
    else
        leave_owner(w, s);
    s->next = w->free_snapshots;
    w->free_snapshots = s;
}

fault rows_copy(struct local *w, enum row row, size_t from, size_t into, size_t first, size_t end)
{
    const struct addend all = {1, row, from, 0};
    return tape_blend(w->tape, (struct blend){row, into, NO_ROW, first, end, &all, 1});
}

static fault copy_away(struct local *w, struct snapshot *s)
{
    size_t from = s->at;
    leave_owner(w, s);
    s->at = w->free_rows[s->row][--w->n_free_rows[s->row]];
    s->owner = NO_OWNER;
    return rows_copy(w, s->row, from, s->at, s->first, s->end);
}

static struct snapshot *live_within(const struct actor *a, enum row row, size_t first, size_t end)
{
    struct snapshot *s = a->live[row];
    while (s && (s->end <= first || s->first >= end))
        s = s->next;
    return s;
}

fault rows_about_to_write(struct actor *a, enum row row, size_t first, size_t end)
{
    struct local *w = a->world;
    struct snapshot *s;
    while ((s = live_within(a, row, first, end))) { /* giving up a message may let go of it, too */
        if (w->n_free_rows[row])
            TRY(copy_away(w, s));
        else if (!message_give_up_oldest(w, row))
            return FAIL(FAULT_MEMORY, "out of memory: all %zu spare rows of parameters are in use",
                        w->engine->setup.n_spare - 1);
    }
    return OK;
}
