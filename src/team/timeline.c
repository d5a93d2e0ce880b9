/* timeline.c - a schedule with a clock, as the local world's is: from one end of a pass to the next.
 *
 *   the pass that ends first -> what it made goes on its way -> members whose next pass has all it needs begin it
 *
 * A message books its sender's card outwards and its receiver's card inwards when it is ready, for its bytes over the bandwidth, and
 * is there a latency after that. Of members whose passes end at one moment the lowest comes first. When a pass begins,
 * all it needs has been booked, so its begin and end are known; no later event moves them.
 */
#include "team/timeline.h"

#include <math.h>

enum direction { ONWARD, BACK, DIRECTIONS };

struct player {
    const struct timeline_needs *needs;
    const struct schedule *s;
    struct timeline *out;
    size_t n_micros;                /* of all rounds */
    struct transfer_cost *transfers; /* those of the needs, and one of 0 bytes between neighbours without any */
    size_t n_transfers;
    size_t *awaited[DIRECTIONS];    /* [n_parts][n_micros]: messages that are still to be sent to this pass */
    double *there_s[DIRECTIONS];    /* [n_parts][n_micros]: when the last of those that were is there */
    double *card_out_s, *card_in_s; /* [n_members]: busy until then */
    size_t *next;                   /* [n_members]: the pass that is computed, or waited for */
    bool *computes;                 /* [n_members] */
    double *free_s;                 /* [n_members]: the end of its last pass */
};

/* ---- what is sent ---- */

static bool is_between(const struct transfer_cost *t, size_t from, size_t to)
{
    return t->from == from && t->to == to;
}

/* Every part depends on the one before: where nothing is said to cross, there is a message without bytes. */
static fault take_transfers(struct player *r, struct arena *arena)
{
    const struct timeline_needs *n = r->needs;
    r->transfers = ARENA_NEW(arena, struct transfer_cost, n->n_transfers + r->s->n_parts);
    if (!r->transfers)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n->n_transfers; i++) {
        if (n->transfers[i].from >= n->transfers[i].to || n->transfers[i].to >= r->s->n_parts)
            return FAIL(FAULT_USAGE, "a transfer from part %zu to part %zu of %zu", n->transfers[i].from, n->transfers[i].to,
                        r->s->n_parts);
        r->transfers[r->n_transfers++] = n->transfers[i];
    }
    for (size_t part = 0; part + 1 < r->s->n_parts; part++) {
        size_t i = 0;
        while (i < n->n_transfers && !is_between(&n->transfers[i], part, part + 1))
            i++;
        if (i == n->n_transfers)
            r->transfers[r->n_transfers++] = (struct transfer_cost){part, part + 1, 0};
    }
    return OK;
}

/* When a message that is ready now is there. */
static double send(struct player *r, double now_s, size_t from, size_t to, double bytes)
{
    const struct timeline_needs *n = r->needs;
    if (from == to)
        return now_s;
    if (n->bytes_per_s == 0)
        return now_s + n->latency_s;
    double begin = fmax(now_s, fmax(r->card_out_s[from], r->card_in_s[to]));
    double end = begin + bytes / n->bytes_per_s;
    r->card_out_s[from] = r->card_in_s[to] = end;
    return end + n->latency_s;
}

static double share_of(const struct player *r, size_t micro)
{
    return r->needs->micro_shares ? r->needs->micro_shares[micro % r->s->n_micros] : 1;
}

static void send_to(struct player *r, double now_s, size_t from, size_t to, size_t micro, enum direction d, double bytes)
{
    size_t pass = to * r->n_micros + micro;
    double there = send(r, now_s, schedule_member(r->s, from), schedule_member(r->s, to), bytes * share_of(r, micro));
    r->there_s[d][pass] = fmax(r->there_s[d][pass], there);
    r->awaited[d][pass]--;
}

static void send_all(struct player *r, double now_s, struct action a)
{
    for (size_t i = 0; i < r->n_transfers; i++) {
        const struct transfer_cost *t = &r->transfers[i];
        if (a.kind == ACTION_FORWARD && t->from == a.part)
            send_to(r, now_s, t->from, t->to, a.micro, ONWARD, t->bytes);
        if ((a.kind == ACTION_BACKWARD || a.kind == ACTION_INPUTS) && t->to == a.part)
            send_to(r, now_s, t->to, t->from, a.micro, BACK, t->bytes);
    }
}

/* ---- what is computed ---- */

static double seconds_of(const struct player *r, struct action a)
{
    const struct part_cost *c = &r->needs->parts[a.part];
    double share = share_of(r, a.micro), again_s = a.micro % r->s->n_micros < r->needs->n_recomputed ? c->forward_s : 0;
    switch (a.kind) {
    case ACTION_FORWARD:
        return share * c->forward_s;
    case ACTION_BACKWARD:
        return share * (again_s + c->inputs_s + c->weights_s);
    case ACTION_INPUTS:
        return share * (again_s + c->inputs_s);
    default:
        return share * c->weights_s;
    }
}

