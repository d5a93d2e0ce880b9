/* group.c - see group.h. */
#include "collective/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/rng.h"

#define NEWCOMER         UINT64_MAX      /* in place of a generation */
#define KNOCK            (TAG_GROUP - 1) /* above those of calls */
#define GENERATION_ALONE (1ull << 22)    /* no other way of forming groups gets so far */

/* A tag within its generation: 12 bits that tell lists of members apart, so that two who do not agree never
 * take each other's messages for what they expect, and a number. No list has the last of these; it is for
 * re-forming, and for what strategies say beside collectives. */
enum { LIST_SHIFT = 28, NO_LIST = 0xfff };
enum { HELLO, HEARD, CHOSEN, FIRST_SIDE };

struct hello { /* numbers of 64 bits and nothing else, for they are encoded one by one */
    uint64_t generation, origin, round; /* of the group I come from, and how far I am */
};
enum { HELLO_NUMBERS = sizeof(struct hello) / sizeof(uint64_t) };

static uint64_t first_tag(uint64_t generation)
{
    return TAG_GROUP | generation << TAG_GENERATION;
}

static uint64_t side_tag(uint64_t generation, unsigned number)
{
    return first_tag(generation) | (uint64_t)NO_LIST << LIST_SHIFT | number;
}

static uint64_t generation_of(uint64_t tag)
{
    return tag < TAG_GROUP ? 0 : (tag & ~TAG_GROUP) >> TAG_GENERATION;
}

/* ---- sets of agents, a bit each ---- */

enum { REACHED, SILENT, MINE, THEIRS, COMMON, CHOICE, N_SETS };

static size_t words(size_t n_all)
{
    return n_all / 64 + 1;
}

static size_t set_bytes(const struct group *g)
{
    return words(g->n_all) * sizeof(uint64_t);
}

static uint64_t *set_of(const struct group *g, int which)
{
    return g->sets + (size_t)which * words(g->n_all);
}

static bool holds(const uint64_t *set, size_t agent)
{
    return set[agent / 64] >> agent % 64 & 1;
}

static void put(uint64_t *set, size_t agent)
{
    set[agent / 64] |= 1ull << agent % 64;
}

static bool is_within(const struct group *g, const uint64_t *a, const uint64_t *b)
{
    for (size_t i = 0; i < words(g->n_all); i++)
        if (a[i] & ~b[i])
            return false;
    return true;
}

/* ---- a group at work ---- */

fault group_init(struct group *g, size_t self, struct parcel *parcels, size_t n_all)
{
    *g = (struct group){.parcels = parcels,
                        .terms = malloc(n_all * sizeof *g->terms),
                        .members = malloc((n_all + 1) * sizeof *g->members),
                        .sets = calloc(N_SETS * words(n_all), sizeof *g->sets),
                        .hellos = calloc(n_all, sizeof *g->hellos),
                        .n = n_all,
                        .n_all = n_all,
                        .rank = self};
    if (!g->terms || !g->members || !g->sets || !g->hellos) {
        group_release(g);
        return OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < n_all; i++)
        g->members[i] = (uint32_t)i;
    return OK;
}

void group_release(struct group *g)
{
    free(g->terms);
    free(g->members);
    free(g->sets);
    free(g->hellos);
    *g = (struct group){0};
}

uint64_t group_tag(struct group *g)
{
    uint64_t list = 0;
    for (size_t i = 0; i < g->n; i++)
        list = rng_hash(list, g->members[i]);
    return first_tag(g->generation) | (list % NO_LIST) << LIST_SHIFT | g->number++;
}

fault group_send(struct group *g, size_t to, uint64_t tag, struct span span)
{
    return link_send_rows(g->link, g->members[to], tag, span);
}

fault group_recv(struct group *g, size_t from, uint64_t tag, struct parcel *out)
{
    fault f = link_recv_rows(g->link, g->members[from], tag, out, NULL);
    if (f && fault_kind_of(f) == FAULT_TIMEOUT)
        group_leave_out(g, g->members[from]);
    return f;
}

fault group_end(struct group *g, fault f)
{
    for (size_t i = 0; i < g->n; i++)
        link_drop(g->link, &g->parcels[i]);
    if (f && is_about_peers(f))
        link_dissolve(g->link, first_tag(g->generation + 1), fault_text(f));
    return f;
}

static bool could_come(const struct group *g, size_t agent)
{
    return agent != g->link->self && link_can_reach(g->link, agent) && !link_has_ended(g->link, agent);
}

/* The latest generation that I have heard of. */
static uint64_t heard_generation(const struct group *g)
{
    return generation_of(link_dissolved(g->link));
}

