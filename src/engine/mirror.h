/* mirror.h - an engine whose rows lie on a device, for those who must reach them on the host.
 *
 * Rows, steps and mixes are the host's; a lesson sends the replica's parameters and statistics to the device, and
 * brings gradients and statistics back. The device needs nothing but `read` and `write` for it.
 */
#ifndef VECHE_ENGINE_MIRROR_H
#define VECHE_ENGINE_MIRROR_H

#include "engine/engine.h"

fault mirror_open(const struct engine_ops *device, const struct engine_setup *setup, struct engine **out);

#endif
