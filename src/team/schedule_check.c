/* schedule_check.c - proves that a schedule can be run, and is what it should be.
 *
 *   lists -> right member? -> over several rounds -> each pass once? -> in order? -> run without a clock: does it come to its end?
 *
 * The last is the proof that nothing deadlocks: a pass can be computed when those before it in its member's list are, and what
 * it needs, whenever that was. How long passes and messages take decides when, never whether. A schedule that does not
 * flush repeats itself after some rounds, and is looked at for longer.
 */
#include <string.h>

#include "team/schedule.h"

enum { HOPS_TOLD = 6 };

struct check {
    const struct schedule *s;
    struct actions *lists; /* of all rounds looked at */
    size_t n_micros;       /* in them */
    uint32_t *at[N_ACTIONS]; /* [n_parts][n_micros]: where in its member's list, from 1; 0: nowhere */
    size_t *next;            /* [n_members]: where each is in its list */
    struct schedule_place *where;
};

static struct action action(enum action_kind kind, size_t part, size_t micro)
{
    return (struct action){kind, (uint32_t)part, (uint32_t)micro};
}

#define NAME(a) (action_name(a).text)

static void at_place(struct check *c, size_t member, size_t index)
{
    *c->where = (struct schedule_place){member, index};
}

/* From 1; 0: it is in no list. */
static uint32_t *slot(struct check *c, struct action a)
{
    return &c->at[a.kind][a.part * c->n_micros + a.micro];
}

static size_t end_of(const struct check *c, size_t member)
{
    return c->lists[member].n;
}

/* ---- each list by itself ---- */

static fault check_action(struct check *c, size_t member, struct action a)
{
    const struct schedule *s = c->s;
    if (a.kind >= N_ACTIONS || a.part >= s->n_parts)
        return FAIL(FAULT_EXPERIMENT, "member %zu computes a pass of part %u, and the parts are 0 to %zu", member, a.part,
                    s->n_parts - 1);
    if (schedule_member(s, a.part) != member)
        return FAIL(FAULT_EXPERIMENT, "member %zu computes %s, and part %u is with member %zu", member, NAME(a), a.part,
                    schedule_member(s, a.part));
    if (a.micro < s->n_micros)
        return OK;
    if (s->flushes)
        return FAIL(FAULT_EXPERIMENT, "member %zu computes %s, and the micro-batches are 0 to %zu", member, NAME(a), s->n_micros - 1);
    if (a.kind != ACTION_FORWARD)
        return FAIL(FAULT_EXPERIMENT, "member %zu computes %s, backward in a round that is not its own", member, NAME(a));
    return OK;
}

static fault check_list(struct check *c, size_t member, const struct actions *list)
{
    for (size_t i = 0; i < list->n; i++) {
        at_place(c, member, i);
        TRY(check_action(c, member, list->at[i]));
    }
    return OK;
}

static fault check_lists(struct check *c)
{
    const struct schedule *s = c->s;
    if (s->n_members == 0 || s->n_micros == 0 || s->n_parts == 0 || s->n_parts % s->n_members)
        return FAIL(FAULT_EXPERIMENT, "%zu parts cannot be dealt out to %zu members, each as many", s->n_parts, s->n_members);
    for (size_t r = 0; r < s->n_members; r++) {
        TRY(check_list(c, r, &s->first[r]));
        if (!s->flushes)
            TRY(check_list(c, r, &s->later[r]));
    }
    return OK;
}

/* ---- each pass once ---- */

/* The furthest that a forward pass runs ahead of its round. What comes twice that and some rounds later is a repetition. */
static size_t rounds_to_look_at(const struct schedule *s)
{
    size_t ahead = 0;
    for (size_t r = 0; r < s->n_members; r++) {
        for (size_t i = 0; i < s->first[r].n; i++)
            ahead = larger(ahead, s->first[r].at[i].micro / s->n_micros);
        for (size_t i = 0; i < s->later[r].n; i++)
            ahead = larger(ahead, s->later[r].at[i].micro / s->n_micros);
    }
    return s->flushes ? 1 : 2 * ahead + 4;
}

static fault missing(struct check *c, struct action a)
{
    size_t member = schedule_member(c->s, a.part);
    at_place(c, member, end_of(c, member));
    return FAIL(FAULT_EXPERIMENT, "member %zu never computes %s", member, NAME(a));
}

