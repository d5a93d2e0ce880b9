/* door.c - the door of the world `mpi`: launchers, MPI's own beginning and end, and how ranks gather before a
 * world is open.
 *
 * Every question all ranks answer together is asked without blocking, so that one that never comes is waited
 * for no longer than patience.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "world/mpi/inside.h"

static void version(char *into, size_t n)
{
    char words[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, from = 0;
    MPI_Get_library_version(words, &length);
    words[strcspn(words, "\n,")] = 0;
    if (sscanf(words, "MPICH Version: %n", &from) == 0 && from) /* followed by its number */
        snprintf(into, n, "MPICH %.*s", (int)n, words + from);
    else
        snprintf(into, n, "%.*s", (int)n, words);
}

/* How many processes, in the launcher's own words; NULL: there is none. */
static const char *launcher_says(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
        "SLURM_STEP_NUM_TASKS"}; /* the last by srun, where it has told nothing by the others */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && atol(text) > 0)
            return text;
    }
    return NULL;
}

static size_t launched(void)
{
    const char *says = launcher_says();
    return says ? (size_t)atol(says) : 0;
}

static fault check_launch(const struct experiment *e)
{
    long long agents = (long long)e->agents, helpers = (long long)(e->members - e->agents);
    char and_helpers[48] = "";
    if (e->members == 1 || launcher_says())
        return OK;
    if (helpers)
        snprintf(and_helpers, sizeof and_helpers, " and %lld that help%s", helpers, helpers == 1 ? "s" : "");
    return FAIL(FAULT_USAGE,
                "the world 'mpi' takes a process for each of %lld agent%s%s, and this one was started alone: "
                "start it by "
                "mpirun -n %lld veche ..., or for one agent by mpirun -n 1",
                agents, agents == 1 ? "" : "s", and_helpers, (long long)e->members);
}

/* How much of ours is under way, after a change. MPI belongs to the whole process and not to a run, so it
 * is MPI that keeps this, as the name of a communicator of our own. */
static int under_way(int change)
{
    char name[MPI_MAX_OBJECT_NAME];
    int n = 0, length;
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    if (sscanf(name, "veche: %d under way", &n) != 1)
        n = 0;
    if (change) {
        snprintf(name, sizeof name, "veche: %d under way", n + change);
        MPI_Comm_set_name(MPI_COMM_SELF, name);
    }
    return n + change;
}

void mpi_is_used(bool used)
{
    under_way(used ? 1 : -1);
}

/* Some MPIs end a job by exit() from the midst of a call, and MPI_Finalize would then wait without end, as
 * it would for ranks that did not come. */
static void leave(void)
{
    int ended;
    MPI_Finalized(&ended);
    if (!ended && under_way(0) == 0)
        MPI_Finalize();
}

/* An MPI that does not know its launcher takes every process for a job of its own, and each would train
 * alone. */
static fault check_launcher(size_t n_ranks)
{
    char library[64];
    if (launched() <= n_ranks)
        return OK;
    version(library, sizeof library);
    return FAIL(
        FAULT_USAGE,
        "%zu processes were started, but %s takes each for a job of its own; it wants its own mpirun, or "
        "srun --mpi=%s",
        launched(), library, strncmp(library, "Open", 4) == 0 ? "pmix" : "pmi2");
}

/* Open MPI gives the core away in every poll that finds nothing, where ranks outnumber cores: a rank
 * that looks round beside a lesson then gets it back when the lesson's slice of time is over, milliseconds
 * later. Here no rank waits in MPI, but sleeps (far/wait.c). It reads this before anything else. */
static void tell_open_mpi_not_to_yield(void)
{
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
}

static void expect_calls(void)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!here || atoi(here) > pool_cores())
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* ---- together ---- */

/* Until a request is done; a rank that does not come cannot be named, since no other has heard of it yet.
 * After that MPI is of no more use to this process. */
fault mpi_wait_together(MPI_Request *request, double patience_s)
{
    double until = clock_now_s() + patience_s;
    int done = 0;
    mpi_is_used(true);
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            break;
        if (clock_now_s() > until)
            return FAIL(FAULT_TIMEOUT,
                        "not all ranks have come to the start within %g s (network.patience_s)", patience_s);
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    mpi_is_used(false);
    return OK;
}

