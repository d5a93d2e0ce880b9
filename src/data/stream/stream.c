/* stream.c - opening a stream, holding samples of it; see stream.h. */
#include "data/stream/stream.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "data/stream/window.h"

#define MEGABYTE   1e6
#define PATIENCE_S 60

static size_t bay_samples(size_t batch)
{
    return larger(batch, SAMPLES_AT_ONCE);
}

fault stream_check(double window_mb, size_t batch, size_t n_bytes)
{
    double least = (double)bay_samples(batch) * (double)n_bytes / MEGABYTE;
    if (window_mb >= least)
        return OK;
    return FAIL(FAULT_DATA,
                "data.window_mb: %g holds less than %zu samples of %zu bytes, which are needed at a time; "
                "the least is %g",
                window_mb, bay_samples(batch), n_bytes, ceil(least * 1e4) / 1e4);
}

/* ---- opening and closing ---- */

static fault make_bays(struct stream *s, double window_mb)
{
    size_t bay_bytes = s->at_once * s->one;
    s->n_bays = (size_t)(window_mb * MEGABYTE / (double)bay_bytes + 1e-9);
    TRY(block_open(s->n_bays * bay_bytes, &s->memory));
    s->bays = calloc(s->n_bays, sizeof *s->bays);
    s->keys = calloc(s->n_bays, sizeof *s->keys);
    s->samples = calloc(s->n_bays * s->at_once, sizeof *s->samples);
    s->order = calloc(s->n_bays * s->at_once, sizeof *s->order);
    s->room = calloc(s->at_once, sizeof *s->room);
    if (!s->bays || !s->keys || !s->samples || !s->order || !s->room)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < s->n_bays; i++)
        s->bays[i] = (struct bay){.samples = s->samples + i * s->at_once,
                                  .order = s->order + i * s->at_once,
                                  .bytes = (uint8_t *)s->memory.bytes + i * bay_bytes,
                                  .before = i ? i - 1 : NO_BAY,
                                  .after = i + 1 < s->n_bays ? i + 1 : NO_BAY};
    s->free = (struct bay_list){0, s->n_bays - 1};
    s->wanted = (struct bay_list){NO_BAY, NO_BAY};
    s->counts.n_bytes = s->n_bays * bay_bytes;
    return OK;
}

static void release(struct stream *s)
{
    for (size_t i = 0; s->bays && i < s->n_bays; i++)
        fault_drop(s->bays[i].trouble);
    for (size_t i = 0; i < s->n_courses; i++)
        feed_release(&s->courses[i].feed);
    for (int i = 0; i < 2; i++) {
        extents_close(&s->from[i].extents);
        free(s->from[i].at);
    }
    block_close(&s->memory);
    free(s->bays);
    free(s->keys);
    free(s->samples);
    free(s->order);
    free(s->room);
    free(s->courses);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static struct timespec moment_after(double from_s, double seconds)
{
    double at = from_s + fmin(seconds, 1e9);
    return (struct timespec){(time_t)at, (long)((at - floor(at)) * 1e9)};
}

/* A reader whom the disk never answers keeps what it works with: the memory is left to it. */
void stream_close(struct stream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->must_end = true;
    pthread_cond_broadcast(&s->work);
    struct timespec deadline = moment_after(clock_now_s(), s->patience_s);
    int late = 0;
    while (s->n_running && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&s->news, &s->lock, &deadline);
    bool is_over = s->n_running == 0;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->n_readers; i++) {
        if (is_over)
            pthread_join(s->readers[i], NULL);
        else
            pthread_detach(s->readers[i]);
    }
    if (is_over)
        release(s);
}

/* Signals are for those who asked for them. */
static fault start_readers(struct stream *s)
{
    sigset_t all, before;
    int wrong = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < READERS && !wrong; i++) {
        pthread_mutex_lock(&s->lock);
        wrong = pthread_create(&s->readers[i], NULL, ahead_read, s);
        s->n_readers += !wrong;
        s->n_running += !wrong;
        pthread_mutex_unlock(&s->lock);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return wrong && !s->n_readers
               ? FAIL(FAULT_MEMORY, "a thread that reads samples cannot be made (error %d)", wrong)
               : OK;
}

static void make_lock(struct stream *s)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, &attributes);
    pthread_cond_init(&s->news, &attributes);
    pthread_condattr_destroy(&attributes);
}

fault stream_open(double window_mb, size_t batch, struct on_disk from[2], struct stream **out)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s) {
        for (int i = 0; i < 2; i++) {
            extents_close(&from[i].extents);
            free(from[i].at);
        }
        return OUT_OF_MEMORY;
    }
    memcpy(s->from, from, sizeof s->from);
    s->one = from[0].extents.n_bytes;
    s->at_once = bay_samples(batch);
    s->patience_s = PATIENCE_S;
    s->counts.on_disk = extents_bytes(&from[0].extents) + extents_bytes(&from[1].extents);
    make_lock(s);
    fault f = stream_check(window_mb, batch, s->one);
    if (!f)
        f = make_bays(s, window_mb);
    if (!f)
        f = start_readers(s);
    if (f)
        stream_close(s);
    else
        *out = s;
    return f;
}

