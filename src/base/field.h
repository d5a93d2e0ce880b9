/* field.h - a setting is described by one field: name, kind, default, range, help.
 *
 *   static const struct field fields[] = {
 *       INT_FIELD(struct easgd, every, "10", 1, 1e9, "rounds from one meeting with the centre to the next"),
 *       ...
 *   };
 *
 * A struct of settings has a table of its fields beside it. The parser, `veche list`, `veche check` and the documentation
 * read the same table, so that none can say something else. Fields know nothing of files: they turn the text of one
 * value into a member of a struct and back.
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

/* The setting is called what the member is. `standard` is its default, NULL where it must be written; the help ends the call, or what
 * few fields have follows it: .optional = true, .above_min = true, .whole = true, .word = "end". */
#define INT_FIELD(owner, member, standard, least, most, ...)                                                 \
    FIELD(#member, FIELD_INT, owner, member, .fallback = standard, .min = least, .max = most, .help = __VA_ARGS__)
#define REAL_FIELD(owner, member, standard, least, most, ...)                                                \
    FIELD(#member, FIELD_REAL, owner, member, .fallback = standard, .min = least, .max = most, .help = __VA_ARGS__)
#define REALS_FIELD(owner, member, standard, least, most, ...)                                               \
    FIELD(#member, FIELD_REALS, owner, member, .fallback = standard, .min = least, .max = most, .help = __VA_ARGS__)
#define FLAG_FIELD(owner, member, standard, ...)                                                             \
    FIELD(#member, FIELD_FLAG, owner, member, .fallback = standard, .help = __VA_ARGS__)
#define TEXT_FIELD(owner, member, standard, ...)                                                             \
    FIELD(#member, FIELD_TEXT, owner, member, .fallback = standard, .help = __VA_ARGS__)
#define TEXTS_FIELD(owner, member, standard, ...)                                                            \
    FIELD(#member, FIELD_TEXTS, owner, member, .fallback = standard, .help = __VA_ARGS__)
#define EVERY_FIELD(owner, member, standard, ...)                                                            \
    FIELD(#member, FIELD_EVERY, owner, member, .fallback = standard, .help = __VA_ARGS__)
#define CHOICE_FIELD(owner, member, standard, words, ...)                                                    \
    FIELD(#member, FIELD_CHOICE, owner, member, .fallback = standard, .choices = words, .help = __VA_ARGS__)

/* The setting is called otherwise: FIELD("return", FIELD_REALS, struct event_written, who[EVENT_RETURN], .max = 9, .help = "..."). */
#define FIELD(setting, its_kind, owner, member, ...)                                                         \
    {                                                                                                        \
        .name = setting, .kind = its_kind, .offset = offsetof(owner, member), __VA_ARGS__                    \
    }

/* Reads one scalar (for REALS: one number, or all of them as "[1, 2]"; for TEXTS: one text). The fault's sentence says what was wrong with
 * the value and what is allowed, but not where: "'nan' is not a finite number", "12 is above the most allowed, 1".
 * Nothing is written on a fault. Numbers are plain decimal in every locale: no hexadecimal, no leading zeros. */
fault field_read(const struct field *field, const char *text, struct arena *arena, void *settings);

/* REALS and TEXTS: reads n texts into the member. */
fault field_read_list(const struct field *field, const char *const *texts, size_t n, struct arena *arena,
                      void *settings);

/* Sets every member that has a fallback. */
fault field_defaults(const struct field *fields, size_t n, struct arena *arena, void *settings);

/* The member as one would write it in YAML flow style (reading it back gives the same value); reals in the fewest
 * digits that do. NULL when memory is out. */
const char *field_print(const struct field *field, const void *settings, struct arena *arena);

/* A setting that may be left out and whose member is zero: there is nothing to print. */
bool field_is_unset(const struct field *field, const void *settings);

/* A text as one would write it in YAML, in quotes where it needs them; NULL when memory is out. */
const char *field_print_text(const char *text, struct arena *arena);

const char *field_kind_name(enum field_kind k); /* "a whole number", "a number", "true or false", ... */

#endif
