/* split_labels.c - splits in which agents see different classes.
 *
 *   by-label:   classes are dealt to agents like cards, lap after lap, each lap in a new random order; a
 *               class is then split evenly among those who hold it
 *   dirichlet:  the samples of each class are dealt out in proportions p ~ Dirichlet(alpha) over the agents
 *               (Yurochkin et al. 2019); an agent that comes away with nothing gets one sample from those
 *               with most
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/split.h"

/* Which stream of RNG_SPLIT is for what. */
enum { STREAM_LAPS = 1, STREAM_CLASSES = 1 << 20, STREAM_PROPORTIONS = 1 << 21 };

/* The samples of each class in random order: order[first[c]] .. order[first[c + 1] - 1]. */
struct by_class {
    size_t classes;
    uint32_t *order; /* owned */
    size_t *first;   /* owned */
};

static void by_class_release(struct by_class *b)
{
    free(b->order);
    free(b->first);
}

static fault by_class_init(const struct deal *d, struct by_class *b)
{
    const struct samples *s = d->train;
    *b = (struct by_class){s->classes, malloc(s->n * sizeof *b->order),
                           calloc(s->classes + 2, sizeof *b->first)};
    if (!b->order || !b->first) {
        by_class_release(b);
        return OUT_OF_MEMORY;
    }
    size_t *end = b->first + 1; /* end[c] is where class c ends, once it is filled; before, where it begins */
    for (size_t i = 0; i < s->n; i++)
        end[s->labels[i] + 1]++;
    for (size_t c = 0; c < s->classes; c++)
        end[c + 1] += end[c];
    for (size_t i = 0; i < s->n; i++)
        b->order[end[s->labels[i]]++] = (uint32_t)i;
    for (size_t c = 0; c < s->classes; c++) {
        struct rng r = rng_stream(d->seed, 0, RNG_SPLIT, STREAM_CLASSES + c);
        rng_shuffle(&r, b->order + b->first[c], b->first[c + 1] - b->first[c]);
    }
    return OK;
}

static size_t class_size(const struct by_class *b, size_t c)
{
    return b->first[c + 1] - b->first[c];
}

/* by-label */

struct hands {
    size_t n_agents, held; /* classes in each hand                  */
    size_t n_cards;        /* classes that have samples             */
    uint32_t *cards;       /* owned: [n_cards] one lap              */
    uint32_t *hand;        /* owned: [n_agents][held]               */
    uint32_t *holders;     /* owned: [classes] in how many hands    */
};

static bool holds(const uint32_t *hand, size_t n, uint32_t card)
{
    for (size_t i = 0; i < n; i++)
        if (hand[i] == card)
            return true;
    return false;
}

/* A hand that a new lap has to fill up may hold some of the first cards already: these change places with
 * later ones. There are enough, as no hand is larger than a lap. */
static void avoid_twins(struct hands *h, const uint32_t *hand, size_t had)
{
    size_t wanted = h->held - had, other = wanted;
    for (size_t i = 0; i < wanted; i++) {
        if (!holds(hand, had, h->cards[i]))
            continue;
        while (holds(hand, had, h->cards[other]))
            other++;
        uint32_t card = h->cards[i];
        h->cards[i] = h->cards[other];
        h->cards[other++] = card;
    }
}

static void deal_hands(struct hands *h, uint64_t seed)
{
    struct rng r = rng_stream(seed, 0, RNG_SPLIT, STREAM_LAPS);
    size_t next = h->n_cards; /* a new lap is due */
    for (size_t a = 0; a < h->n_agents; a++) {
        uint32_t *hand = h->hand + a * h->held;
        for (size_t had = 0; had < h->held; had++) {
            if (next == h->n_cards) {
                rng_shuffle(&r, h->cards, h->n_cards);
                avoid_twins(h, hand, had);
                next = 0;
            }
            hand[had] = h->cards[next++];
            h->holders[hand[had]]++;
        }
    }
}

static fault check_hands(const struct deal *d, const struct hands *h, const struct by_class *b)
{
    if (h->held > h->n_cards)
        return fail_at(d->place, "data.split: %zu classes for each agent, but the samples are of %zu",
                       h->held, h->n_cards);
    if (h->held * h->n_agents < h->n_cards)
        return fail_at(d->place,
                       "data.split: %zu agents with %zu classes each leave some of the %zu classes out",
                       h->n_agents, h->held, h->n_cards);
    /* laps deal every class as often as any other, to within one */
    size_t most = (h->held * h->n_agents + h->n_cards - 1) / h->n_cards;
    for (size_t c = 0; c < b->classes; c++)
        if (class_size(b, c) && class_size(b, c) < most)
            return fail_at(d->place, "data.split: class %zu has %zu samples for %zu agents", c,
                           class_size(b, c), most);
    return OK;
}

