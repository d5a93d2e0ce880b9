/* join.c - from a process to a member: MPI is started, the machine's cores are shared out, and all agree to begin.
 *
 * Every question all ranks answer together is asked without blocking, so that one that never comes is waited for no
 * longer than patience.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "world/mpi/inside.h"

void mpi_library(char *into, size_t n)
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
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "SLURM_STEP_NUM_TASKS"}; /* the last by srun, where it has told nothing by the others */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && atol(text) > 0)
            return text;
    }
    return NULL;
}

size_t mpi_launched(void)
{
    const char *says = launcher_says();
    return says ? (size_t)atol(says) : 1;
}

bool mpi_has_launcher(void)
{
    return launcher_says();
}

/* How much of ours is under way, after a change. MPI belongs to the whole process and not to a run, so it is MPI that
 * keeps this, as the name of a communicator that nobody else has. */
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

/* Some MPIs end a job by exit() from the midst of a call, and MPI_Finalize would then wait without end, as it would for ranks
 * that did not come. */
static void leave(void)
{
    int ended;
    MPI_Finalized(&ended);
    if (!ended && under_way(0) == 0)
        MPI_Finalize();
}

/* An MPI that does not know its launcher takes every process for a job of its own, and each would train alone. */
static fault check_launcher(size_t n_ranks)
{
    char library[64];
    if (mpi_launched() <= n_ranks)
        return OK;
    mpi_library(library, sizeof library);
    return FAIL(FAULT_USAGE, "%zu processes were started, but %s takes each for a job of its own; it wants its own mpirun, or "
                "srun --mpi=%s", mpi_launched(), library, strncmp(library, "Open", 4) == 0 ? "pmix" : "pmi2");
}

/* Open MPI gives the core away in every poll that finds nothing, where ranks outnumber cores: whoever looks round beside a lesson
 * then gets it back when the lesson's slice of time is over, milliseconds later. Here nobody waits in MPI, but sleeps (wait.c). It
 * reads this before anything else. */
static void tell_open_mpi_not_to_yield(void)
{
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
}

void mpi_will_wait_in_calls(void)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!here || atoi(here) > pool_cores())
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* ---- together ---- */

static void host_name(char name[64])
{
    if (gethostname(name, 64) != 0)
        snprintf(name, 64, "a nameless host");
    name[63] = 0;
}

/* Until a request is done; a rank that does not come cannot be named, since nobody has heard of it yet. After that MPI is of
 * no more use to this process. */
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
            return FAIL(FAULT_TIMEOUT, "not all ranks have come to the start within %g s (network.patience_s)", patience_s);
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    mpi_is_used(false);
    return OK;
}

/* What a rank has to say to all: who it is, and a sentence. */
struct word {
    char host[64];
    int64_t pid;
    int32_t kind; /* of a fault; -1: none */
    uint64_t number;
    struct spot rows, bell;
    char text[1024];
};

MPI_Comm mpi_comm_of(const struct mpi_seat *seat)
{
    return seat->n_ranks > 1 ? MPI_COMM_WORLD : MPI_COMM_SELF;
}

fault mpi_gather(const struct mpi_seat *seat, const void *mine, size_t n, double patience_s, void *out)
{
    MPI_Request request;
    void *all = calloc(seat->n_ranks, n);
    if (!all)
        return OUT_OF_MEMORY;
    MPI_Iallgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, mpi_comm_of(seat), &request);
    TRY(mpi_wait_together(&request, patience_s)); /* after a fault the request still points to the memory */
    memcpy(out, &all, sizeof all);
    return OK;
}

static fault gather(const struct mpi_seat *seat, const struct word *mine, double patience_s, struct word **out)
{
    return mpi_gather(seat, mine, sizeof *mine, patience_s, out);
}

/* ---- joining ---- */

/* Ranks of one machine may have the same cores or each its own: what is not shared is mine, and what is shared is
 * shared out. */
static fault share_cores(struct mpi_seat *seat)
{
    struct cores {
        char host[64];
        cpu_set_t set;
        int32_t n;
    } mine = {.n = pool_cores()}, *all;
    const double patience_s = 60; /* that of the experiment is not known yet */
    cpu_set_t together;
    int n_ranks = 0, sum = 0;
    host_name(mine.host);
    if (sched_getaffinity(0, sizeof mine.set, &mine.set) != 0)
        CPU_ZERO(&mine.set);
    TRY(mpi_gather(seat, &mine, sizeof mine, patience_s, &all));
    CPU_ZERO(&together);
    for (size_t i = 0; i < seat->n_ranks; i++)
        if (strcmp(all[i].host, mine.host) == 0) {
            CPU_OR(&together, &together, &all[i].set);
            sum += all[i].n;
            n_ranks++;
            seat->here += i < seat->rank;
        }
    free(all);
    int n_all = CPU_COUNT(&together) ? CPU_COUNT(&together) : mine.n;
    int own = sum <= n_all ? mine.n : n_all / n_ranks;
    seat->threads = own > 1 ? own : 1;
    seat->oversubscribed = n_ranks > n_all;
    return OK;
}

fault mpi_join(bool alone, struct mpi_seat *out)
{
    int started, given, rank = 0, n = 1;
    MPI_Initialized(&started);
    if (!started) {
        tell_open_mpi_not_to_yield();
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS || given < MPI_THREAD_FUNNELED)
            return FAIL(FAULT_PEER, "MPI cannot be started in a program with threads");
        atexit(leave);
    }
    if (!alone) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &n);
        TRY(check_launcher((size_t)n));
    }
    *out = (struct mpi_seat){.rank = (size_t)rank, .n_ranks = (size_t)n};
    return share_cores(out);
}

