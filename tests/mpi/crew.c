/* crew.c - see crew.h. */
#include "mpi/crew.h"

#include <stdio.h>

#include "api/registry.h"

/* Every test program joins once; MPI itself is a thing of the whole process. */
static struct ranks ranks;

bool crew_join(void)
{
    fault f = mpi_door.join(false, &ranks);
    if (f)
        fprintf(stderr, "%s\n", fault_text(f));
    fault_drop(f);
    return !f && (ranks.self == 0 || freopen("/dev/null", "w", stdout));
}

const struct ranks *crew_ranks(void)
{
    return &ranks;
}

bool crew_leads(void)
{
    return ranks.self == 0;
}

int crew_run_those(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down)
{
    struct CMUnitTest *kept = calloc(n, sizeof *kept);
    size_t n_kept = 0;
    for (size_t i = 0; kept && i < n; i++)
        if ((uintptr_t)tests[i].initial_state <= ranks.n)
            kept[n_kept++] = tests[i];
    int n_failed = kept ? _cmocka_run_group_tests("tests", kept, n_kept, set_up, tear_down) : 1;
    free(kept);
    return n_failed;
}

bool crew_is_fault(fault f, enum fault_kind kind, const char *words)
{
    return f && fault_kind_of(f) == kind && strstr(fault_text(f), words);
}

/* ---- watching ---- */

static fault moment(void *ctx)
{
    struct crew *c = ctx;
    c->n_moments++;
    return atomic_load(&c->stop) ? FAIL(FAULT_STOPPED, "stopped") : OK;
}

static void note(void *ctx, double now_s, size_t agent, const char *kind, const char *text)
{
    struct crew *c = ctx;
    size_t length = strlen(c->notes);
    (void)now_s;
    snprintf(c->notes + length, sizeof c->notes - length, "%zu %s: %s\n", agent, kind, text);
    c->n_notes++;
}

static bool has_to_stop(void *ctx)
{
    return atomic_load(&((struct crew *)ctx)->stop);
}

static void stop(void *ctx)
{
    atomic_store(&((struct crew *)ctx)->stop, true);
}

/* ---- opening ---- */

static struct experiment *parse(const char *more)
{
    struct registry registry = registry_of_everything();
    struct experiment *e = NULL;
    char *text = text_of(
        "data: {set: {kind: blobs, classes: 3, features: 16, samples: 210, test_samples: 10}, batch: 2}\n"
        "model: [{linear: {out: 1400}}, batchnorm, relu, {linear: {out: 3}}]\n"
        "optim: {kind: adam, lr: 0.001}\nengine: {kind: ref, threads: 1}\nworld: mpi\nagents: %zu\n"
        "train: {epochs: 1, seed: 1, evaluate_every: never, checkpoint_every: never}\n%s%s",
        ranks.n, more, strstr(more, "network:") ? "" : "network: {patience_s: 20}\n");
    fault f = experiment_parse(text, strlen(text), "crew", NULL, 0, &registry, &e);
    free(text);
    must(f);
    return e;
}

static void open_crew(struct crew *c, struct experiment *e)
{
    must(session_open(e, &ranks, NULL, &c->run));
    c->world = (struct far *)c->run->world;
    c->watcher =
        (struct watcher){.ctx = c, .moment = moment, .note = note, .has_to_stop = has_to_stop, .stop = stop};
    c->self = ranks.self;
    c->n = ranks.n;
    c->size = c->run->graph->size;
    c->ops = *c->world->link.ops;
    c->world->link.ops = &c->ops;
}

void crew_open_row(struct crew *c, struct strategy_row row, const char *more)
{
    struct experiment *e = parse(more);
    *c = (struct crew){.row = row};
    c->kind = (struct kind){.name = "test", .row = &c->row};
    if (row.run)
        e->strategy.kind = &c->kind;
    open_crew(c, e);
}

void crew_open(struct crew *c, strategy_run *program, const char *more)
{
    crew_open_row(c,
                  (struct strategy_row){.run = program,
                                        .hears_everyone = true,
                                        .kept = {{.name = "first"}, {.name = "second"}}},
                  more);
}

fault crew_play(struct crew *c)
{
    c->world->watcher = c->watcher;
    return c->run->world->ops->play(c->run->world);
}

void crew_close(struct crew *c)
{
    session_close(c->run);
}

void crew_run(strategy_run *program, const char *more)
{
    struct crew c;
    crew_open(&c, program, more);
    fault f = crew_play(&c);
    crew_close(&c);
    must(f);
}

struct crew *crew_of(const struct agent *a)
{
    return far_in(a->link)->watcher.ctx;
}

/* ---- for programs ---- */

float *crew_row(struct agent *a, enum row row)
{
    return row_of(far_of(a->link), row);
}

void crew_fill(struct agent *a, enum row row, float value)
{
    float *floats = crew_row(a, row);
    for (size_t i = 0; i < link_row_floats(a->link, row); i++)
        floats[i] = value;
}

static bool all_are(const float *floats, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        if (floats[i] != value)
            return false;
    return true;
}

bool crew_row_is(struct agent *a, enum row row, float value)
{
    return all_are(crew_row(a, row), link_row_floats(a->link, row), value);
}

bool crew_parcel_is(struct agent *a, const struct parcel *p, enum row row, size_t first, size_t end,
                    float value)
{
    struct term term = {1, row, p, 0};
    enum row into = row == ROW_STATS ? ROW_STATS : ROW_GRADS; /* any that is as long */
    fault f = link_mix(a->link, into, first, end, &term, 1);
    bool same = !f && all_are(crew_row(a, into) + first, end - first, value);
    fault_drop(f);
    return same;
}

fault crew_barrier(struct agent *a, uint64_t tag)
{
    char nothing = 0;
    for (size_t i = 0; i < a->link->n_members; i++)
        TRY(link_send(a->link, i, tag, &nothing, 0));
    for (size_t i = 0; i < a->link->n_members; i++)
        TRY(link_recv(a->link, i, tag, &nothing, 0, NULL));
    return OK;
}
