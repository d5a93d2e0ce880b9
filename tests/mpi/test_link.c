/* The world `mpi` is held to what link.h promises. */
#include <time.h>

#include "link/suite.h"
#include "mpi/crew.h"
#include "world/mpi/inside.h"

static void be_deaf(struct agent *a, double seconds)
{
    (void)a;
    nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))}, NULL);
}

/* A process that is silent for longer than patience is given up, and is told so when it listens again. */
static fault fall(struct agent *a)
{
    be_deaf(a, 2.5 * SUITE_PATIENCE_S);
    return link_sleep(a->link, 10);
}

/* As with a launcher that lets the others live. */
static void let_others_live(struct veche_run *r, const struct link_case *c)
{
    ((struct far *)r->world)->transport->others_live = c->one_falls;
}

/* Nobody is really gone, so MPI can be ended all the same. */
static void let_mpi_end(const struct link_case *c)
{
    if (c->one_falls)
        mpi_is_used(false);
}

int main(void)
{
    static const struct suite_world mpi = {
        .name = "mpi", .fall = fall, .be_absent = be_deaf, .open = let_others_live, .close = let_mpi_end};
    return crew_join() ? suite_run(&mpi, crew_ranks(), crew_ranks()->n) : 1;
}
