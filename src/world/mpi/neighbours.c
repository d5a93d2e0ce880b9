/* neighbours.c - the MPI's own neighbourhood collective, for `exchange: native`: every rank's rows to its
 * neighbours in the topology, and theirs into messages of the usual kind, as if they had been received. */
#include "world/mpi/inside.h"

static fault find_neighbours(struct near *near, const struct topology *t, size_t self)
{
    size_t n = t->first[self + 1] - t->first[self];
    near->n = (int)n;
    near->whom = ARENA_NEW(&near->arena, int, n + 1);
    near->counts = ARENA_NEW(&near->arena, int, n + 1);
    near->from = ARENA_NEW(&near->arena, MPI_Aint, n + 1);
    near->to = ARENA_NEW(&near->arena, MPI_Aint, n + 1);
    near->types = ARENA_NEW(&near->arena, MPI_Datatype, n + 1);
    if (!near->whom || !near->counts || !near->from || !near->to || !near->types)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        near->whom[i] = (int)t->neighbour[t->first[self] + i];
        near->counts[i] = 1; /* what a neighbour weighs where the MPI lays out the graph */
        near->types[i] = MPI_FLOAT;
    }
    return OK;
}

/* A graph is made by a call in which all wait; so it is made when all have come. */
static fault meet_neighbours(struct far *w)
{
    struct near *near = &mpi_of(w)->near;
    MPI_Request request;
    if (near->is_known)
        return OK;
    TRY(find_neighbours(near, w->stage->topology, w->link.self));
    MPI_Ibarrier(mpi_of(w)->learners, &request);
    TRY(native_wait_for_all(w, &request));
    MPI_Dist_graph_create_adjacent(mpi_of(w)->learners, near->n, near->whom, near->counts, near->n,
                                   near->whom, near->counts, MPI_INFO_NULL, 0, &near->comm);
    near->is_known = true;
    return OK;
}

void near_close(struct mpi *m)
{
    if (m->near.is_known)
        MPI_Comm_free(&m->near.comm);
    arena_release(&m->near.arena);
}

/* Floats of a row of mine to all, and of theirs to where their messages have room for them. */
static fault gather_piece(struct far *w, enum row row, size_t first, size_t end, const struct parcel *out)
{
    struct near *near = &mpi_of(w)->near;
    MPI_Request request;
    for (int i = 0; i < near->n; i++) {
        near->counts[i] = (int)(end - first);
        MPI_Get_address(row_of(w, row) + first, &near->from[i]);
        MPI_Get_address(incoming_floats(w, out[i].rows, row, first, end), &near->to[i]);
    }
    MPI_Ineighbor_alltoallw(MPI_BOTTOM, near->counts, near->from, near->types, MPI_BOTTOM, near->counts,
                            near->to, near->types, near->comm, &request);
    return native_wait_for_all(w, &request);
}

static fault gather_rows(struct far *w, struct span span, const struct parcel *out)
{
    size_t piece = w->piece_bytes / sizeof(float);
    for (enum row row = 0; row < w->engine->setup.rows.n; row++) {
        size_t end = span.first + packet_floats_in_row(&w->bounds, span, row);
        for (size_t at = span.first, next; at < end; at = next) {
            next = smaller(at + piece, end);
            TRY(gather_piece(w, row, at, next, out));
        }
    }
    return OK;
}

fault mpi_gather_near(struct link *l, struct span span, struct parcel *out)
{
    struct far *w = far_of(l);
    double since = far_now_s(w);
    size_t n_bytes = packet_span_bytes(&w->bounds, span);
    TRY(meet_neighbours(w));
    size_t n = (size_t)mpi_of(w)->near.n;
    for (size_t i = 0; i < n; i++) {
        struct incoming *m = incoming_new(w, n_bytes);
        if (!m)
            return OUT_OF_MEMORY;
        m->from = (size_t)mpi_of(w)->near.whom[i];
        m->head = (struct head){
            .kind = MSG_ROWS, .rows = span.rows, .first = span.first, .end = span.end, .n_bytes = n_bytes};
        out[i].rows = m;
    }
    fault f = gather_rows(w, span, out);
    for (size_t i = 0; f && i < n; i++)
        out[i].rows = NULL; /* left to the library, which may still write them */
    TRY(f);
    l->counts.messages += n;
    l->counts.received += n;
    l->counts.bytes += n * n_bytes;
    mail_count_own_wait(w, ANYONE, since);
    return OK;
}
