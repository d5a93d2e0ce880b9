/* far.h - worlds whose members live each in a process of its own, called a rank.
 *
 * Rank 0 leads: it is told of moments, shows progress, keeps the run's folder, and looks at the others' rows
 * by asking for them. Its agent, as every rank's, lives on the process's main thread, which alone calls the
 * transport; lessons are computed on a second thread, so messages go on travelling while they are. Time is
 * real, and stands still while the leader looks.
 *
 * All of this is the same over any transport (transport.h). A world over one has a door (world.h) of its own,
 * whose `join` ends in far_join and whose `open` in far_open.
 */
#ifndef VECHE_WORLD_FAR_FAR_H
#define VECHE_WORLD_FAR_FAR_H

#include "world/far/transport.h"
#include "world/world.h"

/* The last of joining, when ranks can gather: cores of a machine are shared out among its ranks, and all
 * speak the same protocol. */
fault far_join(struct ranks *ranks);
/* See world_door. */
void far_furnish(const struct ranks *ranks, const struct experiment *e, size_t n_links,
                 struct engine_setup *setup);
/* See world_door; takes the transport, also on a fault. */
fault far_open(const struct ranks *ranks, struct transport *transport, const struct stage *stage,
               struct agent *agents, struct engine *engine, struct watcher watcher, struct world **out);

#endif
