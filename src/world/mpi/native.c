/* native.c - the MPI's own collectives, for `algorithm: native`. No member waits in them: they are looked
 * after with everything else that travels. */
#include "world/mpi/inside.h"

static bool is_over(const struct far *w, const void *ctx)
{
    int over = 0;
    return (w->n_gone && !w->broken) ||
           (MPI_Test(*(MPI_Request *const *)ctx, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over);
}

fault native_wait_for_all(struct far *w, MPI_Request *request)
{
    w->transport->is_busy = true;
    fault f = wait_for_members(w, is_over, &request);
    w->transport->is_busy = false;
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
        far_member_called(w, who, name));
}

/* All wait for all, and cannot tell for whom: a silent member is named by the leader, which hears from
 * all. */
fault mpi_sum(struct link *l, enum row row, size_t first, size_t end)
{
    struct far *w = far_of(l);
    size_t piece = w->piece_bytes / sizeof(float);
    double since = far_now_s(w);
    fault f = sendings_await(w, row, first, end);
    for (size_t at = first; !f && at < end; at = smaller(at + piece, end)) {
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, row_of(w, row) + at, (int)smaller(piece, end - at), MPI_FLOAT, MPI_SUM,
                       mpi_of(w)->learners, &request);
        f = native_wait_for_all(w, &request);
        l->counts.messages++;
        l->counts.bytes += smaller(piece, end - at) * sizeof(float);
    }
    mail_count_own_wait(w, ANYONE, since);
    return f;
}

void mpi_sum_at_once(struct link *l, float *floats, size_t n)
{
    struct far *w = far_of(l);
    size_t piece = w->piece_bytes / sizeof(float);
    for (size_t at = 0; at < n; at = smaller(at + piece, n))
        MPI_Allreduce(MPI_IN_PLACE, floats + at, (int)smaller(piece, n - at), MPI_FLOAT, MPI_SUM,
                      mpi_of(w)->learners);
}
