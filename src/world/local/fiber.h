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
struct fibers; /* many, whose stacks lie in one piece of memory */
typedef void fiber_program(void *arg);

/* Below each stack lies a page that may not be touched: an overflow is a clean crash, not a wrong result. Who sees to it:
 *
 *   GUARDS_MARKED   the kernel, by a mark on the page (Linux 6.13 and later): costs nothing
 *   GUARDS_MAPPED   the kernel, by a memory map for each page: it allows 65,530 maps (vm.max_map_count)
 *   GUARDS_CHECKED  every switch looks whether the page is still untouched; what an overflow has written over is the
 *                   stacks of fibers that do not run, and none will
 */
enum guards { GUARDS_MARKED, GUARDS_MAPPED, GUARDS_CHECKED };

/* n of them, with stacks of this size; the first kind of guards that there is and that is not too dear. */
fault fibers_open(size_t n, size_t stack_bytes, struct fibers **out);
/* With this kind, or a fault where the system has it not. */
fault fibers_open_with(enum guards guards, size_t n, size_t stack_bytes, struct fibers **out);
struct fiber *fibers_at(struct fibers *all, size_t i);
/* Fibers may be parked: what is on their stacks is lost without ceremony. */
void fibers_close(struct fibers *all);

/* May be called again once the last program has ended. */
void fiber_begin(struct fiber *f, fiber_program *program, void *arg);
void fiber_resume(struct fiber *f);
void fiber_park(struct fiber *f);
bool fiber_has_ended(const struct fiber *f);

#endif
