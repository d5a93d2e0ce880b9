/* wires.c - what lies between the agents: latency, bandwidth, network cards, and what is cut.
 *
 * A transfer holds the sender's card outwards and the receiver's card inwards from its start to its end; it
 * starts when both are free, in the order in which transfers were asked for, and its last byte is there a
 * latency after its end.
 */
#include <math.h>
#include <stdlib.h>

#include "world/local/inside.h"

static bool is_of(const struct cut *c, size_t a, size_t b)
{
    return (c->a == a && c->b == b) || (c->a == b && c->b == a);
}

bool wires_pair_is_cut(const struct local *w, size_t a, size_t b)
{
    for (size_t i = 0; i < w->n_cuts; i++)
        if (is_of(&w->cuts[i], a, b))
            return true;
    return false;
}

static bool is_cut(const struct local *w, size_t a, size_t b)
{
    return (w->partitioned && w->group[a] != w->group[b]) || wires_pair_is_cut(w, a, b);
}

bool wires_can_reach(const struct local *w, size_t a, size_t b)
{
    return w->actors[a].alive && !w->actors[b].is_missed && !is_cut(w, a, b);
}

bool wires_get_through(const struct local *w, size_t a, size_t b)
{
    return w->actors[a].alive && w->actors[b].alive && !is_cut(w, a, b);
}

static double carry(struct local *w, struct actor *from, size_t i, struct actor *to, size_t j, size_t n_bytes)
{
    const struct network_settings *net = &w->stage->experiment->network;
    struct machine *sender = &from->machines[i], *receiver = &to->machines[j];
    from->link.counts.bytes += n_bytes;
    from->link.counts.messages++;
    if (!net->written)
        return w->now_s;
    struct wire wire = network_wire(net, from->link.self, to->link.self);
    if (wire.bytes_per_s == 0)
        return w->now_s + wire.latency_s;
    double start = fmax(w->now_s, fmax(sender->card_out_s, receiver->card_in_s));
    double end = start + (double)n_bytes / wire.bytes_per_s;
    sender->card_out_s = receiver->card_in_s = end;
    return end + wire.latency_s;
}

double wires_carry(struct local *w, struct actor *from, struct actor *to, size_t n_bytes)
{
    return carry(w, from, 0, to, 0, n_bytes);
}

/* A helper's one machine has all floats: it gives each machine of a team that one's, or takes them from each. */
double wires_carry_rows(struct local *w, struct actor *from, struct actor *to, struct span s)
{
    struct actor *shares = from->n_machines > 1 ? from : to;
    if (shares->n_machines == 1)
        return carry(w, from, 0, to, 0, actor_floats(from, 0, s) * sizeof(float));
    double last_s = w->now_s;
    bool any = false;
    for (size_t i = 0; i < shares->n_machines; i++) {
        size_t n_bytes = actor_floats(shares, i, s) * sizeof(float);
        if (!n_bytes && (any || i + 1 < shares->n_machines))
            continue; /* what is empty is one message all the same */
        last_s = fmax(last_s, carry(w, from, smaller(i, from->n_machines - 1), to, smaller(i, to->n_machines - 1), n_bytes));
        any = true;
    }
    return last_s;
}

/* A member that waits for the other end hears that it cannot be reached. */
static void tell_waiting(struct local *w, size_t who, size_t gone)
{
    struct actor *a = &w->actors[who];
    if (a->life == LIFE_PARKED && a->receives && a->from == gone)
        actor_wake(a, FAIL(FAULT_PEER, "agent %zu cannot be reached from agent %zu", gone, who));
}

fault wires_cut_pair(struct local *w, size_t a, size_t b)
{
    struct cut *cuts = array_with_room(w->cuts, &w->cut_room, w->n_cuts + 1, sizeof *cuts);
    if (!cuts)
        return OUT_OF_MEMORY;
    w->cuts = cuts;
    w->cuts[w->n_cuts++] = (struct cut){(uint32_t)a, (uint32_t)b};
    tell_waiting(w, a, b);
    tell_waiting(w, b, a);
    return OK;
}

/* Two agents that can reach each other again go on together from a round that neither has begun. */
static void rejoin_ends(struct local *w, size_t edge)
{
    struct edge e = w->stage->topology->edges[edge];
    uint64_t ka = w->actors[e.a].agent->k, kb = w->actors[e.b].agent->k;
    w->mended[edge] = (ka > kb ? ka : kb) + 1;
}

/* The number of the edge between two agents, or -1; those that help are no neighbours. */
static ptrdiff_t edge_between(const struct topology *t, size_t a, size_t b)
{
    if (a >= t->n || b >= t->n)
        return -1;
    size_t low = t->first[a], end = t->first[a + 1], high = end;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->neighbour[middle] < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && t->neighbour[low] == b ? (ptrdiff_t)t->edge_of[low] : -1;
}

uint64_t wires_take_part_from(const struct local *w, size_t a, size_t b)
{
    uint64_t ja = w->actors[a].joined, jb = w->actors[b].joined, from = ja > jb ? ja : jb;
    ptrdiff_t edge = w->stage->topology ? edge_between(w->stage->topology, a, b) : -1;
    return edge >= 0 && w->mended[edge] > from ? w->mended[edge] : from;
}

/* After something was mended: every edge of the topology that was cut and is not any more. */
static void rejoin_edges(struct local *w, const bool *was_cut)
{
    const struct topology *t = w->stage->topology;
    for (size_t i = 0; t && i < t->n_edges; i++)
        if (was_cut[i] && !is_cut(w, t->edges[i].a, t->edges[i].b))
            rejoin_ends(w, i);
}

static bool *edges_cut(const struct local *w)
{
    const struct topology *t = w->stage->topology;
    bool *was_cut = calloc(t ? t->n_edges + 1 : 1, sizeof *was_cut);
    for (size_t i = 0; was_cut && t && i < t->n_edges; i++)
        was_cut[i] = is_cut(w, t->edges[i].a, t->edges[i].b);
    return was_cut;
}

void wires_mend_pair(struct local *w, size_t a, size_t b)
{
    const struct topology *t = w->stage->topology;
    ptrdiff_t edge = t ? edge_between(t, a, b) : -1;
    bool was_cut = is_cut(w, a, b);
    size_t kept = 0;
    for (size_t i = 0; i < w->n_cuts; i++)
        if (!is_of(&w->cuts[i], a, b))
            w->cuts[kept++] = w->cuts[i];
    w->n_cuts = kept;
    if (edge >= 0 && was_cut && !is_cut(w, a, b))
        rejoin_ends(w, (size_t)edge);
}

fault wires_heal_all(struct local *w)
{
    bool *was_cut = edges_cut(w);
    if (!was_cut)
        return OUT_OF_MEMORY;
    w->n_cuts = 0;
    w->partitioned = false;
    rejoin_edges(w, was_cut);
    free(was_cut);
    return OK;
}

fault wires_partition(struct local *w, const struct event *e)
{
    bool *was_cut = edges_cut(w);
    if (!was_cut)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < w->n; i++)
        w->group[i] = (uint32_t)e->who.n_groups; /* those not named are one more group */
    for (size_t i = 0; i < e->who.n; i++)
        w->group[e->who.agents[i]] = e->who.group[i];
    w->partitioned = true;
    for (size_t i = 0; i < w->n; i++)
        if (w->actors[i].receives && w->actors[i].from != ANYONE && is_cut(w, i, w->actors[i].from))
            tell_waiting(w, i, w->actors[i].from);
    rejoin_edges(w, was_cut); /* an earlier partition may have ended with this one */
    free(was_cut);
    return OK;
}
