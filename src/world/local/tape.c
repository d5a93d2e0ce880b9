/* tape.c - see tape.h. Levels are counted from 1 within one flush; 0 stands for everything before it. */
#include "world/local/tape.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"

enum entry_kind { ENTRY_LEARN, ENTRY_UPDATE, ENTRY_BLEND, ENTRY_DOT, N_ENTRY_KINDS };

/* Lessons have every so-manieth level to themselves. A lesson that could run a little earlier waits for the
 * steps and blends that let others run beside it: lessons are by far the most work, and best done together.
 */
enum { LESSON_LEVELS = 1 << 16 };

struct entry {
    enum entry_kind kind;
    uint32_t level;
    size_t agent; /* LEARN, UPDATE, DOT */
    uint64_t number;
    double lr;
    size_t first, end; /* UPDATE, BLEND, DOT */
    enum row row;      /* BLEND, DOT */
    union {
        struct { /* BLEND */
            size_t into, also, first_addend, n_addends;
        };
        struct { /* DOT */
            enum row other;
            ptrdiff_t shift;
            double *out; /* borrowed */
        };
    };
};

struct mark { /* the last level that ... a row */
    uint32_t read, wrote;
};

struct tape {
    struct engine *engine; /* borrowed */
    struct tape_client client;
    bool silent;
    size_t n_rows;         /* of each kind, spare ones included */
    struct mark *marks;    /* owned: [rows.n][n_rows] */
    struct entry *entries; /* owned, as all below */
    size_t n_entries, entry_room;
    struct addend *addends; /* of blends */
    size_t n_addends, addend_room;
    size_t n_lessons, lessons_wanted;
    uint64_t *order; /* entries by level and kind: the group, then the entry's number */
    size_t order_room;
    struct lesson *lessons; /* [n_replicas] */
    struct update *updates; /* [n_replicas] */
    struct pick *picks;     /* [n_replicas][batch] */
    struct blend *blends;
    size_t blend_room;
    double nowhere;  /* what a number that was forgotten becomes */
    float *dot_room; /* where rows lie on a device: from the first number on */
    double spent_s[N_ENTRY_KINDS];
};

fault tape_new(struct engine *engine, struct tape_client client, size_t lessons_wanted, struct tape **out)
{
    const struct engine_setup *s = &engine->setup;
    struct tape *t = calloc(1, sizeof *t);
    if (!t)
        return OUT_OF_MEMORY;
    t->engine = engine;
    t->client = client;
    t->lessons_wanted = lessons_wanted;
    t->n_rows = s->n_replicas + s->n_spare;
    t->marks = calloc(s->rows.n * t->n_rows, sizeof *t->marks);
    t->lessons = calloc(s->n_replicas, sizeof *t->lessons);
    t->updates = calloc(s->n_replicas, sizeof *t->updates);
    t->picks = calloc(s->n_replicas * s->batch, sizeof *t->picks);
    if (!t->marks || !t->lessons || !t->updates || !t->picks) {
        tape_free(t);
        return OUT_OF_MEMORY;
    }
    *out = t;
    return OK;
}

void tape_free(struct tape *t)
{
    if (!t)
        return;
    free(t->marks);
    free(t->entries);
    free(t->addends);
    free(t->order);
    free(t->lessons);
    free(t->updates);
    free(t->picks);
    free(t->blends);
    free(t->dot_room);
    free(t);
}

void tape_set_silent(struct tape *t, bool silent)
{
    t->silent = silent;
}

/* The array with room for at least n items, doubled as needed; NULL when memory is out, the old one
 * untouched. */
#define MAKE_ROOM(array, room, n)                                                                            \
    do {                                                                                                     \
        void *longer_ = array_with_room((array), (room), (n), sizeof *(array));                              \
        if (!longer_)                                                                                        \
            return OUT_OF_MEMORY;                                                                            \
        (array) = longer_;                                                                                   \
    } while (0)

static struct mark *mark_of(struct tape *t, enum row row, size_t i)
{
    return &t->marks[(size_t)row * t->n_rows + i];
}

static uint32_t level_to_read(struct tape *t, enum row row, size_t i)
{
    return mark_of(t, row, i)->wrote + 1;
}

static uint32_t level_to_write(struct tape *t, enum row row, size_t i)
{
    const struct mark *m = mark_of(t, row, i);
    return larger(m->read, m->wrote) + 1;
}

