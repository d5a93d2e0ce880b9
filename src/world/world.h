/* world.h - where agents live. */
#ifndef VECHE_WORLD_WORLD_H
#define VECHE_WORLD_WORLD_H

#include "experiment/kind.h"

extern const struct kinds world_kinds;

#endif
