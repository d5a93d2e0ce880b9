/* machines.c - how fast machines are and when they fall behind: the names, their settings and what they mean.
 *
 *   machines: {speed: [1, 1, 0.25], stragglers: {kind: random, chance: 0.1, factor: 5}}
 *
 * A random speed comes from the stream (seed, agent, RNG_SPEED), the delay of lesson k from (seed, agent,
 * RNG_STRAGGLER, k): neither depends on what else was drawn.
 */
#include "experiment/machines.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "experiment/decode.h"

struct given_settings {
    double rate, memory_gbps;
};
struct speed_list {
    struct reals speeds;
};
struct speed_uniform {
    struct reals between;
};
struct speed_lognormal {
    double sigma;
};
struct stragglers_fixed {
    struct reals agents; /* in rising order */
    double factor;
};
struct stragglers_random {
    double chance, factor;
};
struct stragglers_scatter {
    double sigma;
};

/* Each row of a speed draws one, each row of stragglers says how late a lesson is. */
typedef double speed_of(const void *settings, uint64_t seed, size_t agent);
typedef double slowdown_of(const void *settings, uint64_t seed, size_t agent, uint64_t k);

struct speed_row {
    speed_of *speed;
};
struct straggler_row {
    slowdown_of *slowdown;
};

static double listed_speed(const void *settings, uint64_t seed, size_t agent)
{
    const struct speed_list *s = settings;
    (void)seed;
    return s->speeds.at[s->speeds.n == 1 ? 0 : agent];
}

static double uniform_speed(const void *settings, uint64_t seed, size_t agent)
{
    const struct speed_uniform *s = settings;
    struct rng r = rng_stream(seed, (uint32_t)agent, RNG_SPEED, 0);
    double low = s->between.at[0], high = s->between.at[1];
    return low + (high - low) * rng_uniform(&r);
}

static double lognormal_speed(const void *settings, uint64_t seed, size_t agent)
{
    const struct speed_lognormal *s = settings;
    struct rng r = rng_stream(seed, (uint32_t)agent, RNG_SPEED, 0);
    return exp(s->sigma * rng_normal(&r));
}

