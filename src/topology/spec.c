/* spec.c - from "torus:6x6" to a graph: the names one may write, their numbers, and the making.
 *
 *   spec -> family (an entry below) -> sizes -> sketch, drawn again until connected -> topology
 */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/families.h"

enum { MOST_NUMBERS = 3, DRAWS = 100 };

struct family {
    maker *make;
    enum layout layout;
    char separator;                         /* between numbers                                            */
    bool drawn;                             /* follows from the seed, and may have to be drawn again      */
    struct field numbers[MOST_NUMBERS + 1]; /* ends with a field without a name   */
};

#define WHOLE(letter, member, least, most)                                                                   \
    FIELD(letter, FIELD_INT, struct sizes, member, .min = least, .max = most)
#define VERTICES WHOLE("N", n, 1, MOST_VERTICES)
#define ROWS     WHOLE("R", rows, 1, MOST_VERTICES)
#define COLUMNS  WHOLE("C", columns, 1, MOST_VERTICES)
#define CHANCE(more_than_none)                                                                               \
    FIELD("P", FIELD_REAL, struct sizes, p, .min = 0, .max = 1, .above_min = more_than_none)
#define PATH     FIELD("PATH", FIELD_TEXT, struct sizes, path, .fallback = NULL)
#define FAMILY(...)                                                                                          \
    &(const struct family)                                                                                   \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* clang-format off */
static const struct kind rows[] = {
    {.name = "cycle", .pattern = "cycle:N", .help = "N agents in a ring, each with two neighbours",
     .row = FAMILY(family_cycle, LAYOUT_CIRCLE, ':', false, {VERTICES})},
    {.name = "chords", .pattern = "chords:N:K",
     .help = "a ring of N, and from each of them K chords of growing length: N (1 + K) edges",
     .row = FAMILY(family_chords, LAYOUT_CIRCLE, ':', false, {VERTICES, WHOLE("K", k, 0, MOST_VERTICES)})},
    {.name = "expander", .pattern = "expander:N",
     .help = "Margulis, Gabber and Galil on pairs of residues; N is a square",
     .row = FAMILY(family_expander, LAYOUT_CIRCLE, ':', false, {VERTICES})},
    {.name = "torus", .pattern = "torus:RxC", .help = "R rows and C columns, each joined end to end",
     .row = FAMILY(family_torus, LAYOUT_GRID, 'x', false, {ROWS, COLUMNS})},
    {.name = "grid", .pattern = "grid:RxC", .help = "R rows and C columns",
     .row = FAMILY(family_grid, LAYOUT_GRID, 'x', false, {ROWS, COLUMNS})},
    {.name = "complete", .pattern = "complete:N", .help = "everyone is a neighbour of everyone",
     .row = FAMILY(family_complete, LAYOUT_CIRCLE, ':', false, {VERTICES})},
    {.name = "star", .pattern = "star:N", .help = "all are neighbours of agent 0 and of nobody else",
     .row = FAMILY(family_star, LAYOUT_STAR, ':', false, {VERTICES})},
    {.name = "path", .pattern = "path:N", .help = "N agents in a row",
     .row = FAMILY(family_path, LAYOUT_SNAKE, ':', false, {VERTICES})},
    {.name = "hypercube", .pattern = "hypercube:D", .help = "2^D agents; neighbours' numbers differ in one bit",
     .row = FAMILY(family_hypercube, LAYOUT_CUBE, ':', false, {WHOLE("D", k, 0, 19)})},
    {.name = "exponential", .pattern = "exponential:N", .help = "each meets those 1, 2, 4, 8, ... away on a ring of N",
     .row = FAMILY(family_exponential, LAYOUT_CIRCLE, ':', false, {VERTICES})},
    {.name = "random", .pattern = "random:N:P", .help = "each pair of N is joined with chance P (Erdos and Renyi)",
     .row = FAMILY(family_random, LAYOUT_SPRING, ':', true, {VERTICES, CHANCE(true)})},
    {.name = "regular", .pattern = "regular:N:D", .help = "drawn from all graphs in which each of N has D neighbours",
     .row = FAMILY(family_regular, LAYOUT_SPRING, ':', true, {VERTICES, WHOLE("D", k, 0, MOST_VERTICES)})},
    {.name = "small-world", .pattern = "small-world:N:K:P",
     .help = "a ring of N with K nearest neighbours each, every edge moved with chance P (Watts and Strogatz)",
     .row = FAMILY(family_small_world, LAYOUT_CIRCLE, ':', true,
                   {VERTICES, WHOLE("K", k, 0, MOST_VERTICES), CHANCE(false)})},
    {.name = "tree", .pattern = "tree:N:FANOUT", .help = "agent 0 is the root, and each has up to FANOUT children",
     .row = FAMILY(family_tree, LAYOUT_TREE, ':', false, {VERTICES, WHOLE("FANOUT", k, 1, MOST_VERTICES)})},
    {.name = "file", .pattern = "file:PATH", .help = "a list of edges: two numbers from 0 on each line, # for comments",
     .row = FAMILY(family_from_file, LAYOUT_SPRING, ':', false, {PATH})},
};
/* clang-format on */

