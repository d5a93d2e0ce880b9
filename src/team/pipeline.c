/* pipeline.c - the schedule that the settings of a pipeline ask for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "team/inside.h"

enum { MOST_SCHEDULE_BYTES = 16 << 20 };

/* What is wrong with a schedule as such has no place of its own. */
static fault at_team(const struct experiment *e, fault f)
{
    if (!f || fault_kind_of(f) != FAULT_USAGE)
        return f;
    fault placed = fail_at(e->team.place, "team.schedule: %s", fault_text(f));
    fault_drop(f);
    return placed;
}

/* Settings that this schedule makes nothing of. */
static fault check_settings(const struct experiment *e, const struct pipeline *p, const struct schedule_kind *kind)
{
    if (!kind->flushes)
        return fail_at(e->team.place, "team.schedule: '%s' steps before its passes are done, which is not built yet", kind->name);
    if (p->chunks > 1 && !kind->has_chunks)
        return fail_at(e->team.place, "team.chunks: with the schedule '%s' a machine has one part; 'interleaved' has more", kind->name);
    if (p->chunks == 1 && kind->has_chunks)
        return fail_at(e->team.place, "team.chunks: with the schedule '%s' a machine has two parts at least; one is 1f1b", kind->name);
    if (p->warmup && !kind->has_warmup)
        return fail_at(e->team.place, "team.warmup: how far to run ahead is chosen with the schedule 1f1b, and this is '%s'", kind->name);
    return OK;
}

static fault write_schedule(const struct experiment *e, const struct pipeline *p, struct arena *arena, struct schedule *out)
{
    const struct schedule_kind *kind;
    TRY(at_team(e, schedule_find(p->schedule, &kind)));
    TRY(check_settings(e, p, kind));
    const struct schedule_needs needs = {.n_members = (size_t)p->size,
                                         .chunks = (size_t)p->chunks,
                                         .n_micros = (size_t)p->microbatches,
                                         .warmup = (size_t)p->warmup};
    return at_team(e, kind->write(&needs, arena, out));
}

static fault read_text(const struct experiment *e, const char *path, struct arena *arena, char **text, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail_at(e->team.place, "team.schedule: '%s' cannot be read: %s", path, strerror(errno));
    char *bytes = arena_take(arena, MOST_SCHEDULE_BYTES + 1);
    *n = bytes ? fread(bytes, 1, MOST_SCHEDULE_BYTES + 1, file) : 0;
    bool is_broken = ferror(file);
    fclose(file);
    if (!bytes)
        return OUT_OF_MEMORY;
    if (is_broken)
        return fail_at(e->team.place, "team.schedule: '%s' cannot be read", path);
    if (*n > MOST_SCHEDULE_BYTES)
        return fail_at(e->team.place, "team.schedule: '%s' is longer than 16 MiB, which no schedule needs", path);
    *text = bytes;
    return OK;
}

fault team_schedule(const struct experiment *e, struct arena *arena, struct schedule *out)
{
    const struct pipeline *p = team_pipeline(e);
    char *text = NULL;
    size_t n = 0;
    if (strncmp(p->schedule, "file:", 5) == 0) {
        if (p->warmup)
            return fail_at(e->team.place, "team.warmup: the schedule's file says how far to run ahead");
        TRY(read_text(e, p->schedule + 5, arena, &text, &n));
        TRY(schedule_read_csv(text, n, p->schedule + 5, (size_t)p->size, (size_t)p->microbatches, arena, out));
        if (out->n_parts != (size_t)(p->size * p->chunks))
            return fail_at(e->team.place, "team.schedule: '%s' has %zu parts, and team.size times team.chunks is %lld",
                           p->schedule + 5, out->n_parts, (long long)(p->size * p->chunks));
    } else {
        TRY(write_schedule(e, p, arena, out));
    }
    return at_team(e, schedule_check(out));
}
