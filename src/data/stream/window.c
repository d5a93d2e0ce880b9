/* window.c - which samples are in which bay; see window.h. */
#include "data/stream/window.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/sort.h"

static void list_remove(struct stream *s, struct bay_list *l, size_t i)
{
    const struct bay *x = &s->bays[i];
    if (x->before == NO_BAY)
        l->first = x->after;
    else
        s->bays[x->before].after = x->after;
    if (x->after == NO_BAY)
        l->last = x->before;
    else
        s->bays[x->after].before = x->before;
}

static void list_add(struct stream *s, struct bay_list *l, size_t i, bool is_first)
{
    struct bay *x = &s->bays[i];
    x->before = is_first ? NO_BAY : l->last;
    x->after = is_first ? l->first : NO_BAY;
    if (x->before == NO_BAY)
        l->first = i;
    else
        s->bays[x->before].after = i;
    if (x->after == NO_BAY)
        l->last = i;
    else
        s->bays[x->after].before = i;
}

static uint64_t key_of(bool is_test, const struct pick *picks, size_t n)
{
    uint64_t key = 2 * n + is_test;
    for (size_t i = 0; i < n; i++)
        key = rng_hash(key, picks[i].sample);
    return key ? key : 1;
}

static bool has_these(const struct bay *x, bool is_test, const struct pick *picks, size_t n)
{
    if (x->is_test != is_test || x->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (x->samples[i] != picks[i].sample)
            return false;
    return true;
}

size_t window_find(const struct stream *s, bool is_test, const struct pick *picks, size_t n)
{
    uint64_t key = key_of(is_test, picks, n);
    for (size_t i = 0; i < s->n_bays; i++)
        if (s->keys[i] == key && has_these(&s->bays[i], is_test, picks, n))
            return i;
    return NO_BAY;
}

size_t window_take_free(struct stream *s)
{
    size_t i = s->free.first;
    if (i != NO_BAY)
        list_remove(s, &s->free, i);
    return i;
}

static bool is_being_read(const struct bay *x)
{
    return x->state == BAY_WANTED && x->begun > 0;
}

/* How many batches of its course come before it. */
static uint64_t lead_of(const struct stream *s, const struct bay *x)
{
    return x->course == NO_COURSE ? 0 : x->number + 1 - s->courses[x->course].expected;
}

static bool is_needed_later(const struct stream *s, const struct bay *x, const struct bay *than)
{
    uint64_t a = lead_of(s, x), b = lead_of(s, than);
    return a > b || (a == b && x->number > than->number);
}

static size_t needed_last(const struct stream *s)
{
    size_t last = NO_BAY;
    for (size_t i = 0; i < s->n_bays; i++) {
        const struct bay *x = &s->bays[i];
        if (x->state == BAY_FREE || x->holders || is_being_read(x))
            continue;
        if (last == NO_BAY || is_needed_later(s, x, &s->bays[last]))
            last = i;
    }
    return last;
}

/* Its samples have to be read again when they are needed. */
static void give_up(struct stream *s, size_t i)
{
    const struct bay *x = &s->bays[i];
    if (x->course != NO_COURSE) {
        struct course *course = &s->courses[x->course];
        uint64_t back_to = x->number > course->expected ? x->number : course->expected;
        course->next = back_to < course->next ? back_to : course->next;
    }
    window_drop(s, i);
}

size_t window_take(struct stream *s)
{
    size_t last;
    if (s->free.first == NO_BAY && (last = needed_last(s)) != NO_BAY)
        give_up(s, last);
    return window_take_free(s);
}

static void count_bay(struct stream *s, size_t course, int by)
{
    size_t *n = course == NO_COURSE ? &s->n_without_course : &s->courses[course].n_bays;
    *n += (size_t)by;
}

void window_want(struct stream *s, size_t i, bool is_test, const struct pick *picks, size_t n, size_t course,
                 uint64_t number, bool is_urgent)
{
    struct bay *x = &s->bays[i];
    const uint32_t *at = s->from[is_test].at;
    *x = (struct bay){.state = BAY_WANTED,
                      .is_test = is_test,
                      .n = n,
                      .samples = x->samples,
                      .order = x->order,
                      .bytes = x->bytes,
                      .course = course,
                      .number = number};
    for (size_t k = 0; k < n; k++) {
        x->samples[k] = picks[k].sample;
        x->order[k] = (uint64_t)(at ? at[picks[k].sample] : picks[k].sample) << 32 | k;
    }
    sort_rising(x->order, n);
    s->keys[i] = key_of(is_test, picks, n);
    count_bay(s, course, 1);
    s->n_bytes += n * s->one;
    if (s->n_bytes > s->counts.most_bytes)
        s->counts.most_bytes = s->n_bytes;
    list_add(s, &s->wanted, i, is_urgent);
    pthread_cond_signal(&s->work);
}

void window_hurry(struct stream *s, size_t i)
{
    const struct bay *x = &s->bays[i];
    if (x->state == BAY_WANTED && x->begun < x->n) {
        list_remove(s, &s->wanted, i);
        list_add(s, &s->wanted, i, true);
    }
}

static void set_free(struct stream *s, size_t i)
{
    struct bay *x = &s->bays[i];
    count_bay(s, x->course, -1);
    s->n_bytes -= x->n * s->one;
    s->keys[i] = 0;
    fault_drop(x->trouble);
    x->trouble = OK;
    x->state = BAY_FREE;
    list_add(s, &s->free, i, false);
    pthread_cond_signal(&s->work);
    pthread_cond_broadcast(&s->news);
}

void window_drop(struct stream *s, size_t i)
{
    struct bay *x = &s->bays[i];
    if (is_being_read(x)) {
        x->is_stale = true;
        s->keys[i] = 0;
        return;
    }
    if (x->state == BAY_WANTED)
        list_remove(s, &s->wanted, i);
    set_free(s, i);
}

size_t window_begin(struct stream *s, size_t i, struct wish *wishes, size_t most)
{
    struct bay *x = &s->bays[i];
    size_t n = smaller(most, x->n - x->begun);
    for (size_t k = 0; k < n; k++) {
        uint64_t o = x->order[x->begun + k];
        wishes[k] = (struct wish){.sample = (size_t)(o >> 32), .to = x->bytes + (uint32_t)o * s->one};
    }
    x->begun += n;
    if (x->begun == x->n)
        list_remove(s, &s->wanted, i);
    return n;
}

void window_end(struct stream *s, size_t i, size_t n, fault f)
{
    struct bay *x = &s->bays[i];
    x->done += n;
    s->counts.n_read += n;
    if (x->trouble)
        fault_drop(f);
    else
        x->trouble = f;
    if (x->done < x->n)
        return;
    x->state = BAY_READY;
    s->moved_s = clock_now_s();
    if (x->is_stale)
        set_free(s, i);
    else
        pthread_cond_broadcast(&s->news);
}
