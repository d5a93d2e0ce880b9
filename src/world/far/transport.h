/* transport.h - what carries bytes between the members of a far world: all that such a world asks of it, and
 * all that tells one from another.
 *
 *   packet   at most PACKET_BYTES; the packets of a member come in the order in which it sent them
 *   body     more bytes, which a packet has announced: their receiver says where they go, so that nothing is
 *            copied on the way; those of a member come in the order of their packets, cut alike at both ends
 *
 * Everything happens in these functions, called from one thread of each member, and none of them waits.
 * A member that waits asks for the next packet and for passages again and again, so a transport may do its work
 * there.
 */
#ifndef VECHE_WORLD_FAR_TRANSPORT_H
#define VECHE_WORLD_FAR_TRANSPORT_H

#include "link/link.h"

enum { PACKET_BYTES = 4096 };

/* Bytes on their way, at either end. */
struct passage {
    uintptr_t handle; /* the transport's */
};

struct transport {
    const struct transport_ops *ops;
    size_t self, n;    /* this member and how many there are */
    size_t most_bytes; /* of one body */
    bool others_live;  /* where a process is gone its launcher lets the others go on */
    bool is_busy;      /* with something of its own, and rings no bell when it is done */
};

struct transport_ops {
    /* Bytes are borrowed until they are through. */
    void (*send_packet)(struct transport *t, size_t to, const void *bytes, size_t n, struct passage *out);
    void (*send_body)(struct transport *t, size_t to, const void *bytes, size_t n, struct passage *out);
    /* The next body of a member goes there. */
    void (*recv_body)(struct transport *t, size_t from, void *bytes, size_t n, struct passage *out);
    /* Asked until it says so, once; never, where the other end is gone. */
    bool (*is_through)(struct transport *t, struct passage *p);
    /* The oldest packet that has come and was not yet given, from anyone; NULL: none. Its bytes stay until
     * the next call. */
    const unsigned char *(*next_packet)(struct transport *t, size_t *from, size_t *n);

    /* Calls `gone` for every member that the transport knows to be gone. */
    void (*find_gone)(struct transport *t, void (*gone)(void *ctx, size_t member), void *ctx);
    /* Ends the processes of all members, this one too. */
    void (*abort)(struct transport *t);
    /* `all_are_here`: none is gone, all members call this together, and nothing is on its way. Else what
     * is on its way may still be written and read for ever. */
    void (*close)(struct transport *t, bool all_are_here);

    /* See link_ops: by a means of its own. NULL, both: it has none. */
    fault (*sum)(struct link *l, enum row row, size_t first, size_t end);
    fault (*gather_near)(struct link *l, struct span span, struct parcel *out);
};

#endif
