/* ahead.c - what is going to be needed, in order, and the threads that read it.
 *
 * Every agent's course is read as far ahead as any other's: the next batch is that of the course with the shortest lead. Pieces of
 * exams come first, since nobody learns meanwhile, and take at most half of the window from what was read ahead. Where that is enough
 * for all pieces they are read once for the exams of all replicas.
 */
#include "data/stream/window.h"

#include "base/arena.h"

enum { CHUNK = 32 }; /* samples that a reader takes at a time */

static void lay_out_piece(const struct range *r, size_t n, struct pick *picks)
{
    for (size_t i = 0; i < n; i++)
        picks[i] = (struct pick){.sample = (uint32_t)(r->at + i)};
}

static void pass_piece(struct stream *s, size_t n)
{
    struct range *r = &s->ranges[0];
    r->at += n;
    if (r->at < r->end)
        return;
    r->at = r->first;
    if (--r->times)
        return;
    s->n_ranges--;
    for (size_t i = 0; i < s->n_ranges; i++)
        s->ranges[i] = s->ranges[i + 1];
}

void ahead_pass(struct stream *s, bool is_test, const struct pick *picks, size_t n)
{
    const struct range *r = &s->ranges[0];
    if (s->n_ranges && r->is_test == is_test && r->at == picks[0].sample &&
        n == smaller(r->piece, r->end - r->at))
        pass_piece(s, n);
}

static bool foresee_piece(struct stream *s)
{
    const struct range *r = &s->ranges[0];
    bool is_test = r->is_test;
    size_t n = smaller(r->piece, r->end - r->at);
    lay_out_piece(r, n, s->room);
    size_t i = window_find(s, is_test, s->room, n);
    if (i == NO_BAY) {
        i = s->n_without_course < (s->n_bays + 1) / 2 ? window_take(s) : window_take_free(s);
        if (i == NO_BAY)
            return false;
        window_want(s, i, is_test, s->room, n, NO_COURSE, s->pieces++, false);
    }
    s->bays[i].to_come += s->bays[i].course == NO_COURSE; /* a batch's bay is let go of in its time */
    pass_piece(s, n);
    return true;
}

static struct course *shortest_course(const struct stream *s)
{
    struct course *shortest = &s->courses[0];
    for (size_t i = 1; i < s->n_courses; i++)
        if (s->courses[i].next - s->courses[i].expected < shortest->next - shortest->expected)
            shortest = &s->courses[i];
    return shortest;
}

/* Batches that lie ahead take a bay each, but for those that are alike (of a share with fewer batches than there are bays), which
 * share one. As many of them as there are bays are enough: more would be found in bays without end. */
static bool is_far_enough(const struct stream *s, const struct course *shortest)
{
    return (shortest->next - shortest->expected) * s->n_courses >= s->n_bays;
}

static bool foresee_batch(struct stream *s)
{
    if (!s->n_courses || s->free.first == NO_BAY)
        return false;
    struct course *course = shortest_course(s);
    if (is_far_enough(s, course))
        return false;
    feed_batch(&course->feed, course->next, s->room);
    if (window_find(s, false, s->room, course->feed.batch) == NO_BAY)
        window_want(s, window_take_free(s), false, s->room, course->feed.batch, (size_t)(course - s->courses),
                    course->next, false);
    course->next++;
    return true;
}

bool ahead_foresee(struct stream *s)
{
    return s->n_ranges ? foresee_piece(s) : foresee_batch(s);
}

void ahead_forget_exams(struct stream *s)
{
    s->n_ranges = 0;
    for (size_t i = 0; s->n_without_course && i < s->n_bays; i++) {
        s->bays[i].to_come = 0;
        if (s->bays[i].state != BAY_FREE && s->bays[i].course == NO_COURSE && !s->bays[i].holders)
            window_drop(s, i);
    }
}

static void read_some(struct stream *s, size_t i)
{
    struct wish wishes[CHUNK];
    size_t n = window_begin(s, i, wishes, CHUNK);
    const struct extents *from = &s->from[s->bays[i].is_test].extents;
    if (s->wanted.first != NO_BAY) /* there is work for another reader */
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    fault f = extents_read(from, wishes, n);
    pthread_mutex_lock(&s->lock);
    window_end(s, i, n, f);
}

void *ahead_read(void *stream)
{
    struct stream *s = stream;
    pthread_mutex_lock(&s->lock);
    while (!s->must_end) {
        if (s->wanted.first != NO_BAY)
            read_some(s, s->wanted.first);
        else if (!ahead_foresee(s))
            pthread_cond_wait(&s->work, &s->lock);
    }
    s->n_running--;
    pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