static void drop_all(struct stream *s)
{
    for (size_t i = 0; i < s->n_bays; i++)
        if (s->bays[i].state != BAY_FREE && !s->bays[i].is_stale)
            window_drop(s, i);
}

fault stream_keep(struct stream *s, const uint32_t *chosen, size_t n)
{
    uint32_t *at = malloc((n + 1) * sizeof *at);
    if (!at)
        return OUT_OF_MEMORY;
    struct on_disk *from = &s->from[0];
    for (size_t i = 0; i < n; i++)
        at[i] = from->at ? from->at[chosen[i]] : chosen[i];
    pthread_mutex_lock(&s->lock);
    s->n_ranges = 0;
    drop_all(s);
    free(from->at);
    from->at = at;
    pthread_mutex_unlock(&s->lock);
    return OK;
}

void stream_set_patience(struct stream *s, double seconds)
{
    pthread_mutex_lock(&s->lock);
    s->patience_s = seconds;
    pthread_mutex_unlock(&s->lock);
}

/* ---- what comes next ---- */

fault stream_follow(struct stream *s, const struct feed *f, size_t *course)
{
    struct course fresh = {0};
    TRY(feed_copy(f, &fresh.feed));
    pthread_mutex_lock(&s->lock);
    struct course *longer = realloc(s->courses, (s->n_courses + 1) * sizeof *longer);
    if (longer) {
        s->courses = longer;
        *course = s->n_courses;
        s->courses[s->n_courses++] = fresh;
        pthread_cond_broadcast(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    if (!longer)
        feed_release(&fresh.feed);
    return longer ? OK : OUT_OF_MEMORY;
}

/* What was announced and never held as a whole is of no use any more. */
static void drop_before(struct stream *s, size_t course, uint64_t k)
{
    for (size_t i = 0; i < s->n_bays; i++) {
        const struct bay *x = &s->bays[i];
        if (x->state != BAY_FREE && x->course == course && x->number < k && !x->holders && !x->is_stale)
            window_drop(s, i);
    }
}

/* The agent goes on elsewhere than it was thought to. */
static void turn_to(struct stream *s, size_t course, uint64_t k)
{
    bool is_there = false;
    for (size_t i = 0; i < s->n_bays; i++) {
        const struct bay *x = &s->bays[i];
        if (x->state == BAY_FREE || x->course != course || x->holders || x->is_stale)
            continue;
        if (x->number == k)
            is_there = true;
        else
            window_drop(s, i);
    }
    s->courses[course].next = k + is_there;
}

void stream_announce(struct stream *s, const struct feed *f, uint64_t k, const struct pick *picks)
{
    pthread_mutex_lock(&s->lock);
    struct course *course = &s->courses[f->course];
    ahead_forget_exams(s);
    if (k != course->expected)
        turn_to(s, f->course, k);
    course->expected = k + 1;
    if (course->n_bays > course->next - k)
        drop_before(s, f->course, k);
    if (course->next == k) {
        size_t i = window_find(s, false, picks, f->batch) == NO_BAY ? window_take_free(s) : NO_BAY;
        if (i != NO_BAY)
            window_want(s, i, false, picks, f->batch, f->course, k, true);
        course->next = k + 1;
    }
    if (s->free.first != NO_BAY) /* one batch more may be read ahead */
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static bool is_same_range(const struct range *a, const struct range *b)
{
    return a->is_test == b->is_test && a->first == b->first && a->end == b->end && a->piece == b->piece;
}

void stream_expect(struct stream *s, bool is_test, size_t first, size_t n, size_t piece)
{
    struct range r = {is_test, first, first + n, smaller(piece, s->at_once), first, 1};
    pthread_mutex_lock(&s->lock);
    if (n && s->n_ranges && is_same_range(&s->ranges[s->n_ranges - 1], &r))
        s->ranges[s->n_ranges - 1].times++;
    else if (n && s->n_ranges < MOST_RANGES)
        s->ranges[s->n_ranges++] = r;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* ---- holding ---- */

static fault too_slow(const struct stream *s, const struct bay *x)
{
    const struct extents *from = &s->from[x->is_test].extents;
    size_t first = (size_t)(x->order[x->done < x->n ? x->done : 0] >> 32);
    return FAIL(
        FAULT_FILE,
        "%s: the disk is too slow, or gone: of %zu samples that are needed %zu were read within %g seconds",
        extents_find(from, first)->path, x->n, x->done, s->patience_s);
}

static const struct bay *bay_being_read(const struct stream *s)
{
    for (size_t i = 0; i < s->n_bays; i++)
        if (s->bays[i].state == BAY_WANTED)
            return &s->bays[i];
    return NULL;
}

/* Every bay is held, or being read for somebody else. Those who hold some are computing and will let go, however long that takes;
 * the disk has patience's time, whoever holds what. */
static fault wait_for_room(struct stream *s, double since_s)
{
    const struct bay *wanted = bay_being_read(s);
    double last = s->moved_s > since_s ? s->moved_s : since_s;
    struct timespec deadline = moment_after(wanted ? last : clock_now_s(), s->patience_s);
    bool is_late = pthread_cond_timedwait(&s->news, &s->lock, &deadline) == ETIMEDOUT;
    return is_late && wanted && wanted->state == BAY_WANTED && s->moved_s <= last ? too_slow(s, wanted) : OK;
}

static fault wait_until_ready(struct stream *s, const struct bay *x)
{
    struct timespec deadline = moment_after(clock_now_s(), s->patience_s);
    while (x->state != BAY_READY)
        if (pthread_cond_timedwait(&s->news, &s->lock, &deadline) == ETIMEDOUT && x->state != BAY_READY)
            return too_slow(s, x);
    return x->trouble ? FAIL(fault_kind_of(x->trouble), "%s", fault_text(x->trouble)) : OK;
}

/* The bay of these samples, or one that is to have them. */
static fault find_bay(struct stream *s, bool is_test, const struct pick *picks, size_t n, size_t *out)
{
    double since_s = clock_now_s();
    for (;;) {
        *out = window_find(s, is_test, picks, n);
        if (*out != NO_BAY) {
            window_hurry(s, *out);
            return OK;
        }
        *out = window_take(s);
        if (*out != NO_BAY) {
            ahead_pass(s, is_test, picks, n);
            window_want(s, *out, is_test, picks, n, NO_COURSE, 0, true);
            return OK;
        }
        TRY(wait_for_room(s, since_s));
    }
}

static void put_back(struct stream *s, size_t i)
{
    struct bay *x = &s->bays[i];
    if (--x->holders == 0 && (!x->to_come || x->trouble))
        window_drop(s, i);
}

static fault hold(struct stream *s, bool is_test, const struct pick *picks, size_t n, size_t *out)
{
    TRY(find_bay(s, is_test, picks, n, out));
    struct bay *x = &s->bays[*out];
    x->holders++;
    x->to_come -= x->to_come > 0;
    s->counts.n_held++;
    s->counts.n_late += x->state != BAY_READY;
    fault f = wait_until_ready(s, x);
    if (f)
        put_back(s, *out);
    else
        s->n_held++;
    return f;
}

static struct held held_of(const struct stream *s, size_t i)
{
    const struct bay *x = &s->bays[i];
    return (struct held){.bytes = x->bytes,
                         .is_packed = true,
                         .samples = x->samples,
                         .bay = i,
                         .course = x->course,
                         .number = x->number};
}

fault stream_hold(struct stream *s, bool is_test, const struct pick *picks, size_t n, struct held *out)
{
    size_t i;
    if (n > s->at_once)
        return FAIL(FAULT_USAGE, "%zu samples are held at once, where the window has room for %zu", n,
                    s->at_once);
    pthread_mutex_lock(&s->lock);
    fault f = hold(s, is_test, picks, n, &i);
    if (!f)
        *out = held_of(s, i);
    pthread_mutex_unlock(&s->lock);
    return f;
}

static size_t find_batch(const struct stream *s, size_t course, uint64_t number)
{
    for (size_t i = 0; i < s->n_bays; i++) {
        const struct bay *x = &s->bays[i];
        if (x->state == BAY_READY && x->course == course && x->number == number && !x->trouble)
            return i;
    }
    return NO_BAY;
}

bool stream_hold_next(struct stream *s, const struct held *before, struct held *out)
{
    pthread_mutex_lock(&s->lock);
    bool has_room = before->course != NO_COURSE && s->n_held < s->n_bays / 2;
    size_t i = has_room ? find_batch(s, before->course, before->number + 1) : NO_BAY;
    if (i != NO_BAY) {
        s->bays[i].holders++;
        s->n_held++;
        *out = held_of(s, i);
    }
    pthread_mutex_unlock(&s->lock);
    return i != NO_BAY;
}

void stream_let_go(struct stream *s, const struct held *h)
{
    pthread_mutex_lock(&s->lock);
    s->n_held--;
    s->moved_s = clock_now_s();
    put_back(s, h->bay);
    pthread_mutex_unlock(&s->lock);
}

size_t stream_bays(const struct stream *s)
{
    return s->n_bays;
}

const struct block *stream_window(const struct stream *s)
{
    return &s->memory;
}

struct stream_counts stream_counts(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    struct stream_counts counts = s->counts;
    pthread_mutex_unlock(&s->lock);
    return counts;
}
