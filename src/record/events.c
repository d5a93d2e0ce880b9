/* events.c - events.jsonl: one JSON object a line, appended and handed to the system at once.
 *
 * Invariant: the file is a sequence of whole lines, each with a digest of itself and of the line before it (seal.h). A line
 * that could not be written whole is cut off again, at once when the disk is full, at the next opening after a crash. A line
 * that has changed since, or is missing, is found at the next opening.
 */
#include "record/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/file.h"
#include "record/seal.h"

static const char EVENTS[] = "events.jsonl";

json_t *json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_text(const char *text)
{
    json_t *plain = json_string(text);
    char *copy = plain ? NULL : strdup(text);
    if (!copy)
        return plain;
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    plain = json_string(copy);
    free(copy);
    return plain;
}

json_t *json_disagreement(const struct disagreement *d)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "l1", json_number(d->l1), "l2", json_number(d->l2), "linf",
                     json_number(d->linf), "variation", json_number(d->variation));
}

static fault damaged(const char *path, size_t line, const char *wrong)
{
    return FAIL(FAULT_FILE, "%s:%zu: %s (the lines before it can be used alone)", path, line, wrong);
}

/* What is left after the last whole line was cut short by a crash. Where it is as long as a line and has the
 * digest of one, it is its end that has changed. */
static fault check_rest(const char *rest, size_t n, const char *path, size_t line, const char *before)
{
    const char *wrong;
    char last[SEAL_DIGITS + 1];
    strcpy(last, before);
    char *mended = malloc(n);
    if (!mended)
        return OUT_OF_MEMORY;
    memcpy(mended, rest, n);
    mended[n - 1] = '\n';
    fault f = seal_check_next(&seal_of_line, mended, n, last, &wrong);
    free(mended);
    if (!f && !wrong)
        f = damaged(path, line, "is damaged: it does not end in a new line");
    return f;
}

fault events_check(const char *text, size_t n, const char *path, size_t *whole, char last[SEAL_DIGITS + 1])
{
    size_t at = 0, line = 1;
    *last = 0;
    for (const char *end; (end = memchr(text + at, '\n', n - at)); line++) {
        const char *wrong;
        size_t length = (size_t)(end - text) + 1 - at;
        TRY(seal_check_next(&seal_of_line, text + at, length, last, &wrong));
        if (wrong)
            return damaged(path, line, wrong);
        at += length;
    }
    if (at < n)
        TRY(check_rest(text + at, n - at, path, line, last));
    *whole = at;
    return OK;
}

fault events_open(struct run_folder *r)
{
    char path[FILE_PATH], *text;
    size_t n;
    TRY(path_join(r->path, EVENTS, sizeof path, path));
    int events;
    TRY(file_open(path, O_WRONLY | O_APPEND, &events));
    if (r->events >= 0)
        close(r->events);
    r->events = events;
    size_t whole;
    TRY(file_read(path, &text, &n));
    fault f = events_check(text, n, path, &whole, r->last_event);
    free(text);
    TRY(f);
    if (whole < n && ftruncate(events, (off_t)whole) != 0)
        return FAIL(FAULT_FILE, "%s: cannot be written: %s", path, strerror(errno));
    return OK;
}

static fault append(struct run_folder *r, json_t *event)
{
    char *object = json_dumps(event, JSON_COMPACT | JSON_DIGITS), *line = NULL, last[SEAL_DIGITS + 1];
    json_decref(event);
    if (!object)
        return OUT_OF_MEMORY;
    strcpy(last, r->last_event);
    fault f = seal_next(&seal_of_line, object, last, &line);
    free(object);
    TRY(f);
    off_t before = lseek(r->events, 0, SEEK_END);
    bool done = file_write_all(r->events, line, strlen(line)); /* line and end go out together */
    int error = errno;
    free(line);
    if (done) {
        strcpy(r->last_event, last);
        return OK;
    }
    bool cut = before >= 0 && ftruncate(r->events, before) == 0;
    return FAIL(FAULT_FILE, "%s/%s: cannot be written: %s%s", r->path, EVENTS, strerror(error),
                cut ? "" : ", and its last line is left half written");
}

