/* verbs.c - what agents may ask for, on a virtual clock. A verb that takes time leaves an entry on the agenda
 * and parks. */
#include <math.h>
#include <stdlib.h>

#include "experiment/machines.h"
#include "world/local/inside.h"
#include "world/mixing.h"

static double local_link_now(const struct link *l)
{
    return ((const struct actor *)l)->world->now_s;
}

static fault sleep_until(struct actor *a, double at_s)
{
    MUST_BE_UP(a);
    TRY(local_expect(a->world, at_s, MOMENT_WAKE, a, 0, NULL));
    return actor_park(a);
}

static fault local_sleep(struct link *l, double seconds)
{
    struct actor *a = actor_of(l);
    return sleep_until(a, a->world->now_s + seconds);
}

fault actor_move_floats(struct actor *a, struct span s, double times)
{
    const struct machine_settings *m = &a->world->stage->experiment->machines;
    double takes_s = 0;
    for (size_t i = 0; i < a->n_machines && m->memory_gbps > 0; i++)
        takes_s = fmax(takes_s, machine_memory_s(m, a->machines[i].speed,
                                                 (double)actor_floats(a, i, s) * times * sizeof(float)));
    return takes_s > 0 ? sleep_until(a, a->world->now_s + takes_s) : OK;
}

/* What the whole lesson takes one of the machines alone. */
static double machine_lesson_s(const struct actor *a, size_t i, uint64_t lesson)
{
    const struct experiment *e = a->world->stage->experiment;
    const struct machine *m = &a->machines[i];
    double slowdown = machine_slowdown(&e->machines, a->world->stage->seed, m->number, lesson);
    return (double)e->data.batch / (e->machines.rate * m->speed) * slowdown;
}

static fault time_lesson(struct actor *a, uint64_t lesson)
{
    struct local *w = a->world;
    if (!w->stage->team) {
        a->lesson_takes_s = machine_lesson_s(a, 0, lesson);
        return OK;
    }
    for (size_t i = 0; i < a->n_machines; i++)
        w->team_times[i] = machine_lesson_s(a, i, lesson);
    struct team_lesson t = {
        .machine_s = w->team_times, .wire = network_wire(&w->stage->experiment->network, a->link.self, a->link.self), .done_s = a->done_s};
    TRY(team_time(w->stage->team, &t));
    a->lesson_takes_s = t.ends_s;
    a->link.counts.bytes += t.bytes;
    a->link.counts.messages += t.messages;
    a->link.counts.received += t.messages;
    return OK;
}

static fault local_learn(struct link *l, uint64_t lesson)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    TRY(rows_about_to_write(a, ROW_STATS, 0, TO_END));
    TRY(rows_about_to_write(a, ROW_GRADS, 0, TO_END));
    TRY(tape_learn(a->world->tape, l->self, lesson));
    a->writes_at_lesson = a->writes;
    a->has_gradient = a->is_learning = true;
    a->gradient_is_new = false;
    a->lesson_began_s = a->world->now_s;
    return time_lesson(a, lesson);
}

/* The share of a lesson's work that is done when the gradients of the floats [first, ...) are final: all micro-batches but the
 * last, and of that one as much as makes them. */
static double work_until_final(const struct engine_setup *s, size_t first)
{
    double last = (double)micro_of(s, micro_batches(s) - 1).n / (double)s->batch;
    return first ? 1 - last + last * graph_work_until(s->graph, first) : 1;
}

/* When the gradients of the floats [first, ...) are final; those of a machine all at once. */
static double final_s(const struct actor *a, size_t first)
{
    double at_s = 0;
    if (!a->world->stage->team || !first)
        return work_until_final(&a->world->engine->setup, first) * a->lesson_takes_s;
    for (size_t i = 0; i < a->n_machines; i++)
        if (actor_floats(a, i, (struct span){ROWS_GRADS, first, TO_END}))
            at_s = fmax(at_s, a->done_s[i]);
    return at_s;
}

static fault local_await(struct link *l, size_t first)
{
    struct actor *a = actor_of(l);
    double at_s = a->lesson_began_s + final_s(a, first);
    MUST_BE_UP(a);
    if (at_s >= a->world->now_s)
        TRY(sleep_until(a, at_s));
    a->is_learning = a->is_learning && first;
    a->gradient_is_new = a->gradient_is_new || !first;
    if (first == 0)
        a->world->totals.samples += a->agent->feed.batch;
    return OK;
}

static fault local_update(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    struct actor *a = actor_of(l);
    MUST_BE_UP(a);
    TRY(actor_move_floats(a, (struct span){ROWS_PARAMS, first, end},
                          (double)optim_rows_moved(&a->world->stage->experiment->optim)));
    TRY(rows_about_to_write(a, ROW_PARAMS, first, end));
    for (size_t i = 0; i < OPTIM_SLOTS; i++)
        TRY(rows_about_to_write(a, ROW_SLOT + i, first, end));
    a->writes++;
    a->has_gradient = a->gradient_is_new = false;
    return tape_update(a->world->tape, (struct update){l->self, lr, t, first, end});
}

