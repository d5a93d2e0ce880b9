/* Packets of a far world, from a member that is damaged or lies: the first byte says from whom, the rest
 * is the packet. What is believed of it must lie within what both ends know. */
#include <stdlib.h>
#include <string.h>

#include "world/far/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MEMBERS = 4, N_WAITS = 4 };

static void believe(bool truth)
{
    if (!truth)
        abort();
}

static void read_words(uint32_t kind, const unsigned char *words, size_t n)
{
    char texts[2][100];
    struct account account;
    struct state state;
    struct exam exam;
    struct grant turn;
    uint64_t number;
    double waits[N_WAITS];
    switch (kind) {
    case MSG_STATE:
        packet_read_state(words, n, &state, waits, N_WAITS);
        return;
    case MSG_SET_ACCOUNT:
        packet_read_account(words, n, &account);
        return;
    case MSG_EXAMINE:
    case MSG_EXAMINED:
        packet_read_exam(words, n, &exam);
        return;
    case MSG_ASK_ROUND:
        packet_read_number(words, n, &number);
        return;
    case MSG_ROUND:
        packet_read_grant(words, n, &turn);
        return;
    default:
        packet_read_texts(words, n, (char *const[]){texts[0], texts[1]}, kind == MSG_NOTE ? 2 : 1,
                          sizeof *texts);
        believe(strlen(texts[0]) < sizeof *texts);
    }
}

static void read_packet(const struct packet_bounds *b, size_t from, const uint8_t *packet, size_t n)
{
    struct head h;
    struct places places;
    if (!packet_read_head(b, from, packet, n, &h))
        return;
    believe(h.kind < KINDS_OF_MESSAGE && h.n_bytes <= b->most_bytes);
    if (h.offer) {
        bool lie_there = packet_read_places(b, &h, packet + HEAD_BYTES, &places);
        for (enum row row = 0; lie_there && row < N_ROWS; row++)
            if (packet_floats_in_row(b, packet_span(&h), row))
                believe(places.at[row] + sizeof(float) * b->floats[row] <= b->memory_bytes);
    } else if (h.n_bytes <= INLINE_BYTES) {
        believe(n == HEAD_BYTES + h.n_bytes);
        read_words(h.kind, packet + HEAD_BYTES, (size_t)h.n_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct packet_bounds b = {.n_members = MEMBERS,
                              .floats = {[ROW_PARAMS] = 2000, [ROW_GRADS] = 2000, [ROW_STATS] = 16},
                              .most_bytes = 1 << 16,
                              .memory_bytes = 1 << 15};
    if (n == 0)
        return 0;
    for (b.self = 0; b.self < 2; b.self++)
        read_packet(&b, bytes[0] % (MEMBERS + 1), bytes + 1, n - 1);
    return 0;
}
