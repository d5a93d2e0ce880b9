/* schedules.c - the kinds of schedule, a function each.
 *
 * p members, g = 0 .. p-1 one of them, m micro-batches a round; F forward, B backward, which is I and W where it is split.
 * In all of them the passes of a kind on a part are in ascending order of the micro-batches.
 */
#include "base/text.h"
#include "team/schedule.h"

/* ---- lists that are being written ---- */

struct writer {
    struct schedule *s;
    struct arena *arena;
    struct action *at; /* of the list in hand, with room for all that it may have */
    size_t n, room;
};

static fault refuse(const struct schedule_kind *kind, const struct schedule_needs *n)
{
    if (n->n_members == 0 || n->chunks == 0 || n->n_micros == 0)
        return FAIL(FAULT_USAGE, "a schedule is of at least one member, part and micro-batch");
    if (n->chunks > 1 && !kind->has_chunks)
        return FAIL(FAULT_USAGE, "%s has one part a member, not %zu", kind->name, n->chunks);
    if (n->warmup && !kind->has_warmup)
        return FAIL(FAULT_USAGE, "%s has no warm-up to choose", kind->name);
    if (n->warmup > 2 * n->n_members - 1)
        return FAIL(FAULT_USAGE, "a warm-up of %zu micro-batches is too deep: %zu are the most that %zu members can use", n->warmup,
                    2 * n->n_members - 1, n->n_members);
    if (n->n_members > SCHEDULE_MOST_PASSES || n->chunks > SCHEDULE_MOST_PASSES / n->n_members ||
        n->n_micros > SCHEDULE_MOST_PASSES / n->n_members / n->chunks)
        return FAIL(FAULT_USAGE, "%zu members with %zu parts each and %zu micro-batches are more than a schedule can have",
                    n->n_members, n->chunks, n->n_micros);
    return OK;
}

static fault begin(const char *name, const struct schedule_needs *needs, struct arena *arena, struct schedule *s,
                   struct writer *l)
{
    const struct schedule_kind *kind = schedule_kind_named(name);
    TRY(refuse(kind, needs));
    *s = (struct schedule){
        .name = kind->name,
        .n_members = needs->n_members,
        .n_parts = needs->n_members * needs->chunks,
        .n_micros = needs->n_micros,
        .flushes = kind->flushes,
        .delays = kind->delays,
        .first = ARENA_NEW(arena, struct actions, needs->n_members),
        .later = ARENA_NEW(arena, struct actions, needs->n_members),
    };
    *l = (struct writer){.s = s, .arena = arena, .room = 3 * needs->chunks * needs->n_micros + needs->n_members};
    return s->first && s->later ? OK : OUT_OF_MEMORY;
}

static fault begin_list(struct writer *l)
{
    l->n = 0;
    l->at = ARENA_NEW(l->arena, struct action, l->room);
    return l->at ? OK : OUT_OF_MEMORY;
}

static void put(struct writer *l, enum action_kind kind, size_t part, size_t micro)
{
    l->at[l->n++] = (struct action){kind, (uint32_t)part, (uint32_t)micro};
}

static struct actions list(const struct writer *l)
{
    return (struct actions){l->at, l->n};
}

/* ---- with a flush at the end of every round ---- */

/* GPipe (Huang et al. 2019): all forward, then all backward.
 *
 *   F0 F1 .. Fm-1  B0 B1 .. Bm-1
 */
static fault write_gpipe(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    struct writer l;
    TRY(begin("gpipe", needs, arena, out, &l));
    for (size_t g = 0; g < out->n_members; g++) {
        TRY(begin_list(&l));
        for (size_t i = 0; i < out->n_micros; i++)
            put(&l, ACTION_FORWARD, g, i);
        for (size_t i = 0; i < out->n_micros; i++)
            put(&l, ACTION_BACKWARD, g, i);
        out->first[g] = out->later[g] = list(&l);
    }
    return OK;
}

