/* layers.h - profiles for tests, of numbers. */
#ifndef VECHE_TESTS_TEAM_LAYERS_H
#define VECHE_TESTS_TEAM_LAYERS_H

#include <math.h>

#include "base/rng.h"

#include "team/plan.h"
#include "written.h"

/* As text of a file; it is changed. */
static inline struct profile profile_of_text(const char *text, struct arena *arena)
{
    struct profile p;
    char *copy = arena_text(arena, text);
    assert_non_null(copy);
    must(profile_read_text(copy, "layers.csv", arena, &p));
    return p;
}

struct layer_figures {
    double forward_ms, backward_ms, activation_bytes, parameter_bytes;
};

/* Layers named "a", "b", ... */
static inline struct profile profile_of_figures(const struct layer_figures *l, size_t n, struct arena *arena)
{
    char text[4096] = "layer,forward_ms,backward_ms,activation_bytes,parameter_bytes\n";
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%c,%.17g,%.17g,%.17g,%.17g\n", (char)('a' + i), l[i].forward_ms, l[i].backward_ms,
                 l[i].activation_bytes, l[i].parameter_bytes);
    }
    return profile_of_text(text, arena);
}

static inline void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

#endif
