/* window.c - which samples are in which slot; see window.h. */
#include "data/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"

static void list_remove(struct stream *s, struct slot_list *l, size_t i)
{
    const struct slot *x = &s->slots[i];
    if (x->before == NO_SLOT)
        l->first = x->after;
    else
        s->slots[x->before].after = x->after;
    if (x->after == NO_SLOT)
        l->last = x->before;
    else
        s->slots[x->after].before = x->before;
}

static void list_add(struct stream *s, struct slot_list *l, size_t i, bool is_first)
{
    struct slot *x = &s->slots[i];
    x->before = is_first ? NO_SLOT : l->last;
    x->after = is_first ? l->first : NO_SLOT;
    if (x->before == NO_SLOT)
        l->first = i;
    else
        s->slots[x->before].after = i;
    if (x->after == NO_SLOT)
        l->last = i;
    else
        s->slots[x->after].before = i;
}

static uint64_t key_of(bool is_test, const struct pick *picks, size_t n)
{
    uint64_t key = 2 * n + is_test;
    for (size_t i = 0; i < n; i++)
        key = rng_hash(key, picks[i].sample);
    return key ? key : 1;
}

static bool has_these(const struct slot *x, bool is_test, const struct pick *picks, size_t n)
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
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->keys[i] == key && has_these(&s->slots[i], is_test, picks, n))
            return i;
    return NO_SLOT;
}

size_t window_take_free(struct stream *s)
{
    size_t i = s->free.first;
    if (i != NO_SLOT)
        list_remove(s, &s->free, i);
    return i;
}

static bool is_being_read(const struct slot *x)
{
    return x->state == SLOT_WANTED && x->begun > 0;
}

/* How many batches of its line come before it. */
static uint64_t lead_of(const struct stream *s, const struct slot *x)
{
    return x->line == NO_LINE ? 0 : x->number + 1 - s->lines[x->line].expected;
}

static bool is_needed_later(const struct stream *s, const struct slot *x, const struct slot *than)
{
    uint64_t a = lead_of(s, x), b = lead_of(s, than);
    return a > b || (a == b && x->number > than->number);
}

static size_t needed_last(const struct stream *s)
{
    size_t last = NO_SLOT;
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct slot *x = &s->slots[i];
        if (x->state == SLOT_FREE || x->holders || is_being_read(x))
            continue;
        if (last == NO_SLOT || is_needed_later(s, x, &s->slots[last]))
            last = i;
    }
    return last;
}

/* Its samples have to be read again when they are needed. */
static void give_up(struct stream *s, size_t i)
{
    const struct slot *x = &s->slots[i];
    if (x->line != NO_LINE) {
        struct line *line = &s->lines[x->line];
        uint64_t back_to = x->number > line->expected ? x->number : line->expected;
        line->next = back_to < line->next ? back_to : line->next;
    }
    window_drop(s, i);
}

size_t window_take(struct stream *s)
{
    size_t last;
    if (s->free.first == NO_SLOT && (last = needed_last(s)) != NO_SLOT)
        give_up(s, last);
    return window_take_free(s);
}

static int rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void window_want(struct stream *s, size_t i, bool is_test, const struct pick *picks, size_t n, size_t line,
                 uint64_t number, bool is_urgent)
{
    struct slot *x = &s->slots[i];
    const uint32_t *at = s->from[is_test].at;
    *x = (struct slot){.state = SLOT_WANTED,
                       .is_test = is_test,
                       .n = n,
                       .samples = x->samples,
                       .order = x->order,
                       .bytes = x->bytes,
                       .line = line,
                       .number = number};
    for (size_t k = 0; k < n; k++) {
        x->samples[k] = picks[k].sample;
        x->order[k] = (uint64_t)(at ? at[picks[k].sample] : picks[k].sample) << 32 | k;
    }
    qsort(x->order, n, sizeof *x->order, rising);
    s->keys[i] = key_of(is_test, picks, n);
    s->n_without_line += line == NO_LINE;
    s->n_bytes += n * s->one;
    if (s->n_bytes > s->counts.most_bytes)
        s->counts.most_bytes = s->n_bytes;
    list_add(s, &s->wanted, i, is_urgent);
    pthread_cond_signal(&s->work);
}

void window_hurry(struct stream *s, size_t i)
{
    const struct slot *x = &s->slots[i];
    if (x->state == SLOT_WANTED && x->begun < x->n) {
        list_remove(s, &s->wanted, i);
        list_add(s, &s->wanted, i, true);
    }
}

static void set_free(struct stream *s, size_t i)
{
    struct slot *x = &s->slots[i];
    s->n_without_line -= x->line == NO_LINE;
    s->n_bytes -= x->n * s->one;
    s->keys[i] = 0;
    fault_drop(x->trouble);
    x->trouble = OK;
    x->state = SLOT_FREE;
    list_add(s, &s->free, i, false);
    pthread_cond_signal(&s->work);
    pthread_cond_broadcast(&s->news);
}

void window_drop(struct stream *s, size_t i)
{
    struct slot *x = &s->slots[i];
    if (is_being_read(x)) {
        x->is_stale = true;
        s->keys[i] = 0;
        return;
    }
    if (x->state == SLOT_WANTED)
        list_remove(s, &s->wanted, i);
    set_free(s, i);
}

size_t window_begin(struct stream *s, size_t i, struct wish *wishes, size_t most)
{
    struct slot *x = &s->slots[i];
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
    struct slot *x = &s->slots[i];
    x->done += n;
    s->counts.n_read += n;
    if (x->trouble)
        fault_drop(f);
    else
        x->trouble = f;
    if (x->done < x->n)
        return;
    x->state = SLOT_READY;
    s->moved_s = clock_now_s();
    if (x->is_stale)
        set_free(s, i);
    else
        pthread_cond_broadcast(&s->news);
}
