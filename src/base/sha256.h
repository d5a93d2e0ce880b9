/* sha256.h - SHA-256 in pieces (libcrypto does the work). */
#ifndef VECHE_BASE_SHA256_H
#define VECHE_BASE_SHA256_H

#include <stddef.h>

#include "base/fault.h"

enum { SHA256_HEX = 65 }; /* 64 digits and the final zero */

struct sha256 {
    void *state; /* owned, by libcrypto */
};

fault sha256_open(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *bytes, size_t n);
void sha256_close(struct sha256 *h, char hex[SHA256_HEX]); /* hex may be NULL */

fault sha256_of(const void *bytes, size_t n, char hex[SHA256_HEX]);
fault sha256_of_file(const char *path, char hex[SHA256_HEX]);

#endif
