/* field.h - a setting is one row: name, kind, default, range, help.
 *
 * Whoever owns a struct of settings owns a table of these rows beside it. The parser, `veche list`, `veche check` and
 * the documentation read the same rows, so that none can say something else. Rows know nothing of files: they turn
 * the text of one value into a member of a struct and back.
 */
#ifndef VECHE_BASE_FIELD_H
#define VECHE_BASE_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/fault.h"

enum field_kind {
    FIELD_INT,    /* int64_t                                                               */
    FIELD_REAL,   /* double; finite                                                        */
    FIELD_FLAG,   /* bool; true or false                                                   */
    FIELD_TEXT,   /* const char *; NULL when the default is NULL and nothing was written   */
    FIELD_CHOICE, /* int: the index of the word in `choices`                               */
    FIELD_EVERY,  /* struct every: "1 epoch", "0.5 epochs", "100 rounds", "never"          */
    FIELD_REALS,  /* struct reals: a list of numbers; one number is a list of one          */
    FIELD_TEXTS,  /* struct texts: a list of texts; one text is a list of one              */
};

enum every_unit { EVERY_NEVER, EVERY_EPOCHS, EVERY_ROUNDS };

struct every {
    enum every_unit unit;
    double count; /* > 0 unless never; a whole number of rounds */
};

struct reals {
    const double *at; /* borrowed from the arena */
    size_t n;
};

struct texts {
    const char *const *at; /* likewise */
    size_t n;
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;              /* offsetof the member in the owner's struct                     */
    const char *fallback;       /* the default, as one would write it; NULL: must be written     */
    bool optional;              /* with a NULL fallback: may be left out, the member stays zero  */
    double min, max;            /* INT, REAL, REALS, EVERY's count; both 0: any; max not above min: no most */
    bool above_min;             /* min itself is not allowed                                     */
    bool whole;                 /* REALS: whole numbers only                                     */
    const char *word;           /* INT: may be written in place of a number, and then the member is 0; or NULL */
    const char *const *choices; /* CHOICE: NULL-terminated                                       */
    const char *help;           /* one line, without a full stop                                 */
};

/* Reads one scalar (for REALS: one number, or all of them as "[1, 2]"; for TEXTS: one text). The fault's sentence says what was wrong with
 * the value and what is allowed, but not where: "'nan' is not a finite number", "12 is above the most allowed, 1".
 * Nothing is written on a fault. Numbers are plain decimal in every locale: no hexadecimal, no leading zeros. */
fault field_read(const struct field *row, const char *text, struct arena *arena, void *settings);

/* REALS and TEXTS: reads n texts into the member. */
fault field_read_list(const struct field *row, const char *const *texts, size_t n, struct arena *arena,
                      void *settings);

/* Sets every member that has a fallback. */
fault field_defaults(const struct field *rows, size_t n, struct arena *arena, void *settings);

/* The member as one would write it in YAML flow style (reading it back gives the same value); reals in the fewest
 * digits that do. NULL when memory is out. */
const char *field_print(const struct field *row, const void *settings, struct arena *arena);

/* A row that may be left out and whose member is zero: there is nothing to print. */
bool field_is_unset(const struct field *row, const void *settings);

/* A text as one would write it in YAML, in quotes where it needs them; NULL when memory is out. */
const char *field_print_text(const char *text, struct arena *arena);

const char *field_kind_name(enum field_kind k); /* "a whole number", "a number", "true or false", ... */

#endif
