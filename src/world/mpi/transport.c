/* transport.c - packets and bodies as messages of MPI.
 *
 *   packet   tag 1, into one of a ring of slots, received from anyone in turn
 *   body     tag 2, sent from where it lies and received where it belongs
 */
#include <stdlib.h>
#include <string.h>

#include "world/mpi/inside.h"

enum { TAG_PACKET = 1, TAG_BODY = 2 };

_Static_assert(sizeof(MPI_Request) <= sizeof(uintptr_t), "a passage holds a request");

static struct mpi *mpi_in(struct transport *t)
{
    return (struct mpi *)t;
}

/* ---- passages ---- */

static MPI_Request request_of(const struct passage *p)
{
    MPI_Request request;
    memcpy(&request, &p->handle, sizeof request);
    return request;
}

static void keep(struct passage *p, MPI_Request request)
{
    memcpy(&p->handle, &request, sizeof request);
}

static void send_under(struct transport *t, size_t to, int tag, const void *bytes, size_t n,
                       struct passage *out)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(bytes, (int)n, MPI_BYTE, (int)to, tag, mpi_in(t)->comm, &request);
    keep(out, request);
}

static void send_packet(struct transport *t, size_t to, const void *bytes, size_t n, struct passage *out)
{
    send_under(t, to, TAG_PACKET, bytes, n, out);
}

static void send_body(struct transport *t, size_t to, const void *bytes, size_t n, struct passage *out)
{
    send_under(t, to, TAG_BODY, bytes, n, out);
}

static void recv_body(struct transport *t, size_t from, void *bytes, size_t n, struct passage *out)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(bytes, (int)n, MPI_BYTE, (int)from, TAG_BODY, mpi_in(t)->comm, &request);
    keep(out, request);
}

#ifdef VECHE_HAS_ULFM
#include <mpi-ext.h>

/* What could be anyone's is said to wait until every death is known here. Open MPI 5.0 goes on saying so of a message that
 * has come meanwhile. */
static bool is_only_delayed(int error)
{
    int class;
    MPI_Error_class(error, &class);
    return class == MPIX_ERR_PROC_FAILED_PENDING;
}

static void find_gone(struct transport *t, void (*gone)(void *ctx, size_t member), void *ctx)
{
    MPI_Comm comm = mpi_in(t)->comm;
    MPI_Group failed, all;
    int n, *ranks, *members;
    MPIX_Comm_failure_ack(comm);
    MPIX_Comm_failure_get_acked(comm, &failed);
    MPI_Group_size(failed, &n);
    ranks = calloc((size_t)n + 1, sizeof *ranks);
    members = calloc((size_t)n + 1, sizeof *members);
    if (n && ranks && members) {
        for (int i = 0; i < n; i++)
            ranks[i] = i;
        MPI_Comm_group(comm, &all);
        MPI_Group_translate_ranks(failed, n, ranks, all, members);
        for (int i = 0; i < n; i++)
            gone(ctx, (size_t)members[i]);
        MPI_Group_free(&all);
    }
    free(ranks);
    free(members);
    MPI_Group_free(&failed);
}
#else
static bool is_only_delayed(int error)
{
    (void)error;
    return false;
}

static void find_gone(struct transport *t, void (*gone)(void *ctx, size_t member), void *ctx)
{
    (void)t, (void)gone, (void)ctx; /* it never knows */
}
#endif

/* Where a process is gone a request may fail, and is none any more; then it never comes through, until all
 * that has to do with that process is let go of. */
static bool is_over(MPI_Request *request, MPI_Status *status)
{
    int through = 0;
    if (*request == MPI_REQUEST_NULL)
        return false;
    int error = MPI_Test(request, &through, status);
    return through && (error == MPI_SUCCESS || is_only_delayed(error));
}

static bool is_through(struct transport *t, struct passage *p)
{
    MPI_Request request = request_of(p);
    (void)t;
    bool over = is_over(&request, MPI_STATUS_IGNORE);
    keep(p, request);
    return over;
}

/* ---- packets ---- */

static void listen(struct mpi *m, struct slot *s)
{
    s->request = MPI_REQUEST_NULL;
    MPI_Irecv(s->bytes, PACKET_BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG_PACKET, m->comm, &s->request);
}

static void listen_again(struct mpi *m)
{
    listen(m, &m->slots[m->oldest_slot]);
    m->oldest_slot = (m->oldest_slot + 1) % N_SLOTS;
    m->is_given = false;
}

