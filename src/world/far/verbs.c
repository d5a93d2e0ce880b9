/* verbs.c - what agents may ask for, in real time. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/host.h"
#include "world/far/inside.h"
#include "world/mixing.h"
#include "world/numbers.h"

static double far_now(const struct link *l)
{
    return far_now_s(far_in(l));
}

/* The world's clock may stand still meanwhile. */
static fault far_sleep(struct link *l, double seconds)
{
    struct far *w = far_of(l);
    double until = far_now_s(w) + seconds;
    do
        TRY(wait_to(w, clock_now_s() + until - far_now_s(w)));
    while (far_now_s(w) < until);
    return OK;
}

/* ---- lessons ---- */

static void copy_row(struct far *w, enum row row, size_t from, size_t into)
{
    size_t n = floats_of(w, row);
    if (n)
        memcpy(w->engine->ops->floats(w->engine, row, into), w->engine->ops->floats(w->engine, row, from),
               n * sizeof(float));
}

static void begin_on_copy(struct far *w)
{
    copy_row(w, ROW_PARAMS, 0, 1);
    copy_row(w, ROW_STATS, 0, 1);
    if (floats_of(w, ROW_STATS))
        memcpy(w->statistics, row_of(w, ROW_STATS), floats_of(w, ROW_STATS) * sizeof(float));
}

/* The lesson moved the copy's statistics; where peers have moved mine meanwhile, both moves count. */
static void end_on_copy(struct far *w)
{
    copy_row(w, ROW_GRADS, 1, 0);
    if (w->writes == w->writes_at_lesson) {
        copy_row(w, ROW_STATS, 1, 0);
        return;
    }
    float *mine = row_of(w, ROW_STATS);
    const float *after = w->engine->ops->floats(w->engine, ROW_STATS, 1);
    for (size_t i = 0; i < floats_of(w, ROW_STATS); i++)
        mine[i] += after[i] - w->statistics[i];
}

/* A lesson that was begun and is not wanted any more, since the round is done again, comes to its end first. */
static fault end_lesson(struct far *w)
{
    TRY(wait_for_members(w, lessons_are_over, NULL));
    return lessons_take_verdict(w);
}

static fault far_learn(struct link *l, uint64_t lesson)
{
    struct far *w = far_of(l);
    TRY(end_lesson(w));
    TRY(sendings_await(w, ROW_GRADS, 0, TO_END));
    TRY(sendings_await(w, ROW_STATS, 0, TO_END));
    if (w->keeps_copy)
        begin_on_copy(w);
    w->writes_at_lesson = w->writes;
    w->is_learning = true;
    w->gradient_is_new = false;
    lesson_begin(w, lesson);
    return OK;
}

static bool gradient_is_there(const struct far *w, const void *ctx)
{
    size_t first = *(const size_t *)ctx;
    return first && atomic_load_explicit(&w->lessons.ready, memory_order_acquire) <= first;
}

static fault take_answer(struct far *w)
{
    struct lessons *l = &w->lessons;
    w->is_learning = false;
    w->gradient_is_new = true;
    TRY(lessons_take_verdict(w));
    if (w->keeps_copy) {
        TRY(sendings_await(w, ROW_GRADS, 0, TO_END));
        TRY(sendings_await(w, ROW_STATS, 0, TO_END));
        end_on_copy(w);
    }
    if (is_leader(w)) /* the others' are taken to be as many until they are asked */
        w->totals.samples += w->stage->n_agents * w->agent->feed.batch;
    return agent_answered(w->agent, l->number, l->lesson.loss, l->lesson.hits);
}

/* A lesson that fails is over, and its gradient never there. */
static bool gradient_is_there_or_never(const struct far *w, const void *ctx)
{
    return gradient_is_there(w, ctx) || lessons_are_over(w, NULL);
}

static fault await_early(struct far *w, size_t first)
{
    atomic_store(&w->lessons.wanted, first);
    fault f = gradient_is_there(w, &first) ? OK : wait_for_members(w, gradient_is_there_or_never, &first);
    atomic_store(&w->lessons.wanted, 0);
    return f || gradient_is_there(w, &first) ? f : take_answer(w);
}

static fault far_await(struct link *l, size_t first)
{
    struct far *w = far_of(l);
    if (first && !w->keeps_copy)
        return await_early(w, first);
    TRY(wait_for_members(w, lessons_are_over, NULL));
    if (first == 0)
        return take_answer(w);
    TRY(sendings_await(w, ROW_GRADS, 0, TO_END));
    copy_row(w, ROW_GRADS, 1, 0);
    return OK;
}

static fault far_update(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    struct far *w = far_of(l);
    struct update u = {0, lr, t, first, end};
    TRY(sendings_await(w, ROW_PARAMS, first, end));
    for (size_t i = 0; i < OPTIM_SLOTS; i++)
        TRY(sendings_await(w, ROW_SLOT + i, first, end));
    w->writes++;
    w->gradient_is_new = false;
    return w->engine->ops->update(w->engine, &u, 1);
}

/* ---- rows ---- */

enum { MOST_TERMS = 64 };