static void has_read(struct tape *t, enum row row, size_t i, uint32_t level)
{
    struct mark *m = mark_of(t, row, i);
    m->read = larger(m->read, level);
}

static void has_written(struct tape *t, enum row row, size_t i, uint32_t level)
{
    mark_of(t, row, i)->wrote = level;
}

static fault enter(struct tape *t, struct entry e)
{
    MAKE_ROOM(t->entries, &t->entry_room, t->n_entries + 1);
    t->entries[t->n_entries++] = e;
    return OK;
}

fault tape_learn(struct tape *t, size_t agent, uint64_t lesson)
{
    if (t->silent)
        return OK;
    uint32_t level = level_to_read(t, ROW_PARAMS, agent);
    level = larger(level, level_to_write(t, ROW_GRADS, agent));
    level = larger(level, level_to_write(t, ROW_STATS, agent));
    level = (level + LESSON_LEVELS - 1) / LESSON_LEVELS * LESSON_LEVELS;
    has_read(t, ROW_PARAMS, agent, level);
    has_written(t, ROW_GRADS, agent, level);
    has_written(t, ROW_STATS, agent, level);
    t->n_lessons++;
    return enter(t, (struct entry){.kind = ENTRY_LEARN, .level = level, .agent = agent, .number = lesson});
}

fault tape_update(struct tape *t, struct update u)
{
    if (t->silent)
        return OK;
    uint32_t level = level_to_read(t, ROW_GRADS, u.replica);
    const struct rows *rows = &t->engine->setup.rows;
    level = larger(level, level_to_write(t, ROW_PARAMS, u.replica));
    for (enum row slot = ROW_SLOT; slot < smaller(ROW_KEPT, rows->n); slot++)
        level = larger(level, level_to_write(t, slot, u.replica));
    has_read(t, ROW_GRADS, u.replica, level);
    has_written(t, ROW_PARAMS, u.replica, level);
    for (enum row slot = ROW_SLOT; slot < smaller(ROW_KEPT, rows->n); slot++)
        has_written(t, slot, u.replica, level);
    return enter(t, (struct entry){.kind = ENTRY_UPDATE,
                                   .level = level,
                                   .agent = u.replica,
                                   .number = u.t,
                                   .lr = u.lr,
                                   .first = u.first,
                                   .end = u.end});
}

static uint32_t level_of_blend(struct tape *t, const struct blend *b)
{
    uint32_t level = level_to_write(t, b->row, b->into);
    if (b->also != NO_ROW)
        level = larger(level, level_to_write(t, b->row, b->also));
    for (size_t i = 0; i < b->n; i++)
        level = larger(level, level_to_read(t, b->addends[i].row, b->addends[i].from));
    return level;
}

fault tape_blend(struct tape *t, struct blend b)
{
    if (t->silent)
        return OK;
    MAKE_ROOM(t->addends, &t->addend_room, t->n_addends + b.n);
    uint32_t level = level_of_blend(t, &b);
    for (size_t i = 0; i < b.n; i++)
        has_read(t, b.addends[i].row, b.addends[i].from, level);
    has_written(t, b.row, b.into, level);
    if (b.also != NO_ROW)
        has_written(t, b.row, b.also, level);
    memcpy(t->addends + t->n_addends, b.addends, b.n * sizeof *b.addends);
    t->n_addends += b.n;
    return enter(t, (struct entry){.kind = ENTRY_BLEND,
                                   .level = level,
                                   .row = b.row,
                                   .into = b.into,
                                   .also = b.also,
                                   .first = b.first,
                                   .end = b.end,
                                   .first_addend = t->n_addends - b.n,
                                   .n_addends = b.n});
}

fault tape_dot(struct tape *t, struct dot d, double *out)
{
    if (t->silent)
        return OK;
    size_t room = engine_dot_room(t->engine);
    if (room && !t->dot_room && !(t->dot_room = malloc(room * sizeof *t->dot_room)))
        return OUT_OF_MEMORY;
    uint32_t level = larger(level_to_read(t, d.row, d.replica), level_to_read(t, d.other, d.replica));
    has_read(t, d.row, d.replica, level);
    has_read(t, d.other, d.replica, level);
    return enter(t, (struct entry){.kind = ENTRY_DOT,
                                   .level = level,
                                   .agent = d.replica,
                                   .row = d.row,
                                   .other = d.other,
                                   .first = d.first,
                                   .end = d.end,
                                   .shift = d.shift,
                                   .out = out});
}