/* How many forward passes member g has before its first backward pass. With `warmup` = p + e every member has e more than usual, for
 * micro-batches that are on slow links, up to 2(p-g)-1: these hide a latency of half a forward and a backward pass. With fewer than p,
 * which saves memory, no member has more than `warmup`. */
static size_t warmup_of(const struct schedule_needs *n, size_t g)
{
    size_t usual = n->n_members - g, deep = usual;
    if (n->warmup >= n->n_members)
        deep = smaller(usual + n->warmup - n->n_members, 2 * usual - 1);
    else if (n->warmup)
        deep = smaller(usual, n->warmup);
    return smaller(n->n_micros, deep);
}

/* 1F1B with a flush (Narayanan et al. 2021, PipeDream-flush; Fan et al. 2021, DAPPLE): a warm-up of w = min(m, p-g), then a backward
 * and a forward pass in turn.
 *
 *   F0 .. Fw-1  B0 Fw  B1 Fw+1  ..  Bm-1
 */
static fault write_1f1b(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    struct writer l;
    TRY(begin("1f1b", needs, arena, out, &l));
    for (size_t g = 0; g < out->n_members; g++) {
        size_t w = warmup_of(needs, g);
        TRY(begin_list(&l));
        for (size_t i = 0; i < w; i++)
            put(&l, ACTION_FORWARD, g, i);
        for (size_t i = 0; i < out->n_micros; i++) {
            put(&l, ACTION_BACKWARD, g, i);
            if (w + i < out->n_micros)
                put(&l, ACTION_FORWARD, g, w + i);
        }
        out->first[g] = out->later[g] = list(&l);
    }
    return OK;
}

struct turn {
    size_t chunk, micro;
};

/* In which order a member takes its chunks: n micro-batches of one, the same n of the next, ... Where p divides m, n = p; else the
 * micro-batches are dealt out to as many groups, each of p at least, or to one where they are fewer. Returns the largest n. */
static size_t take_turns(size_t p, size_t v, size_t m, struct turn *order)
{
    size_t n_groups = larger(1, m / p), begin = 0;
    for (size_t group = 0; group < n_groups; group++) {
        size_t end = begin + m / n_groups + (group < m % n_groups);
        for (size_t chunk = 0; chunk < v; chunk++)
            for (size_t micro = begin; micro < end; micro++)
                *order++ = (struct turn){chunk, micro};
        begin = end;
    }
    return (m + n_groups - 1) / n_groups;
}

/* Interleaved 1F1B (Narayanan et al. 2021, Megatron-LM): v parts a member. The k-th forward pass is of chunk (k/n) mod v, the k-th
 * backward pass of v - 1 - (k/n) mod v, with n = p; a warm-up of w = 2(p-g-1) + (v-1)n, then one of each in turn. For any m >= p
 * it is idle for no longer than where p divides m.
 */
static fault write_interleaved(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    struct writer l;
    TRY(begin("interleaved", needs, arena, out, &l));
    size_t p = out->n_members, v = needs->chunks, n_turns = v * out->n_micros;
    struct turn *order = ARENA_NEW(arena, struct turn, n_turns);
    if (!order)
        return OUT_OF_MEMORY;
    size_t n = take_turns(p, v, out->n_micros, order);
    for (size_t g = 0; g < p; g++) {
        size_t w = smaller(n_turns, 2 * (p - g - 1) + (v - 1) * n);
        TRY(begin_list(&l));
        for (size_t k = 0; k < n_turns + w; k++) {
            if (k < n_turns)
                put(&l, ACTION_FORWARD, order[k].chunk * p + g, order[k].micro);
            if (k >= w)
                put(&l, ACTION_BACKWARD, (v - 1 - order[k - w].chunk) * p + g, order[k - w].micro);
        }
        out->first[g] = out->later[g] = list(&l);
    }
    return OK;
}

/* ZB-H1 (Qi et al. 2024, Zero Bubble): 1F1B with I in the place of B, and W of i only after I of i+g, so that gradients of inputs go
 * on their way early and those of weights fill what was idle.
 *
 *   F0 .. Fw-1  I0 Fw .. Ig W0 Fw+g  Ig+1 W1 Fw+g+1 ..  Im-1 Wm-1-g  Wm-g .. Wm-1
 */
