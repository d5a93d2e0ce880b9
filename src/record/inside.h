/* inside.h - what the files of this room share about a run's folder. */
#ifndef VECHE_RECORD_INSIDE_H
#define VECHE_RECORD_INSIDE_H

#include <jansson.h>

#include "record/run.h"

/* Opens (or makes) events.jsonl at its end, after cutting a line that a crash left half written. A line that has changed
 * since it was written is a fault that names it. */
fault events_open(struct run_folder *r);
/* How many bytes of the text of events.jsonl, from `path`, are whole lines, and the digest of the last; a line that has changed, or
 * before which one is missing, is a fault. */
fault events_check(const char *text, size_t n, const char *path, size_t *whole, char last[SEAL_DIGITS + 1]);

json_t *json_number(double x);       /* null where x is not finite: JSON has no word for it */
json_t *json_text(const char *text); /* bytes that are not UTF-8 become question marks */
json_t *json_disagreement(const struct disagreement *d);
json_t *json_spread(const struct spread *s);
/* Null where it is not known; `thorough`: with each agent's own waiting. */
json_t *json_waiting(const struct waiting *w, bool thorough);

/* Digits of a number: the most with which 0.1 is still written as 0.1. */
#define JSON_DIGITS JSON_REAL_PRECISION(15)

#endif