static double never_late(const void *settings, uint64_t seed, size_t agent, uint64_t k)
{
    (void)settings, (void)seed, (void)agent, (void)k;
    return 1;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double fixed_slowdown(const void *settings, uint64_t seed, size_t agent, uint64_t k)
{
    const struct stragglers_fixed *s = settings;
    (void)seed, (void)k;
    double key = (double)agent;
    return bsearch(&key, s->agents.at, s->agents.n, sizeof key, compare_reals) ? s->factor : 1;
}

static double random_slowdown(const void *settings, uint64_t seed, size_t agent, uint64_t k)
{
    const struct stragglers_random *s = settings;
    struct rng r = rng_stream(seed, (uint32_t)agent, RNG_STRAGGLER, k);
    return rng_uniform(&r) < s->chance ? s->factor : 1;
}

/* Lognormal, and 1 on average. */
static double scattered_slowdown(const void *settings, uint64_t seed, size_t agent, uint64_t k)
{
    double sigma = ((const struct stragglers_scatter *)settings)->sigma;
    struct rng r = rng_stream(seed, (uint32_t)agent, RNG_STRAGGLER, k);
    return exp(sigma * rng_normal(&r) - sigma * sigma / 2);
}

void machine_speeds(const struct machine_settings *m, uint64_t seed, size_t n_agents, double *speeds)
{
    const struct speed_row *row = m->speed.kind->row;
    for (size_t i = 0; i < n_agents; i++)
        speeds[i] = row->speed(m->speed.settings, seed, i);
}

double machine_slowdown(const struct machine_settings *m, uint64_t seed, size_t agent, uint64_t k)
{
    const struct straggler_row *row = m->stragglers.kind->row;
    return row->slowdown(m->stragglers.settings, seed, agent, k);
}

double machine_memory_s(const struct machine_settings *m, double speed, double n_bytes)
{
    return m->memory_gbps > 0 ? n_bytes / (m->memory_gbps * 1e9 * speed) : 0;
}

/* The names. */

static const struct field given_fields[] = {
    REAL_FIELD(struct given_settings, rate, "1000", 0, INFINITY,
               "samples a second that a machine of speed 1 handles, for the virtual clock", .above_min = true),
    REAL_FIELD(struct given_settings, memory_gbps, "0", 0, 1e12,
               "gigabytes a second that its memory moves in optimiser steps and mixes; 0: they take no time"),
};
static const struct field measured_fields[] = {
    INT_FIELD(struct measured_settings, side_by_side, "1", 1, 1024,
              "agents that share a machine like this one, and its cores"),
    REAL_FIELD(struct measured_settings, seconds, "2", 0.01, 3600, "to measure"),
};
static const struct field list_fields[] = {
    REALS_FIELD(struct speed_list, speeds, "1", 0, 1e9,
                "relative, one for each agent or one for all", .above_min = true),
};
static const struct field uniform_fields[] = {
    REALS_FIELD(struct speed_uniform, between, NULL, 0, 1e9,
                "the slowest and the fastest, [low, high]", .above_min = true),
};
static const struct field lognormal_fields[] = {
    REAL_FIELD(struct speed_lognormal, sigma, NULL, 0, 10,
               "the deviation of the speed's logarithm; half of the machines are faster than 1"),
};
static const struct field fixed_fields[] = {
    REALS_FIELD(struct stragglers_fixed, agents, NULL, 0, INFINITY,
                "those whose machine is slow, always", .whole = true),
    REAL_FIELD(struct stragglers_fixed, factor, NULL, 1, 1e9, "how many times longer their lessons take"),
};
static const struct field random_fields[] = {
    REAL_FIELD(struct stragglers_random, chance, NULL, 0, 1, "of each lesson of each agent to be late"),
    REAL_FIELD(struct stragglers_random, factor, NULL, 1, 1e9, "how many times longer their lessons take"),
};
static const struct field scatter_fields[] = {
    REAL_FIELD(struct stragglers_scatter, sigma, NULL, 0, 10,
               "the deviation of the logarithm of a lesson's length, which is as ever on average"),
};

static const struct speed_row list_row = {listed_speed}, uniform_row = {uniform_speed},
                              lognormal_row = {lognormal_speed};
static const struct straggler_row none_row = {never_late}, fixed_row = {fixed_slowdown},
                                  random_row = {random_slowdown}, scatter_row = {scattered_slowdown};

#define WITH(rows, type) .fields = rows, .n_fields = sizeof rows / sizeof *rows, .size = sizeof(struct type)

const struct kind machine_rows[2] = {
    {"given", "as written", WITH(given_fields, given_settings)},
    {"measured",
     "rate and memory_gbps are measured on this machine when the run begins, with its network, batch, engine, "
     "threads and optimiser, and written into the run's experiment",
     WITH(measured_fields, measured_settings)},
};
const struct kinds machine_kinds = {.rows = machine_rows, .n = 2};
const struct kind speed_rows[3] = {
    {"list", "as written; a number or a list stands for it: `speed: [1, 1, 0.25]`",
     WITH(list_fields, speed_list), .row = &list_row},
    {"uniform", "drawn between two speeds, each equally likely", WITH(uniform_fields, speed_uniform),
     .row = &uniform_row},
    {"lognormal", "drawn around 1: twice as fast is as likely as half as fast",
     WITH(lognormal_fields, speed_lognormal), .row = &lognormal_row},
};
const struct kind straggler_rows[4] = {
    {"none", "every machine keeps to its speed", .row = &none_row},
    {"fixed", "some agents are slower than their speed says, always", WITH(fixed_fields, stragglers_fixed),
     .row = &fixed_row},
    {"random", "any lesson may be late", WITH(random_fields, stragglers_random), .row = &random_row},
    {"scatter", "every lesson takes a little more or less, as on real machines",
     WITH(scatter_fields, stragglers_scatter), .row = &scatter_row},
};
const struct kinds speed_kinds = {.rows = speed_rows, .n = 3};
const struct kinds straggler_kinds = {.rows = straggler_rows, .n = 4};

/* The section. */

static void take_given(struct machine_settings *m)
{
    const struct given_settings *s = m->kind.settings;
    m->rate = s->rate;
    m->memory_gbps = s->memory_gbps;
}

const struct measured_settings *machines_to_measure(const struct machine_settings *m)
{
    return m->kind.kind == &machine_rows[1] ? m->kind.settings : NULL;
}

fault machines_are(struct experiment *e, double rate, double memory_gbps, double sigma)
{
    struct given_settings *s = ARENA_NEW(&e->arena, struct given_settings, 1);
    struct stragglers_scatter *scatter = ARENA_NEW(&e->arena, struct stragglers_scatter, 1);
    if (!s || !scatter)
        return OUT_OF_MEMORY;
    *s = (struct given_settings){rate, memory_gbps};
    e->machines.kind.kind = &machine_rows[0];
    e->machines.kind.settings = s;
    take_given(&e->machines);
    *scatter = (struct stragglers_scatter){sigma};
    if (e->machines.stragglers.kind == &straggler_rows[0] && sigma > 0) {
        e->machines.stragglers.kind = &straggler_rows[3];
        e->machines.stragglers.settings = scatter;
    }
    return OK;
}

static fault check_speed(const struct node *node, int64_t agents, int64_t team_size, const struct choice *c)
{
    const struct node *blamed = node ? decode_first_setting(node, c->kind) : NULL;
    if (c->kind == &speed_rows[0]) {
        size_t n = ((const struct speed_list *)c->settings)->speeds.n;
        if (n != 1 && n != (size_t)(agents * team_size) && team_size > 1)
            return fail_node(blamed,
                             "%zu speeds for %lld agents with %lld machines each; one for each machine, or one for all, is expected",
                             n, (long long)agents, (long long)team_size);
        if (n != 1 && n != (size_t)(agents * team_size))
            return fail_node(blamed, "%zu speeds for %lld agents; one for each, or one for all, is expected",
                             n, (long long)agents);
    }
    if (c->kind == &speed_rows[1]) {
        const struct reals *r = &((const struct speed_uniform *)c->settings)->between;
        if (r->n != 2 || r->at[0] > r->at[1])
            return fail_node(blamed, "the slowest and the fastest speed are expected: [0.5, 2]");
    }
    return OK;
}

static fault check_stragglers(const struct document *d, const struct node *node, int64_t agents,
                              struct choice *c)
{
    if (c->kind != &straggler_rows[1])
        return OK;
    struct stragglers_fixed *s = c->settings;
    struct roll roll;
    struct groups who;
    TRY(roll_init(&roll, d, agents));
    TRY(roll_agents(&roll, decode_first_setting(node, c->kind), &s->agents, &who));
    double *sorted = ARENA_NEW(d->arena, double, who.n);
    if (!sorted)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < who.n; i++)
        sorted[i] = who.agents[i];
    qsort(sorted, who.n, sizeof *sorted, compare_reals);
    s->agents.at = sorted;
    return OK;
}

fault decode_machines(const struct document *d, int64_t agents, int64_t team_size, struct machine_settings *out)
{
    static const char *const others[] = {"kind", "speed", "stragglers", NULL}, *const only_kind[] = {"kind", NULL};
    const struct node *node = node_find(d->top, "machines");
    TRY(decode_choice(d, node, KIND_MACHINE, "given", (struct form){.others = others}, &out->kind));
    if (!machines_to_measure(out))
        take_given(out);
    bool is_map = node && node->kind == NODE_MAP;
    const struct node *speed = is_map ? node_find(node, "speed") : NULL;
    const struct node *stragglers = is_map ? node_find(node, "stragglers") : NULL;
    struct form of_speed = {.others = only_kind, .bare = "list"}, plain = {.others = only_kind};
    TRY(decode_choice(d, speed, KIND_SPEED, "list", of_speed, &out->speed));
    TRY(check_speed(speed, agents, team_size, &out->speed));
    TRY(decode_choice(d, stragglers, KIND_STRAGGLER, "none", plain, &out->stragglers));
    return check_stragglers(d, stragglers, agents * team_size, &out->stragglers);
}
