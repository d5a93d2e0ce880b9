#include "base/sha256.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

fault sha256_open(struct sha256 *h)
{
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    if (!state || !EVP_DigestInit_ex(state, EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(state);
        return FAIL(FAULT_MEMORY, "SHA-256 cannot start: libcrypto has no memory for it");
    }
    h->state = state;
    return OK;
}

void sha256_add(struct sha256 *h, const void *bytes, size_t n)
{
    EVP_DigestUpdate(h->state, bytes, n);
}

void sha256_close(struct sha256 *h, char hex[SHA256_HEX])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_DigestFinal_ex(h->state, digest, &n);
    EVP_MD_CTX_free(h->state);
    h->state = NULL;
    for (unsigned i = 0; hex && i < n && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

fault sha256_of(const void *bytes, size_t n, char hex[SHA256_HEX])
{
    struct sha256 h = {0};
    TRY(sha256_open(&h));
    sha256_add(&h, bytes, n);
    sha256_close(&h, hex);
    return OK;
}

fault sha256_of_file(const char *path, char hex[SHA256_HEX])
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    struct sha256 h = {0};
    fault f = sha256_open(&h);
    if (!f) {
        char bytes[1 << 16];
        size_t n;
        while ((n = fread(bytes, 1, sizeof bytes, file)) > 0)
            sha256_add(&h, bytes, n);
        sha256_close(&h, hex);
        if (ferror(file))
            f = FAIL(FAULT_FILE, "%s: cannot be read: %s", path, strerror(errno));
    }
    fclose(file);
    return f;
}
