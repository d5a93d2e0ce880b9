/* leader_look.c - the leader looks at the others' numbers by asking for them; and how the others serve it.
 *
 *   leader: look 7, to agent 3 -->  agent 3: its rows, or its exam, with the number 7
 *   agent 3 has `seen` the look  <--
 *
 * An answer is kept as the message that it is, and belongs to the world; who asked copies what it wants out of it. So an answer
 * that comes when it is no longer waited for, since a rank was lost meanwhile, is written nowhere, and by its number it answers no
 * later question.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/page.h"
#include "engine/host.h"
#include "world/far/inside.h"

static struct far *far_world_of(struct world *w)
{
    return (struct far *)w;
}

static const struct far *far_world_in(const struct world *w)
{
    return (const struct far *)w;
}

static bool is_model(const struct far *w, size_t at)
{
    return at == world_model_row(w->stage);
}

static float *own_row(struct far *w, enum row row, size_t at)
{
    return w->engine->ops->floats(w->engine, row, is_model(w, at) ? far_model(w) : 0);
}

/* One that is gone is as the leader's own agent: so it would be when it came back. */
static bool is_far(const struct far *w, size_t at)
{
    return at != w->link.self && !is_model(w, at) && !w->peers[at].is_gone;
}

/* ---- serving ---- */

static void serve_write(struct far *w, const struct incoming *m)
{
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t n = m->head.rows & 1u << row ? floats_of(w, row) : 0;
        if (n)
            memcpy(row_of(w, row), incoming_floats(w, m, row, 0, n), n * sizeof(float));
    }
    w->writes++;
}

/* Of samples that are there. */
static void serve_exam(struct far *w, const struct incoming *m)
{
    struct exam exam;
    bool is_exam = packet_read_exam(m->bytes, (size_t)m->head.n_bytes, &exam);
    const struct samples *s = exam.on_train ? w->engine->setup.train : w->engine->setup.test;
    if (!is_exam || exam.first > s->n || exam.n > s->n - exam.first) {
        courier_refuse(w, m->from);
        return;
    }
    w->agent->tally = (struct tally){0}; /* it counts from one evaluation to the next */
    exam_begin(w, &exam, m->head.tag);
}

static void close_down(struct far *w, bool well)
{
    w->is_closed = true;
    w->ended_well = well;
    far_tell(w, 0, MSG_CLOSED, 0, NULL, 0);
    wait_break_off(w, FAIL(FAULT_ELSEWHERE, "the run has ended"));
}

void look_serve(struct far *w, struct incoming *m)
{
    struct account account;
    switch (m->head.kind) {
    case MSG_EXAMINE:
        serve_exam(w, m);
        return;
    case MSG_READ:
        far_tell_rows(w, 0, MSG_READ_BACK, m->head.tag, whole(m->head.rows));
        return;
    case MSG_WRITE:
        serve_write(w, m);
        return;
    case MSG_SET_ACCOUNT:
        if (packet_read_account(m->bytes, (size_t)m->head.n_bytes, &account))
            far_set_own_account(w, &account);
        else
            courier_refuse(w, m->from);
        return;
    default:
        close_down(w, m->head.tag == 0);
    }
}

void look_serve_exam(struct far *w)
{
    fault f = lessons_take_verdict(w);
    if (f) {
        far_tell_text(w, 0, MSG_FAILED, fault_kind_of(f), fault_text(f));
        fault_drop(f);
    }
    unsigned char bytes[EXAM_BYTES];
    packet_write_exam(bytes, &w->lessons.exam);
    far_tell(w, 0, MSG_EXAMINED, w->lessons.look, bytes, sizeof bytes);
}

/* ---- looking ---- */

static bool has_seen(const struct far *w, size_t member)
{
    return w->peers[member].seen && w->peers[member].seen->head.tag == w->look;
}

void look_hear(struct far *w, struct incoming *m)
{
    struct incoming **seen = &w->peers[m->from].seen;
    bool in_vain = m->head.tag != w->look;
    incoming_drop(w, in_vain ? m : *seen);
    if (!in_vain)
        *seen = m;
}

static bool has_seen_or_is_gone(const struct far *w, const void *ctx)
{
    size_t member = *(const size_t *)ctx;
    return w->peers[member].is_gone || has_seen(w, member);
}

static fault examine_here(struct far *w, struct exam *exam)
{
    struct exam here = *exam;
    here.replica = is_model(w, here.replica) ? far_model(w) : 0;
    exam_begin(w, &here, w->look);
    TRY(wait_for_members(w, lessons_are_over, NULL));
    fault f = lessons_take_verdict(w);
    exam->loss = w->lessons.exam.loss;
    exam->hits = w->lessons.exam.hits;
    return f;
}

static fault refuse(struct far *w, size_t member)
{
    courier_refuse(w, member);
    return FAIL(fault_kind_of(w->broken), "%s", fault_text(w->broken));
}

