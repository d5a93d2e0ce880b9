/* Every strategy in the world `mpi`: the synchronous ones learn the same bits as in the local world and send
 * as much; the others keep their laws. A new strategy is a line in one of the lists below. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "collective/collective.h"
#include "mpi/crew.h"
#include "veche.h"

/* Agents where there are so many ranks, and `tree: 2` puts nodes between them and the server. */
static const size_t agents_below_tree[8] = {0, 0, 1, 2, 0, 0, 3, 4};

struct line {
    const char *strategy; /* LIST stands for a number for each agent */
    size_t helpers;       /* ranks that are not agents */
    const size_t *agents; /* of so many ranks, where the helpers are not always as many */
    size_t most_agents;   /* 0: any number */
    size_t accumulate;    /* micro-batches, each as large as the others' batches; 0: 1 */
    const char *more;     /* of the experiment */
};

static const struct line in_step[] = {
    {.strategy = "consensus"},
    {.strategy = "{kind: consensus, order: combine-then-adapt, mix_momentum: true, mix_statistics: true}"},
    {.strategy = "{kind: consensus, every: 3}", .accumulate = 3},
    {.strategy = "{kind: consensus, learn_every: LIST, mix_every: LIST}"},
    {.strategy = "gossip"},
    {.strategy = "{kind: gossip, every: 2, pairs: 1, mix_momentum: true}"},
    {.strategy = "allreduce"},
    {.strategy = "{kind: allreduce, algorithm: all-to-all}"},
    {.strategy = "{kind: allreduce, algorithm: star, bucket_kb: 2}"},
    {.strategy = "{kind: allreduce, algorithm: tree}"},
    {.strategy = "{kind: allreduce, algorithm: ring, bucket_kb: 2, mix_statistics: true}"},
    {.strategy = "{kind: allreduce, algorithm: butterfly}"},
    {.strategy = "{kind: allreduce, algorithm: halving-doubling, bucket_kb: 3}", .accumulate = 2},
    {.strategy = "{kind: allreduce, algorithm: binary-blocks, bucket_kb: 1.5}"},
    {.strategy = "ps", .helpers = 1},
    {.strategy = "{kind: ps, servers: 2}", .helpers = 2},
    {.strategy = "{kind: ps, replicate_every: 2}", .helpers = 2},
    {.strategy = "{kind: ps, tree: 2}", .agents = agents_below_tree},
    {.strategy = "average"},
    {.strategy = "{kind: average, tau: 3, momentum: 0.5, mix_statistics: true}"},
    {.strategy = "{kind: average, tau: end}"},
    {.strategy = "{kind: average, tau: 2, weights: data, algorithm: tree}",
     .more = "machines: {speed: {kind: lognormal, sigma: 0.5}}\n"},
    {.strategy = "{kind: easgd, mode: sync, every: 2}", .helpers = 1},
    {.strategy = "{kind: easgd, mode: sync, every: 3, mix_statistics: true}", .helpers = 1},
    {.strategy = "{kind: admm, steps: 3}", .helpers = 1},
    {.strategy = "{kind: admm, steps: 2, mix_statistics: true}", .helpers = 1},
    {.strategy = "single", .most_agents = 1},
};

/* What else holds at the end of those that are not in step, or whose sums are the MPI's. */
enum law {
    NO_LAW,
    ALL_ALIKE,   /* everyone has the same parameters */
    BOUNDED = 2, /* staleness, by 1: at most 3 (m - 1) */
    ALIKE_AND_BOUNDED = ALL_ALIKE | BOUNDED
};