MPI_Comm mpi_comm_of(const struct ranks *ranks)
{
    return ranks->n > 1 ? MPI_COMM_WORLD : MPI_COMM_SELF;
}

/* Where all that ranks say lies while MPI may still read and write it: after a fault it is left to MPI. */
struct gathering {
    int *lengths, *first; /* [n] */
    unsigned char *mine, *all;
};

static void free_gathering(struct gathering *g)
{
    free(g->lengths);
    free(g->mine);
    free(g->all);
}

static fault gather_lengths(const struct ranks *ranks, struct gathering *g, size_t n, double patience_s)
{
    MPI_Request request;
    g->lengths = calloc(2 * ranks->n, sizeof *g->lengths);
    if (!g->lengths)
        return OUT_OF_MEMORY;
    g->first = g->lengths + ranks->n;
    g->lengths[ranks->self] = (int)n;
    MPI_Iallgather(MPI_IN_PLACE, 1, MPI_INT, g->lengths, 1, MPI_INT, mpi_comm_of(ranks), &request);
    return mpi_wait_together(&request, patience_s);
}

static fault gather_bytes(const struct ranks *ranks, struct gathering *g, const void *mine, size_t n,
                          double patience_s)
{
    MPI_Request request;
    int sum = 0;
    for (size_t i = 0; i < ranks->n; sum += g->lengths[i++])
        g->first[i] = sum;
    g->mine = malloc(n + 1);
    g->all = malloc((size_t)sum + 1);
    if (!g->mine || !g->all)
        return OUT_OF_MEMORY;
    memcpy(g->mine, mine, n);
    MPI_Iallgatherv(g->mine, (int)n, MPI_BYTE, g->all, g->lengths, g->first, MPI_BYTE, mpi_comm_of(ranks),
                    &request);
    return mpi_wait_together(&request, patience_s);
}

static fault gather(const struct ranks *ranks, const void *mine, size_t n, double patience_s,
                    unsigned char **all, size_t *lengths)
{
    struct gathering g = {0};
    TRY(gather_lengths(ranks, &g, n, patience_s));
    TRY(gather_bytes(ranks, &g, mine, n, patience_s));
    for (size_t i = 0; i < ranks->n; i++)
        lengths[i] = (size_t)g.lengths[i];
    *all = g.all;
    g.all = NULL;
    free_gathering(&g);
    return OK;
}

/* ---- joining ---- */

static fault join(bool alone, struct ranks *out)
{
    int started, given, self = 0, n = 1;
    MPI_Initialized(&started);
    if (!started) {
        tell_open_mpi_not_to_yield();
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS ||
            given < MPI_THREAD_FUNNELED)
            return FAIL(FAULT_PEER, "MPI cannot be started in a program with threads");
        atexit(leave);
    }
    if (!alone) {
        MPI_Comm_rank(MPI_COMM_WORLD, &self);
        MPI_Comm_size(MPI_COMM_WORLD, &n);
        TRY(check_launcher((size_t)n));
    }
    *out = (struct ranks){.door = &mpi_door, .self = (size_t)self, .n = (size_t)n};
    return far_join(out);
}

/* All of a world that is not MPI's own is the far worlds'. */
static fault open_world(const struct ranks *ranks, const struct stage *stage, struct agent *agents,
                        struct engine *engine, const double *speeds, struct watcher watcher,
                        struct world **out)
{
    struct transport *t;
    (void)speeds; /* machines are as fast as they are */
    TRY(mpi_open(ranks, stage->n_agents == ranks->n, stage->experiment->network.patience_s, &t));
    return far_open(ranks, t, stage, agents, engine, watcher, out);
}

static const struct library_sum own_sum = {
    .name = "MPI_Allreduce", .version = version, .expect = expect_calls, .sum = mpi_sum_at_once};

const struct world_door mpi_door = {
    .name = "mpi",
    .is_in_real_time = true,
    .launched = launched,
    .check_launch = check_launch,
    .join = join,
    .gather = gather,
    .furnish = far_furnish,
    .open = open_world,
    .library = &own_sum,
};