static fault hear_exam(struct far *w, struct exam *exam)
{
    struct exam there;
    TRY(wait_for_members(w, has_seen_or_is_gone, &exam->replica));
    if (!has_seen(w, exam->replica))
        return OK;
    const struct incoming *m = w->peers[exam->replica].seen;
    if (m->head.kind != MSG_EXAMINED || !packet_read_exam(m->bytes, (size_t)m->head.n_bytes, &there))
        return refuse(w, exam->replica);
    exam->loss = there.loss;
    exam->hits = there.hits;
    return OK;
}

/* The others examine themselves while the leader does. Of one that is lost meanwhile no loss is known. */
static fault examine(struct world *world, struct exam *exams, size_t n)
{
    struct far *w = far_world_of(world);
    unsigned char bytes[EXAM_BYTES];
    w->look++;
    for (size_t i = 0; i < n; i++)
        if (is_far(w, exams[i].replica)) {
            exams[i].loss = NAN;
            packet_write_exam(bytes, &exams[i]);
            far_tell(w, exams[i].replica, MSG_EXAMINE, w->look, bytes, sizeof bytes);
        }
    for (size_t i = 0; i < n; i++)
        if (!is_far(w, exams[i].replica))
            TRY(examine_here(w, &exams[i]));
    for (size_t i = 0; i < n; i++)
        if (is_far(w, exams[i].replica))
            TRY(hear_exam(w, &exams[i]));
    return OK;
}

static fault read_row(struct world *world, enum row row, size_t at, float *floats)
{
    struct far *w = far_world_of(world);
    if (is_far(w, at)) {
        w->look++;
        far_tell_with_head(w, at, (struct head){.kind = MSG_READ, .rows = 1u << row, .tag = w->look}, NULL);
        TRY(wait_for_members(w, has_seen_or_is_gone, &at));
    }
    size_t n = floats_of(w, row);
    const float *from = is_far(w, at) ? incoming_floats(w, w->peers[at].seen, row, 0, n) : own_row(w, row, at);
    if (n && !from)
        return refuse(w, at);
    if (n)
        memcpy(floats, from, n * sizeof(float));
    return OK;
}

static fault write_row(struct world *world, enum row row, size_t at, const float *floats)
{
    struct far *w = far_world_of(world);
    size_t n_bytes = floats_of(w, row) * sizeof(float);
    if (is_far(w, at)) {
        far_tell_with_head(
            w, at, (struct head){.kind = MSG_WRITE, .rows = 1u << row, .end = TO_END, .n_bytes = n_bytes},
            floats);
        courier_progress(w);
    } else {
        memcpy(own_row(w, row, at), floats, n_bytes);
    }
    return OK;
}

/* One row after the other, so that there is room for one: the sum is the same, since it goes in the same order. */
static fault blend(struct world *world, enum row row, const struct addend *addends, size_t n)
{
    struct far *w = far_world_of(world);
    size_t n_floats = floats_of(w, row);
    float *sum = own_row(w, row, world_model_row(w->stage));
    struct incoming *room = incoming_new(w, n_floats * sizeof(float));
    fault f = room ? OK : OUT_OF_MEMORY;
    float *one = room ? (float *)(void *)room->bytes : NULL;
    for (size_t i = 0; !f && i < n; i++) {
        f = read_row(world, row, addends[i].from, one);
        const float *terms[2] = {i ? sum : one, one},
                    factors[2] = {i ? 1 : addends[i].weight, addends[i].weight};
        if (!f)
            host_blend(sum, terms, factors, i ? 2 : 1, n_floats);
    }
    incoming_drop(w, room);
    return f;
}

static size_t n_rows(const struct world *world)
{
    return far_world_in(world)->n + 1;
}

/* At the end of a round only what lasts is needed. */
static void rows_needed(const struct world *world, enum row row, bool *needed)
{
    const struct far *w = far_world_in(world);
    for (size_t i = 0; i < w->n; i++)
        needed[i] = row_lasts(row);
    needed[world_model_row(w->stage)] = false;
}

static struct account account(const struct world *world, size_t member)
{
    const struct far *w = far_world_in(world);
    return is_far(w, member) ? w->states[member].account : far_account_of(w);
}

static void set_account(struct world *world, size_t member, const struct account *a)
{
    struct far *w = far_world_of(world);
    w->states[member].account = *a;
    w->agents[member].k = a->k;
    w->agents[member].lessons = a->lessons;
    unsigned char bytes[ACCOUNT_BYTES];
    packet_write_account(bytes, a);
    if (is_far(w, member))
        far_tell(w, member, MSG_SET_ACCOUNT, 0, bytes, sizeof bytes);
    else
        far_set_own_account(w, a);
}

/* ---- questions ---- */

