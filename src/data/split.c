/* split.c - who learns from which training samples.
 *
 *   settings -> owner of each sample -> shares, each in the order of the set
 *
 * Every sample has one owner and every agent owns one or more, so shares cover the set and never overlap.
 * Only `replacement` draws each share from the whole set.
 */
#include "data/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* Counts. */

struct remainder {
    double left;
    size_t share;
};

static int compare_remainders(const void *x, const void *y)
{
    const struct remainder *a = x, *b = y;
    if (a->left != b->left)
        return a->left < b->left ? 1 : -1;
    return (a->share > b->share) - (a->share < b->share);
}

fault split_share_out(size_t n, const double *parts, size_t n_parts, size_t *counts)
{
    /* so that no rounding of a quota that ought to be whole hands out one too many */
    const double hair = 1e-6;
    struct remainder *rest = malloc(n_parts * sizeof *rest);
    if (!rest)
        return OUT_OF_MEMORY;
    double sum = 0;
    size_t given = 0;
    for (size_t i = 0; i < n_parts; i++)
        sum += parts[i];
    for (size_t i = 0; i < n_parts; i++) {
        double quota = (double)n * (parts[i] / sum), whole = fmax(0, floor(quota - hair));
        counts[i] = (size_t)whole;
        given += counts[i];
        rest[i] = (struct remainder){quota - whole, i};
    }
    qsort(rest, n_parts, sizeof *rest, compare_remainders);
    for (size_t i = 0; given < n; i = (i + 1) % n_parts, given++)
        counts[rest[i].share]++;
    free(rest);
    return OK;
}

/* How many are above the level, all together. */
static size_t surplus(const size_t *counts, size_t n_parts, size_t level)
{
    size_t sum = 0;
    for (size_t i = 0; i < n_parts; i++)
        sum += counts[i] > level ? counts[i] - level : 0;
    return sum;
}

void split_leave_nobody_out(size_t *counts, size_t n_parts)
{
    size_t missing = 0, low = 1, high = 1;
    for (size_t i = 0; i < n_parts; i++) {
        missing += counts[i] == 0;
        counts[i] += counts[i] == 0;
        high = counts[i] > high ? counts[i] : high;
    }
    if (missing == 0)
        return;
    while (low < high) { /* the highest level above which enough can be taken */
        size_t middle = low + (high - low + 1) / 2;
        if (surplus(counts, n_parts, middle) >= missing)
            low = middle;
        else
            high = middle - 1;
    }
    size_t back = surplus(counts, n_parts, low) - missing;
    for (size_t i = 0; i < n_parts; i++)
        if (counts[i] > low) {
            counts[i] = low + (back > 0);
            back -= back > 0;
        }
}

/* Owners. */

static fault deal_counts(struct deal *d, const size_t *counts)
{
    size_t n = d->train->n, at = 0;
    uint32_t *order = malloc(n * sizeof *order);
    if (!order)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    struct rng r = rng_stream(d->seed, 0, RNG_SPLIT, 0);
    rng_shuffle(&r, order, n);
    for (size_t a = 0; a < d->n_agents; a++)
        for (size_t i = 0; i < counts[a]; i++)
            d->owner[order[at++]] = (uint32_t)a;
    free(order);
    return OK;
}

static fault deal_parts(struct deal *d, const double *parts)
{
    size_t *counts = malloc(d->n_agents * sizeof *counts);
    if (!counts)
        return OUT_OF_MEMORY;
    fault f = split_share_out(d->train->n, parts, d->n_agents, counts);
    if (!f) {
        split_leave_nobody_out(counts, d->n_agents);
        f = deal_counts(d, counts);
    }
    free(counts);
    return f;
}

static size_t equal_share(size_t n, size_t n_agents, size_t agent)
{
    return n / n_agents + (agent < n % n_agents);
}

static fault deal_shuffle(struct deal *d)
{
    size_t *counts = malloc(d->n_agents * sizeof *counts);
    if (!counts)
        return OUT_OF_MEMORY;
    for (size_t a = 0; a < d->n_agents; a++)
        counts[a] = equal_share(d->train->n, d->n_agents, a);
    fault f = deal_counts(d, counts);
    free(counts);
    return f;
}

static fault deal_sizes(struct deal *d)
{
    return deal_parts(d, ((const struct sizes_split *)d->settings)->sizes.at);
}

static fault deal_proportional(struct deal *d)
{
    if (!d->speeds)
        return FAIL(FAULT_USAGE, "a split in proportion to speed was asked for without speeds");
    return deal_parts(d, d->speeds);
}

static fault check_sizes(const void *settings, struct place place, size_t n_agents)
{
    size_t n = ((const struct sizes_split *)settings)->sizes.n;
    return n == n_agents ? OK : fail_at(place, "data.split: %zu sizes for %zu agents", n, n_agents);
}

/* Shares. */

static fault draw_with_replacement(struct deal *d)
{
    uint32_t *at = d->out->samples;
    for (size_t a = 0; a < d->n_agents; a++) {
        struct rng r = rng_stream(d->seed, (uint32_t)a, RNG_SPLIT, 0);
        size_t n = equal_share(d->train->n, d->n_agents, a);
        for (size_t i = 0; i < n; i++)
            *at++ = (uint32_t)rng_below(&r, d->train->n);
        d->out->first[a + 1] = d->out->first[a] + n;
    }
    return OK;
}