static const struct free_line {
    struct line line;
    size_t least; /* agents */
    enum law law;
} at_will[] = {
    {{.strategy = "adpsgd"}, 1, NO_LAW},
    {{.strategy = "{kind: adpsgd, every: 2, mix_statistics: true, mix_momentum: true}"}, 1, NO_LAW},
    {{.strategy = "{kind: ps, mode: async}", .helpers = 1}, 1, ALL_ALIKE},
    {{.strategy = "{kind: ps, mode: async, staleness_aware: true, servers: 2}", .helpers = 2}, 1, ALL_ALIKE},
    {{.strategy = "{kind: ps, mode: ssp, staleness: 1}", .helpers = 1}, 1, ALIKE_AND_BOUNDED},
    {{.strategy = "{kind: downpour, push_every: 3, pull_every: 2}", .helpers = 1}, 1, ALL_ALIKE},
    {{.strategy = "{kind: easgd, mode: async, every: 3}", .helpers = 1}, 1, NO_LAW},
    {{.strategy = "{kind: admm, mode: async, steps: 3}", .helpers = 1}, 1, NO_LAW},
    {{.strategy = "{kind: allreduce, algorithm: native}"}, 1, ALL_ALIKE},
    {{.strategy = "{kind: allreduce, algorithm: native, bucket_kb: 1, mix_statistics: true}"}, 1, ALL_ALIKE},
    {{.strategy = "{kind: allreduce, backups: 1}", .helpers = 1}, 2, NO_LAW},
};

enum { N_IN_STEP = sizeof in_step / sizeof *in_step, N_AT_WILL = sizeof at_will / sizeof *at_will };

static bool is_of(const char *strategy, const char *name)
{
    const char *at = strstr(strategy, name);
    char next = at ? at[strlen(name)] : 'x', last = at && at != strategy ? at[-1] : ' ';
    return at && last == ' ' && (next == '\0' || next == ',' || next == '}');
}

static void every_strategy_has_a_line(void **state)
{
    (void)state;
    for (size_t k = 0; k < strategy_kinds.n; k++) {
        const char *name = kinds_at(&strategy_kinds, k)->name;
        bool found = false;
        for (size_t i = 0; i < N_IN_STEP; i++)
            found |= is_of(in_step[i].strategy, name);
        for (size_t i = 0; i < N_AT_WILL; i++)
            found |= is_of(at_will[i].line.strategy, name);
        if (!found)
            fail_msg("the strategy '%s' has no line here", name);
    }
}

/* ---- complaints ---- */

/* Ranks stay in step whatever one of them finds: what is wrong is gathered, and told when all lines are
 * through. */
static char complaints[1 << 14];

static void complain(const char *format, ...)
{
    size_t n = strlen(complaints);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaints + n, sizeof complaints - n, format, arguments);
    va_end(arguments);
    n = strlen(complaints);
    snprintf(complaints + n, sizeof complaints - n, "\n");
}

static void tell_complaints(void)
{
    char *text = text_of("%s", complaints);
    complaints[0] = 0;
    if (text[0])
        fail_msg("with %zu ranks\n%s", crew_ranks()->n, text);
    free(text);
}

/* ---- experiments ---- */

/* 0: none, there are too few ranks. */
static size_t agents_of(const struct line *l)
{
    size_t n = crew_ranks()->n;
    if (l->agents)
        return n < 8 ? l->agents[n] : 0;
    return n <= l->helpers || (l->most_agents && n > l->most_agents) ? 0 : n - l->helpers;
}

/* The strategy with lists of 1, 2, 3, 1, 2, 3 ... in the place of LIST; the caller frees. */
static char *strategy_of(const struct line *l, size_t agents)
{
    char list[64] = "[1", *text = strdup(l->strategy), *at;
    for (size_t i = 1; i < agents; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ", %zu", 1 + i % 3);
    strcat(list, "]");
    while (text && (at = strstr(text, "LIST"))) {
        char *longer = text_of("%.*s%s%s", (int)(at - text), text, list, at + strlen("LIST"));
        free(text);
        text = longer;
    }
    return text;
}

enum { SAMPLES = 84, BATCH = 2, EPOCHS_AT_WILL = 8 };