/* ---- agreeing ---- */

static struct word word_of(const char *text)
{
    struct word w = {.pid = getpid(), .kind = -1};
    host_name(w.host);
    snprintf(w.text, sizeof w.text, "%s", text);
    return w;
}

fault mpi_agree(const struct mpi_seat *seat, fault mine, double patience_s)
{
    struct word word = word_of(mine ? fault_text(mine) : ""), *all;
    word.kind = mine ? (int32_t)fault_kind_of(mine) : -1;
    fault_drop(mine);
    TRY(gather(seat, &word, patience_s, &all));
    size_t who = 0;
    while (who < seat->n_ranks && all[who].kind < 0)
        who++;
    fault f = OK;
    if (who < seat->n_ranks && seat->rank)
        f = FAIL(FAULT_ELSEWHERE, "%s", all[who].text);
    else if (who == 0)
        f = FAIL((enum fault_kind)all[0].kind, "%s", all[0].text);
    else if (who < seat->n_ranks)
        f = FAIL((enum fault_kind)all[who].kind, "rank %zu on %s: %s", who, all[who].host, all[who].text);
    free(all);
    return f;
}

fault mpi_compare(const struct mpi_seat *seat, const char *what, const char *mine, double patience_s)
{
    struct word word = word_of(mine), *all;
    TRY(gather(seat, &word, patience_s, &all));
    size_t who = 1;
    while (who < seat->n_ranks && strcmp(all[who].text, all[0].text) == 0)
        who++;
    fault f = OK;
    if (who < seat->n_ranks)
        f = seat->rank ? FAIL(FAULT_ELSEWHERE, "the %s is not everywhere the same", what)
                       : FAIL(FAULT_USAGE, "rank %zu on %s has another %s than rank 0 on %s (%.80s, not %.80s)", who,
                              all[who].host, what, all[0].host, all[who].text, all[0].text);
    free(all);
    return f;
}

fault mpi_largest(const struct mpi_seat *seat, uint64_t mine, double patience_s, uint64_t *out)
{
    struct word word = word_of(""), *all;
    word.number = mine;
    TRY(gather(seat, &word, patience_s, &all));
    *out = 0;
    for (size_t i = 0; i < seat->n_ranks; i++)
        *out = all[i].number > *out ? all[i].number : *out;
    free(all);
    return OK;
}

fault mpi_spread_text(const struct mpi_seat *seat, char **text, double patience_s)
{
    MPI_Request request;
    uint64_t n = 0;
    TRY(mpi_largest(seat, seat->rank == 0 ? strlen(*text) + 1 : 0, patience_s, &n));
    char *copy = malloc(n);
    if (!copy)
        return OUT_OF_MEMORY;
    if (seat->rank == 0)
        memcpy(copy, *text, n);
    MPI_Ibcast(copy, (int)n, MPI_BYTE, 0, mpi_comm_of(seat), &request);
    TRY(mpi_wait_together(&request, patience_s)); /* on a fault the request still points to the memory */
    if (seat->rank == 0)
        free(*text);
    *text = copy;
    return OK;
}

enum { SEES_ROWS = 1, RINGS = 2 };

/* What comes from it is there when it comes, and not when a wire that is only pretended lets it. */
static bool is_wireless(const struct mpi *w, size_t from)
{
    struct wire wire = network_wire(&w->stage->experiment->network, from, w->link.self);
    return wire.latency_s <= 0 && wire.bytes_per_s <= 0;
}

/* Everyone tries to see the rows of everyone on its machine and to reach its bell, and tells whom it can. */
static fault look_round(struct mpi *w, const struct word *all, double patience_s)
{
    MPI_Request request;
    unsigned char *seen = calloc(w->n, 2);
    if (!seen)
        return OUT_OF_MEMORY;
    const struct word *mine = &all[w->link.self];
    w->all_ring = true;
    for (size_t i = 0; i < w->n; i++) {
        struct peer *p = &w->peers[i];
        if (i != w->link.self) {
            p->rows = spot_seen_from(&mine->rows, &all[i].rows, PROT_READ);
            p->bell = spot_seen_from(&mine->bell, &all[i].bell, PROT_READ | PROT_WRITE);
        }
        seen[i] = (unsigned char)((p->rows ? SEES_ROWS : 0) | (p->bell ? RINGS : 0));
    }
    MPI_Ialltoall(seen, 1, MPI_BYTE, seen + w->n, 1, MPI_BYTE, w->comm, &request);
    TRY(mpi_wait_together(&request, patience_s)); /* on a fault the request still points to the memory */
    for (size_t i = 0; i < w->n; i++) {
        w->peers[i].sees_my_rows = seen[w->n + i] & SEES_ROWS;
        w->all_ring &= i == w->link.self || (seen[w->n + i] & RINGS && is_wireless(w, i));
    }
    free(seen);
    return OK;
}

fault mpi_meet(struct mpi *w)
{
    double patience_s = patience_of(w);
    char processor[sizeof w->peers->processor];
    engine_processor(w->engine, processor, sizeof processor);
    struct word word = word_of(processor), *all;
    word.rows = spot_of(w->engine->shared);
    word.bell = spot_of(&w->bell_memory);
    TRY(gather(&w->seat, &word, patience_s, &all));
    for (size_t i = 0; i < w->n; i++) {
        memcpy(w->peers[i].host, all[i].host, sizeof all[i].host);
        snprintf(w->peers[i].processor, sizeof w->peers[i].processor, "%.63s", all[i].text);
        w->peers[i].pid = all[i].pid;
        w->peers[i].heard_s = clock_now_s();
    }
    fault f = look_round(w, all, patience_s);
    free(all);
    return f;
}