/* Begins a member's next pass, where it has all it needs. */
static void begin(struct player *r, size_t member)
{
    const struct actions *list = &r->out->actions[member];
    size_t i = r->next[member];
    if (r->computes[member] || i == list->n)
        return;
    struct action a = list->at[i];
    double begin_s = r->free_s[member];
    if (a.kind != ACTION_WEIGHTS) {
        enum direction d = a.kind == ACTION_FORWARD ? ONWARD : BACK;
        size_t pass = a.part * r->n_micros + a.micro;
        if (r->awaited[d][pass])
            return;
        begin_s = fmax(begin_s, r->there_s[d][pass]);
    }
    r->computes[member] = true;
    r->out->of[member][i] = (struct event_s){begin_s, begin_s + seconds_of(r, a)};
}

static void finish(struct player *r, size_t member)
{
    size_t i = r->next[member]++;
    r->computes[member] = false;
    r->free_s[member] = r->out->of[member][i].end_s;
    send_all(r, r->free_s[member], r->out->actions[member].at[i]);
}

/* The member whose pass ends first; n_members: nobody computes. */
static size_t first_to_end(const struct player *r)
{
    size_t first = r->s->n_members;
    double end_s = INFINITY;
    for (size_t m = 0; m < r->s->n_members; m++)
        if (r->computes[m] && r->out->of[m][r->next[m]].end_s < end_s) {
            end_s = r->out->of[m][r->next[m]].end_s;
            first = m;
        }
    return first;
}

static fault play(struct player *r)
{
    size_t first = 0;
    while (first < r->s->n_members) {
        for (size_t m = 0; m < r->s->n_members; m++)
            begin(r, m);
        first = first_to_end(r);
        if (first < r->s->n_members)
            finish(r, first);
    }
    for (size_t m = 0; m < r->s->n_members; m++)
        if (r->next[m] < r->out->actions[m].n)
            return FAIL(FAULT_USAGE, "the schedule comes to no end: member %zu waits for ever before %s", m,
                        action_name(r->out->actions[m].at[r->next[m]]).text);
    return OK;
}

/* ---- before and after ---- */

static fault take_rooms(struct player *r, struct arena *arena)
{
    size_t n = r->s->n_members, n_passes = r->s->n_parts * r->n_micros;
    for (enum direction d = ONWARD; d < DIRECTIONS; d++) {
        r->awaited[d] = ARENA_NEW(arena, size_t, n_passes);
        r->there_s[d] = ARENA_NEW(arena, double, n_passes);
        if (!r->awaited[d] || !r->there_s[d])
            return OUT_OF_MEMORY;
    }
    r->card_out_s = ARENA_NEW(arena, double, n);
    r->card_in_s = ARENA_NEW(arena, double, n);
    r->free_s = ARENA_NEW(arena, double, n);
    r->next = ARENA_NEW(arena, size_t, n);
    r->computes = ARENA_NEW(arena, bool, n);
    return r->card_out_s && r->card_in_s && r->free_s && r->next && r->computes ? OK : OUT_OF_MEMORY;
}

static void count_awaited(struct player *r)
{
    for (size_t i = 0; i < r->n_transfers; i++)
        for (size_t micro = 0; micro < r->n_micros; micro++) {
            r->awaited[ONWARD][r->transfers[i].to * r->n_micros + micro]++;
            r->awaited[BACK][r->transfers[i].from * r->n_micros + micro]++;
        }
}

static fault take_events(struct player *r, struct arena *arena)
{
    struct timeline *t = r->out;
    TRY(schedule_unroll(r->s, r->needs->n_rounds, arena, &t->actions));
    t->of = ARENA_NEW(arena, struct event_s *, r->s->n_members);
    if (!t->of)
        return OUT_OF_MEMORY;
    for (size_t m = 0; m < r->s->n_members; m++) {
        t->of[m] = ARENA_NEW(arena, struct event_s, larger(1, t->actions[m].n));
        if (!t->of[m])
            return OUT_OF_MEMORY;
    }
    return OK;
}

double timeline_busy_s(const struct timeline *t, size_t member)
{
    double busy = 0;
    for (size_t i = 0; i < t->actions[member].n; i++)
        busy += t->of[member][i].end_s - t->of[member][i].begin_s;
    return busy;
}

static void sum_up(struct player *r)
{
    size_t n = r->s->n_members;
    double end = 0, busy = 0;
    for (size_t m = 0; m < n; m++) {
        end = fmax(end, r->free_s[m]);
        busy += timeline_busy_s(r->out, m);
    }
    r->out->end_s = end;
    r->out->round_s = end / (double)r->needs->n_rounds;
    r->out->bubble = end > 0 ? fmax(0, 1 - busy / ((double)n * end)) : 0;
}

static fault make(struct player *r, struct arena *arena, struct arena *while_made)
{
    TRY(take_events(r, arena));
    TRY(take_transfers(r, while_made));
    TRY(take_rooms(r, while_made));
    count_awaited(r);
    TRY(play(r));
    sum_up(r);
    return OK;
}

fault timeline_make(const struct timeline_needs *needs, struct arena *arena, struct timeline *out)
{
    struct timeline t = {.n_members = needs->schedule->n_members};
    struct arena while_made = {0};
    struct player r = {.needs = needs, .s = needs->schedule, .out = &t, .n_micros = needs->n_rounds * needs->schedule->n_micros};
    fault f = make(&r, arena, &while_made);
    arena_release(&while_made);
    if (!f)
        *out = t;
    return f;
}
