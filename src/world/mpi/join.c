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
#include "base/encode.h"
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
    if (launched() <= n_ranks)
        return OK;
    version(library, sizeof library);
    return FAIL(
        FAULT_USAGE,
        "%zu processes were started, but %s takes each for a job of its own; it wants its own mpirun, or "
        "srun --mpi=%s",
        launched(), library, strncmp(library, "Open", 4) == 0 ? "pmix" : "pmi2");
}

/* Open MPI gives the core away in every poll that finds nothing, where ranks outnumber cores: whoever looks round beside a lesson
 * then gets it back when the lesson's slice of time is over, milliseconds later. Here nobody waits in MPI, but sleeps (wait.c). It
 * reads this before anything else. */
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

struct cores { /* that a rank may use */
    char host[WORLD_HOST];
    cpu_set_t set;
    uint32_t n;
};

static void encode_cores(struct encoder *e, const struct cores *c)
{
    encode_text(e, c->host);
    encode_u32(e, c->n);
    for (size_t i = 0; i < CPU_SETSIZE; i += 32) {
        uint32_t word = 0;
        for (size_t j = 0; j < 32; j++)
            word |= (uint32_t)(CPU_ISSET(i + j, &c->set) != 0) << j;
        encode_u32(e, word);
    }
}

static void decode_cores(struct decoder *d, struct cores *c)
{
    CPU_ZERO(&c->set);
    decode_text(d, c->host, sizeof c->host);
    c->n = decode_u32(d);
    for (size_t i = 0; i < CPU_SETSIZE; i += 32) {
        uint32_t word = decode_u32(d);
        for (size_t j = 0; j < 32; j++)
            if (word >> j & 1)
                CPU_SET(i + j, &c->set);
    }
}

static void own_cores(struct cores *c)
{
    c->n = (uint32_t)pool_cores();
    world_host(c->host);
    if (sched_getaffinity(0, sizeof c->set, &c->set) != 0)
        CPU_ZERO(&c->set);
}

/* Ranks of one machine may have the same cores or each its own: what is not shared is mine, and what is shared is
 * shared out. */
static fault share_out(struct ranks *ranks, const struct cores *mine, const unsigned char *all,
                       const size_t *lengths)
{
    cpu_set_t together;
    size_t n_here = 0, sum = 0;
    CPU_ZERO(&together);
    for (size_t i = 0; i < ranks->n; all += lengths[i++]) {
        struct cores theirs;
        struct decoder d = decode_from(all, lengths[i]);
        if (decode_u32(&d) != MPI_PROTOCOL)
            return FAIL(FAULT_USAGE,
                        "rank %zu is of another version of veche than this one: all ranks must run the same",
                        i);
        decode_cores(&d, &theirs);
        if (!decode_is_whole(&d))
            return FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", i);
        if (strcmp(theirs.host, mine->host) != 0)
            continue;
        CPU_OR(&together, &together, &theirs.set);
        sum += theirs.n;
        n_here++;
        ranks->here += i < ranks->self;
    }
    size_t n_all = CPU_COUNT(&together) ? (size_t)CPU_COUNT(&together) : mine->n;
    size_t own = sum <= n_all ? mine->n : n_all / n_here;
    ranks->threads = own > 1 ? (int)own : 1;
    ranks->outnumber_cores = n_here > n_all;
    return OK;
}

static fault meet_on_machine(struct ranks *ranks)
{
    const double patience_s = 60; /* that of the experiment is not known yet */
    unsigned char bytes[WORLD_HOST + CPU_SETSIZE / 8 + 32], *all = NULL;
    struct encoder e = encode_into(bytes, sizeof bytes);
    struct cores mine;
    size_t *lengths = calloc(ranks->n, sizeof *lengths);
    own_cores(&mine);
    encode_u32(&e, MPI_PROTOCOL);
    encode_cores(&e, &mine);
    fault f = lengths ? gather(ranks, bytes, e.n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    if (!f)
        f = share_out(ranks, &mine, all, lengths);
    free(all);
    free(lengths);
    return f;
}

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
    return meet_on_machine(out);
}

static void furnish(const struct ranks *ranks, const struct experiment *e, size_t n_links,
                    struct engine_setup *setup)
{
    (void)n_links;
    setup->n_replicas = strategy_row(e)->meets_at_any_time ? 2 : 1;
    setup->n_spare = MPI_SPARE_ROWS;
    setup->rows_on_host = true;
    setup->device = ranks->here; /* ranks of one machine take its devices in turn */
    setup->threads = e->engine.threads ? (int)e->engine.threads : ranks->threads;
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
    .furnish = furnish,
    .open = mpi_open,
    .library = &own_sum,
};

enum { SEES_ROWS = 1, RINGS = 2 };

