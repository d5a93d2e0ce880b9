/* fetch.h - one known set into the data folder, whole or not at all. */
#ifndef VECHE_DATA_FETCH_FETCH_H
#define VECHE_DATA_FETCH_FETCH_H

#include "data/known_sets.h"

/* Keeps a good copy that is there. `from` is a local folder or archive, or NULL for the set's origins. */
fault known_get(const struct known *k, const char *data, const char *from, const struct listener *listener);

#endif