static fault write_zb_h1(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    struct writer l;
    TRY(begin("zb-h1", needs, arena, out, &l));
    for (size_t g = 0; g < out->n_members; g++) {
        size_t m = out->n_micros, w = smaller(m, out->n_members - g);
        TRY(begin_list(&l));
        for (size_t i = 0; i < w; i++)
            put(&l, ACTION_FORWARD, g, i);
        for (size_t i = 0; i < m + g; i++) {
            if (i < m)
                put(&l, ACTION_INPUTS, g, i);
            if (i >= g)
                put(&l, ACTION_WEIGHTS, g, i - g);
            if (w + i < m)
                put(&l, ACTION_FORWARD, g, w + i);
        }
        out->first[g] = out->later[g] = list(&l);
    }
    return OK;
}

/* ---- without a flush ---- */

/* A warm-up of d = p-1-g once, then in every round, for each of its micro-batches t, F of t+d and B of t. */
static fault without_flush(const char *name, const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    struct writer l;
    TRY(begin(name, needs, arena, out, &l));
    for (size_t g = 0; g < out->n_members; g++) {
        size_t d = out->n_members - 1 - g;
        TRY(begin_list(&l));
        for (size_t i = 0; i < d; i++)
            put(&l, ACTION_FORWARD, g, i);
        for (size_t t = 0; t < out->n_micros; t++) {
            put(&l, ACTION_FORWARD, g, t + d);
            put(&l, ACTION_BACKWARD, g, t);
        }
        out->first[g] = list(&l);
        out->later[g] = (struct actions){l.at + d, l.n - d};
    }
    return OK;
}

/* PipeDream (Narayanan et al. 2019): 1F1B that never flushes, a step after every round, B with the weights of its F. A round is
 * mostly one micro-batch; of more the gradients are gathered, which takes fewer versions: 1 + ceil((p-1-g)/m).
 */
static fault write_pipedream(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    return without_flush("pipedream", needs, arena, out);
}

/* PipeDream-2BW (Narayanan et al. 2021): the same order, a round of m >= p micro-batches, all with the weights from before the last step,
 * so that two versions do.
 */
static fault write_2bw(const struct schedule_needs *needs, struct arena *arena, struct schedule *out)
{
    if (needs->n_micros < needs->n_members)
        return FAIL(FAULT_USAGE, "2bw gathers the gradients of at least as many micro-batches as there are members: %zu, not %zu",
                    needs->n_members, needs->n_micros);
    return without_flush("2bw", needs, arena, out);
}

static const struct schedule_kind gpipe = {
    .name = "gpipe", .help = "all forward passes, then all backward passes", .flushes = true, .write = write_gpipe};
static const struct schedule_kind one_f_one_b = {.name = "1f1b",
                                                 .help = "backward passes as early as can be: fewer micro-batches in flight",
                                                 .has_warmup = true,
                                                 .flushes = true,
                                                 .write = write_1f1b};
static const struct schedule_kind interleaved = {.name = "interleaved",
                                                 .help = "several parts a member: less idle time, more traffic",
                                                 .has_chunks = true,
                                                 .flushes = true,
                                                 .write = write_interleaved};
static const struct schedule_kind zb_h1 = {.name = "zb-h1",
                                           .help = "backward passes in halves, of which one fills what would be idle time",
                                           .splits = true,
                                           .flushes = true,
                                           .write = write_zb_h1};
static const struct schedule_kind pipedream = {
    .name = "pipedream", .help = "never idle: a step a round, with weights of different age", .write = write_pipedream};
static const struct schedule_kind two_buffers = {
    .name = "2bw", .help = "never idle: all gradients one step late", .delays = true, .write = write_2bw};

const struct schedule_kind *const schedule_rows[] = {&gpipe, &one_f_one_b, &interleaved, &zb_h1, &pipedream, &two_buffers, NULL};