/* What comes from it is there when it comes, and not when a wire that is only pretended lets it. */
static bool is_wireless(const struct mpi *w, size_t from)
{
    struct wire wire = network_wire(&w->stage->experiment->network, from, w->link.self);
    return wire.latency_s <= 0 && wire.bytes_per_s <= 0;
}

/* What a member says of itself to all. */
struct word {
    char host[WORLD_HOST];
    uint64_t pid;
    char processor[64];
    struct spot rows, bell;
};

static void encode_spot(struct encoder *e, const struct spot *s)
{
    encode_text(e, s->boot);
    encode_u64(e, (uint64_t)s->pid);
    encode_u64(e, (uint64_t)s->file);
    encode_u64(e, s->device);
    encode_u64(e, s->inode);
    encode_u64(e, s->n_bytes);
}

static void decode_spot(struct decoder *d, struct spot *s)
{
    decode_text(d, s->boot, sizeof s->boot);
    s->pid = (int64_t)decode_u64(d);
    s->file = (int64_t)decode_u64(d);
    s->device = decode_u64(d);
    s->inode = decode_u64(d);
    s->n_bytes = decode_u64(d);
}

static struct word own_word(const struct mpi *w)
{
    struct word word = {
        .pid = (uint64_t)getpid(), .rows = spot_of(w->engine->shared), .bell = spot_of(&w->bell_memory)};
    world_host(word.host);
    engine_processor(w->engine, word.processor, sizeof word.processor);
    return word;
}

static fault gather_words(struct mpi *w, double patience_s, struct word *words)
{
    unsigned char bytes[1024], *all = NULL, *at;
    struct encoder e = encode_into(bytes, sizeof bytes);
    struct word mine = own_word(w);
    size_t *lengths = calloc(w->n, sizeof *lengths);
    encode_text(&e, mine.host);
    encode_u64(&e, mine.pid);
    encode_text(&e, mine.processor);
    encode_spot(&e, &mine.rows);
    encode_spot(&e, &mine.bell);
    fault f = lengths ? gather(&w->ranks, bytes, e.n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    at = all;
    for (size_t i = 0; !f && i < w->n; at += lengths[i++]) {
        struct decoder d = decode_from(at, lengths[i]);
        decode_text(&d, words[i].host, sizeof words[i].host);
        words[i].pid = decode_u64(&d);
        decode_text(&d, words[i].processor, sizeof words[i].processor);
        decode_spot(&d, &words[i].rows);
        decode_spot(&d, &words[i].bell);
        if (!decode_is_whole(&d))
            f = FAIL(FAULT_PEER, "what rank %zu says before the start cannot be read", i);
    }
    free(all);
    free(lengths);
    return f;
}

/* Everyone tries to see the rows of everyone on its machine and to reach its bell, and tells whom it can: a byte for each. */
static fault look_round(struct mpi *w, const struct word *words, double patience_s)
{
    unsigned char *seen = calloc(w->n, 1), *all = NULL;
    size_t *lengths = calloc(w->n, sizeof *lengths);
    const struct word *mine = &words[w->link.self];
    for (size_t i = 0; seen && i < w->n; i++) {
        struct peer *p = &w->peers[i];
        if (i != w->link.self) {
            p->rows = spot_seen_from(&mine->rows, &words[i].rows, PROT_READ);
            p->bell = spot_seen_from(&mine->bell, &words[i].bell, PROT_READ | PROT_WRITE);
        }
        seen[i] = (unsigned char)((p->rows ? SEES_ROWS : 0) | (p->bell ? RINGS : 0));
    }
    fault f = seen && lengths ? gather(&w->ranks, seen, w->n, patience_s, &all, lengths) : OUT_OF_MEMORY;
    w->all_ring = true;
    for (size_t i = 0; !f && i < w->n; i++) {
        unsigned char sees_me = lengths[i] == w->n ? all[i * w->n + w->link.self] : 0;
        w->peers[i].sees_my_rows = sees_me & SEES_ROWS;
        w->all_ring &= i == w->link.self || (sees_me & RINGS && is_wireless(w, i));
    }
    free(all);
    free(seen);
    free(lengths);
    return f;
}

fault mpi_meet(struct mpi *w)
{
    double patience_s = patience_of(w);
    struct word *words = calloc(w->n, sizeof *words);
    fault f = words ? gather_words(w, patience_s, words) : OUT_OF_MEMORY;
    for (size_t i = 0; !f && i < w->n; i++) {
        struct peer *p = &w->peers[i];
        memcpy(p->host, words[i].host, sizeof p->host);
        memcpy(p->processor, words[i].processor, sizeof p->processor);
        p->pid = (int64_t)words[i].pid;
        p->heard_s = clock_now_s();
    }
    if (!f)
        f = look_round(w, words, patience_s);
    free(words);
    return f;
}
