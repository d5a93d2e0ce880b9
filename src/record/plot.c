/* plot.c - ranges, ticks and magnitudes. All of it must hold for any numbers, since a run may diverge. */
#include "record/plot.h"

#include <math.h>
#include <stdio.h>

static const double AIR = 0.04;      /* of the range, on both sides */
static const double LARGEST = 1e300; /* beyond this even a difference is not finite */
static const double LARGEST_LOG = 1e140, SMALLEST_LOG = 1e-140; /* likewise for a ratio */

static double tamed(double x)
{
    return fmin(fmax(x, -LARGEST), LARGEST);
}

struct scale scale_linear(double lo, double hi)
{
    if (!(lo <= hi)) /* NaN, or no numbers at all */
        return (struct scale){0, 1, false};
    lo = tamed(lo), hi = tamed(hi);
    double size = fmax(fabs(lo), fabs(hi)), air = AIR * (hi - lo);
    if (size < 1 / LARGEST)
        air = 0.5;
    else if (hi - lo <= 1e-9 * size)
        air = 0.05 * size;
    return (struct scale){lo - air, hi + air, false};
}

struct scale scale_log(double lo, double hi)
{
    if (!(lo <= hi) || lo <= 0)
        return (struct scale){0.1, 1, true};
    lo = fmin(fmax(lo, SMALLEST_LOG), LARGEST_LOG), hi = fmin(fmax(hi, lo), LARGEST_LOG);
    double air = fmax(pow(hi / lo, AIR), 1.1);
    return (struct scale){lo / air, hi * air, true};
}

double scale_at(const struct scale *s, double x)
{
    if (s->log)
        return x > 0 ? log(x / s->lo) / log(s->hi / s->lo) : NAN;
    return (x - s->lo) / (s->hi - s->lo);
}

/* The smallest of 1, 2, 5 times a power of ten that is no less than x. */
static double round_step(double x)
{
    double power = pow(10, floor(log10(x))), digit = x / power;
    double hair = 1 + 1e-9; /* so that 2.0000000001, a rounding away from 2, is 2 */
    return power * (digit <= hair ? 1 : digit <= 2 * hair ? 2 : digit <= 5 * hair ? 5 : 10);
}

static size_t linear_ticks(const struct scale *s, size_t most, double *ticks)
{
    double step = round_step((s->hi - s->lo) / (double)most), hair = 1e-9, first, last;
    for (;; step = round_step(1.5 * step)) {
        first = ceil(s->lo / step - hair), last = floor(s->hi / step + hair);
        if (last - first < (double)most) /* as many steps as `most` have one tick too many */
            break;
    }
    size_t n = 0;
    for (; first + (double)n <= last; n++)
        ticks[n] = (first + (double)n) * step + 0.0; /* never "-0" */
    return n;
}

static size_t log_ticks(const struct scale *s, size_t most, double *ticks)
{
    static const double few[] = {1, 2, 5}, one[] = {1};
    double lo = log10(s->lo), hi = log10(s->hi);
    bool sparse = hi - lo < 2.5 && 3 * (hi - lo) + 1 <= (double)most;
    const double *digits = sparse ? few : one;
    size_t n_digits = sparse ? 3 : 1, n = 0;
    double stride = ceil((hi - lo + 1) / (double)most);
    for (double power = floor(lo / stride) * stride; power <= hi; power += stride)
        for (size_t i = 0; i < n_digits; i++) {
            double x = digits[i] * pow(10, power);
            if (x >= s->lo && x <= s->hi && n < most)
                ticks[n++] = x;
        }
    return n;
}

size_t scale_ticks(const struct scale *s, size_t most, double ticks[PLOT_TICKS])
{
    if (most > PLOT_TICKS)
        most = PLOT_TICKS;
    size_t n = s->log ? log_ticks(s, most, ticks) : linear_ticks(s, most, ticks);
    return n >= 2 || !s->log ? n
                             : linear_ticks(s, most, ticks); /* a logarithmic range of less than a factor 2 */
}

void tick_text(const struct scale *s, const double *ticks, size_t n, size_t i, char text[PLOT_TEXT])
{
    double x = ticks[i], largest = n ? fmax(fabs(ticks[0]), fabs(ticks[n - 1])) : fabs(x);
    double step = n > 1 ? ticks[1] - ticks[0] : fabs(x);
    if (s->log || step <= 0) {
        snprintf(text, PLOT_TEXT, "%.6g", x);
    } else if (largest < 1e6 && step >= 0.9999e-4) {
        int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
        snprintf(text, PLOT_TEXT, "%.*f", decimals, x);
    } else {
        int digits = 1 + (int)fmax(0, floor(log10(largest) + 1e-9) - floor(log10(step) + 1e-9));
        snprintf(text, PLOT_TEXT, "%.*g", digits, x);
    }
}

static struct magnitude largest_within(const struct magnitude *magnitudes, size_t n, double most, double least_shown)
{
    size_t i = n - 1;
    while (i > 0 && !(most >= least_shown * magnitudes[i].size))
        i--;
    return magnitudes[i];
}

struct magnitude magnitude_of_seconds(double most)
{
    static const struct magnitude magnitudes[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"days", 86400}};
    return largest_within(magnitudes, 4, most, 3);
}

struct magnitude magnitude_of_bytes(double most)
{
    static const struct magnitude magnitudes[] = {{"B", 1},     {"kB", 1e3},  {"MB", 1e6}, {"GB", 1e9},
                                        {"TB", 1e12}, {"PB", 1e15}, {"EB", 1e18}};
    return largest_within(magnitudes, 7, most, 1);
}

size_t thin_stride(size_t n, size_t most)
{
    return n <= most ? 1 : (n + most - 1) / most;
}

size_t thin_next(size_t i, size_t n, size_t most)
{
    size_t next = i + thin_stride(n, most);
    return next < n || i + 1 >= n ? next : n - 1;
}
