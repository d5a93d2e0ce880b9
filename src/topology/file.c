/* file.c - a graph from a text file: two numbers on a line for each edge, `#` begins a comment.
 *
 *   # three in a row
 *   0 1
 *   1 2
 *
 * Vertices are numbered from 0 without gaps. Whatever is wrong is named with its line; nothing is guessed or
 * mended.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/families.h"

enum { LONGEST_LINE = 4096 };

struct edge_file {
    const char *path;
    FILE *file;    /* owned                             */
    size_t line;   /* the one in hand, from 1           */
    size_t *lines; /* owned: where each edge was written */
    size_t room;
    struct edge_set set; /* owned */
};

#define FAIL_LINE(r, line, ...)                                                                              \
    fault_before(FAIL(FAULT_EXPERIMENT, __VA_ARGS__), "%s:%zu: ", (r)->path, (size_t)(line))

/* The next word of a line as a vertex; `at` moves behind it. */
static fault read_vertex(const struct edge_file *r, char **at, size_t *out)
{
    char *word = *at + strspn(*at, " \t");
    size_t n = strcspn(word, " \t");
    char after = word[n];
    if (n == 0)
        return FAIL_LINE(r, r->line, "one number stands here; an edge is two");
    word[n] = '\0';
    if (strspn(word, "0123456789") != n)
        return FAIL_LINE(r, r->line, "'%s' is not the number of a vertex: 0, 1, 2, ...",
                         text_shown(word).text);
    if (n > 9 || atol(word) >= MOST_VERTICES)
        return FAIL_LINE(r, r->line, "vertex %s is beyond the most allowed, %d", text_shown(word).text,
                         MOST_VERTICES - 1);
    *out = (size_t)atol(word);
    word[n] = after;
    *at = word + n;
    return OK;
}

static size_t line_of(const struct edge_file *r, const struct sketch *s, struct edge e)
{
    size_t i = 0;
    while (s->edges[i].a != e.a || s->edges[i].b != e.b)
        i++;
    return r->lines[i];
}

/* Makes room for one more edge in the lists that grow with the sketch. */
static fault grow(struct edge_file *r, const struct sketch *s)
{
    if (s->n_edges < r->room)
        return OK;
    size_t room = r->room ? 2 * r->room : 64;
    size_t *lines = realloc(r->lines, room * sizeof *lines);
    if (!lines)
        return OUT_OF_MEMORY;
    r->lines = lines;
    r->room = room;
    edge_set_release(&r->set);
    TRY(edge_set_init(room, &r->set));
    for (size_t i = 0; i < s->n_edges; i++)
        edge_set_put(&r->set, s->edges[i]);
    return OK;
}

static fault take_edge(struct edge_file *r, size_t a, size_t b, struct sketch *s)
{
    struct edge e = edge_between(a, b);
    if (a == b)
        return FAIL_LINE(r, r->line, "vertex %zu is joined to itself", a);
    TRY(grow(r, s));
    if (edge_set_has(&r->set, e))
        return FAIL_LINE(r, r->line, "the edge %zu %zu stands at line %zu already", a, b, line_of(r, s, e));
    fault f = sketch_add(s, a, b);
    if (f)
        return fault_before(f, "%s:%zu: ", r->path, r->line);
    edge_set_put(&r->set, e);
    r->lines[s->n_edges - 1] = r->line;
    s->n = s->n > e.b + (size_t)1 ? s->n : e.b + (size_t)1;
    return OK;
}

static fault take_line(struct edge_file *r, char *line, struct sketch *s)
{
    size_t a, b;
    char *at = line;
    line[strcspn(line, "#")] = '\0';
    for (size_t n = strlen(line); n && isspace((unsigned char)line[n - 1]); n--)
        line[n - 1] = '\0';
    if (line[strspn(line, " \t")] == '\0')
        return OK;
    TRY(read_vertex(r, &at, &a));
    TRY(read_vertex(r, &at, &b));
    at += strspn(at, " \t");
    if (*at)
        return FAIL_LINE(r, r->line, "'%s' stands after the edge; a line holds two numbers",
                         text_shown(at).text);
    return take_edge(r, a, b, s);
}

/* The next line, without its end; `*more` is false after the last. */
static fault read_line(struct edge_file *r, char line[LONGEST_LINE + 1], bool *more)
{
    size_t n = 0;
    int c = getc(r->file);
    *more = c != EOF;
    r->line += *more;
    for (; c != EOF && c != '\n'; c = getc(r->file)) {
        if (c == '\0')
            return FAIL_LINE(r, r->line, "holds a zero byte; a list of edges is plain text");
        if (n == LONGEST_LINE)
            return FAIL_LINE(r, r->line, "the line is longer than %d bytes", LONGEST_LINE);
        line[n++] = (char)c;
    }
    line[n] = '\0';
    return OK;
}

static fault read_lines(struct edge_file *r, struct sketch *s)
{
    char line[LONGEST_LINE + 1];
    for (bool more = true; more;) {
        TRY(read_line(r, line, &more));
        TRY(take_line(r, line, s));
    }
    if (ferror(r->file))
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", r->path, strerror(errno));
    if (s->n_edges == 0)
        return FAIL(FAULT_EXPERIMENT, "%s: holds no edges", r->path);
    return OK;
}

/* The first line with a vertex of the wanted kind. */
static size_t line_where(const struct edge_file *r, const struct sketch *s, const bool *seen, bool wanted)
{
    size_t i = 0;
    while (seen[s->edges[i].a] != wanted && seen[s->edges[i].b] != wanted)
        i++;
    return r->lines[i];
}

static fault check_numbering(const struct edge_file *r, const struct sketch *s, bool *seen)
{
    size_t last = 0;
    for (size_t i = 0; i < s->n_edges; i++) {
        seen[s->edges[i].a] = seen[s->edges[i].b] = true;
        if (s->edges[i].b == s->n - 1 && !last)
            last = r->lines[i];
    }
    for (size_t v = 0; v < s->n; v++)
        if (!seen[v])
            return FAIL_LINE(r, last,
                             "vertex %zu is named, but no line names vertex %zu; numbers have no gaps",
                             s->n - 1, v);
    return OK;
}

static fault check_whole(const struct edge_file *r, const struct sketch *s)
{
    size_t lost;
    bool *seen = calloc(s->n, sizeof *seen);
    if (!seen)
        return OUT_OF_MEMORY;
    fault f = check_numbering(r, s, seen);
    if (!f)
        f = sketch_reach(s, seen, &lost);
    if (!f && lost < s->n)
        f = FAIL_LINE(r, line_where(r, s, seen, false),
                      "the graph is not connected: there is no way from vertex 0 to "
                      "vertex %zu",
                      lost);
    free(seen);
    return f;
}

fault family_from_file(const struct sizes *z, struct rng *random, struct sketch *s)
{
    (void)random;
    struct edge_file r = {.path = z->path, .file = fopen(z->path, "rb")};
    if (!r.file)
        return FAIL(FAULT_FILE, "%s: cannot be read: %s", z->path, strerror(errno));
    fault f = read_lines(&r, s);
    if (!f)
        f = check_whole(&r, s);
    fclose(r.file);
    free(r.lines);
    edge_set_release(&r.set);
    return f;
}