static char *experiment_of(const struct line *l, size_t agents, const char *world, int epochs)
{
    char graph[64] = "", *strategy = strategy_of(l, agents);
    size_t accumulate = l->accumulate ? l->accumulate : 1;
    if (agents > 1)
        snprintf(graph, sizeof graph, "topology: \"%s:%zu\"\n", agents > 2 ? "cycle" : "path", agents);
    char *text = text_of(
        "name: test\n"
        "data: {set: {kind: blobs, classes: 3, features: 8, samples: %d, test_samples: 30}, batch: %zu, "
        "split: %s}\n"
        "model: [{linear: {out: 100}}, batchnorm, relu, {dropout: {rate: 0.2}}, {linear: {out: 3}}]\n"
        "optim: {kind: adam, lr: 0.01, schedule: {warmup_epochs: 0.5}}\n"
        "engine: {kind: ref, threads: 1}\nnetwork: {patience_s: 30}\n"
        "train: {epochs: %d, accumulate: %zu, seed: 3, evaluate_every: 7 rounds, checkpoint_every: never}\n"
        "world: %s\nagents: %zu\nstrategy: %s\n%s%s",
        SAMPLES, BATCH * accumulate, l->more ? "{kind: proportional}" : "shuffle", epochs, accumulate, world,
        agents, strategy, graph, l->more ? l->more : "");
    free(strategy);
    return text;
}

static char folder[32];

/* In memory where that is possible: what is written is of no interest here, and disks are slow. */
static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/veche-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return !mkdtemp(folder); /* each rank: runs of the local world are its own */
}

static int remove_folder(void **state)
{
    char *command = text_of("rm -rf %s", folder);
    int failed = system(command) != 0;
    (void)state;
    free(command);
    return failed;
}

/* Whoever has made steps, servers too, has come to the last rate of the schedule: warming up was over long
 * ago. An agent that was too late for its last rounds (backups) made its last step before them. */
static void check_rates(const struct veche_run *r)
{
    const struct stage *s = &r->stage;
    double last =
        optim_lr(&r->experiment->optim, (int64_t)s->n_agents, s->rounds - 1, s->rounds_per_epoch, s->epochs);
    for (size_t i = 0; i < s->n_members; i++)
        if (r->agents[i].lr != 0 && !r->agents[i].dropped && r->agents[i].lr != last)
            complain("%s, world %s: member %zu ends with the rate %g, the schedule with %g",
                     r->experiment->strategy.kind->name, r->experiment->world.kind->name, i, r->agents[i].lr,
                     last);
}

static fault go(veche_run *r, char **summary)
{
    fault f = veche_go(r);
    if (!f && veche_run_leads(r)) {
        check_rates(r);
        f = veche_summary(r, summary);
    }
    return f;
}

static fault train(const char *text, char **summary)
{
    veche_experiment *e;
    veche_run *r;
    veche_options options = {.folder = folder};
    *summary = NULL;
    TRY(veche_parse(text, "test", &e));
    fault f = veche_start(e, &options, &r);
    veche_experiment_free(e);
    TRY(f);
    f = go(r, summary);
    veche_close(r);
    return f;
}

/* The summary of a run in this world, at the leader; NULL elsewhere. */
static json_t *summary_in(const char *world, const struct line *l, size_t agents, int epochs)
{
    char *text = experiment_of(l, agents, world, epochs), *summary;
    fault f = train(text, &summary);
    free(text);
    if (f)
        complain("%s, world %s: %s", l->strategy, world, fault_text(f));
    fault_drop(f);
    json_t *object = summary ? json_loads(summary, 0, NULL) : NULL;
    free(summary);
    return object;
}

/* ---- in step ---- */

/* Agents that begin again may tell each other once more who they are, so their traffic is not compared. */
static void compare(const char *strategy, const json_t *here, const json_t *there, bool traffic)
{
    static const char *const keys[] = {"bytes",  "messages",     "rounds",   "samples",
                                       "agents", "dropped",      "accuracy", "averaged_accuracy",
                                       "loss",   "params_sha256"};
    for (size_t i = traffic ? 0 : 2; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = json_object_get(here, keys[i]), *b = json_object_get(there, keys[i]);
        if (json_equal(a, b))
            continue;
        char *one = json_dumps(a, JSON_ENCODE_ANY), *other = json_dumps(b, JSON_ENCODE_ANY);
        complain("%s: %s is %s in the local world and %s in the world mpi", strategy, keys[i], one, other);
        free(one);
        free(other);
    }
}

static void strategies_in_step_learn_the_bits_and_send_the_bytes_of_the_local_world(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_IN_STEP; i++) {
        size_t agents = agents_of(&in_step[i]);
        json_t *there = agents ? summary_in("mpi", &in_step[i], agents, 2) : NULL;
        json_t *here = there ? summary_in("local", &in_step[i], agents, 2) : NULL;
        if (here)
            compare(in_step[i].strategy, here, there, true);
        json_decref(here);
        json_decref(there);
    }
    tell_complaints();
}

