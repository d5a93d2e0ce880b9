/* seal.c - digests at the end of texts: put there, and checked. */
#include "record/seal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sha256.h"

enum { DIGITS = 16 };

const struct seal seal_of_line = {"}", ",\"digest\":\"", "\"}\n"};
const struct seal seal_of_object = {"\n}", ",\n  \"digest\": \"", "\"\n}\n"};
const struct seal seal_of_yaml = {"", "# digest: ", "\n"};

fault seal_text(const struct seal *form, const char *text, char **out)
{
    char hex[SHA256_HEX];
    size_t kept = strlen(text) - strlen(form->end), head = kept + strlen(form->before);
    char *sealed = malloc(head + DIGITS + strlen(form->after) + 1);
    if (!sealed)
        return OUT_OF_MEMORY;
    memcpy(sealed, text, kept);
    strcpy(sealed + kept, form->before);
    fault f = sha256_of(sealed, head, hex);
    if (f) {
        free(sealed);
        return f;
    }
    sprintf(sealed + head, "%.*s%s", DIGITS, hex, form->after);
    *out = sealed;
    return OK;
}

static bool stands_at(const char *text, const char *words)
{
    return memcmp(text, words, strlen(words)) == 0;
}

fault seal_check(const struct seal *form, const char *text, size_t n, const char **wrong)
{
    char hex[SHA256_HEX];
    size_t before = strlen(form->before), tail = DIGITS + strlen(form->after);
    *wrong = "is damaged: it does not end in a digest";
    if (n < before + tail || !stands_at(text + n - tail - before, form->before) ||
        !stands_at(text + n - tail + DIGITS, form->after))
        return OK;
    TRY(sha256_of(text, n - tail, hex));
    *wrong = memcmp(hex, text + n - tail, DIGITS) == 0
                 ? NULL
                 : "is damaged: its digest is not that of its bytes, some of which have changed";
    return OK;
}
