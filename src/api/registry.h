/* registry.h - all names a user may write, from all rooms, in one place. */
#ifndef VECHE_API_REGISTRY_H
#define VECHE_API_REGISTRY_H

#include "experiment/kind.h"

struct registry registry_of_everything(void);

#endif
