/* unpack.h - from an archive or a folder to a known set's plain files. */
#ifndef VECHE_DATA_FETCH_UNPACK_H
#define VECHE_DATA_FETCH_UNPACK_H

#include "data/known_sets.h"

/* Writes the set's files, unpacked, into `goal`. `from` is an archive (tar in any compression, .deb, zip)
 * that holds them, or their mosaics, in any folder of it. */
fault unpack_archive(const struct known *k, const char *from, const char *goal,
                     const struct listener *listener);
/* `from` is a folder that holds them, or holds a folder with the set's name or its official one that does. */
fault unpack_folder(const struct known *k, const char *from, const char *goal,
                    const struct listener *listener);

#endif
