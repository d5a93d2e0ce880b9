/* graphs.h - making graphs in tests, and a list of specs that together meet every family. */
#ifndef VECHE_TESTS_TOPOLOGY_GRAPHS_H
#define VECHE_TESTS_TOPOLOGY_GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "topology/topology.h"

static const struct place here = {"e.yaml", 6, 20};

static inline void must(fault f)
{
    if (f)
        fail_msg("%s", fault_text(f));
}

static inline struct topology *graph_drawn(const char *spec, uint64_t seed)
{
    struct topology *t = NULL;
    must(topology_make(spec, seed, here, &t));
    return t;
}

static inline struct topology *graph(const char *spec)
{
    return graph_drawn(spec, 1);
}

/* A graph from the text of a file. */
static inline fault graph_of_text(const char *text, size_t n_bytes, struct topology **out)
{
    char path[] = "/tmp/veche-edges-XXXXXX", spec[64];
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, n_bytes), n_bytes);
    close(descriptor);
    snprintf(spec, sizeof spec, "file:%s", path);
    fault f = topology_make(spec, 1, here, out);
    unlink(path);
    return f;
}

static const char *const every_family[] = {
    "cycle:1",
    "cycle:2",
    "cycle:3",
    "cycle:16",
    "chords:50:1",
    "chords:50:2",
    "chords:50:4",
    "chords:9:3",
    "expander:1",
    "expander:4",
    "expander:25",
    "expander:36",
    "torus:6x6",
    "torus:1x1",
    "torus:2x2",
    "torus:2x5",
    "torus:1x7",
    "torus:3x4",
    "grid:5x5",
    "grid:1x4",
    "grid:3x2",
    "complete:1",
    "complete:2",
    "complete:9",
    "star:1",
    "star:2",
    "star:16",
    "path:1",
    "path:8",
    "path:31",
    "hypercube:0",
    "hypercube:1",
    "hypercube:4",
    "hypercube:5",
    "exponential:1",
    "exponential:6",
    "exponential:16",
    "random:12:0.3",
    "random:30:0.2",
    "random:2:1",
    "regular:32:4",
    "regular:20:3",
    "regular:12:2",
    "regular:2:1",
    "regular:9:8",
    "small-world:32:4:0.2",
    "small-world:10:4:1",
    "tree:15:2",
    "tree:40:3",
    "tree:1:2",
};
enum { N_EVERY = sizeof every_family / sizeof *every_family };

#endif