/* Agent by agent, each takes what is left of a class divided by those who still wait for some of it. */
static void take_hands(const struct deal *d, struct hands *h, const struct by_class *b, size_t *taken)
{
    for (size_t a = 0; a < h->n_agents; a++)
        for (size_t i = 0; i < h->held; i++) {
            uint32_t c = h->hand[a * h->held + i];
            size_t left = class_size(b, c) - taken[c], mine = (left + h->holders[c] - 1) / h->holders[c];
            for (size_t s = 0; s < mine; s++)
                d->owner[b->order[b->first[c] + taken[c] + s]] = (uint32_t)a;
            taken[c] += mine;
            h->holders[c]--;
        }
}

static fault deal_classes(const struct deal *d, struct hands *h, const struct by_class *b)
{
    size_t *taken = calloc(b->classes, sizeof *taken);
    h->cards = malloc(b->classes * sizeof *h->cards);
    h->holders = calloc(b->classes, sizeof *h->holders);
    fault f = taken && h->cards && h->holders ? OK : OUT_OF_MEMORY;
    for (size_t c = 0; !f && c < b->classes; c++)
        if (class_size(b, c))
            h->cards[h->n_cards++] = (uint32_t)c;
    if (!f)
        f = check_hands(d, h, b);
    if (!f) {
        h->hand = malloc(h->n_agents * h->held * sizeof *h->hand);
        f = h->hand ? OK : OUT_OF_MEMORY;
    }
    if (!f) {
        deal_hands(h, d->seed);
        take_hands(d, h, b, taken);
    }
    free(taken);
    free(h->cards);
    free(h->holders);
    free(h->hand);
    return f;
}

fault split_by_label(struct deal *d)
{
    const struct by_label_split *s = d->settings;
    struct hands h = {.n_agents = d->n_agents, .held = (size_t)s->classes};
    struct by_class b;
    TRY(by_class_init(d, &b));
    fault f = deal_classes(d, &h, &b);
    by_class_release(&b);
    return f;
}

/* dirichlet */

/* The logarithm of a draw from Gamma(alpha), by Marsaglia and Tsang (2000) for alpha + 1, times U^(1 /
 * alpha): for small alpha the draw itself would be 0 more often than not. */
static double log_gamma_draw(struct rng *r, double alpha)
{
    double d = alpha + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = rng_normal(r), v = 1 + c * x, u = 1 - rng_uniform(r);
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + log(1 - rng_uniform(r)) / alpha;
    }
}

static void draw_proportions(struct rng *r, double alpha, size_t n, double *p)
{
    double most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        p[i] = log_gamma_draw(r, alpha);
        most = fmax(most, p[i]);
    }
    for (size_t i = 0; i < n; i++)
        p[i] = exp(p[i] - most);
}

static void take_counts(const struct deal *d, const uint32_t *samples, const size_t *counts)
{
    for (size_t a = 0; a < d->n_agents; a++)
        for (size_t i = 0; i < counts[a]; i++)
            d->owner[*samples++] = (uint32_t)a;
}

/* Moves samples from those with more than they are to have to those with less. */
static void even_out(const struct deal *d, size_t *has, const size_t *wanted)
{
    size_t poor = 0;
    for (size_t i = 0; i < d->train->n; i++) {
        uint32_t rich = d->owner[i];
        if (has[rich] <= wanted[rich])
            continue;
        while (has[poor] >= wanted[poor])
            poor++;
        d->owner[i] = (uint32_t)poor;
        has[rich]--;
        has[poor]++;
    }
}

static fault deal_proportions(const struct deal *d, const struct by_class *b, double *p, size_t *counts,
                              size_t *has)
{
    const struct dirichlet_split *s = d->settings;
    for (size_t c = 0; c < b->classes; c++) {
        struct rng r = rng_stream(d->seed, 0, RNG_SPLIT, STREAM_PROPORTIONS + c);
        draw_proportions(&r, s->alpha, d->n_agents, p);
        TRY(split_share_out(class_size(b, c), p, d->n_agents, counts));
        take_counts(d, b->order + b->first[c], counts);
        for (size_t a = 0; a < d->n_agents; a++)
            has[a] += counts[a];
    }
    memcpy(counts, has, d->n_agents * sizeof *counts);
    split_leave_nobody_out(counts, d->n_agents);
    even_out(d, has, counts);
    return OK;
}

fault split_dirichlet(struct deal *d)
{
    struct by_class b;
    TRY(by_class_init(d, &b));
    double *p = malloc(d->n_agents * sizeof *p);
    size_t *counts = malloc(d->n_agents * sizeof *counts), *has = calloc(d->n_agents, sizeof *has);
    fault f = p && counts && has ? deal_proportions(d, &b, p, counts, has) : OUT_OF_MEMORY;
    free(p);
    free(counts);
    free(has);
    by_class_release(&b);
    return f;
}
