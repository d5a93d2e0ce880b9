/* mpi_none.c - in place of the world `mpi` where the program is built without MPI: there is one process, and no such world. */
#include <stdio.h>

#include "world/mpi/mpi_world.h"

static fault none(void)
{
    return FAIL(FAULT_USAGE, "the world 'mpi' cannot be used: built without MPI");
}

void mpi_library(char *into, size_t n)
{
    snprintf(into, n, "no MPI");
}

fault mpi_join(bool alone, struct mpi_seat *out)
{
    (void)alone, (void)out;
    return none();
}

void mpi_will_wait_in_calls(void)
{
}

size_t mpi_launched(void)
{
    return 1;
}

bool mpi_has_launcher(void)
{
    return false;
}

fault mpi_agree(const struct mpi_seat *seat, fault mine, double patience_s)
{
    (void)seat, (void)patience_s;
    return mine;
}

fault mpi_compare(const struct mpi_seat *seat, const char *what, const char *mine, double patience_s)
{
    (void)seat, (void)what, (void)mine, (void)patience_s;
    return none();
}

fault mpi_largest(const struct mpi_seat *seat, uint64_t mine, double patience_s, uint64_t *out)
{
    (void)seat, (void)mine, (void)patience_s, (void)out;
    return none();
}

fault mpi_gather(const struct mpi_seat *seat, const void *mine, size_t n, double patience_s, void *out)
{
    (void)seat, (void)mine, (void)n, (void)patience_s, (void)out;
    return none();
}

fault mpi_spread_text(const struct mpi_seat *seat, char **text, double patience_s)
{
    (void)seat, (void)text, (void)patience_s;
    return none();
}

size_t mpi_replicas(const struct experiment *e)
{
    (void)e;
    return 1;
}

fault mpi_open(const struct mpi_seat *seat, const struct stage *stage, struct agent *agents, struct engine *engine,
               struct watcher watcher, struct world **out)
{
    (void)seat, (void)stage, (void)agents, (void)engine, (void)watcher, (void)out;
    return none();
}

void mpi_sum_at_once(struct link *l, float *floats, size_t n)
{
    (void)l, (void)floats, (void)n;
}