static fault settle(struct world *world)
{
    struct far *w = far_world_of(world);
    return pause_ask_all(w);
}

static fault aside(struct world *world, fault (*task)(void *ctx), void *ctx)
{
    return lessons_do_aside(far_world_of(world), task, ctx);
}

static fault restore(struct world *world, uint64_t steps)
{
    far_world_of(world)->restored = steps;
    return OK;
}

static bool leads(const struct world *world)
{
    return is_leader(far_world_in(world));
}

/* What was learnt of the others at the start does not change, so any thread may read it. */
static int lost(const struct world *world, char *who, size_t n)
{
    const struct far *w = far_world_in(world);
    bool first = true, found = false;
    for (size_t i = 0; i < w->n; i++) {
        const struct peer *p = &w->peers[i];
        if (!p->process_is_near)
            continue;
        if (gone_process_is(p)) {
            if (!found)
                snprintf(who, n, "rank %zu (process %lld on %s)", i, (long long)p->pid, p->host);
            found = true;
        } else if (i < w->link.self) {
            first = false;
        }
    }
    return found ? (first ? 1 : 2) : 0;
}

static bool is_first_of_host(const struct far *w, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(w->peers[j].host, w->peers[i].host) == 0)
            return false;
    return true;
}

static bool is_first_of_processor(const struct far *w, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(w->peers[j].processor, w->peers[i].processor) == 0)
            return false;
    return true;
}

/* Where ranks have different processors: which have what, and what comes of it. Our own loops and sums have the same bits on all. */
static void print_processors(const struct far *w, FILE *out)
{
    size_t n_kinds = 0;
    for (size_t i = 0; i < w->n; i++)
        n_kinds += is_first_of_processor(w, i);
    if (n_kinds < 2)
        return;
    fprintf(out, "not all ranks have the same processor:");
    for (size_t i = 0; i < w->n; i++) {
        if (!is_first_of_processor(w, i))
            continue;
        fprintf(out, "%s %s on rank", i ? ";" : "", w->peers[i].processor);
        for (size_t j = i; j < w->n; j++)
            if (strcmp(w->peers[j].processor, w->peers[i].processor) == 0)
                fprintf(out, "%s %zu", j == i ? "" : ",", j);
    }
    fprintf(out, "; libraries compute in another order on another processor, so this run comes to the same "
                 "bits only where every rank has "
                 "the same processor again\n");
}

static fault places(const struct world *world, char **text)
{
    const struct far *w = far_world_in(world);
    struct page page;
    TRY(page_open(&page));
    FILE *out = page.out;
    for (size_t i = 0; i < w->n; i++) {
        if (!is_first_of_host(w, i))
            continue;
        fprintf(out, "%s:", w->peers[i].host);
        for (size_t j = i; j < w->n; j++)
            if (strcmp(w->peers[j].host, w->peers[i].host) == 0)
                fprintf(out, "%s rank %zu is process %lld", j == i ? "" : ",", j, (long long)w->peers[j].pid);
        fputc('\n', out);
    }
    print_processors(w, out);
    return page_close(&page, OK, text);
}

static double now_s(const struct world *world)
{
    const struct far *w = far_world_in(world);
    return w->has_begun ? far_now_s(w) : 0;
}

static uint64_t steps(const struct world *world)
{
    const struct far *w = far_world_in(world);
    return w->has_begun ? far_rounds_of_all(w) + w->is_over : w->restored;
}

static struct totals totals(const struct world *world)
{
    return far_world_in(world)->totals;
}

static bool is_replaying(const struct world *world)
{
    (void)world;
    return false;
}

static bool is_alive(const struct world *world, size_t member)
{
    return !far_world_in(world)->peers[member].is_gone;
}

static struct link_counts counts(const struct world *world, size_t member)
{
    const struct far *w = far_world_in(world);
    return member == w->link.self ? w->link.counts : w->counts[member];
}

static const struct waits *waits(const struct world *world)
{
    return &far_world_in(world)->known;
}

static fault play(struct world *world)
{
    return far_play(far_world_of(world));
}

static void end_well(struct world *world)
{
    far_world_of(world)->ended_well = true;
}

static void close_world(struct world *world)
{
    far_close(far_world_of(world));
}

const struct world_ops far_world = {
    .close = close_world,
    .play = play,
    .end_well = end_well,
    .restore = restore,
    .leads = leads,
    .lost = lost,
    .places = places,
    .aside = aside,
    .now_s = now_s,
    .steps = steps,
    .totals = totals,
    .is_replaying = is_replaying,
    .is_alive = is_alive,
    .counts = counts,
    .waits = waits,
    .settle = settle,
    .examine = examine,
    .read = read_row,
    .write = write_row,
    .blend = blend,
    .n_rows = n_rows,
    .rows_needed = rows_needed,
    .account = account,
    .set_account = set_account,
};
