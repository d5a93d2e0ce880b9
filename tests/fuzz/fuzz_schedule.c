/* Arbitrary bytes as a schedule file, after one for the members and one for the micro-batches: refused with a place, or read, and what was
 * read is sound and reads the same when it is printed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "team/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_again(const struct schedule *s, struct arena *arena)
{
    struct schedule again;
    char *text;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to || schedule_check(s) || schedule_print_csv(s, 1, to) || fclose(to) ||
        schedule_read_csv(text, n, "again", s->n_members, s->n_micros, arena, &again))
        abort();
    for (size_t r = 0; r < s->n_members; r++)
        if (again.first[r].n != s->first[r].n || memcmp(again.first[r].at, s->first[r].at, s->first[r].n * sizeof *s->first[r].at))
            abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena arena = {0};
    struct schedule s;
    if (n < 2)
        return 0;
    fault f = schedule_read_csv((const char *)bytes + 2, n - 2, "fuzz", bytes[0] % 8 + 1, bytes[1] % 8 + 1, &arena, &s);
    if (!f)
        read_again(&s, &arena);
    else if (fault_kind_of(f) != FAULT_EXPERIMENT || strncmp(fault_text(f), "fuzz:", 5) != 0)
        abort();
    fault_drop(f);
    arena_release(&arena);
    return 0;
}
