/* kinds.c - the strategies one may name. A new one is a file and a row here. */
#include "strategy/single.h"

static const struct kind rows[] = {
    {.name = "single",
     .help = "one agent, plain training: the rival of every other method",
     .row = &strategy_single},
};

const struct kinds strategy_kinds = {rows, sizeof rows / sizeof *rows};