/* ---- rows ---- */

enum { MOST_TERMS = 64 };

static const struct snapshot *row_in(const struct message *m, enum row row)
{
    for (size_t i = 0; i < m->n_rows; i++)
        if (m->rows[i]->row == row)
            return m->rows[i];
    return NULL;
}

/* Where the floats a term means lie, or a fault where a parcel does not hold them. */
static fault find_term(const struct actor *a, const struct term *t, size_t first, size_t end, size_t *at)
{
    *at = a->link.self;
    if (!t->parcel)
        return OK;
    const struct snapshot *s = row_in(t->parcel->rows, t->row);
    if (!s || s->first > first + t->shift || s->end < end + t->shift)
        return FAIL(FAULT_USAGE, "agent %zu was sent other floats than it wants to mix", a->link.self);
    *at = s->at;
    return OK;
}

static fault add_up(struct actor *a, struct blend *b, const struct term *terms, struct addend *addends)
{
    TRY(mixing_check(&a->link, &a->world->engine->setup, b->row, b->first, b->end, terms, b->n));
    TRY(rows_about_to_write(a, b->row, b->first, b->end));
    for (size_t i = 0; i < b->n; i++) {
        addends[i] =
            (struct addend){.weight = (float)terms[i].weight, .row = terms[i].row, .shift = terms[i].shift};
        TRY(find_term(a, &terms[i], b->first, b->end, &addends[i].from));
    }
    b->addends = addends;
    return tape_blend(a->world->tape, *b);
}

/* Terms beyond the stack's room come from the heap. */
static fault mix_now(struct link *l, enum row into, size_t first, size_t end, const struct term *terms,
                     size_t n)
{
    struct actor *a = actor_of(l);
    size_t size = row_size(&a->world->engine->setup, into);
    struct blend b = {
        .row = into, .into = l->self, .also = NO_ROW, .first = first, .end = smaller(end, size), .n = n};
    struct addend here[MOST_TERMS], *addends = n > MOST_TERMS ? malloc(n * sizeof *addends) : here;
    fault f = addends ? OK : OUT_OF_MEMORY;
    if (!f && !a->alive)
        f = FAIL(FAULT_CRASH, "the machine of agent %zu is down", l->self);
    if (!f && n && b.first < b.end)
        f = add_up(a, &b, terms, addends);
    if (into == ROW_PARAMS)
        a->writes++;
    if (into == ROW_GRADS)
        a->has_gradient = a->gradient_is_new = true; /* whatever it is, it is not yet used */
    if (addends != here)
        free(addends);
    return f;
}

/* Rows that a sum of these terms reads and writes: each term, and the sum. What came in a parcel was read and written once
 * more, on its way into this machine's memory. */
static size_t rows_moved(const struct term *terms, size_t n)
{
    size_t moved = n ? n + 1 : 0;
    for (size_t i = 0; i < n; i++)
        moved += terms[i].parcel ? 2 : 0;
    return moved;
}

static fault local_mix(struct link *l, enum row into, size_t first, size_t end, const struct term *terms,
                       size_t n)
{
    struct actor *a = actor_of(l);
    TRY(actor_move_floats(a, (struct span){1u << into, first, end}, (double)rows_moved(terms, n)));
    return mix_now(l, into, first, end, terms, n);
}

/* Until the rows are there, which `kind` of moment will see to, or patience is at its end. */
static fault wait_for_rows(struct actor *a, double at_s, int kind, size_t peer, void *what)
{
    double since = a->world->now_s;
    TRY(local_expect(a->world, at_s, kind, a, peer, what));
    TRY(actor_add_deadline(a));
    a->from = peer;
    fault f = actor_park(a);
    actor_count_wait(a, peer, since);
    return f;
}

static fault local_average(struct link *l, size_t peer, row_set rows)
{
    struct actor *a = actor_of(l);
    struct local *w = a->world;
    MUST_BE_UP(a);
    if (!wires_can_reach(w, l->self, peer))
        return gone(a, peer);
    struct actor *b = &w->actors[peer];
    TRY(actor_move_floats(a, whole(rows), 3 + 2)); /* one end pays for it: the other learns on */
    if (!wires_can_reach(w, l->self, peer))
        return gone(a, peer);
    double there = wires_carry_rows(w, a, b, whole(rows)), back = wires_carry_rows(w, b, a, whole(rows));
    if (fmax(there, back) <= w->now_s && b->alive)
        return local_average_now(w, a, b, rows);
    return wait_for_rows(a, fmax(there, back), MOMENT_AVERAGE, peer, (void *)(uintptr_t)rows);
}

void local_average_lost(struct actor *a, struct actor *peer)
{
    a->link.counts.lost++;
    peer->link.counts.lost++;
}