static fault take_files(struct deal *d)
{
    if (!d->train->file_first)
        return FAIL(FAULT_USAGE, "the split 'files' was asked for without its files");
    for (size_t i = 0; i < d->train->n; i++)
        d->out->samples[i] = (uint32_t)i;
    memcpy(d->out->first, d->train->file_first, (d->n_agents + 1) * sizeof *d->out->first);
    return OK;
}

/* The samples of each owner, in the order of the set. */
static void gather(const struct deal *d)
{
    size_t *first = d->out->first;
    for (size_t i = 0; i < d->train->n; i++)
        first[d->owner[i] + 1]++;
    for (size_t a = 0; a < d->n_agents; a++)
        first[a + 1] += first[a];
    for (size_t i = 0; i < d->train->n; i++)
        d->out->samples[first[d->owner[i]]++] = (uint32_t)i;
    memmove(first + 1, first, d->n_agents * sizeof *first); /* each stands where the next began */
    first[0] = 0;
}

/* The names. */

static const char *const measures[] = {"speed", NULL};
static const struct field sizes_fields[] = {
    REALS_FIELD(struct sizes_split, sizes, NULL, 0, 1e9, "relative, one for each agent", .above_min = true),
};
static const struct field proportional_fields[] = {
    CHOICE_FIELD(struct proportional_split, to, "speed", measures, "what a share is in proportion to"),
};
static const struct field by_label_fields[] = {
    INT_FIELD(struct by_label_split, classes, NULL, 1, UINT16_MAX, "how many classes each agent has samples of"),
};
static const struct field dirichlet_fields[] = {
    REAL_FIELD(struct dirichlet_split, alpha, NULL, 0, 1e9,
               "small: a class is with few agents; large: all agents have equal shares of it", .above_min = true),
};
static const struct field files_fields[] = {
    TEXTS_FIELD(struct files_split, files, NULL,
                "of training samples, one for each agent, as the set's own are laid out"),
    TEXTS_FIELD(struct files_split, labels, NULL,
                "their labels, where the set has them in files of their own (IDX)", .optional = true),
};

static const struct split_row shuffle_row = {NULL, deal_shuffle, true},
                              replacement_row = {NULL, draw_with_replacement, false},
                              sizes_row = {check_sizes, deal_sizes, true},
                              proportional_row = {NULL, deal_proportional, true},
                              by_label_row = {NULL, split_by_label, true},
                              dirichlet_row = {NULL, split_dirichlet, true},
                              files_row = {split_check_files, take_files, false};

#define WITH(rows, type) .fields = rows, .n_fields = sizeof rows / sizeof *rows, .size = sizeof(struct type)

static const struct kind rows[] = {
    {"shuffle", "equal shares of a random order", .row = &shuffle_row},
    {"replacement", "equal shares, each drawn from the whole set, a sample any number of times",
     .row = &replacement_row},
    {"sizes", "unequal shares of a random order", WITH(sizes_fields, sizes_split), .row = &sizes_row},
    {"proportional", "a faster machine gets more", WITH(proportional_fields, proportional_split),
     .row = &proportional_row},
    {"by-label", "each agent has samples of a few classes only", WITH(by_label_fields, by_label_split),
     .row = &by_label_row},
    {"dirichlet", "each class is dealt out in random proportions", WITH(dirichlet_fields, dirichlet_split),
     .row = &dirichlet_row},
    {"files", "each agent opens its own file and no other", WITH(files_fields, files_split),
     .row = &files_row},
};

const struct kinds split_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};

bool split_is_files(const struct data_settings *d)
{
    return d->split.kind && d->split.kind->row == &files_row;
}

/* Making one. */

fault split_check(const struct data_settings *d, size_t n_agents)
{
    const struct split_row *row = d->split.kind->row;
    return row->check ? row->check(d->split.settings, d->split.place, n_agents) : OK;
}

static fault make_shares(const struct split_row *row, struct deal *d)
{
    d->owner = row->owns ? malloc(d->train->n * sizeof *d->owner) : NULL;
    if (row->owns && !d->owner)
        return OUT_OF_MEMORY;
    fault f = row->deal(d);
    if (!f && row->owns)
        gather(d);
    free(d->owner);
    return f;
}

fault split_make(const struct data_settings *d, const struct samples *train, size_t n_agents,
                 const double *speeds, uint64_t seed, struct split *out)
{
    TRY(split_check(d, n_agents));
    if (!split_is_files(d) && train->n < n_agents)
        return fail_at(d->split.place, "data.split: %zu training samples are too few for %zu agents",
                       train->n, n_agents);
    struct split split = {calloc(train->n, sizeof *split.samples), calloc(n_agents + 1, sizeof *split.first),
                          n_agents};
    struct deal deal = {.settings = d->split.settings,
                        .place = d->split.place,
                        .train = train,
                        .n_agents = n_agents,
                        .speeds = speeds,
                        .seed = seed,
                        .out = &split};
    fault f = split.samples && split.first ? make_shares(d->split.kind->row, &deal) : OUT_OF_MEMORY;
    if (f)
        split_release(&split);
    else
        *out = split;
    return f;
}

void split_release(struct split *s)
{
    free(s->samples);
    free(s->first);
    *s = (struct split){0};
}