/* Of a part that has too few forward passes, the first that is missing. */
static fault first_missing(struct check *c, struct arena *arena, size_t part)
{
    bool *has = ARENA_NEW(arena, bool, c->n_micros);
    if (!has)
        return OUT_OF_MEMORY;
    const struct actions *list = &c->lists[schedule_member(c->s, part)];
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].part == part && list->at[i].kind == ACTION_FORWARD)
            has[list->at[i].micro] = true;
    size_t micro = 0;
    while (has[micro])
        micro++;
    return missing(c, action(ACTION_FORWARD, part, micro));
}

/* Looked at before there is a table of all passes, which is then no larger than the lists are. */
static fault check_parts(struct check *c, struct arena *arena)
{
    size_t *n = ARENA_NEW(arena, size_t, c->s->n_parts);
    if (!n)
        return OUT_OF_MEMORY;
    for (size_t r = 0; r < c->s->n_members; r++)
        for (size_t i = 0; i < c->lists[r].n; i++)
            n[c->lists[r].at[i].part] += c->lists[r].at[i].kind == ACTION_FORWARD;
    for (size_t part = 0; part < c->s->n_parts; part++)
        if (n[part] < c->n_micros)
            return first_missing(c, arena, part);
    return OK;
}

static fault enter(struct check *c, size_t member, size_t index)
{
    struct action a = c->lists[member].at[index];
    uint32_t *at = slot(c, a);
    if (*at) {
        at_place(c, member, index);
        return FAIL(FAULT_EXPERIMENT, "member %zu computes %s a second time", member, NAME(a));
    }
    *at = (uint32_t)index + 1;
    return OK;
}

static fault enter_all(struct check *c, struct arena *arena)
{
    for (size_t k = 0; k < N_ACTIONS; k++) {
        c->at[k] = ARENA_NEW(arena, uint32_t, c->s->n_parts * c->n_micros);
        if (!c->at[k])
            return OUT_OF_MEMORY;
    }
    for (size_t r = 0; r < c->s->n_members; r++)
        for (size_t i = 0; i < c->lists[r].n; i++)
            TRY(enter(c, r, i));
    return OK;
}

/* Backward is B, or I and W. */
static fault check_once(struct check *c, size_t part, size_t micro)
{
    struct action f = action(ACTION_FORWARD, part, micro), b = action(ACTION_BACKWARD, part, micro),
                  i = action(ACTION_INPUTS, part, micro), w = action(ACTION_WEIGHTS, part, micro);
    size_t member = schedule_member(c->s, part);
    if (!*slot(c, f))
        return missing(c, f);
    if (*slot(c, b)) {
        struct action also = *slot(c, i) ? i : w;
        if (!*slot(c, also))
            return OK;
        at_place(c, member, *slot(c, also) - 1);
        return FAIL(FAULT_EXPERIMENT, "member %zu computes %s, which %s has done already", member, NAME(also), NAME(b));
    }
    if (!*slot(c, i))
        return missing(c, *slot(c, w) ? i : b);
    return *slot(c, w) ? OK : missing(c, w);
}

static fault check_each_once(struct check *c)
{
    for (size_t part = 0; part < c->s->n_parts; part++)
        for (size_t micro = 0; micro < c->n_micros; micro++)
            TRY(check_once(c, part, micro));
    return OK;
}

/* ---- in order ---- */

static fault out_of_order(struct check *c, struct action a, struct action before)
{
    size_t member = schedule_member(c->s, a.part);
    at_place(c, member, *slot(c, a) - 1);
    return FAIL(FAULT_EXPERIMENT, "member %zu computes %s before %s, and it must come after", member, NAME(a), NAME(before));
}

static struct action other_kind(struct action a, enum action_kind kind)
{
    a.kind = kind;
    return a;
}

/* A pass and the one that makes what it needs on its own part. */
static fault check_before(struct check *c, struct action a)
{
    if (a.kind == ACTION_FORWARD)
        return OK;
    struct action before = other_kind(a, a.kind == ACTION_WEIGHTS ? ACTION_INPUTS : ACTION_FORWARD);
    return *slot(c, a) < *slot(c, before) ? out_of_order(c, a, before) : OK;
}

/* The first of two kinds that there is of this micro-batch. */
static struct action either(struct check *c, size_t part, size_t micro, enum action_kind one, enum action_kind other)
{
    struct action a = action(one, part, micro);
    return *slot(c, a) ? a : action(other, part, micro);
}

static fault check_ascending(struct check *c, size_t part, enum action_kind one, enum action_kind other)
{
    for (size_t micro = 1; micro < c->n_micros; micro++) {
        struct action before = either(c, part, micro - 1, one, other), a = either(c, part, micro, one, other);
        if (*slot(c, a) < *slot(c, before))
            return out_of_order(c, a, before);
    }
    return OK;
}

