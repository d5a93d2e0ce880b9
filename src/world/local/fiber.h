/* fiber.h - programs that take turns on one thread, each with a stack of its own.
 *
 * fiber_resume runs a fiber until it parks or ends; fiber_park, called inside it, gives the turn back.
 * Switches are announced to the sanitizers, so that ASan and TSan builds stay useful.
 */
#ifndef VECHE_WORLD_LOCAL_FIBER_H
#define VECHE_WORLD_LOCAL_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"

struct fiber;
typedef void fiber_program(void *arg);

/* Stacks of this size, each above a page that may not be touched: an overflow is a clean crash, not a wrong
 * result. */
fault fiber_new(size_t stack_bytes, struct fiber **out);
/* May be called again once the last program has ended. */
void fiber_begin(struct fiber *f, fiber_program *program, void *arg);
void fiber_resume(struct fiber *f);
void fiber_park(struct fiber *f);
bool fiber_has_ended(const struct fiber *f);
/* A fiber that is parked may be freed: what is on its stack is lost without ceremony. */
void fiber_free(struct fiber *f);

#endif