static fault find_terms(const struct far *w, const struct term *terms, size_t n, size_t first, size_t end,
                        const float **from, float *weights)
{
    for (size_t i = 0; i < n; i++) {
        weights[i] = (float)terms[i].weight;
        ptrdiff_t shift = terms[i].shift;
        from[i] = terms[i].parcel
                      ? incoming_floats(w, terms[i].parcel->rows, terms[i].row, first + shift, end + shift)
                      : row_of(w, terms[i].row) + first + shift;
        if (!from[i])
            return FAIL(FAULT_USAGE, "agent %zu was sent other floats than it wants to mix", w->link.self);
    }
    return OK;
}

/* A whole row that peers still read is left to them: the sum goes into the spare row, and the two change places. */
static fault mix_rows(struct far *w, enum row into, size_t first, size_t end, const struct term *terms,
                      size_t n, const float **from, float *weights)
{
    struct engine *e = w->engine;
    bool beside = first == 0 && end == floats_of(w, into) && sendings_hold(w, into, first, end);
    float *sum = e->ops->floats(e, into, beside ? far_spare(w) : 0) + first;
    TRY(mixing_check(&w->link, &e->setup, into, first, end, terms, n));
    TRY(sendings_await_floats(w, sum, end - first));
    TRY(find_terms(w, terms, n, first, end, from, weights));
    host_blend(sum, from, weights, n, end - first);
    if (beside)
        e->ops->exchange(e, into, 0, far_spare(w));
    return OK;
}

static fault far_mix(struct link *l, enum row into, size_t first, size_t end, const struct term *terms,
                     size_t n)
{
    struct far *w = far_of(l);
    size_t size = floats_of(w, into);
    const float *from_here[MOST_TERMS], **from = n > MOST_TERMS ? malloc(n * sizeof *from) : from_here;
    float weights_here[MOST_TERMS], *weights = n > MOST_TERMS ? malloc(n * sizeof *weights) : weights_here;
    end = smaller(end, size);
    fault f = from && weights ? OK : OUT_OF_MEMORY;
    if (!f && n && first < end)
        f = mix_rows(w, into, first, end, terms, n, from, weights);
    w->writes += into == ROW_PARAMS;
    w->gradient_is_new = w->gradient_is_new || into == ROW_GRADS;
    if (n > MOST_TERMS) {
        free(from);
        free(weights);
    }
    return f;
}

/* Numbers are there at once: a program begins again at the end of a round, so no member has to be told them again. */
static fault far_number(struct link *l, const struct question *asked, double *out)
{
    struct far *w = far_of(l);
    struct question q;
    struct asker asker = {w->agent->lessons, w->is_learning, w->gradient_is_new};
    TRY(number_check(l, &w->engine->setup, asker, asked, &q));
    double number =
        q.about == NUMBER_LOSS
            ? w->agent->loss
            : host_dot(row_of(w, q.row) + q.first, row_of(w, q.other) + q.first + q.shift, q.end - q.first);
    TRY(number_judge(l, &w->engine->setup, &q, number));
    *out = number;
    return OK;
}

/* ---- questions ---- */

static bool far_can_reach(const struct link *l, size_t peer)
{
    return !far_in(l)->peers[peer].is_gone;
}

/* None is let in again while a run goes on. */
static bool far_may_return(const struct link *l, size_t peer)
{
    return far_can_reach(l, peer);
}

static bool far_takes_part(const struct link *l, size_t peer, uint64_t k)
{
    (void)k;
    return far_can_reach(l, peer);
}

static bool far_has_ended(const struct link *l, size_t peer)
{
    return far_in(l)->peers[peer].has_ended;
}

/* There are no cuts: a peer that one member has lost all have lost. */
static bool far_others_go_on(const struct link *l, double since_s)
{
    (void)l;
    (void)since_s;
    return false;
}

/* The leader takes the number of rounds from the accounts of all. */
static void far_skip_rounds(struct link *l, uint64_t n)
{
    (void)l;
    (void)n;
}

static size_t far_row_floats(const struct link *l, enum row row)
{
    return floats_of(far_in(l), row);
}

static uint64_t far_staleness(const struct link *l)
{
    return far_in(l)->writes - far_in(l)->writes_at_lesson;
}

static void far_note(struct link *l, const char *kind, const char *text)
{
    struct far *w = far_of(l);
    unsigned char both[1024];
    if (is_leader(w)) {
        w->watcher.note(w->watcher.ctx, far_now_s(w), l->self, kind, text);
        return;
    }
    const char *const texts[] = {kind, text};
    far_tell(w, 0, MSG_NOTE, 0, both, packet_write_texts(both, sizeof both, texts, 2));
}

const struct link_ops far_link = {
    .now_s = far_now,
    .sleep = far_sleep,
    .learn = far_learn,
    .await = far_await,
    .update = far_update,
    .send_rows = far_send_rows,
    .recv_rows = far_recv_rows,
    .drop = far_drop,
    .mix = far_mix,
    .number = far_number,
    .send = far_send,
    .recv = far_recv,
    .average = far_average,
    .adopt = far_adopt,
    .take_round = far_take_round,
    .end_round = far_end_round,
    .skip_rounds = far_skip_rounds,
    .has_mail = far_has_mail,
    .forget = far_forget,
    .dissolve = far_dissolve,
    .dissolved = far_dissolved,
    .can_reach = far_can_reach,
    .may_return = far_may_return,
    .has_ended = far_has_ended,
    .others_go_on = far_others_go_on,
    .takes_part = far_takes_part,
    .row_floats = far_row_floats,
    .staleness = far_staleness,
    .note = far_note,
};