static bool is_outdated(const struct group *g)
{
    return heard_generation(g) > g->generation;
}

void group_leave_out(struct group *g, size_t agent)
{
    put(set_of(g, SILENT), agent);
}

void group_forgive(struct group *g)
{
    if (g->sets)
        memset(set_of(g, SILENT), 0, set_bytes(g));
}

bool group_is_incomplete(const struct group *g)
{
    if (is_outdated(g) || link_has_mail(g->link, KNOCK))
        return true;
    for (size_t i = 0; g->n < g->n_all && i < g->n_all; i++)
        if (!holds(set_of(g, REACHED), i) && could_come(g, i))
            return true;
    return false;
}

static bool is_member(const struct group *g, size_t agent)
{
    size_t i = 0;
    while (i < g->n && g->members[i] != agent)
        i++;
    return i < g->n;
}

static bool has_ended(const struct group *g, size_t agent)
{
    return agent != g->link->self && link_has_ended(g->link, agent) && link_can_reach(g->link, agent) &&
           !holds(set_of(g, SILENT), agent);
}

bool group_is_a_part(const struct group *g)
{
    for (size_t i = 0; g->n < g->n_all && i < g->n_all; i++)
        if ((could_come(g, i) || has_ended(g, i)) && !is_member(g, i))
            return true;
    return false;
}

bool group_finds_ended(const struct group *g, size_t *agent)
{
    size_t found = g->n_all;
    for (size_t i = g->n_all; i-- > 0;)
        if (has_ended(g, i) && (found == g->n_all || is_member(g, i) || !is_member(g, found)))
            found = i;
    if (found < g->n_all)
        *agent = found;
    return found < g->n_all;
}

void group_abandon(struct group *g, const char *why)
{
    link_dissolve(g->link, first_tag(GENERATION_ALONE), why);
}

bool group_is_abandoned(const struct group *g)
{
    return heard_generation(g) >= GENERATION_ALONE;
}

uint64_t group_lasting_tag(unsigned number)
{
    return side_tag(GENERATION_ALONE - 1, FIRST_SIDE + number);
}

/* ---- re-forming ---- */

/* The next generation, which all members hear of. An agent that comes back does not know the others' and asks
 * them for their next one; of all that are named then the highest will be it. It names one itself that no group
 * has had: if all others have ended, it must not pass for one of a group that was. */
static void next_generation(struct group *g, const char *why)
{
    if (g->is_newcomer)
        link_dissolve(g->link, 0, why);
    if (is_outdated(g))
        g->generation = heard_generation(g) + g->is_newcomer;
    else
        g->generation++;
    link_dissolve(g->link, first_tag(g->generation), why);
    g->is_newcomer = false;
    g->number = 0;
}

/* n numbers of 64 bits, to all that could come, so that none waits for it; those that went away meanwhile will
 * not answer. */
static void say(struct group *g, unsigned what, void *numbers, size_t n)
{
    encode_in_place(numbers, n);
    for (size_t i = 0; i < g->n_all; i++)
        if (holds(set_of(g, REACHED), i))
            fault_drop(link_send(g->link, i, side_tag(g->generation, what), numbers, n * sizeof(uint64_t)));
    decode_in_place(numbers, n);
}

/* From one; not heard where it is gone or silent, or all this is outdated. */
static fault hear(struct group *g, size_t from, unsigned what, void *numbers, size_t n, bool *heard)
{
    *heard = false;
    if (is_outdated(g))
        return OK;
    fault f = link_recv(g->link, from, side_tag(g->generation, what), numbers, n * sizeof(uint64_t), NULL);
    if (f && !is_about_peers(f))
        return f;
    *heard = f == OK;
    if (*heard)
        decode_in_place(numbers, n);
    fault_drop(f);
    return OK;
}

/* MINE becomes all who answer, and I. */
static fault exchange_hellos(struct group *g, struct hello *mine)
{
    memset(set_of(g, REACHED), 0, set_bytes(g));
    memset(set_of(g, MINE), 0, set_bytes(g));
    for (size_t i = 0; i < g->n_all; i++)
        if (could_come(g, i))
            put(set_of(g, REACHED), i);
    say(g, HELLO, mine, HELLO_NUMBERS);
    for (size_t i = 0; i < g->n_all; i++) {
        bool heard = i == g->link->self;
        if (heard)
            g->hellos[i] = *mine;
        else if (holds(set_of(g, REACHED), i) && !holds(set_of(g, SILENT), i))
            TRY(hear(g, i, HELLO, &g->hellos[i], HELLO_NUMBERS, &heard));
        if (heard)
            put(set_of(g, MINE), i);
    }
    return OK;
}

