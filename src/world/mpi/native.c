/* native.c - the MPI's own collectives, for `algorithm: native`. Nobody waits in them: they are looked after with
 * everything else that travels. */
#include "world/mpi/inside.h"

fault native_open(struct mpi *w)
{
    MPI_Request request;
    if (w->stage->n_agents < w->n) /* no strategy with helpers has the MPI's own collectives */
        return OK;
    MPI_Comm_idup(w->comm, &w->learners, &request);
    fault f = mpi_wait_together(&request, patience_of(w));
    if (f)
        w->learners = MPI_COMM_NULL;
    return f;
}

void native_close(struct mpi *w)
{
    near_close(w);
    if (w->learners != MPI_COMM_NULL)
        MPI_Comm_free(&w->learners);
}

static bool is_over(const struct mpi *w, const void *ctx)
{
    int over = 0;
    return (w->n_gone && !w->broken) || (MPI_Test(*(MPI_Request *const *)ctx, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over);
}

fault native_wait_for_all(struct mpi *w, MPI_Request *request)
{
    w->in_collective = true;
    fault f = wait_for_members(w, is_over, &request);
    w->in_collective = false;
    TRY(f);
    if (!w->n_gone)
        return OK;
    /* the request is left as it is, and what it points to, since nothing more will be asked of this MPI */
    size_t who = 0;
    char name[128];
    while (!w->peers[who].is_gone)
        who++;
    return FAIL(
        FAULT_CRASH,
        "%s is gone, and the MPI's own collectives cannot do without; go on from the last checkpoint with "
        "veche resume, or use one of our own algorithms",
        mpi_member_called(w, who, name));
}

/* All wait for all, and cannot tell for whom: whoever is silent is named by the leader, who hears from everyone. */
fault mpi_sum(struct link *l, enum row row, size_t first, size_t end)
{
    struct mpi *w = mpi_of(l);
    size_t piece = w->piece_bytes / sizeof(float);
    double since = mpi_now_s(w);
    fault f = sendings_await(w, row, first, end);
    for (size_t at = first; !f && at < end; at = smaller(at + piece, end)) {
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, row_of(w, row) + at, (int)smaller(piece, end - at), MPI_FLOAT, MPI_SUM, w->learners,
                       &request);
        f = native_wait_for_all(w, &request);
        l->counts.messages++;
        l->counts.bytes += smaller(piece, end - at) * sizeof(float);
    }
    mail_count_own_wait(w, ANYONE, since);
    return f;
}

void mpi_sum_at_once(struct link *l, float *floats, size_t n)
{
    struct mpi *w = mpi_of(l);
    size_t piece = w->piece_bytes / sizeof(float);
    for (size_t at = 0; at < n; at = smaller(at + piece, n))
        MPI_Allreduce(MPI_IN_PLACE, floats + at, (int)smaller(piece, n - at), MPI_FLOAT, MPI_SUM, w->learners);
}