/* A slot whose request has failed was about to be filled by a member that is gone. */
static const unsigned char *next_packet(struct transport *t, size_t *from, size_t *n)
{
    struct mpi *m = mpi_in(t);
    MPI_Status status;
    int bytes;
    if (m->is_given)
        listen_again(m);
    struct slot *s = &m->slots[m->oldest_slot];
    for (size_t tried = 0; !is_over(&s->request, &status); tried++) {
        if (s->request != MPI_REQUEST_NULL || tried == N_SLOTS)
            return NULL;
        listen_again(m);
        s = &m->slots[m->oldest_slot];
    }
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    m->is_given = true;
    *from = (size_t)status.MPI_SOURCE;
    *n = (size_t)bytes;
    return s->bytes;
}

/* ---- opening and closing ---- */

/* Where the launcher lets the others live; else it is about to end them, and what they did meanwhile must not be saved: the run goes on
 * from what all of them had come to. */
static bool others_live(void)
{
    static const char *const names[] = {"OMPI_MCA_orte_enable_recovery",
                                        "OMPI_MCA_mpi_ft_enable"}; /* the second: ULFM */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0))
            return true;
    }
    return false;
}

static void end_all(struct transport *t)
{
    MPI_Abort(mpi_in(t)->comm, 1);
}

/* False: the library may still write into them. */
static bool close_slots(struct mpi *m)
{
    bool nobody_writes = true;
    for (size_t i = 0; m->slots && i < N_SLOTS; i++) {
        if (m->slots[i].request != MPI_REQUEST_NULL)
            MPI_Cancel(&m->slots[i].request);
        nobody_writes &= MPI_Wait(&m->slots[i].request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    }
    return nobody_writes;
}

/* With one that is gone MPI is never ended, since that waits for all. */
static void close_transport(struct transport *t, bool all_are_here)
{
    struct mpi *m = mpi_in(t);
    if (close_slots(m))
        free(m->slots);
    if (all_are_here) {
        near_close(m);
        if (m->learners != MPI_COMM_NULL)
            MPI_Comm_free(&m->learners);
        if (m->comm != MPI_COMM_NULL)
            MPI_Comm_free(&m->comm);
        mpi_is_used(false);
    }
    free(m);
}

static fault copy_of(MPI_Comm comm, double patience_s, MPI_Comm *out)
{
    MPI_Request request;
    MPI_Comm_idup(comm, out, &request);
    fault f = mpi_wait_together(&request, patience_s);
    if (f)
        *out = MPI_COMM_NULL;
    return f;
}

/* What one world sends is no other's. No strategy with helpers has the MPI's own collectives. */
static fault open_parts(struct mpi *m, const struct ranks *ranks, bool have_learners, double patience_s)
{
    TRY(copy_of(mpi_comm_of(ranks), patience_s, &m->comm));
    if (m->transport.others_live)
        MPI_Comm_set_errhandler(m->comm,
                                MPI_ERRORS_RETURN); /* else an MPI that notices a death ends them itself */
    if (have_learners)
        TRY(copy_of(m->comm, patience_s, &m->learners));
    m->slots = calloc(N_SLOTS, sizeof *m->slots);
    for (size_t i = 0; m->slots && i < N_SLOTS; i++)
        listen(m, &m->slots[i]);
    return m->slots ? OK : OUT_OF_MEMORY;
}

static const struct transport_ops ops = {
    .send_packet = send_packet,
    .send_body = send_body,
    .recv_body = recv_body,
    .is_through = is_through,
    .next_packet = next_packet,
    .find_gone = find_gone,
    .abort = end_all,
    .close = close_transport,
    .sum = mpi_sum,
    .gather_near = mpi_gather_near,
};

fault mpi_open(const struct ranks *ranks, bool have_learners, double patience_s, struct transport **out)
{
    struct mpi *m = calloc(1, sizeof *m);
    if (!m)
        return OUT_OF_MEMORY;
    m->transport = (struct transport){.ops = &ops,
                                      .self = ranks->self,
                                      .n = ranks->n,
                                      .most_bytes = (size_t)1 << 30,
                                      .others_live = others_live()};
    m->comm = m->learners = MPI_COMM_NULL;
    mpi_is_used(true);
    fault f = open_parts(m, ranks, have_learners, patience_s);
    if (f)
        close_transport(&m->transport, true);
    else
        *out = &m->transport;
    return f;
}
