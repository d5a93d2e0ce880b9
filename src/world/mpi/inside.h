/* inside.h - what the files of the world `mpi` share: a far world (far/far.h) whose transport is MPI.
 *
 *   door.c        launchers, MPI's beginning and end, how ranks gather
 *   transport.c   packets and bodies as MPI's messages, and what an MPI with ULFM knows of the dead
 *   native.c      the MPI's own sums; neighbours.c: its exchange between neighbours
 */
#ifndef VECHE_WORLD_MPI_INSIDE_H
#define VECHE_WORLD_MPI_INSIDE_H

#include <mpi.h>

#include "world/far/inside.h"
#include "world/mpi/mpi_world.h"

enum { N_SLOTS = 16 };

struct near { /* my neighbours in the topology, once they were asked for */
    bool is_known;
    MPI_Comm comm;      /* of those that learn, as a graph */
    struct arena arena; /* owned: all below, of n */
    int n, *whom, *counts;
    MPI_Aint *from, *to;
    MPI_Datatype *types;
};

struct mpi {
    struct transport transport; /* first */
    MPI_Comm comm, learners;    /* of all; of agents that learn */
    struct slot {
        MPI_Request request;
        unsigned char bytes[PACKET_BYTES];
    } * slots; /* owned: receives of packets, in a ring */
    size_t oldest_slot;
    bool is_given; /* the oldest slot's packet was given, and the slot does not listen again yet */
    struct near near;
};

static inline struct mpi *mpi_of(const struct far *w)
{
    return (struct mpi *)w->transport;
}

/* transport.c: the communicators and slots of one world. */
fault mpi_open(const struct ranks *ranks, bool have_learners, double patience_s, struct transport **out);

/* native.c */
fault mpi_sum(struct link *l, enum row row, size_t first, size_t end);
void mpi_sum_at_once(struct link *l, float *floats, size_t n);
fault native_wait_for_all(struct far *w, MPI_Request *request); /* of a collective */

/* neighbours.c */
void near_close(struct mpi *m);
fault mpi_gather_near(struct link *l, struct span span, struct parcel *out);

/* door.c */
MPI_Comm mpi_comm_of(const struct ranks *ranks);                  /* all ranks, or this one alone */
fault mpi_wait_together(MPI_Request *request, double patience_s); /* for a request that needs all ranks */
/* Between these calls MPI is not ended when the process is. */
void mpi_is_used(bool used);

#endif