static fault check_order(struct check *c)
{
    for (size_t r = 0; r < c->s->n_members; r++)
        for (size_t i = 0; i < c->lists[r].n; i++)
            TRY(check_before(c, c->lists[r].at[i]));
    for (size_t part = 0; part < c->s->n_parts; part++) {
        TRY(check_ascending(c, part, ACTION_FORWARD, ACTION_FORWARD));
        TRY(check_ascending(c, part, ACTION_BACKWARD, ACTION_INPUTS));
        TRY(check_ascending(c, part, ACTION_BACKWARD, ACTION_WEIGHTS));
    }
    return OK;
}

/* ---- does it come to its end? ---- */

/* What a pass needs from another part: values of the one before, gradients of the one after; false: nothing. */
static bool need_of(struct check *c, struct action a, struct action *need)
{
    if (a.kind == ACTION_FORWARD && a.part > 0)
        *need = action(ACTION_FORWARD, a.part - 1, a.micro);
    else if ((a.kind == ACTION_BACKWARD || a.kind == ACTION_INPUTS) && a.part + 1 < c->s->n_parts)
        *need = either(c, a.part + 1, a.micro, ACTION_BACKWARD, ACTION_INPUTS);
    else
        return false;
    return true;
}

static struct action next_of(const struct check *c, size_t member)
{
    return c->lists[member].at[c->next[member]];
}

/* The member that the next pass of this one waits for; n_members: none. */
static size_t waits_for(struct check *c, size_t member)
{
    struct action need;
    if (!need_of(c, next_of(c, member), &need))
        return c->s->n_members;
    size_t other = schedule_member(c->s, need.part);
    return *slot(c, need) > c->next[other] ? other : c->s->n_members;
}

/* Computes what can be computed of a member's list. */
static bool go_on(struct check *c, size_t member)
{
    size_t before = c->next[member];
    while (c->next[member] < end_of(c, member) && waits_for(c, member) == c->s->n_members)
        c->next[member]++;
    return c->next[member] > before;
}

static fault tell_deadlock(struct check *c, size_t member)
{
    char text[1024] = "";
    size_t n = 0, first = member;
    for (size_t hop = 0; hop < HOPS_TOLD && (hop == 0 || member != first); hop++) {
        struct action need = {0};
        need_of(c, next_of(c, member), &need);
        member = schedule_member(c->s, need.part);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s waits for %s", hop ? ", which" : "", NAME(need));
        if (*slot(c, need) > c->next[member] + 1)
            n += (size_t)snprintf(text + n, sizeof text - n, ", which member %zu computes only after %s", member,
                                  NAME(next_of(c, member)));
    }
    at_place(c, first, c->next[first]);
    return FAIL(FAULT_EXPERIMENT, "member %zu%s%s: a deadlock", first, text, member == first ? "" : ", and so on in a circle");
}

/* Whoever waits waits for a member that waits: following them long enough leads into the circle. */
static fault find_deadlock(struct check *c, size_t member)
{
    for (size_t i = 0; i < c->s->n_members; i++)
        member = waits_for(c, member);
    return tell_deadlock(c, member);
}

static fault check_ends(struct check *c, struct arena *arena)
{
    size_t n = c->s->n_members;
    c->next = ARENA_NEW(arena, size_t, n);
    if (!c->next)
        return OUT_OF_MEMORY;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (size_t r = 0; r < n; r++)
            goes_on |= go_on(c, r);
    }
    for (size_t r = 0; r < n; r++)
        if (c->next[r] < end_of(c, r))
            return find_deadlock(c, r);
    return OK;
}

static fault check_all(struct check *c, struct arena *arena)
{
    TRY(check_lists(c));
    size_t n_rounds = rounds_to_look_at(c->s);
    c->n_micros = n_rounds * c->s->n_micros;
    TRY(schedule_unroll(c->s, n_rounds, arena, &c->lists));
    TRY(check_parts(c, arena));
    TRY(enter_all(c, arena));
    TRY(check_each_once(c));
    TRY(check_order(c));
    return check_ends(c, arena);
}

fault schedule_check_at(const struct schedule *s, struct schedule_place *where)
{
    struct arena arena = {0};
    struct check c = {.s = s, .where = where};
    at_place(&c, 0, 0);
    fault f = check_all(&c, &arena);
    arena_release(&arena);
    return f;
}

fault schedule_check(const struct schedule *s)
{
    struct schedule_place where;
    return schedule_check_at(s, &where);
}
