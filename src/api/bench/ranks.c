/* ranks.c - `mpirun -n R veche bench allreduce world=mpi`: how long a sum over all ranks really takes.
 *
 *   for every span, 1 KiB, 4 KiB, ...:  so many times over:  every algorithm of ours, the MPI's two, a copy
 *
 * All ways are tried in turn, so that whatever else the machine does is shared out fairly. Before each all
 * meet at a barrier; the last one to be done ends it. What is told is the median. The copy, of as many floats
 * within each rank at the same time, is the machine's own limit: a sum has to read at least as much.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/bench/bench.h"
#include "api/registry.h"
#include "api/session.h"
#include "base/clock.h"
#include "base/pool.h"
#include "collective/collective.h"

struct ranks_bench {
    int world;
    int64_t shortest_kb, longest_kb, repeats;
};

static const char *const worlds[] = {"mpi", NULL};

static const struct field fields[] = {
    CHOICE_FIELD(struct ranks_bench, world, "mpi", worlds, "where the ranks are"),
    INT_FIELD(struct ranks_bench, shortest_kb, "1", 1, 4194304, "KiB of the shortest span"),
    INT_FIELD(struct ranks_bench, longest_kb, "102400", 1, 4194304, "KiB of the longest span"),
    INT_FIELD(struct ranks_bench, repeats, "15", 1, 10000, "of every sum; of those below 1 MiB ten times as many"),
};

static const char form[] = "name: bench-ranks\n"
                           "data: {set: {kind: blobs, classes: 2, features: 16, samples: 10000}, batch: 1}\n"
                           "model: [{linear: {out: %zu}}, {linear: {out: %zu}}, {linear: {out: 2}}]\n"
                           "optim: {kind: sgd, lr: 0.1}\n"
                           "agents: %zu\n"
                           "strategy: single\n"
                           "engine: {kind: null, threads: 1}\n"
                           "world: %s\n"
                           "train: {epochs: 1, evaluate_every: never, checkpoint_every: never}\n";

/* Ours and the world's, as `algorithm:` names them; then the MPI's where all wait in it; then the copy. */
enum { AT_ONCE = NATIVE + 1, COPY, N_WAYS };
enum { MOST_SPANS = 32, SMALL_FLOATS = 1 << 18 };

static const char *way_name(const struct world_door *door, int way)
{
    return way == AT_ONCE ? door->library->name : collective_names[way];
}

/* ---- the program ---- */

struct trial {
    const struct world_door *door;
    size_t n_spans, floats[MOST_SPANS];
    size_t repeats[MOST_SPANS], most_repeats;
    double *seconds;    /* owned: [span][way][repeat], of the slowest rank */
    struct block apart; /* owned: as many floats as the longest span, in memory that suits MPI best */
};

static double *seconds_of(const struct trial *t, size_t span, int way)
{
    return t->seconds + (span * N_WAYS + (size_t)way) * t->most_repeats;
}

static fault go_that_way(struct agent *a, int way, size_t floats)
{
    struct term mine = {1, ROW_PARAMS, NULL, 0};
    if (way == COPY)
        return link_mix(a->link, ROW_GRADS, 0, floats, &mine, 1);
    if (way == AT_ONCE) {
        const struct trial *t = a->stage->shared;
        t->door->library->sum(a->link, t->apart.bytes, floats);
        return OK;
    }
    return group_sum(agent_group(a), collective_rows[way], ROW_PARAMS, 0, floats);
}

static fault time_once(struct agent *a, int way, size_t floats, double *slowest)
{
    struct group *g = agent_group(a);
    TRY(group_barrier(g));
    double began = clock_now_s();
    TRY(go_that_way(a, way, floats));
    double mine = clock_now_s() - began;
    TRY(group_exchange(g, &mine, 1, a->shares));
    *slowest = 0;
    for (size_t i = 0; i < g->n; i++)
        *slowest = a->shares[i] > *slowest ? a->shares[i] : *slowest;
    return OK;
}

/* The first time counts for nothing: memory is touched that was never touched before. */
static fault time_all(struct agent *a)
{
    struct trial *t = a->stage->shared;
    double unused;
    for (size_t s = 0; s < t->n_spans; s++)
        for (size_t k = 0; k < t->repeats[s] + 1; k++)
            for (int way = 0; way < N_WAYS; way++)
                TRY(time_once(a, way, t->floats[s], k ? &seconds_of(t, s, way)[k - 1] : &unused));
    return OK;
}

static const struct strategy_row program = {.run = time_all, .forms_group = true};
static const struct kind kind = {.name = "bench", .row = &program};

/* ---- figures ---- */

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *all, size_t n)
{
    qsort(all, n, sizeof *all, compare_reals);
    return n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
}

