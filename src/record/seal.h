/* seal.h - a text that ends in a digest of all that stands before it, so that a reader finds any byte that has changed.
 *
 *   a line of events.jsonl        {"event":"note", ... ,"digest":"0123456789abcdef"}
 *   summary.json, compare.json    the object's last key, on a line of its own
 *   experiment.yaml               a comment, the last line
 *
 * The digest is the first 16 digits of the SHA-256 of the bytes before those digits; of a line of events, of the digest of the
 * line before it and those bytes, so that no line can be missing. summary.json has the digest of the last line. All of these
 * stay what they were for other programs: JSON with one more key, YAML with one more comment.
 */
#ifndef VECHE_RECORD_SEAL_H
#define VECHE_RECORD_SEAL_H

#include <stddef.h>

#include "base/fault.h"

enum { SEAL_DIGITS = 16 };

struct seal {
    const char *end; /* of the text before it is sealed, where the seal goes before it; "": after the text */
    const char *before; /* the digits */
    const char *after;
    const char *wrong; /* about a digest that is another one, in words that go after the text's name */
};

extern const struct seal seal_of_line, seal_of_object, seal_of_yaml;

/* The text with its seal, which takes the place of its end. Caller frees. */
fault seal_text(const struct seal *form, const char *text, char **out);
/* What is wrong with a sealed text, in words that go after its name ("has no digest ..."); NULL: nothing. */
fault seal_check(const struct seal *form, const char *text, size_t n, const char **wrong);

/* The same of a text that goes on from others: `last` are the digits of the one before it, "" where there is none, and become its own.
 * When it is wrong they stay. */
fault seal_next(const struct seal *form, const char *text, char last[SEAL_DIGITS + 1], char **out);
/* Of a sealed text, in place: the seal that it has after another one than before. */
fault seal_again(const struct seal *form, char *text, size_t n, char last[SEAL_DIGITS + 1]);
fault seal_check_next(const struct seal *form, const char *text, size_t n, char last[SEAL_DIGITS + 1],
                      const char **wrong);

#endif