/* ---- and again ---- */

struct halfway {
    veche_run *run;
    char path[128]; /* of its folder */
};

static void stop_halfway(void *ctx, const veche_event *event)
{
    struct halfway *h = ctx;
    if (event->kind == VECHE_PROGRESS && 2 * event->round >= event->rounds)
        veche_stop(h->run);
}

/* Stopped somewhere in its second half, and gone on with in other worlds of the same processes. */
static fault train_in_halves(const char *text, char **summary)
{
    veche_experiment *e;
    struct halfway h = {0};
    veche_options options = {.folder = folder, .watch = stop_halfway, .ctx = &h};
    TRY(veche_parse(text, "test", &e));
    fault f = veche_start(e, &options, &h.run);
    veche_experiment_free(e);
    TRY(f);
    f = veche_go(h.run);
    snprintf(h.path, sizeof h.path, "%s", veche_run_folder(h.run));
    veche_close(h.run);
    if (!f || !(veche_fault_is_stop(f) || veche_fault_is_told(f)))
        return f ? f : FAIL(FAULT_USAGE, "it was not stopped");
    fault_drop(f);
    TRY(veche_resume(h.path, &(veche_options){0}, &h.run));
    f = go(h.run, summary);
    veche_close(h.run);
    return f;
}

static void strategies_in_step_go_on_from_a_checkpoint_to_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_IN_STEP; i++) {
        size_t agents = agents_of(&in_step[i]);
        if (!agents)
            continue;
        char *text = experiment_of(&in_step[i], agents, "mpi", 2), *summary = NULL;
        fault f = train_in_halves(text, &summary);
        free(text);
        if (f)
            complain("%s: %s", in_step[i].strategy, fault_text(f));
        fault_drop(f);
        json_t *there = summary ? json_loads(summary, 0, NULL) : NULL;
        json_t *here = there ? summary_in("local", &in_step[i], agents, 2) : NULL;
        if (here)
            compare(in_step[i].strategy, here, there, false);
        json_decref(here);
        json_decref(there);
        free(summary);
    }
    tell_complaints();
}

static void a_strategy_for_one_agent_is_refused_where_there_are_several_ranks(void **state)
{
    char *text, *summary;
    (void)state;
    text = experiment_of(&(struct line){.strategy = "single"}, 1, "mpi", 1);
    fault f = train(text, &summary);
    free(text);
    assert_true(
        crew_is_fault(f, crew_leads() ? FAULT_EXPERIMENT : FAULT_ELSEWHERE, "'single' is for 1 agent"));
    fault_drop(f);
}

/* ---- at will ---- */

static double number(const json_t *object, const char *key, const char *part)
{
    const json_t *value = json_object_get(object, key);
    value = part ? json_object_get(value, part) : value;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void judge(const struct free_line *l, size_t agents, const json_t *s)
{
    const char *strategy = l->line.strategy;
    size_t share = (SAMPLES + agents - 1) / agents, rounds = (EPOCHS_AT_WILL * share + BATCH - 1) / BATCH;
    if (number(s, "rounds", NULL) != (double)rounds)
        complain("%s: %g rounds instead of %zu", strategy, number(s, "rounds", NULL), rounds);
    if (!isfinite(number(s, "loss", "max")) || !(number(s, "accuracy", "min") > 80)) /* 33 by chance */
        complain("%s: loss %g, accuracy only %g", strategy, number(s, "loss", "max"),
                 number(s, "accuracy", "min"));
    if (l->law & ALL_ALIKE &&
        !(number(s, "disagreement", "linf") < 1e-6)) /* from their mean, which is rounded */
        complain("%s: agents are %g apart at the end", strategy, number(s, "disagreement", "linf"));
    if (l->law & BOUNDED && !(number(s, "staleness_max", NULL) <= 3 * (double)(agents - 1)))
        complain("%s: a staleness of %g among %zu agents", strategy, number(s, "staleness_max", NULL),
                 agents);
}

/* An algorithm that this program does not have cannot be tested. */
static bool is_here(const char *strategy)
{
    bool here = !strstr(strategy, "native");
    for (size_t i = 0; collective_names[i]; i++)
        here |= strcmp(collective_names[i], "native") == 0;
    return here;
}

static void strategies_that_are_not_in_step_do_all_rounds_learn_and_keep_their_laws(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_AT_WILL; i++) {
        size_t agents = agents_of(&at_will[i].line);
        if (agents < at_will[i].least || !is_here(at_will[i].line.strategy))
            continue;
        json_t *s = summary_in("mpi", &at_will[i].line, agents, EPOCHS_AT_WILL);
        if (s)
            judge(&at_will[i], agents, s);
        bool is_in_both = !strstr(at_will[i].line.strategy, "native");
        json_t *here =
            s && agents == 1 && is_in_both ? summary_in("local", &at_will[i].line, 1, EPOCHS_AT_WILL) : NULL;
        if (here) /* who is alone is in step */
            compare(at_will[i].line.strategy, here, s, false);
        json_decref(here);
        json_decref(s);
    }
    tell_complaints();
}

