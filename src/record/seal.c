/* seal.c - digests at the end of texts: put there, and checked. */
#include "record/seal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sha256.h"

#define CHANGED "is damaged: its digest is not that of its bytes, some of which have changed"

const struct seal seal_of_line = {"}", ",\"digest\":\"", "\"}\n",
                                  "is damaged: its digest is not that of its bytes and of the line before "
                                  "it; some have changed, or a line is missing"};
const struct seal seal_of_object = {"\n}", ",\n  \"digest\": \"", "\"\n}\n", CHANGED};
const struct seal seal_of_yaml = {"", "# digest: ", "\n", CHANGED};

static fault digest(const char *last, const char *text, size_t n, char hex[SHA256_HEX])
{
    struct sha256 h;
    TRY(sha256_open(&h));
    sha256_add(&h, last, strlen(last));
    sha256_add(&h, text, n);
    sha256_close(&h, hex);
    hex[SEAL_DIGITS] = 0;
    return OK;
}

fault seal_next(const struct seal *form, const char *text, char last[SEAL_DIGITS + 1], char **out)
{
    char hex[SHA256_HEX];
    size_t kept = strlen(text) - strlen(form->end), head = kept + strlen(form->before);
    char *sealed = malloc(head + SEAL_DIGITS + strlen(form->after) + 1);
    if (!sealed)
        return OUT_OF_MEMORY;
    memcpy(sealed, text, kept);
    strcpy(sealed + kept, form->before);
    fault f = digest(last, sealed, head, hex);
    if (f) {
        free(sealed);
        return f;
    }
    sprintf(sealed + head, "%s%s", hex, form->after);
    strcpy(last, hex);
    *out = sealed;
    return OK;
}

fault seal_again(const struct seal *form, char *text, size_t n, char last[SEAL_DIGITS + 1])
{
    char hex[SHA256_HEX];
    size_t head = n - SEAL_DIGITS - strlen(form->after);
    TRY(digest(last, text, head, hex));
    memcpy(text + head, hex, SEAL_DIGITS);
    strcpy(last, hex);
    return OK;
}

fault seal_text(const struct seal *form, const char *text, char **out)
{
    return seal_next(form, text, (char[SEAL_DIGITS + 1]){""}, out);
}

static bool stands_at(const char *text, const char *words)
{
    return memcmp(text, words, strlen(words)) == 0;
}

fault seal_check_next(const struct seal *form, const char *text, size_t n, char last[SEAL_DIGITS + 1],
                      const char **wrong)
{
    char hex[SHA256_HEX];
    size_t before = strlen(form->before), tail = SEAL_DIGITS + strlen(form->after);
    *wrong = "is damaged: it does not end in a digest";
    if (n < before + tail || !stands_at(text + n - tail - before, form->before) ||
        !stands_at(text + n - tail + SEAL_DIGITS, form->after))
        return OK;
    TRY(digest(last, text, n - tail, hex));
    *wrong = memcmp(hex, text + n - tail, SEAL_DIGITS) == 0 ? NULL : form->wrong;
    if (!*wrong)
        strcpy(last, hex);
    return OK;
}

fault seal_check(const struct seal *form, const char *text, size_t n, const char **wrong)
{
    return seal_check_next(form, text, n, (char[SEAL_DIGITS + 1]){""}, wrong);
}
