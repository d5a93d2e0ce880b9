/* schedule_read.c - a schedule from a text in PyTorch's notation: a line for each member, a cell for each pass.
 *
 *   0F0,0F1,,0B0,0B1
 *   1F0,1B0,1F1,1B1
 *
 * Whatever is wrong is named with its line and column; nothing is guessed or mended. Cells may have blanks around
 * them, lines may end as Python or Windows ends them, and empty lines may follow the last.
 */
#include <string.h>

#include "base/text.h"
#include "team/schedule.h"

enum { MOST_DIGITS = 6 };

struct reader {
    const char *source;
    const char *at, *end; /* what is left of the text */
    const char *line;     /* the beginning of the one in hand */
    size_t n_micros;
    struct actions *lists;
    struct action *room; /* of the list in hand */
    size_t **columns; /* [n_members][of its actions, and of its line's end] */
    size_t member, n_parts;
};

#define FAIL_AT(r, member, column, ...)                                                                                          \
    fault_before(FAIL(FAULT_EXPERIMENT, __VA_ARGS__), "%s:%zu:%zu: ", (r)->source, (size_t)(member) + 1, (size_t)(column))

/* ---- one cell ---- */

static size_t digits(const char *at, const char *end, uint32_t *number)
{
    size_t n = 0;
    *number = 0;
    for (; at + n < end && at[n] >= '0' && at[n] <= '9'; n++)
        if (n < MOST_DIGITS)
            *number = *number * 10 + (uint32_t)(at[n] - '0');
    return n;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static struct shown cell_shown(const char *at, const char *end)
{
    char text[64] = "";
    for (size_t i = 0; i < sizeof text - 1 && at + i < end; i++)
        text[i] = at[i] ? at[i] : '\1';
    return text_shown(text);
}

static fault read_action(const struct reader *r, const char *at, const char *end, struct action *out)
{
    static const char letters[] = "FBIW";
    size_t column = (size_t)(at - r->line) + 1, n = digits(at, end, &out->part);
    const char *letter = at + n < end && at[n] ? strchr(letters, at[n]) : NULL;
    size_t n_micro = letter ? digits(at + n + 1, end, &out->micro) : 0;
    if (n == 0 || n_micro == 0 || at + n + 1 + n_micro != end)
        return FAIL_AT(r, r->member, column, "'%s' is no pass: a part, F, B, I or W, and a micro-batch, as in 1F0",
                       cell_shown(at, end).text);
    if (n > MOST_DIGITS)
        return FAIL_AT(r, r->member, column, "'%s' is of a part that no network has", cell_shown(at, end).text);
    if (n_micro > MOST_DIGITS || out->micro >= r->n_micros)
        return FAIL_AT(r, r->member, column, "'%s' is of a micro-batch that is not there: they are 0 to %zu",
                       cell_shown(at, end).text, r->n_micros - 1);
    out->kind = (enum action_kind)(letter - letters);
    return OK;
}

/* ---- one line ---- */

static const char *find(const char *at, const char *end, char what)
{
    const char *found = memchr(at, what, (size_t)(end - at));
    return found ? found : end;
}

static fault read_cell(struct reader *r, const char *at, const char *end)
{
    struct actions *list = &r->lists[r->member];
    at = skip_blanks(at, end);
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (at == end)
        return OK;
    TRY(read_action(r, at, end, &r->room[list->n]));
    r->n_parts = larger(r->n_parts, r->room[list->n].part + (size_t)1);
    r->columns[r->member][list->n++] = (size_t)(at - r->line) + 1;
    return OK;
}

static fault read_cells(struct reader *r, const char *end)
{
    const char *comma = find(r->line, end, ',');
    TRY(read_cell(r, r->line, comma));
    while (comma < end) {
        const char *at = comma + 1;
        comma = find(at, end, ',');
        TRY(read_cell(r, at, comma));
    }
    r->columns[r->member][r->lists[r->member].n] = (size_t)(end - r->line) + 1;
    return OK;
}

static size_t count(const char *at, const char *end, char what)
{
    size_t n = 0;
    for (; at < end; at++)
        n += *at == what;
    return n;
}

static fault read_line(struct reader *r, struct arena *arena)
{
    const char *end = find(r->at, r->end, '\n');
    r->line = r->at;
    r->at = end < r->end ? end + 1 : end;
    if (end > r->line && end[-1] == '\r')
        end--;
    size_t room = count(r->line, end, ',') + 1;
    r->room = ARENA_NEW(arena, struct action, room);
    r->columns[r->member] = ARENA_NEW(arena, size_t, room + 1);
    if (!r->room || !r->columns[r->member])
        return OUT_OF_MEMORY;
    r->lists[r->member].at = r->room;
    return read_cells(r, end);
}

/* ---- the whole ---- */

static bool is_blank(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n", *at) && *at)
        at++;
    return at == end;
}

static fault read_lines(struct reader *r, struct arena *arena, struct schedule *s)
{
    for (; !is_blank(r->at, r->end); r->member++) {
        if (r->member == s->n_members)
            return FAIL_AT(r, r->member, 1, "the team has %zu member%s, a line for each, and here is one more", s->n_members,
                           s->n_members == 1 ? "" : "s");
        TRY(read_line(r, arena));
    }
    if (r->member < s->n_members)
        return FAIL_AT(r, r->member, 1, "the file ends here, and member %zu has no line", r->member);
    return OK;
}

static fault check_read(const struct reader *r, const struct schedule *s)
{
    struct schedule_place where = {0, 0};
    fault f = schedule_check_at(s, &where);
    if (f && fault_kind_of(f) == FAULT_EXPERIMENT)
        f = fault_before(f, "%s:%zu:%zu: ", r->source, where.member + 1, r->columns[where.member][where.index]);
    return f;
}

fault schedule_read_csv(const char *text, size_t n, const char *source, size_t n_members, size_t n_micros, struct arena *arena,
                        struct schedule *out)
{
    struct schedule s = {.name = arena_text(arena, source),
                         .n_members = n_members,
                         .n_micros = n_micros,
                         .flushes = true,
                         .first = ARENA_NEW(arena, struct actions, n_members)};
    struct reader r = {.source = source, .at = text, .end = text + n, .n_micros = n_micros, .lists = s.first,
                       .columns = ARENA_NEW(arena, size_t *, n_members)};
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* as some editors begin a file */
        r.at += 3;
    if (!s.name || !s.first || !r.columns)
        return OUT_OF_MEMORY;
    if (n_members == 0 || n_micros == 0)
        return FAIL(FAULT_USAGE, "a schedule is of at least one member and micro-batch");
    TRY(read_lines(&r, arena, &s));
    s.later = s.first;
    s.n_parts = larger(1, (r.n_parts + n_members - 1) / n_members) * n_members;
    TRY(check_read(&r, &s));
    *out = s;
    return OK;
}