const struct kinds topology_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};

struct request {
    const char *spec; /* what was written, fit for a sentence */
    struct place place;
    const struct kind *kind;
    const struct family *family;
    struct sizes sizes;
};

/* The fault with its place and, where it does not begin with a file's name, the spec in front. */
static fault blame(const struct request *r, fault f)
{
    if (fault_kind_of(f) == FAULT_MEMORY)
        return f;
    fault told = r->sizes.path ? fail_at(r->place, "%s", fault_text(f))
                               : fail_at(r->place, "%s: %s", r->spec, fault_text(f));
    fault_drop(f);
    return told;
}

static fault find_family(struct request *r, const char *spec)
{
    for (const char *c = spec; *c; c++)
        if (iscntrl((unsigned char)*c))
            return fail_at(r->place, "the graph '%s' holds a control character", r->spec);
    r->kind = kind_find(&topology_kinds, spec);
    if (!r->kind) {
        const char *nearest = kind_nearest(&topology_kinds, spec);
        return nearest
                   ? fail_at(r->place, "there is no graph '%s'; did you mean '%s'?", r->spec, nearest)
                   : fail_at(r->place,
                             "there is no graph '%s'; there are cycle:N, torus:RxC, complete:N and others",
                             r->spec);
    }
    r->family = r->kind->row;
    return OK;
}

/* Cuts `text` at the separators and reads a number from each part; the last gets all that is left. */
static fault read_numbers(struct request *r, char *text, struct arena *arena)
{
    for (const struct field *number = r->family->numbers; number->name; number++) {
        char *end = number[1].name && text ? strchr(text, r->family->separator) : NULL;
        if (!text || !*text || end == text || (number[1].name && !end))
            return fail_at(r->place, "'%s' is not of the form %s", r->spec, r->kind->pattern);
        if (end)
            *end = '\0';
        fault f = field_read(number, text, arena, &r->sizes);
        if (f)
            return blame(r, fault_before(f, "%s: ", number->name));
        text = end ? end + 1 : NULL;
    }
    return OK;
}

static fault read_spec(struct request *r, const char *spec, struct arena *arena)
{
    TRY(find_family(r, spec));
    const char *colon = strchr(spec, ':');
    char *tail = arena_text(arena, colon ? colon + 1 : "");
    return tail ? read_numbers(r, tail, arena) : OUT_OF_MEMORY;
}

static fault draw(const struct request *r, uint64_t seed, uint64_t attempt, struct sketch *s, size_t *lost)
{
    struct rng random = rng_stream(seed, 0, RNG_TOPOLOGY, attempt);
    *s = (struct sketch){0};
    TRY(r->family->make(&r->sizes, &random, s));
    bool *reached = calloc(s->n, sizeof *reached);
    if (!reached)
        return OUT_OF_MEMORY;
    fault f = sketch_reach(s, reached, lost);
    free(reached);
    return f;
}

/* A connected sketch, in at most DRAWS draws. */
static fault draw_connected(const struct request *r, uint64_t seed, struct sketch *s)
{
    size_t lost = 0, draws = r->family->drawn ? DRAWS : 1;
    for (uint64_t i = 0; i < draws; i++) {
        fault f = draw(r, seed, i, s, &lost);
        if (f || lost == s->n)
            return f;
        if (i + 1 < draws)
            sketch_release(s);
    }
    return FAIL(FAULT_EXPERIMENT,
                "none of %zu draws was connected (the last has no way from vertex 0 to vertex %zu)", draws,
                lost);
}

static fault fill(const struct request *r, uint64_t seed, struct topology *t)
{
    struct sketch s = {0};
    fault f = draw_connected(r, seed, &s);
    if (!f)
        f = sketch_finish(&s, t);
    sketch_release(&s);
    t->layout = r->family->layout;
    t->rows = (size_t)r->sizes.rows;
    t->columns = (size_t)r->sizes.columns;
    return f ? blame(r, f) : OK;
}

fault topology_make(const char *spec, uint64_t seed, struct place place, struct topology **out)
{
    struct shown shown = text_shown(spec);
    struct request r = {.spec = shown.text, .place = place};
    struct topology *t = calloc(1, sizeof *t);
    if (!t)
        return OUT_OF_MEMORY;
    fault f = read_spec(&r, spec, &t->arena);
    if (!f)
        f = fill(&r, seed, t);
    if (!f && !(t->spec = arena_text(&t->arena, spec)))
        f = OUT_OF_MEMORY;
    if (f) {
        topology_free(t);
        return f;
    }
    *out = t;
    return OK;
}

void topology_free(struct topology *t)
{
    if (!t)
        return;
    arena_release(&t->arena);
    free(t);
}
