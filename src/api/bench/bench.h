/* bench.h - the kinds of `veche bench`, each giving one JSON object as text. */
#ifndef VECHE_API_BENCH_BENCH_H
#define VECHE_API_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/field.h"

/* Settings are fields of bench.c: model, batch, precision, threads, replicas, seconds, engine, ... */
fault bench_engine(const char *const *settings, size_t n, char **json);
/* Settings are overrides of an experiment. `mixing`: with a real network, else messages only. */
fault bench_world(bool mixing, const char *const *overrides, size_t n, char **json);

/* How long a sum over a group takes on a network, by every algorithm, and how long it should. Settings are
 * fields of allreduce.c: agents, floats, latency_ms, bandwidth_mbps. */
fault bench_allreduce(const char *const *settings, size_t n, char **json);
/* The same where the world among the settings has ranks ("world=mpi"), in real seconds, beside its
 * library's own and the memory's limit; all ranks call it, and rank 0 gets the figures, the others no
 * text. Settings are fields of ranks.c. */
fault bench_ranks(const char *const *settings, size_t n, char **json);

/* Reads "key=value" texts into settings that these fields describe. */
fault bench_settings(const struct field *fields, size_t n_fields, const char *const *texts, size_t n,
                     struct arena *arena, void *settings);
/* The object as text with a line's end; takes it. A NULL object is a lack of memory. */
fault bench_print(json_t *object, char **json);

#endif