fault local_average_now(struct local *w, struct actor *a, struct actor *peer, row_set rows)
{
    if (!wires_get_through(w, a->link.self, peer->link.self)) {
        local_average_lost(a, peer);
        return gone(a, peer->link.self);
    }
    size_t i = a->link.self, j = peer->link.self;
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        if (rows & 1u << row && row_size(&w->engine->setup, row)) {
            const struct addend halves[] = {{0.5f, row, smaller(i, j), 0}, {0.5f, row, larger(i, j), 0}};
            TRY(rows_about_to_write(a, row, 0, TO_END));
            TRY(rows_about_to_write(peer, row, 0, TO_END));
            TRY(tape_blend(w->tape, (struct blend){row, i, j, 0, TO_END, halves, 2}));
        }
    a->writes++;
    peer->writes++;
    a->link.counts.received++;
    peer->link.counts.received++;
    return OK;
}

static fault local_adopt(struct link *l, size_t peer, uint64_t *round)
{
    struct actor *a = actor_of(l);
    struct local *w = a->world;
    MUST_BE_UP(a);
    if (!wires_can_reach(w, l->self, peer))
        return gone(a, peer);
    TRY(actor_move_floats(a, whole(ROWS_LASTING), 2));
    if (!wires_can_reach(w, l->self, peer))
        return gone(a, peer);
    double at_s = wires_carry_rows(w, &w->actors[peer], a, whole(ROWS_LASTING));
    if (at_s <= w->now_s && w->actors[peer].alive)
        TRY(local_adopt_now(w, a, &w->actors[peer]));
    else
        TRY(wait_for_rows(a, at_s, MOMENT_ADOPT, peer, NULL));
    if (round)
        *round = a->adopted_round;
    return OK;
}

fault local_adopt_now(struct local *w, struct actor *a, struct actor *peer)
{
    if (!wires_get_through(w, a->link.self, peer->link.self)) {
        peer->link.counts.lost++;
        return gone(a, peer->link.self);
    }
    for (enum row row = 0; row < w->engine->setup.rows.n; row++)
        if (row_lasts(row) && row_size(&w->engine->setup, row)) {
            TRY(rows_about_to_write(a, row, 0, TO_END));
            TRY(rows_copy(w, row, peer->link.self, a->link.self, 0, TO_END));
        }
    a->adopted_round = peer->agent->k;
    a->writes++;
    a->link.counts.received++;
    return OK;
}

static bool local_takes_part(const struct link *l, size_t peer, uint64_t k)
{
    const struct actor *a = (const struct actor *)l;
    /* a peer that came to its end did take part: what it sent before may still be under way */
    return wires_can_reach(a->world, l->self, peer) && k >= wires_take_part_from(a->world, l->self, peer);
}

static bool local_can_reach(const struct link *l, size_t peer)
{
    return wires_can_reach(((const struct actor *)l)->world, l->self, peer);
}

static bool local_may_return(const struct link *l, size_t peer)
{
    (void)l;
    (void)peer;
    return true;
}

static bool local_has_ended(const struct link *l, size_t peer)
{
    return ((const struct actor *)l)->world->actors[peer].life == LIFE_DONE;
}

static size_t local_row_floats(const struct link *l, enum row row)
{
    return row_size(&((const struct actor *)l)->world->engine->setup, row);
}

static bool local_take_round(struct link *l, uint64_t *ended)
{
    struct local *w = actor_of(l)->world;
    *ended = w->totals.ended;
    if (w->totals.begun >= w->stage->rounds * w->stage->n_agents)
        return false;
    w->totals.begun++;
    return true;
}

static void count_rounds(struct local *w, uint64_t n)
{
    w->totals.ended += n;
    w->ended_s = w->now_s;
}

static fault local_end_round(struct link *l)
{
    count_rounds(actor_of(l)->world, 1);
    actor_of(l)->gradient_is_new = false;
    return OK;
}

static void local_skip_rounds(struct link *l, uint64_t n)
{
    count_rounds(actor_of(l)->world, n);
}

static bool local_others_go_on(const struct link *l, double since_s)
{
    return ((const struct actor *)l)->world->ended_s > since_s;
}

static uint64_t local_staleness(const struct link *l)
{
    const struct actor *a = (const struct actor *)l;
    return a->writes - a->writes_at_lesson;
}

static void local_note(struct link *l, const char *kind, const char *text)
{
    local_say(actor_of(l)->world, l->self, kind, text);
}

const struct link_ops local_link = {
    .name = "local",
    .now_s = local_link_now,
    .sleep = local_sleep,
    .learn = local_learn,
    .await = local_await,
    .update = local_update,
    .send_rows = local_send_rows,
    .recv_rows = local_recv_rows,
    .drop = local_drop,
    .mix = local_mix,
    .number = local_number,
    .send = local_send,
    .recv = local_recv,
    .average = local_average,
    .adopt = local_adopt,
    .has_mail = local_has_mail,
    .forget = local_forget,
    .dissolve = local_dissolve,
    .dissolved = local_dissolved,
    .can_reach = local_can_reach,
    .may_return = local_may_return,
    .has_ended = local_has_ended,
    .others_go_on = local_others_go_on,
    .takes_part = local_takes_part,
    .row_floats = local_row_floats,
    .take_round = local_take_round,
    .end_round = local_end_round,
    .skip_rounds = local_skip_rounds,
    .staleness = local_staleness,
    .note = local_note,
};