/* CHOICE becomes those who all hear each other, beginning with the first. COMMON: whom all chosen so far have
 * heard. */
static fault choose(struct group *g)
{
    uint64_t *mine = set_of(g, MINE), *theirs = set_of(g, THEIRS), *common = set_of(g, COMMON),
             *choice = set_of(g, CHOICE);
    memset(choice, 0, set_bytes(g));
    memset(common, 0xff, set_bytes(g));
    say(g, HEARD, mine, words(g->n_all));
    for (size_t i = 0; i < g->n_all; i++) {
        bool heard = i == g->link->self;
        if (heard)
            memcpy(theirs, mine, set_bytes(g));
        else if (holds(mine, i))
            TRY(hear(g, i, HEARD, theirs, words(g->n_all), &heard));
        if (!heard || !holds(common, i) || !is_within(g, choice, theirs))
            continue;
        put(choice, i);
        for (size_t w = 0; w < words(g->n_all); w++)
            common[w] &= theirs[w];
    }
    return OK;
}

/* The members are those who made the same choice; an agent whom those it chose did not choose is alone. Where
 * one that I chose is lost meanwhile, others may have heard it: there will be another generation, for all who
 * go on in one must go on with the same members. */
static fault compare_choices(struct group *g)
{
    uint64_t *choice = set_of(g, CHOICE), *theirs = set_of(g, THEIRS);
    bool lost = false;
    say(g, CHOSEN, choice, words(g->n_all));
    g->n = 0;
    for (size_t i = 0; i < g->n_all; i++) {
        bool agrees = i == g->link->self;
        if (!agrees && holds(set_of(g, MINE), i)) {
            TRY(hear(g, i, CHOSEN, theirs, words(g->n_all), &agrees));
            if (!agrees && holds(choice, i)) {
                lost = true;
                if (could_come(g, i) && !is_outdated(g))
                    put(set_of(g, SILENT), i);
            }
            agrees = agrees && holds(choice, i) && holds(choice, g->link->self) &&
                     memcmp(theirs, choice, set_bytes(g)) == 0;
        }
        if (!agrees)
            continue;
        if (i == g->link->self)
            g->rank = g->n;
        g->members[g->n++] = (uint32_t)i;
    }
    if (lost && !is_outdated(g))
        link_dissolve(g->link, first_tag(g->generation + 1), "a member was lost while it was formed");
    return OK;
}

/* Those who can be reached may have re-formed without me. */
static void knock(struct group *g)
{
    for (size_t i = 0; i < g->n_all; i++)
        if (holds(set_of(g, REACHED), i) && !holds(set_of(g, MINE), i))
            fault_drop(link_send(g->link, i, KNOCK, "", 1));
}

/* An agent that knocked before this hears of it like all others. */
static fault forget_knocks(struct group *g)
{
    char nothing;
    while (link_has_mail(g->link, KNOCK))
        TRY(link_recv(g->link, ANYONE, KNOCK, &nothing, 1, NULL));
    return OK;
}

/* Who is ahead of whom: an agent that is just back is behind all others. */
static bool is_ahead(const struct hello *a, const struct hello *b)
{
    if ((a->generation == NEWCOMER) != (b->generation == NEWCOMER))
        return b->generation == NEWCOMER;
    return a->round > b->round;
}

/* The leader is the one that is furthest, the first of them. Its rows are mine, unless one of us was apart. */
static struct reunion meet(const struct group *g, const struct hello *mine)
{
    size_t leader = g->members[0];
    for (size_t i = 1; i < g->n; i++)
        if (is_ahead(&g->hellos[g->members[i]], &g->hellos[leader]))
            leader = g->members[i];
    const struct hello *best = &g->hellos[leader];
    bool same = mine->generation != NEWCOMER && best->generation == mine->generation &&
                best->origin == mine->origin && best->round == mine->round;
    return (struct reunion){leader, best->round, leader != g->link->self && !same};
}

fault group_reform(struct group *g, uint64_t round, const char *why, struct reunion *out)
{
    struct hello mine = {g->is_newcomer ? NEWCOMER : g->generation, g->origin, round};
    do {
        next_generation(g, why);
        TRY(forget_knocks(g));
        TRY(exchange_hellos(g, &mine));
        TRY(choose(g));
        TRY(compare_choices(g));
    } while (is_outdated(g));
    if (g->n == 1)
        knock(g);
    g->origin = g->members[0];
    link_forget(g->link, first_tag(g->generation));
    *out = meet(g, &mine);
    return OK;
}
