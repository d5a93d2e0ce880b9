/* tensors.h - named arrays of floats or doubles in one file, in the safetensors layout (readable from Python).
 *
 *   8 bytes: length of the header | header: JSON, padded with spaces to a multiple of 8 | data: fp64, then fp32
 *
 * all little endian. The header's "__metadata__" holds texts; "sha256" among them is the hash of the whole
 * file, header and data, with the 64 digits of the hash itself read as zeros. A file is written beside its
 * place, synced, renamed, and the folder synced: after a crash or power cut there is the old file or the new
 * one, and never half of one.
 */
#ifndef VECHE_RECORD_TENSORS_H
#define VECHE_RECORD_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fault.h"

struct named_floats {
    const char *name;
    size_t dims[4];
    size_t n_dims;
    const float *floats;   /* one of the two; in a file those with doubles come first, so that each lies */
    const double *doubles; /* at a multiple of its size */
};

struct metadata {
    const char *key, *text;
};

/* Names and keys are UTF-8, each once; the key "sha256" is the file's own. */
fault tensors_write(const char *path, const struct named_floats *tensors, size_t n_tensors,
                    const struct metadata *metadata, size_t n_metadata);

/* A file read whole and proved whole: every byte of the header checked for sense, then the hash. */
struct tensors {
    struct arena arena; /* owned: names and tables below */
    char *bytes;        /* owned: the file; the numbers of `at` point into it */
    struct named_floats *at;
    size_t n;
    struct metadata *metadata; /* "sha256" among them */
    size_t n_metadata;
};

fault tensors_read(const char *path,
                   struct tensors *out); /* FAULT_CHECKPOINT or FAULT_FILE, with path and offset */
/* The same from memory (copied); `name` stands in for the path in faults. */
fault tensors_parse(const void *bytes, size_t n, const char *name, struct tensors *out);
void tensors_release(struct tensors *t);
const struct named_floats *tensors_find(const struct tensors *t, const char *name); /* or NULL */
const char *tensors_metadata(const struct tensors *t, const char *key);             /* or NULL */

#endif
