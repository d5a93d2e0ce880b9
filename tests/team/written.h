/* written.h - schedules as tests ask for them. */
#ifndef VECHE_TESTS_TEAM_WRITTEN_H
#define VECHE_TESTS_TEAM_WRITTEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/must.h"
#include "team/schedule.h"

static inline struct schedule written(const char *kind, size_t p, size_t chunks, size_t m, size_t warmup, struct arena *arena)
{
    struct schedule s;
    struct schedule_needs needs = {.n_members = p, .chunks = chunks, .n_micros = m, .warmup = warmup};
    must(schedule_kind_named(kind)->write(&needs, arena, &s));
    return s;
}

/* As schedule_print_csv prints it; the caller frees. */
static inline char *csv_of(const struct schedule *s, size_t n_rounds)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    must(schedule_print_csv(s, n_rounds, to));
    assert_int_equal(fclose(to), 0);
    return text;
}

/* Calls it for each kind with many numbers of members, parts and micro-batches that the kind can have. */
static inline void each_schedule(void (*check)(const struct schedule *s, const struct schedule_needs *needs))
{
    static const size_t members[] = {1, 2, 3, 4, 5, 6, 9}, micros[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 17, 25};
    for (size_t k = 0; schedule_rows[k]; k++)
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            for (size_t j = 0; j < sizeof micros / sizeof *micros; j++)
                for (size_t chunks = 1; chunks <= (schedule_rows[k]->has_chunks ? 4 : 1); chunks++)
                    for (size_t warmup = 0; warmup <= (schedule_rows[k]->has_warmup ? 2 * members[i] - 1 : 0); warmup++) {
                        struct arena arena = {0};
                        struct schedule s;
                        struct schedule_needs needs = {members[i], chunks, micros[j], warmup};
                        if (schedule_rows[k]->delays && micros[j] < members[i])
                            continue;
                        must(schedule_rows[k]->write(&needs, &arena, &s));
                        check(&s, &needs);
                        arena_release(&arena);
                    }
}

#endif