static json_t *figures_of(const struct trial *t, size_t span, const struct ranks *ranks)
{
    double medians[N_WAYS], bytes = (double)(t->floats[span] * sizeof(float));
    int best = 0;
    json_t *ways = json_array();
    for (int way = 0; way < N_WAYS; way++) {
        medians[way] = median(seconds_of(t, span, way), t->repeats[span]);
        if (way != COPY)
            json_array_append_new(ways,
                                  json_pack("{s:s, s:f, s:f}", "algorithm", way_name(ranks->door, way),
                                            "seconds", medians[way], "least_s", seconds_of(t, span, way)[0]));
        if (way < N_COLLECTIVES && medians[way] < medians[best])
            best = way;
    }
    double native = medians[NATIVE] < medians[AT_ONCE] ? medians[NATIVE] : medians[AT_ONCE];
    return json_pack("{s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "bytes", (json_int_t)bytes,
                     "repeats", (json_int_t)t->repeats[span], "best", way_name(ranks->door, best), "best_s",
                     medians[best], "native_s", native, "best_over_native", native / medians[best], "copy_s",
                     medians[COPY], "copy_gbytes_per_s", bytes * (double)ranks->n / medians[COPY] / 1e9,
                     "best_over_copy", medians[COPY] / medians[best], "algorithms", ways);
}

static fault print(const struct trial *t, const struct ranks *ranks, char **json)
{
    const struct world_door *door = ranks->door;
    char library[128];
    json_t *spans = json_array();
    door->library->version(library, sizeof library);
    for (size_t s = 0; spans && s < t->n_spans; s++)
        if (json_array_append_new(spans, figures_of(t, s, ranks)) != 0) {
            json_decref(spans);
            return OUT_OF_MEMORY;
        }
    return bench_print(json_pack("{s:s, s:s, s:I, s:I, s:b, s:o}", "world", door->name, "library", library,
                                 "ranks", (json_int_t)ranks->n, "cores", (json_int_t)pool_cores(),
                                 "oversubscribed", ranks->outnumber_cores, "spans", spans),
                       json);
}

/* ---- playing ---- */

static fault plan(const struct ranks_bench *s, struct trial *t)
{
    size_t longest = (size_t)s->longest_kb * 256;
    *t = (struct trial){.door = world_named(worlds[s->world])};
    if (!t->door || !t->door->library)
        return FAIL(FAULT_USAGE, "the world '%s' cannot be used here: this program was built without it",
                    worlds[s->world]);
    for (size_t floats = (size_t)s->shortest_kb * 256;; floats *= 4) {
        size_t i = t->n_spans++;
        t->floats[i] = smaller(floats, longest);
        t->repeats[i] = (size_t)s->repeats * (floats < SMALL_FLOATS ? 10 : 1);
        if (floats >= longest)
            break;
    }
    t->most_repeats = t->repeats[0];
    t->seconds = calloc(t->n_spans * N_WAYS * t->most_repeats, sizeof *t->seconds);
    return t->seconds ? block_open(longest * sizeof(float), &t->apart) : OUT_OF_MEMORY;
}

/* Two layers of w x w weights or a little more have all the floats of the longest span. */
static fault make_experiment(const struct trial *t, const struct ranks *ranks, struct experiment **out)
{
    char text[1024];
    struct registry registry = registry_of_everything();
    size_t wide = 1;
    while (wide * wide < t->floats[t->n_spans - 1])
        wide++;
    int n = snprintf(text, sizeof text, form, wide, wide, ranks->n, t->door->name);
    TRY(experiment_parse(text, (size_t)n, "the benchmark's own experiment", NULL, 0, &registry, out));
    (*out)->strategy.kind = &kind;
    return OK;
}

static fault play(struct trial *t, char **json)
{
    struct ranks ranks;
    struct experiment *e;
    struct veche_run *r;
    t->door->library->expect();
    TRY(t->door->join(false, &ranks));
    TRY(make_experiment(t, &ranks, &e));
    TRY(session_open(e, &ranks, NULL, &r));
    r->stage.shared = t;
    fault f = r->world->ops->play(r->world);
    if (!f)
        f = ranks.self == 0 ? print(t, &ranks, json) : (*json = calloc(1, 1)) ? OK : OUT_OF_MEMORY;
    session_close(r);
    return f;
}

fault bench_ranks(const char *const *settings, size_t n, char **json)
{
    struct arena arena = {0};
    struct ranks_bench s = {0};
    struct trial t = {0};
    fault f = bench_settings(fields, sizeof fields / sizeof *fields, settings, n, &arena, &s);
    if (!f)
        f = plan(&s, &t);
    if (!f)
        f = play(&t, json);
    block_close(&t.apart);
    free(t.seconds);
    arena_release(&arena);
    return f;
}
