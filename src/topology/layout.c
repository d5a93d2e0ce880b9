/* layout.c - a place for each vertex: by the graph's family where that is known to look well, else by
 * springs.
 *
 * The springs are stress majorisation (Gansner, Koren and North 2004): every two vertices want to be as far
 * apart as the shortest way between them is long, near ones more urgently; each vertex in turn moves to where
 * the others would have it.
 */
#include "topology/layout.h"

#include <math.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846;
enum {
    MOST_SPRINGS = 800 /* vertices */,
    SWEEPS = 300,
    PUSHES = 40,
    WIDE_TREE = 24 /* leaves */,
    LONG_ROW = 12
};

/* k of n round a circle, from the top clockwise. */
static struct position on_circle(double k, double n, double radius)
{
    double angle = 2 * pi * k / n;
    return (struct position){radius * sin(angle), -radius * cos(angle)};
}

static fault circle(const struct topology *t, struct position *positions)
{
    for (size_t i = 0; i < t->n; i++)
        positions[i] = t->n == 2 ? (struct position){(double)i, 0} : on_circle((double)i, (double)t->n, t->n > 1);
    return OK;
}

static fault grid(const struct topology *t, struct position *positions)
{
    if (t->rows < 2 || t->columns < 2)
        return circle(t, positions);
    for (size_t i = 0; i < t->n; i++)
        positions[i] = (struct position){(double)(i % t->columns), (double)(i / t->columns)};
    return OK;
}

static fault star(const struct topology *t, struct position *positions)
{
    positions[0] = (struct position){0, 0};
    for (size_t i = 1; i < t->n; i++)
        positions[i] = on_circle((double)(i - 1), (double)(t->n - 1), 1);
    return OK;
}

/* A row that turns back at its end when it is long. */
static fault snake(const struct topology *t, struct position *positions)
{
    size_t columns = t->n <= LONG_ROW ? t->n : (size_t)ceil(sqrt(1.5 * (double)t->n));
    for (size_t i = 0; i < t->n; i++) {
        size_t row = i / columns, column = i % columns;
        positions[i] = (struct position){(double)(row % 2 ? columns - 1 - column : column), (double)row};
    }
    return OK;
}

/* Each leaf gets a strip of its own and each inner vertex the middle of its leaves' strips. Children have
 * larger numbers than their parents, so going down the numbers counts leaves and going up hands out the
 * strips. */
struct strip {
    size_t leaves, start, taken, depth;
};

static void cut_strips(const struct topology *t, struct strip *strips)
{
    for (size_t i = t->n; i-- > 0;) {
        if (!strips[i].leaves)
            strips[i].leaves = 1;
        if (i > 0)
            strips[t->neighbour[t->first[i]]].leaves +=
                strips[i].leaves; /* the smallest neighbour is the parent */
    }
    for (size_t i = 1; i < t->n; i++) {
        struct strip *parent = &strips[t->neighbour[t->first[i]]];
        strips[i].start = parent->start + parent->taken;
        strips[i].depth = parent->depth + 1;
        parent->taken += strips[i].leaves;
    }
}

/* Hanging from its root, or, where it would be wide, round about it. */
static fault tree(const struct topology *t, struct position *positions)
{
    struct strip *strips = calloc(t->n, sizeof *strips);
    if (!strips)
        return OUT_OF_MEMORY;
    cut_strips(t, strips);
    double leaves = (double)strips[0].leaves, depth = (double)strips[t->n - 1].depth;
    double fall = depth > 0 ? fmax(1, 0.6 * leaves / depth) : 1;
    for (size_t i = 0; i < t->n; i++) {
        double middle = (double)strips[i].start + (double)strips[i].leaves / 2;
        positions[i] = leaves > WIDE_TREE ? on_circle(middle, leaves, (double)strips[i].depth)
                                      : (struct position){middle, fall * (double)strips[i].depth};
    }
    free(strips);
    return OK;
}

/* The lengths of the shortest ways from `start` to all, breadth first. */
static void measure_ways(const struct topology *t, size_t start, double *ways, uint32_t *queue)
{
    size_t head = 0, tail = 0;
    for (size_t i = 0; i < t->n; i++)
        ways[i] = -1;
    ways[start] = 0;
    queue[tail++] = (uint32_t)start;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (size_t k = t->first[v]; k < t->first[v + 1]; k++)
            if (ways[t->neighbour[k]] < 0) {
                ways[t->neighbour[k]] = ways[v] + 1;
                queue[tail++] = t->neighbour[k];
            }
    }
}

