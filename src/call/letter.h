/* letter.h - a letter on its way: for the two sides of a call, call.c and service.c.
 *
 *   head: number (64 bits), kind, what (32 each) | numbers of 64 bits, the service's own
 *
 * as base/encode.h has them. A letter is encoded where it lies and read where it comes, so it needs no other memory.
 */
#ifndef VECHE_CALL_LETTER_H
#define VECHE_CALL_LETTER_H

#include "call/call.h"

/* The letter is as it was when this returns. */
fault call_send_letter(struct link *l, size_t to, uint64_t tag, struct call_head *letter, size_t n_bytes);
/* What is no letter is refused. */
fault call_recv_letter(struct link *l, size_t from, uint64_t tag, struct call_head *letter, size_t n_bytes,
                       size_t *sender);

#endif