static json_t *score_object(const struct score *s, size_t agent)
{
    return json_pack(
        "{s:I, s:b, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "agent", (json_int_t)agent,
        "alive", s->alive, "epoch", json_number(s->epoch), "rounds", (json_int_t)s->rounds, "train_loss",
        json_number(s->train_loss), "train_accuracy", json_number(s->train_accuracy), "loss",
        json_number(s->loss), "accuracy", json_number(s->accuracy), "lr", json_number(s->lr), "bytes",
        (json_int_t)s->bytes, "messages", (json_int_t)s->messages, "waiting_s", json_number(s->waiting_s),
        "staleness_mean", json_number(s->staleness_mean), "staleness_max", json_number(s->staleness_max));
}

fault run_record_evaluation(struct run_folder *r, const struct evaluation *e)
{
    json_t *agents = json_array();
    uint64_t bytes = 0, messages = 0;
    double waiting_s = 0;
    for (size_t i = 0; i < e->n_agents; i++) {
        bytes += e->scores[i].bytes;
        messages += e->scores[i].messages;
        waiting_s += e->scores[i].waiting_s;
        if (json_array_append_new(agents, score_object(&e->scores[i], i)) != 0) {
            json_decref(agents);
            return OUT_OF_MEMORY;
        }
    }
    json_t *event = json_pack(
        "{s:s, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "event", "evaluation",
        "step", (json_int_t)e->step, "round", (json_int_t)e->round, "epoch", json_number(e->epoch), "real_s",
        json_number(e->real_s), "virtual_s", json_number(e->virtual_s), "samples", (json_int_t)e->samples,
        "agents", agents, "averaged_loss", json_number(e->averaged_loss), "averaged_accuracy",
        json_number(e->averaged_accuracy), "disagreement", json_disagreement(&e->disagreement), "bytes",
        (json_int_t)bytes, "messages", (json_int_t)messages, "waiting_s", json_number(waiting_s), "waiting",
        json_waiting(&e->waiting, false));
    return append(r, event);
}

fault run_record_note(struct run_folder *r, uint64_t step, double virtual_s, double real_s, int64_t agent,
                      const char *kind, const char *text)
{
    return append(r, json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "event", "note", "step",
                               (json_int_t)step, "virtual_s", json_number(virtual_s), "real_s",
                               json_number(real_s), "agent", agent < 0 ? json_null() : json_integer(agent),
                               "kind", json_text(kind), "text", json_text(text)));
}

fault run_record_fault(struct run_folder *r, uint64_t step, double real_s, const char *kind,
                       const char *sentence)
{
    return append(r,
                  json_pack("{s:s, s:I, s:o, s:o, s:o}", "event", "fault", "step", (json_int_t)step, "real_s",
                            json_number(real_s), "kind", json_text(kind), "sentence", json_text(sentence)));
}

/* Whether a line is an event of `step` or before. */
static bool belongs(const char *line, size_t n, uint64_t step)
{
    json_t *event = json_loadb(line, n, 0, NULL);
    const json_t *of = json_object_get(event, "step");
    bool yes = json_is_integer(of) && json_integer_value(of) >= 0 && (uint64_t)json_integer_value(of) <= step;
    json_decref(event);
    return yes;
}

/* Keeps those of the lines that belong, in place, each with the digest that it has after the one now before it. */
static fault rewind_lines(char *text, size_t n, uint64_t step, size_t *kept)
{
    char last[SEAL_DIGITS + 1] = "";
    *kept = 0;
    size_t at = 0, length;
    for (const char *end; (end = memchr(text + at, '\n', n - at)); at += length) {
        length = (size_t)(end - text) + 1 - at;
        if (!belongs(text + at, length, step))
            continue;
        memmove(text + *kept, text + at, length);
        TRY(seal_again(&seal_of_line, text + *kept, length, last));
        *kept += length;
    }
    return OK;
}

fault run_rewind_events(struct run_folder *r, uint64_t step)
{
    char path[FILE_PATH], *text;
    size_t n, kept;
    TRY(path_join(r->path, EVENTS, sizeof path, path));
    TRY(file_read(path, &text, &n));
    fault f = rewind_lines(text, n, step, &kept);
    if (!f && kept < n)
        f = file_replace(path, &(struct piece){text, kept}, 1);
    free(text);
    return f ? f : events_open(r);
}
