/* loops.c - see loops.h; a hot file (base/isa.h). */
#include "engine/loops.h"

extern const struct loops FOR_ISA(loops);

static void take_term(float *restrict sum, bool is_first, float w, const float *restrict x, size_t n)
{
    if (is_first)
        for (size_t i = 0; i < n; i++)
            sum[i] = w * x[i];
    else
        for (size_t i = 0; i < n; i++)
            sum[i] += w * x[i];
}

static void add(float *to, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

/* Products of floats are exact in doubles, so only the order of the sum decides its bits: element i goes into sum i mod LANES,
 * and of the sums the upper half is added to the lower one until there is one. */
enum { LANES = 16 };

static double dot(const float *a, const float *b, size_t n)
{
    double sums[LANES] = {0};
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += (double)a[i + k] * (double)b[i + k];
    for (size_t i = whole; i < n; i++)
        sums[i - whole] += (double)a[i] * (double)b[i];
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t k = 0; k < half; k++)
            sums[k] += sums[k + half];
    return sums[0];
}

struct normal {
    float mean, deviation;
};

static inline float normalised(uint8_t byte, struct normal n)
{
    return ((float)byte / 255.0f - n.mean) / n.deviation;
}

/* One line of the batch from one line of the picture; columns [first, end) lie inside the picture. */
static void sample_line(const uint8_t *line, size_t w, struct pick pick, struct normal n, float *out)
{
    ptrdiff_t wide = (ptrdiff_t)w, first = pick.dx < 0 ? -pick.dx : 0,
              end = pick.dx > 0 ? wide - pick.dx : wide;
    float outside = normalised(0, n);
    for (ptrdiff_t x = 0; x < wide; x++)
        out[x] = outside;
    if (pick.flip)
        for (ptrdiff_t x = first; x < end; x++)
            out[x] = normalised(line[wide - 1 - (x + pick.dx)], n);
    else
        for (ptrdiff_t x = first; x < end; x++)
            out[x] = normalised(line[x + pick.dx], n);
}

static void take_sample(const struct samples *s, const uint8_t *picture, struct pick pick, float *out)
{
    for (size_t c = 0; c < s->c; c++) {
        struct normal n = {s->mean[c], s->deviation[c]};
        for (size_t y = 0; y < s->h; y++, out += s->w) {
            ptrdiff_t from = (ptrdiff_t)y + pick.dy;
            if (from >= 0 && from < (ptrdiff_t)s->h)
                sample_line(picture + (c * s->h + (size_t)from) * s->w, s->w, pick, n, out);
            else
                for (size_t x = 0; x < s->w; x++)
                    out[x] = normalised(0, n);
        }
    }
}

const struct loops FOR_ISA(loops) = {take_term, add, dot, take_sample};
