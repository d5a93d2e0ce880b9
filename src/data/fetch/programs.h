/* programs.h - a known set's archive from one of its origins. */
#ifndef VECHE_DATA_FETCH_PROGRAMS_H
#define VECHE_DATA_FETCH_PROGRAMS_H

#include "data/known_sets.h"

/* Long enough for any server that still works on it, short enough to wait for. */
#define FETCH_PATIENCE_S 120.0

/* Runs the origin's program in the folder (which must be empty) and checks the archive that it leaves there.
 */
fault fetch_archive(const struct origin *o, const char *folder, const struct listener *listener, char *path,
                    size_t n_path);

#endif