void tape_forget(struct tape *t, const double *out)
{
    for (size_t i = 0; i < t->n_entries; i++)
        if (t->entries[i].kind == ENTRY_DOT && t->entries[i].out == out)
            t->entries[i].out = &t->nowhere;
}

bool tape_is_long(const struct tape *t)
{
    return t->n_lessons >= t->lessons_wanted || t->n_entries >= 64 * t->engine->setup.n_replicas + 256;
}

static const struct entry *entry_at(const struct tape *t, uint64_t in_order)
{
    return &t->entries[in_order & UINT32_MAX];
}

static fault run_lessons(struct tape *t, const uint64_t *which, size_t n)
{
    size_t batch = t->engine->setup.batch;
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = entry_at(t, which[i]);
        t->lessons[i] = (struct lesson){.replica = e->agent, .picks = t->picks + i * batch};
        t->client.prepare(t->client.ctx, e->agent, e->number, t->picks + i * batch, &t->lessons[i].seed);
    }
    TRY(t->engine->ops->learn(t->engine, t->lessons, n));
    for (size_t i = 0; i < n; i++)
        TRY(t->client.answered(t->client.ctx, t->lessons[i].replica, entry_at(t, which[i])->number,
                               t->lessons[i].loss, t->lessons[i].hits));
    return OK;
}

static fault run_updates(struct tape *t, const uint64_t *which, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = entry_at(t, which[i]);
        t->updates[i] = (struct update){e->agent, e->lr, e->number, e->first, e->end};
    }
    return t->engine->ops->update(t->engine, t->updates, n);
}

static fault run_blends(struct tape *t, const uint64_t *which, size_t n)
{
    MAKE_ROOM(t->blends, &t->blend_room, n);
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = entry_at(t, which[i]);
        t->blends[i] = (struct blend){.row = e->row,
                                      .into = e->into,
                                      .also = e->also,
                                      .first = e->first,
                                      .end = e->end,
                                      .addends = t->addends + e->first_addend,
                                      .n = e->n_addends};
    }
    return t->engine->ops->mix(t->engine, t->blends, n);
}

static fault run_dots(struct tape *t, const uint64_t *which, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = entry_at(t, which[i]);
        struct dot d = {.replica = e->agent,
                        .row = e->row,
                        .other = e->other,
                        .first = e->first,
                        .end = e->end,
                        .shift = e->shift};
        TRY(engine_dot(t->engine, &d, t->dot_room, e->out));
    }
    return OK;
}

/* The group (level, kind) of an entry, and the entry's number, as one number to sort by. */
static uint64_t place_in_order(const struct entry *e, size_t number)
{
    return ((uint64_t)e->level * N_ENTRY_KINDS + (uint64_t)e->kind) << 32 | number;
}

static fault run_groups(struct tape *t)
{
    static fault (*const run[N_ENTRY_KINDS])(struct tape *, const uint64_t *,
                                             size_t) = {[ENTRY_LEARN] = run_lessons,
                                                        [ENTRY_UPDATE] = run_updates,
                                                        [ENTRY_BLEND] = run_blends,
                                                        [ENTRY_DOT] = run_dots};
    for (size_t begin = 0, end; begin < t->n_entries; begin = end) {
        enum entry_kind kind = entry_at(t, t->order[begin])->kind;
        for (end = begin; end < t->n_entries && t->order[end] >> 32 == t->order[begin] >> 32;)
            end++;
        double began = clock_now_s();
        TRY(run[kind](t, t->order + begin, end - begin));
        t->spent_s[kind] += clock_now_s() - began;
    }
    return OK;
}

static void clear(struct tape *t)
{
    if (t->n_entries)
        memset(t->marks, 0, t->engine->setup.rows.n * t->n_rows * sizeof *t->marks);
    t->n_entries = t->n_addends = t->n_lessons = 0;
}

fault tape_flush(struct tape *t)
{
    if (t->n_entries == 0)
        return OK;
    MAKE_ROOM(t->order, &t->order_room, t->n_entries);
    for (size_t i = 0; i < t->n_entries; i++)
        t->order[i] = place_in_order(&t->entries[i], i);
    sort_rising(t->order, t->n_entries);
    fault f = run_groups(t);
    clear(t);
    return f;
}

struct tape_times tape_times(const struct tape *t)
{
    return (struct tape_times){t->spent_s[ENTRY_LEARN], t->spent_s[ENTRY_UPDATE],
                               t->spent_s[ENTRY_BLEND] + t->spent_s[ENTRY_DOT]};
}
