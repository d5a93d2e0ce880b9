/* kinds.c - the worlds one may name. */
#include "world/world.h"

static const struct kind rows[] = {
    {.name = "local", .help = "all agents in this process"},
};

const struct kinds world_kinds = {.rows = rows, .n = sizeof rows / sizeof *rows};