/* Lessons and steps that change nothing. */
static fault idle_lesson(struct link *l, uint64_t lesson)
{
    (void)l, (void)lesson;
    return OK;
}

static fault idle_wait(struct link *l, size_t first)
{
    (void)first;
    return link_sleep(l, 1e-4 * (double)(l->self % 2));
}

static fault idle_step(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    (void)l, (void)first, (void)end, (void)lr, (void)t;
    return OK;
}

/* The sums over all agents, and how far they are apart. */
static fault add_up(struct crew *c, double *sums, double *apart)
{
    float *row = calloc(c->size, sizeof *row), *first = calloc(c->size, sizeof *first);
    fault f = row && first ? OK : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < c->n; i++) {
        f = c->run->world->ops->read(c->run->world, ROW_PARAMS, i, i ? row : first);
        for (size_t j = 0; !f && j < c->size; j++) {
            sums[j] += i ? row[j] : first[j];
            *apart = fmax(*apart, i ? fabs((double)row[j] - first[j]) : 0);
        }
    }
    free(row);
    free(first);
    return f;
}

static void adpsgd_keeps_the_mean_when_nobody_learns(void **state)
{
    struct crew c;
    (void)state;
    char *more = text_of("strategy: adpsgd\ntopology: \"complete:%zu\"\n", crew_ranks()->n);
    crew_open(&c, NULL, more);
    free(more);
    c.run->stage.rounds = 30;
    c.ops.learn = idle_lesson;
    c.ops.await = idle_wait;
    c.ops.update = idle_step;
    float *row = row_of(c.world, ROW_PARAMS);
    for (size_t j = 0; j < c.size; j++)
        row[j] = (float)((j * 7 + c.self * 13) % 17) - 8;
    size_t size = c.size;
    double *before_it = calloc(2 * size, sizeof *before_it), *after_it = before_it + size, apart[2] = {0},
           moved = 0;
    fault f = crew_leads() ? add_up(&c, before_it, &apart[0]) : OK;
    if (!f)
        f = crew_play(&c);
    if (!f && crew_leads())
        f = add_up(&c, after_it, &apart[1]);
    crew_close(&c);
    for (size_t j = 0; j < size; j++)
        moved = fmax(moved, fabs(after_it[j] - before_it[j]));
    free(before_it);
    must(f);
    assert_true(moved < 1e-3);
    assert_true(!crew_leads() || apart[1] < 0.1 * apart[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_has_a_line),
        cmocka_unit_test(strategies_in_step_learn_the_bits_and_send_the_bytes_of_the_local_world),
        crew_test(4, strategies_in_step_go_on_from_a_checkpoint_to_the_same_bits),
        crew_test(2, a_strategy_for_one_agent_is_refused_where_there_are_several_ranks),
        cmocka_unit_test(strategies_that_are_not_in_step_do_all_rounds_learn_and_keep_their_laws),
        crew_test(2, adpsgd_keeps_the_mean_when_nobody_learns),
    };
    return crew_join() ? crew_run_tests(tests, make_folder, remove_folder) : 1;
}
