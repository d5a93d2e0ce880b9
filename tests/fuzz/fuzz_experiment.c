/* Any bytes as an experiment: refused in one sentence, or read, printed and read again to the same print.
 * Bytes after a zero byte are taken as an override. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../support/registry.h"
#include "experiment/experiment.h"

/* abort() is how a target tells libFuzzer of a finding. */
static char *print_of(const struct experiment *e)
{
    char *text = NULL;
    if (experiment_print(e, &text) != OK)
        abort();
    return text;
}

static void go_round(struct experiment *first)
{
    struct experiment *second = NULL;
    char *once = print_of(first);
    if (experiment_parse(once, strlen(once), "print", NULL, 0, &toy_registry, &second) != OK)
        abort();
    char *twice = print_of(second);
    if (strcmp(once, twice) != 0)
        abort();
    free(once);
    free(twice);
    experiment_free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *zero = n ? memchr(bytes, 0, n) : NULL;
    size_t n_text = zero ? (size_t)(zero - bytes) : n, n_override = zero ? n - n_text - 1 : 0;
    char *override = malloc(n_override + 1);
    if (!override)
        return 0;
    if (zero)
        memcpy(override, zero + 1, n_override);
    override[n_override] = '\0';
    const char *overrides[] = {override};
    struct experiment *e = NULL;
    fault f =
        experiment_parse((const char *)bytes, n_text, "fuzz", overrides, zero ? 1 : 0, &toy_registry, &e);
    if (f) {
        if (strchr(fault_text(f), '\n'))
            abort();
        fault_drop(f);
    } else {
        go_round(e);
        experiment_free(e);
    }
    free(override);
    return 0;
}
