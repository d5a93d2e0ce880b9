/* schedule.c - what the lists of a schedule say: over several rounds, as text, and how much room they ask for. */
#include "team/schedule.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

struct action_name action_name(struct action a)
{
    struct action_name name;
    snprintf(name.text, sizeof name.text, "%u%c%u", a.part, "FBIW"[a.kind], a.micro);
    return name;
}

const struct schedule_kind *schedule_kind_named(const char *name)
{
    for (size_t i = 0; schedule_rows[i]; i++)
        if (text_is(schedule_rows[i]->name, name))
            return schedule_rows[i];
    return NULL;
}

static const char *candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return schedule_rows[i] ? schedule_rows[i]->name : NULL;
}

fault schedule_find(const char *name, const struct schedule_kind **out)
{
    *out = schedule_kind_named(name);
    if (*out)
        return OK;
    const char *nearest = text_nearest(name, candidate, NULL);
    struct shown said = text_shown(name);
    return nearest ? FAIL(FAULT_USAGE, "there is no schedule '%s'; did you mean '%s'?", said.text, nearest)
                   : FAIL(FAULT_USAGE, "there is no schedule '%s'; there are gpipe, 1f1b, interleaved, zb-h1, pipedream and 2bw",
                          said.text);
}

/* ---- over several rounds ---- */

static const struct actions *list_of(const struct schedule *s, size_t member, size_t round)
{
    return round ? &s->later[member] : &s->first[member];
}

static fault unroll_member(const struct schedule *s, size_t member, size_t n_rounds, struct arena *arena, struct actions *out)
{
    size_t n = s->first[member].n + (n_rounds - 1) * s->later[member].n;
    struct action *at = ARENA_NEW(arena, struct action, larger(n, 1));
    if (!at)
        return OUT_OF_MEMORY;
    out->at = at;
    for (size_t round = 0; round < n_rounds; round++) {
        const struct actions *list = list_of(s, member, round);
        for (size_t i = 0; i < list->n; i++) {
            size_t micro = round * s->n_micros + list->at[i].micro;
            if (micro < n_rounds * s->n_micros)
                at[out->n++] = (struct action){list->at[i].kind, list->at[i].part, (uint32_t)micro};
        }
    }
    return OK;
}

fault schedule_unroll(const struct schedule *s, size_t n_rounds, struct arena *arena, struct actions **out)
{
    size_t n_passes = s->n_micros;
    for (size_t r = 0; r < s->n_members; r++)
        n_passes += larger(s->first[r].n, s->later[r].n);
    if (n_rounds == 0 || (n_rounds > 1 && n_rounds > 4 * (size_t)SCHEDULE_MOST_PASSES / n_passes))
        return FAIL(FAULT_USAGE, "%zu rounds of a schedule cannot be written down", n_rounds);
    struct actions *all = ARENA_NEW(arena, struct actions, s->n_members);
    if (!all)
        return OUT_OF_MEMORY;
    for (size_t r = 0; r < s->n_members; r++)
        TRY(unroll_member(s, r, n_rounds, arena, &all[r]));
    *out = all;
    return OK;
}

fault schedule_print_csv(const struct schedule *s, size_t n_rounds, FILE *to)
{
    struct arena arena = {0};
    struct actions *all;
    fault f = schedule_unroll(s, s->flushes ? 1 : n_rounds, &arena, &all);
    for (size_t r = 0; !f && r < s->n_members; r++) {
        for (size_t i = 0; i < all[r].n; i++)
            fprintf(to, "%s%s", i ? "," : "", action_name(all[r].at[i]).text);
        putc('\n', to);
    }
    arena_release(&arena);
    if (!f && ferror(to))
        f = FAIL(FAULT_FILE, "a schedule cannot be written: %s", strerror(errno));
    return f;
}

/* ---- room ---- */

static bool ends(struct action a)
{
    return a.kind == ACTION_BACKWARD || a.kind == ACTION_WEIGHTS;
}

/* Every later round begins and ends with as many in flight as the second, so two tell the most. */
static size_t most_in_flight(const struct schedule *s, size_t member, size_t part, bool all_parts)
{
    size_t now = 0, most = 0;
    for (size_t round = 0; round < 2; round++) {
        const struct actions *list = list_of(s, member, round);
        for (size_t i = 0; i < list->n; i++) {
            if (!all_parts && list->at[i].part != part)
                continue;
            now += list->at[i].kind == ACTION_FORWARD;
            most = larger(most, now);
            now -= ends(list->at[i]);
        }
    }
    return most;
}

size_t schedule_in_flight(const struct schedule *s, size_t member)
{
    return most_in_flight(s, member, 0, true);
}

size_t schedule_flights(const struct schedule *s, size_t part)
{
    return most_in_flight(s, schedule_member(s, part), part, false);
}

/* What is computed forward d rounds before its own round is computed backward after d more steps, with the weights that were the newest
 * then: those, the d - 1 between and the newest now are held. */
size_t schedule_versions(const struct schedule *s, size_t member)
{
    size_t most = 1;
    for (size_t round = 0; round < 2; round++) {
        const struct actions *list = list_of(s, member, round);
        for (size_t i = 0; i < list->n; i++)
            most = larger(most, 1 + list->at[i].micro / s->n_micros);
    }
    return s->delays ? 2 : most;
}