/* Where the others would have vertex i: the mean of the positions at the right distance from each, on the line to
 * it. */
static struct position wish(const struct position *positions, size_t n, size_t i, const double *ways)
{
    double x = 0, y = 0, sum = 0;
    for (size_t j = 0; j < n; j++) {
        if (j == i)
            continue;
        double dx = positions[i].x - positions[j].x, dy = positions[i].y - positions[j].y;
        double apart = fmax(hypot(dx, dy), 1e-9), urgency = 1 / (ways[j] * ways[j]);
        x += urgency * (positions[j].x + ways[j] * dx / apart);
        y += urgency * (positions[j].y + ways[j] * dy / apart);
        sum += urgency;
    }
    return (struct position){x / sum, y / sum};
}

/* A circle that is a little uneven, so that nothing balances on a needle's point. */
static void begin_springs(const struct topology *t, struct position *positions)
{
    for (size_t i = 0; i < t->n; i++)
        positions[i] = on_circle((double)i, (double)t->n, sqrt((double)t->n) * (1 + 0.1 * sin(7.0 * (double)i)));
}

/* Pushes vertices apart that the springs left too close together for their numbers to be read. */
static void part_crowds(struct position *positions, size_t n)
{
    double reach = 0;
    for (size_t i = 0; i < n; i++)
        reach = fmax(reach, hypot(positions[i].x, positions[i].y));
    double least = reach / sqrt((double)n);
    for (int sweep = 0; sweep < PUSHES; sweep++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++) {
                double dx = positions[j].x - positions[i].x, dy = positions[j].y - positions[i].y,
                       apart = fmax(hypot(dx, dy), 1e-9);
                double push = apart < least ? (least - apart) / apart / 4 : 0;
                positions[i].x -= push * dx;
                positions[i].y -= push * dy;
                positions[j].x += push * dx;
                positions[j].y += push * dy;
            }
}

static fault springs(const struct topology *t, struct position *positions)
{
    if (t->n > MOST_SPRINGS || t->n < 3)
        return circle(t, positions);
    double *ways = malloc(t->n * t->n * sizeof *ways);
    uint32_t *queue = malloc(t->n * sizeof *queue);
    if (ways && queue) {
        for (size_t i = 0; i < t->n; i++)
            measure_ways(t, i, ways + i * t->n, queue);
        begin_springs(t, positions);
        for (int sweep = 0; sweep < SWEEPS; sweep++)
            for (size_t i = 0; i < t->n; i++)
                positions[i] = wish(positions, t->n, i, ways + i * t->n);
        part_crowds(positions, t->n);
    }
    fault f = ways && queue ? OK : OUT_OF_MEMORY;
    free(ways);
    free(queue);
    return f;
}

/* Each bit has a direction of its own; a vertex stands at the sum of those of its bits. Up to three bits it
 * is the cube as one draws it by hand, with four the directions fan out over a half turn; beyond, springs
 * keep vertices apart. */
static fault cube(const struct topology *t, struct position *positions)
{
    static const struct position by_hand[] = {{1, 0}, {0, -1}, {0.45, -0.35}};
    size_t bits = 0;
    while ((size_t)1 << bits < t->n)
        bits++;
    if (bits > 4)
        return springs(t, positions);
    for (size_t i = 0; i < t->n; i++) {
        positions[i] = (struct position){0, 0};
        for (size_t b = 0; b < bits; b++) {
            double angle = pi * ((double)b + 0.5) / 4;
            struct position d = bits <= 3 ? by_hand[b] : (struct position){cos(angle), -sin(angle)};
            positions[i].x += (i >> b & 1) ? d.x : 0;
            positions[i].y += (i >> b & 1) ? d.y : 0;
        }
    }
    return OK;
}

fault layout_positions(const struct topology *t, struct position *positions)
{
    static fault (*const place[])(const struct topology *t, struct position *positions) = {
        [LAYOUT_CIRCLE] = circle, [LAYOUT_GRID] = grid, [LAYOUT_STAR] = star,      [LAYOUT_TREE] = tree,
        [LAYOUT_SNAKE] = snake,   [LAYOUT_CUBE] = cube, [LAYOUT_SPRING] = springs,
    };
    return place[t->layout](t, positions);
}
